#include "rewrite/batch_norm.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rewrite/taken_apart.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

constexpr std::string_view kForward = "BatchNormTrain", kBackward = "BatchNormGrad";
bool is_norm(const ir::Op& op) {
  return op.kind == kForward || op.kind == kBackward;
}

// Elements of x per channel.
std::optional<int64_t> elements_of_channel(const ir::Value& x) {
  sym::Expr count = 1;
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (d != 1) count = count * x.dims[d];
  const auto number = count.constant();
  return number && *number > 0 ? number : std::nullopt;
}

class InPasses {
 public:
  explicit InPasses(const ir::Graph& graph) : old_(graph), made_(graph) {}

  Result<BatchNormReport> run() {
    BatchNormReport report;
    for (OpId id : old_.ops()) {
      const ir::Op& op = old_.op(id);
      const bool trains = op.kind == kForward;
      const auto count =
          is_norm(op) ? elements_of_channel(old_.value(op.inputs[trains ? 0 : 1])) : std::nullopt;
      if (!count) {
        LT_RETURN_IF_ERROR(made_.keep(id));
        continue;
      }
      LT_RETURN_IF_ERROR(trains ? add_forward(id, *count) : add_backward(id, *count));
      ++report.ops;
    }
    LT_ASSIGN(report.graph, std::move(made_).graph());
    return report;
  }

 private:
  Status add_forward(OpId id, int64_t count) {
    const ir::Op& op = old_.op(id);
    const std::vector<ValueId> in = made_.now(op.inputs);
    const ValueId y = op.outputs[0], mean = op.outputs[1], var = op.outputs[2];
    LT_RETURN_IF_ERROR(made_.add(id, "/mean", "BatchMean", {in[0]}, {{"count", count}}, {mean}));
    LT_RETURN_IF_ERROR(made_.add(id, "/variance", "BatchVariance", {in[0], made_.now(mean)},
                                 {{"count", count}}, {var}));
    return made_.add(id, "", "BatchNormInference",
                     {in[0], in[1], in[2], made_.now(mean), made_.now(var)}, op.attrs, {y});
  }

  Status add_backward(OpId id, int64_t count) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> in = made_.now(op.inputs);
    const ValueId dx = op.outputs[0], dscale = op.outputs[1], dbias = op.outputs[2];
    LT_RETURN_IF_ERROR(made_.add(id, "/sums", "BatchNormGradSums", {in[0], in[1], in[3], in[4]},
                                 op.attrs, {dscale, dbias}));
    in.push_back(made_.now(dscale));
    in.push_back(made_.now(dbias));
    ir::Attrs attrs = op.attrs;
    attrs["count"] = count;
    return made_.add(id, "", "BatchNormGradData", std::move(in), std::move(attrs), {dx});
  }

  const ir::Graph& old_;
  TakenApart made_;
};

}  // namespace

Result<BatchNormReport> norm_in_passes(const ir::Graph& graph) {
  const auto ids = graph.ops();
  const bool has_norms =
      std::any_of(ids.begin(), ids.end(), [&](OpId id) { return is_norm(graph.op(id)); });
  return has_norms ? InPasses(graph).run() : BatchNormReport{graph};
}

}  // namespace lowtide::rewrite

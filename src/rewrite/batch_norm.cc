#include "rewrite/batch_norm.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

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
    for (ValueId id : old_.values())
      if (!old_.value(id).producer.valid()) made_.give(id, old_.value(id));
    BatchNormReport report;
    for (OpId id : old_.ops()) {
      const ir::Op& op = old_.op(id);
      const bool trains = op.kind == "BatchNormTrain", is_gradient = op.kind == "BatchNormGrad";
      const auto count = trains || is_gradient
                             ? elements_of_channel(old_.value(op.inputs[is_gradient ? 1 : 0]))
                             : std::nullopt;
      if (!count) {
        LT_RETURN_IF_ERROR(ops::append_again(made_, old_, id, made_.now(op.inputs), op.attrs));
        continue;
      }
      LT_RETURN_IF_ERROR(trains ? add_forward(id, *count) : add_backward(id, *count));
      ++report.ops;
    }
    LT_RETURN_IF_ERROR(ir::check(made_.graph));
    report.graph = std::move(made_.graph);
    return report;
  }

 private:
  // One op in the place of `of`, called after it and `suffix`; it makes these results of it.
  Status add(OpId of, std::string_view suffix, std::string_view kind, std::vector<ValueId> inputs,
             ir::Attrs attrs, const std::vector<ValueId>& results) {
    const ir::Op& op = old_.op(of);
    ops::AppendOptions options{.name = fmt::format("{}{}", op.name, suffix),
                               .module = op.module,
                               .source = op.source,
                               .phase = op.phase,
                               .control = made_.now(op.control)};
    for (ValueId result : results) options.output_names.push_back(old_.value(result).name);
    LT_ASSIGN(const OpId added,
              ops::append(made_.graph, kind, std::move(inputs), std::move(attrs), options));
    for (size_t i = 0; i < results.size(); ++i) {
      const ir::Value& was = old_.value(results[i]);
      const ValueId now = made_.graph.op(added).outputs[i];
      made_.value[results[i]] = now;
      made_.graph.keep_output(now, was);
      made_.graph.set_category(now, was.category);
    }
    made_.op[of] = added;
    return {};
  }

  Status add_forward(OpId id, int64_t count) {
    const ir::Op& op = old_.op(id);
    const std::vector<ValueId> in = made_.now(op.inputs);
    const ValueId y = op.outputs[0], mean = op.outputs[1], var = op.outputs[2];
    LT_RETURN_IF_ERROR(add(id, "/mean", "BatchMean", {in[0]}, {{"count", count}}, {mean}));
    LT_RETURN_IF_ERROR(add(id, "/variance", "BatchVariance", {in[0], made_.value[mean]},
                           {{"count", count}}, {var}));
    return add(id, "", "BatchNormInference",
               {in[0], in[1], in[2], made_.value[mean], made_.value[var]}, op.attrs, {y});
  }

  Status add_backward(OpId id, int64_t count) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> in = made_.now(op.inputs);
    const ValueId dx = op.outputs[0], dscale = op.outputs[1], dbias = op.outputs[2];
    LT_RETURN_IF_ERROR(add(id, "/sums", "BatchNormGradSums", {in[0], in[1], in[3], in[4]}, op.attrs,
                           {dscale, dbias}));
    in.push_back(made_.value[dscale]);
    in.push_back(made_.value[dbias]);
    ir::Attrs attrs = op.attrs;
    attrs["count"] = count;
    return add(id, "", "BatchNormGradData", std::move(in), std::move(attrs), {dx});
  }

  const ir::Graph& old_;
  ir::Rewritten made_;
};

}  // namespace

Result<BatchNormReport> norm_in_passes(const ir::Graph& graph) {
  return InPasses(graph).run();
}

}  // namespace lowtide::rewrite

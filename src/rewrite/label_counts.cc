#include "rewrite/label_counts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "ops/op_table.h"
#include "rewrite/taken_apart.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

// What an op counts by itself, and the operand that would say it.
struct Counting {
  size_t divisor = 0;
  ValueId labels;
  int64_t ignored = 0, classes = 0;
};

std::optional<Counting> counting_of(const ir::Graph& graph, OpId id) {
  const ir::Op& op = graph.op(id);
  const auto ignored = op.attrs.find("ignore_index");
  const ops::Row* row = ops::find(op.kind);
  if (ignored == op.attrs.end() || row == nullptr || ops::traits(*row).divisor < 0) return {};
  const auto divisor = static_cast<size_t>(ops::traits(*row).divisor);
  if (divisor < op.inputs.size() && op.inputs[divisor].valid()) return {};
  const ops::Instance instance = ops::instance_of(graph, id);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto limit = ops::position_limit(instance, i);
    const auto classes = limit ? limit->constant() : std::nullopt;
    if (classes && *classes > 0)
      return Counting{divisor, op.inputs[i], std::get<int64_t>(ignored->second), *classes};
  }
  return {};
}

class LabelCounter {
 public:
  explicit LabelCounter(const ir::Graph& graph) : old_(graph), made_(graph) {}

  Result<LabelCountsReport> run() {
    LabelCountsReport report;
    for (OpId id : old_.ops()) {
      const ir::Op& op = old_.op(id);
      const std::optional<Counting> counting = counting_of(old_, id);
      if (!counting) {
        LT_RETURN_IF_ERROR(made_.keep(id));
        continue;
      }
      std::vector<ValueId> operands = made_.now(op.inputs);
      operands.resize(counting->divisor + 1, ValueId::none());
      LT_ASSIGN(operands[counting->divisor], count(id, *counting));
      LT_RETURN_IF_ERROR(made_.add(id, "", op.kind, operands, op.attrs, op.outputs));
      ++report.ops;
    }
    LT_ASSIGN(report.graph, std::move(made_).graph());
    return report;
  }

 private:
  // A loss and its gradient share one.
  Result<ValueId> count(OpId reader, const Counting& of) {
    const auto key = std::tuple(of.labels, of.ignored, of.classes);
    ValueId& number = counts_.try_emplace(key, ValueId::none()).first->second;
    if (number.valid()) return number;
    LT_RETURN_IF_ERROR(made_.add(reader, "/label_count", "LabelCount", {made_.now(of.labels)},
                                 {{"ignore_index", of.ignored}, {"classes", of.classes}}, {}));
    number = made_.last();
    return number;
  }

  const ir::Graph& old_;
  TakenApart made_;
  std::map<std::tuple<ValueId, int64_t, int64_t>, ValueId> counts_;
};

}  // namespace

Result<LabelCountsReport> count_labels_first(const ir::Graph& graph) {
  const auto ids = graph.ops();
  const bool has_counting = std::any_of(
      ids.begin(), ids.end(), [&](OpId id) { return counting_of(graph, id).has_value(); });
  return has_counting ? LabelCounter(graph).run() : LabelCountsReport{graph};
}

}  // namespace lowtide::rewrite

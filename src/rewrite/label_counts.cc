#include "rewrite/label_counts.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "rewrite/taken_apart.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

// An op that divides by the number of labels: its kind, which operand the labels are, and where it
// may be told the number.
struct Divides {
  std::string_view kind;
  size_t labels, divisor;
};
constexpr Divides kDivide[] = {
    {"CrossEntropy", 1, 2}, {"CrossEntropyGrad", 1, 3}, {"CrossEntropyMean", 2, 3}};

const Divides* divides(const ir::Op& op) {
  for (const Divides& one : kDivide)
    if (op.kind == one.kind && op.attrs.contains("ignore_index") &&
        (op.inputs.size() <= one.divisor || !op.inputs[one.divisor].valid()))
      return &one;
  return nullptr;
}

// In all.
std::optional<int64_t> number_of_classes(const ir::Graph& graph, const ir::Op& op) {
  if (const auto said = op.attrs.find("classes"); said != op.attrs.end())
    return std::get<int64_t>(said->second);
  const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs.at("axis")));
  const auto classes = graph.value(op.inputs[0]).dims[axis].constant();
  return classes && *classes > 0 ? classes : std::nullopt;
}

class LabelCounter {
 public:
  explicit LabelCounter(const ir::Graph& graph) : old_(graph), made_(graph) {}

  Result<LabelCountsReport> run() {
    LabelCountsReport report;
    for (OpId id : old_.ops()) {
      const ir::Op& op = old_.op(id);
      const Divides* found = divides(op);
      const auto classes = found == nullptr ? std::nullopt : number_of_classes(old_, op);
      if (!classes) {
        LT_RETURN_IF_ERROR(made_.keep(id));
        continue;
      }
      std::vector<ValueId> operands = made_.now(op.inputs);
      operands.resize(found->divisor + 1, ValueId::none());
      LT_ASSIGN(operands[found->divisor], count(id, op.inputs[found->labels], *classes));
      LT_RETURN_IF_ERROR(made_.add(id, "", op.kind, operands, op.attrs, op.outputs));
      ++report.ops;
    }
    LT_ASSIGN(report.graph, std::move(made_).graph());
    return report;
  }

 private:
  // A loss and its gradient share one.
  Result<ValueId> count(OpId reader, ValueId labels, int64_t classes) {
    const int64_t ignored = std::get<int64_t>(old_.op(reader).attrs.at("ignore_index"));
    ValueId& number =
        counts_.try_emplace({labels, ignored, classes}, ValueId::none()).first->second;
    if (number.valid()) return number;
    LT_RETURN_IF_ERROR(made_.add(reader, "/label_count", "LabelCount", {made_.now(labels)},
                                 {{"ignore_index", ignored}, {"classes", classes}}, {}));
    number = made_.last();
    return number;
  }

  const ir::Graph& old_;
  TakenApart made_;
  std::map<std::tuple<ValueId, int64_t, int64_t>, ValueId> counts_;
};

}  // namespace

Result<LabelCountsReport> count_labels_first(const ir::Graph& graph) {
  return LabelCounter(graph).run();
}

}  // namespace lowtide::rewrite

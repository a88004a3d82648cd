#include "pipeline/more_cuts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "ops/op_table.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct MoreCutsTuning {
  int64_t numbers[2] = {4, 2};  // of parts
  int64_t large_share = 2;      // what makes that part of the most bytes counts as large
  size_t most_classes = 4;      // the largest ones in bytes; others are not looked at
  int64_t least_share = 16;     // a class with less of the largest one's bytes is not worth a try
};
constexpr MoreCutsTuning kMoreCuts;

using fission::AxisClass;
using fission::ClassAxis;
using fission::CutRule;

// The op of the class that makes the most, of those that a rule can name, and its axis.
std::optional<CutRule> rule_for(const ir::Graph& step, const AxisClass& axis_class) {
  const ClassAxis* most = nullptr;
  for (const ClassAxis& axis : axis_class.axes) {
    const bool has_name = step.op(axis.op).name.find_first_of("*?[\\") == std::string::npos;
    if (has_name && (most == nullptr || axis.bytes > most->bytes)) most = &axis;
  }
  if (most == nullptr) return std::nullopt;
  const auto map = ops::axis_map(ops::instance_of(step, most->op));
  if (!map) return std::nullopt;
  return CutRule{.ops = step.op(most->op).name,
                 .axis = map->axes[static_cast<size_t>(most->axis)].name,
                 .whole_class = true};
}

}  // namespace

int64_t large_beside(int64_t largest_bytes) {
  return largest_bytes / kMoreCuts.large_share;
}

Result<std::vector<AxisClass>> classes_to_cut(const ir::Graph& step) {
  LT_ASSIGN(std::vector<AxisClass> classes, fission::axis_classes(step));
  if (classes.size() > kMoreCuts.most_classes) classes.resize(kMoreCuts.most_classes);
  return classes;
}

namespace {

struct Cuttable {
  CutRule rule;
  int64_t least_extent;
  bool is_labelled;  // the class that labels speak of
};

std::vector<Cuttable> cuttable(const ir::Graph& step, std::span<const AxisClass> classes) {
  std::vector<Cuttable> all;
  for (size_t k = 0; k < classes.size(); ++k) {
    const AxisClass& axis_class = classes[k];
    if (axis_class.bytes < classes[0].bytes / kMoreCuts.least_share) break;
    std::optional<CutRule> rule = rule_for(step, axis_class);
    if (!rule) continue;
    if (k == 0) {
      int64_t largest = 0;
      for (const ClassAxis& axis : axis_class.axes) largest = std::max(largest, axis.bytes);
      rule->least_bytes = large_beside(largest);
    }
    all.push_back({*std::move(rule), axis_class.least_extent, k == 0});
  }
  return all;
}

// In each number of parts that there can be.
void add_numbers(Cuttable one, bool instead, std::vector<CutRule>& rules,
                 std::span<const int64_t> numbers = kMoreCuts.numbers) {
  one.rule.instead = instead;
  for (const int64_t parts : numbers) {
    if (parts > one.least_extent) continue;
    one.rule.parts = parts;
    rules.push_back(one.rule);
  }
}

}  // namespace

std::vector<CutRule> more_cuts(const ir::Graph& step, std::span<const AxisClass> classes,
                               size_t most) {
  std::vector<CutRule> rules;
  for (const Cuttable& one : cuttable(step, classes)) add_numbers(one, !one.is_labelled, rules);
  for (CutRule& rule : cuts_within(step, classes)) rules.push_back(std::move(rule));
  if (rules.size() > most) rules.resize(most);
  return rules;
}

std::vector<CutRule> cuts_of_class(const ir::Graph& step, const AxisClass& axis_class, bool instead,
                                   std::span<const int64_t> numbers) {
  std::vector<CutRule> rules;
  if (std::optional<CutRule> rule = rule_for(step, axis_class))
    add_numbers({*std::move(rule), axis_class.least_extent, false}, instead, rules, numbers);
  return rules;
}

std::vector<CutRule> cuts_within(const ir::Graph& step, std::span<const AxisClass> classes) {
  std::vector<CutRule> rules;
  for (const Cuttable& one : cuttable(step, classes))
    if (!one.is_labelled) add_numbers(one, false, rules);
  return rules;
}

}  // namespace lowtide::pipeline

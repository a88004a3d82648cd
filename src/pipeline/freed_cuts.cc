#include "pipeline/freed_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "ops/op_table.h"
#include "pipeline/more_cuts.h"
#include "pipeline/take_rewrites.h"
#include "rewrite/rewrites.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FreedCutsTuning {
  int64_t numbers[2] = {16, 4};  // of parts; a vocabulary is long
};
constexpr FreedCutsTuning kFreedCuts;

using fission::AxisClass;
using fission::ClassAxis;
using ir::OpId;

// Ops by name and kind.
using OpName = std::pair<std::string, std::string>;
using OpNames = std::set<OpName>;

OpName name_of(const ir::Graph& step, OpId id) {
  return {step.op(id).name, step.op(id).kind};
}

OpNames names_of(const ir::Graph& step) {
  OpNames names;
  for (const OpId id : step.ops()) names.insert(name_of(step, id));
  return names;
}

int64_t largest_value(const ir::Graph& step) {
  int64_t largest = 0;
  for (const ir::ValueId id : step.values())
    if (step.value(id).producer.valid())
      largest = std::max(largest, ir::size_bytes(step.value(id)).constant().value_or(0));
  return largest;
}

// What the rewrite of that name makes of the step; nothing where it has nothing to do, or cannot do
// it, as nobody asked for it.
std::optional<ir::Graph> freed(const ir::Graph& step, const std::string& name) {
  for (const rewrite::Rewrite& one : rewrite::rewrites()) {
    if (one.name != name) continue;
    auto made = rewrite::run(one, rewrite::RewriteStage::kStep, step, {});
    if (made && made->ops > 0) return std::move(made->graph);
  }
  return std::nullopt;
}

// Of the ops that an op of that name was taken apart into, one that adds along the axis and can be
// cut along it.
std::optional<std::string> part_along(const ir::Graph& made, const std::string& name,
                                      const std::string& axis) {
  for (const OpId id : made.ops()) {
    const ir::Op& op = made.op(id);
    if (!op.name.starts_with(name + "/")) continue;
    const auto map = ops::axis_map(ops::instance_of(made, id));
    if (!map) continue;
    for (size_t k = 0; k < map->axes.size(); ++k)
      if (map->axes[k].name == axis && map->axes[k].role == ops::AxisRole::kReduction &&
          ops::can_split(*map, static_cast<int>(k)))
        return op.name;
  }
  return std::nullopt;
}

// Classes before and after a rewrite.
class Comparison {
 public:
  // `labelled`: the class of the given step that labels speak of. `made` must stay.
  Comparison(const ir::Graph& step, const AxisClass& labelled, const ir::Graph& made)
      : made_(made), large_(large_beside(largest_value(step))), there_(names_of(step)) {
    const OpNames after = names_of(made);
    for (const ClassAxis& axis : labelled.axes) {
      labelled_[name_of(step, axis.op)] = axis.axis;
      has_taken_apart_ |= !after.contains(name_of(step, axis.op));
    }
  }

  bool may_pay(const AxisClass& axis_class, bool anywhere) const {
    const auto any = [&](const auto& holds) {
      return std::any_of(axis_class.axes.begin(), axis_class.axes.end(), holds);
    };
    const auto in_labels = [&](const ClassAxis& axis) {
      return labelled_.find(name_of(made_, axis.op));
    };
    const bool frees_large = any([&](const ClassAxis& axis) {
      return !there_.contains(name_of(made_, axis.op)) && reads_large(axis.op);
    });
    const bool has_labels_axes = any([&](const ClassAxis& axis) {
      const auto found = in_labels(axis);
      return found != labelled_.end() && found->second == axis.axis;
    });
    if (has_labels_axes) return frees_large && !has_taken_apart_;
    if (anywhere && any([&](const ClassAxis& axis) { return adds_along(axis); })) return true;
    return frees_large && any([&](const ClassAxis& axis) {
             return axis.bytes >= large_ && in_labels(axis) == labelled_.end();
           });
  }

 private:
  bool reads_large(OpId id) const {
    const std::vector<ir::ValueId>& inputs = made_.op(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ir::ValueId input) {
      return input.valid() && ir::size_bytes(made_.value(input)).constant().value_or(0) >= large_;
    });
  }

  // What the rewrite makes adds along the axis: it coupled it as one op.
  bool adds_along(const ClassAxis& axis) const {
    if (there_.contains(name_of(made_, axis.op)) || !reads_large(axis.op)) return false;
    const auto map = ops::axis_map(ops::instance_of(made_, axis.op));
    return map && map->axes[static_cast<size_t>(axis.axis)].role == ops::AxisRole::kReduction;
  }

  const ir::Graph& made_;
  const int64_t large_;
  const OpNames there_;
  std::map<OpName, int> labelled_;  // ops, and the axis that the class has of each
  bool has_taken_apart_ = false;    // the labels' class had an op that is gone: nothing held it up
};

}  // namespace

std::vector<fission::CutRule> FreedClass::cuts(bool instead) const {
  return cuts_of_class(made->step, made->classes[which], instead, kFreedCuts.numbers);
}

Result<std::vector<FreedClass>> freed_classes(const ir::Graph& step, const OptimizeOptions& options,
                                              bool anywhere) {
  std::vector<FreedClass> found;
  std::optional<std::vector<AxisClass>> before;  // of the step; found when a rewrite changes it
  for (const std::string& name : freeing_rewrites(options)) {
    std::optional<ir::Graph> step_made = freed(step, name);
    if (!step_made) continue;
    if (!before) {
      LT_ASSIGN(before, classes_to_cut(step));
    }
    LT_ASSIGN(std::vector<AxisClass> classes, classes_to_cut(*step_made));
    const auto made =
        std::make_shared<const FreedStep>(FreedStep{std::move(*step_made), std::move(classes)});
    const Comparison compare(step, before->empty() ? AxisClass() : before->front(), made->step);
    for (size_t k = 0; k < made->classes.size(); ++k)
      if (compare.may_pay(made->classes[k], anywhere)) found.push_back({name, made, k});
  }
  return found;
}

std::string what_frees(const ir::Graph& step, std::span<const fission::CutRule> cuts,
                       const OptimizeOptions& options) {
  std::vector<std::string> all = freeing_rewrites(options);
  for (std::string& name : rewrites_of_parts(options)) all.push_back(std::move(name));
  for (const std::string& name : all) {
    const std::optional<ir::Graph> made = freed(step, name);
    if (!made) continue;
    const OpNames there = names_of(*made);
    for (const fission::CutRule& rule : cuts) {
      if (fission::cuts_of(step, std::span(&rule, 1))) continue;
      if (fission::cuts_of(*made, std::span(&rule, 1)))
        return fmt::format("; with --rewrite {} it can be", name);
      for (const OpId id : step.ops()) {
        if (!names(rule, step.op(id)) || there.contains(name_of(step, id))) continue;
        if (const auto part = part_along(*made, step.op(id).name, rule.axis))
          return fmt::format("; with --rewrite {} '{}' can be", name, *part);
      }
    }
  }
  return {};
}

}  // namespace lowtide::pipeline

#include "pipeline/split_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fission/class_ends.h"
#include "ops/op_table.h"
#include "rewrite/rewrites.h"

namespace lowtide::pipeline {
namespace {

constexpr double kLittle = 0.5;  // of the bytes: a class with less is worth a word

// "; leave the rewrite batch-norm-in-two-passes on", of rewrites that are there for splits and
// would change the step.
std::string switched_off(const ir::Graph& step, const OptimizeOptions& options) {
  std::vector<std::string> names;
  for (const rewrite::Rewrite& one : rewrite::rewrites()) {
    const auto& without = options.rewrites.without;
    if (!one.in_parts || std::find(without.begin(), without.end(), one.name) == without.end())
      continue;
    const auto made = rewrite::run(one, rewrite::RewriteStage::kStep, step, {});
    if (made && made->ops > 0) names.emplace_back(one.name);
  }
  return names.empty() ? "" : fmt::format("; leave the rewrite {} on", fmt::join(names, " and "));
}

// "op 'bn1' (BatchNormTrain) needs all of 'n' at once"
std::string what_couples(const ir::Graph& step, const std::vector<fission::ClassEnd>& ends) {
  const ir::Op& op = step.op(ends.front().op);
  const std::string others = ends.size() == 1
                                 ? ""
                                 : fmt::format(", and {} more op{} likewise", ends.size() - 1,
                                               ends.size() == 2 ? "" : "s");
  return fmt::format("op '{}' ({}) needs all of '{}' at once{}", op.name, op.kind,
                     ends.front().axis, others);
}

// The class by the op of it that makes the most.
Result<std::string> what_is_cut(const ir::Graph& step, const fission::AxisClass& axis_class) {
  const auto most =
      std::max_element(axis_class.axes.begin(), axis_class.axes.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const ir::Op& op = step.op(most->op);
  LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(step, most->op)));
  return fmt::format(
      "--split: the largest class of axes is '{}' of op '{}' ({}), {} elements, and "
      "what {} more ops have alike; it is not the first dimension of what is fed",
      map.axes[static_cast<size_t>(most->axis)].name, op.name, op.kind, most->extent,
      axis_class.axes.size() - 1);
}

}  // namespace

Result<std::vector<std::string>> notes_of_split(const ir::Graph& step,
                                                const OptimizeOptions& options) {
  std::vector<std::string> notes;
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step));
  if (classes.empty()) return notes;
  LT_ASSIGN(const bool of_samples, fission::walks_samples(step, classes.front()));
  const auto all = static_cast<double>(fission::made_bytes(step));
  const double share = static_cast<double>(classes.front().bytes) / all;
  if (of_samples && share >= kLittle) return notes;
  LT_ASSIGN(const fission::UnbrokenClass unbroken, fission::unbroken_class(step));
  if (unbroken.ends.empty() || unbroken.bytes <= classes.front().bytes) {
    if (of_samples) return notes;
    LT_ASSIGN(notes.emplace_back(), what_is_cut(step, classes.front()));
    return notes;
  }
  if (share >= kLittle) return notes;  // a piece of it, which may be of samples all the same
  notes.push_back(
      fmt::format("--split: only {} of {} ops, with {:.0f} % of the bytes that ops make, walk the "
                  "largest class "
                  "of axes; {}{}",
                  classes.front().axes.size(), step.op_count(), 100 * share,
                  what_couples(step, unbroken.ends), switched_off(step, options)));
  return notes;
}

Status check_parts(const ir::Graph& step, const std::vector<fission::AxisClass>& classes,
                   const OptimizeOptions& options) {
  const int64_t parts = options.split.parts;
  if (classes.empty()) {
    LT_ASSIGN(const fission::UnbrokenClass unbroken, fission::unbroken_class(step));
    return error(
        ErrorCode::kInput,
        fmt::format("--split: {} parts are asked for, but no two ops walk one dimension "
                    "that can be cut, so at most 1 is there{}{}",
                    parts, unbroken.ends.empty() ? "" : ": " + what_couples(step, unbroken.ends),
                    switched_off(step, options)));
  }
  const std::vector<fission::ClassAxis>& axes = classes.front().axes;
  const auto least = std::min_element(
      axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.extent < b.extent; });
  if (least->extent >= parts) return {};
  LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(step, least->op)));
  const ir::Op& op = step.op(least->op);
  return error(ErrorCode::kInput,
               fmt::format("--split: {} parts are asked for, and '{}' of op '{}' ({}), which is in "
                           "the largest class of axes, has {} elements: at most {}",
                           parts, map.axes[static_cast<size_t>(least->axis)].name, op.name, op.kind,
                           least->extent, least->extent));
}

}  // namespace lowtide::pipeline

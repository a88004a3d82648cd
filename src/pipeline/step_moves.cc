#include "pipeline/step_moves.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fission/classes.h"
#include "fission/expand.h"
#include "ops/op_table.h"
#include "pipeline/freed_cuts.h"
#include "pipeline/more_cuts.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "pipeline/try_splits.h"

namespace lowtide::pipeline {
namespace {

using fission::AxisClass;
using fission::ClassAxis;
using fission::CutRule;
using ir::OpId;

// In how many parts of one class a slice or join copies nothing: 1 where it parts or joins the
// outermost dimension; as many as there are samples where these are the outermost dimension, and
// only ones lie between them and the axis. None: it copies in any.
std::optional<int64_t> parts_to_be_view(const ir::Graph& graph, OpId id, int64_t samples) {
  const ir::Op& op = graph.op(id);
  if (op.kind != "Slice" && op.kind != "Concat") return std::nullopt;
  const ir::Dims& made = graph.value(op.outputs[0]).dims;
  const ir::Dims& read = graph.value(op.inputs[0]).dims;
  const auto axis = std::mismatch(made.begin(), made.end(), read.begin(), read.end()).first;
  if (axis == made.begin()) return 1;
  const auto is_one = [](const sym::Expr& dim) { return dim == sym::Expr(1); };
  if (made[0] != sym::Expr(samples) || !std::all_of(made.begin() + 1, axis, is_one))
    return std::nullopt;
  return samples;
}

// The class of the step, as the step in parts has it: by its axis of the op that makes the most.
// Error: no op of it is found there.
Result<ClassAxis> as_in_parts(const ir::Graph& step, const AxisClass& axis_class,
                              const fission::Expanded& expanded) {
  std::vector<ClassAxis> axes = axis_class.axes;
  std::stable_sort(axes.begin(), axes.end(),
                   [](const ClassAxis& a, const ClassAxis& b) { return a.bytes > b.bytes; });
  for (ClassAxis axis : axes) {
    const OpId part = expanded.parts[axis.op].front();
    LT_ASSIGN(const ops::AxisMap whole, ops::axis_map(ops::instance_of(step, axis.op)));
    LT_ASSIGN(const ops::AxisMap of_part, ops::axis_map(ops::instance_of(expanded.graph, part)));
    const std::optional<int> known = ops::axis_of_part(whole, axis.axis, of_part);
    if (!known) continue;
    axis.op = part, axis.axis = *known, axis.extent = axis_class.least_extent;
    return axis;
  }
  return error(ErrorCode::kInput, "in parts the step has no axis of the class that labels are of");
}

// The ops of the step in the parts that the rules say.
Result<MovedStep> parted_step(const ir::Graph& step, const std::vector<CutRule>& rules) {
  using Made = LabelledStep::Made;
  LT_ASSIGN(const fission::NestedCuts cuts, fission::cuts_of(step, rules));
  LT_ASSIGN(fission::Expanded expanded, fission::expand(step, cuts));
  LT_ASSIGN(const std::vector<AxisClass> classes, fission::axis_classes(step));
  LT_CHECK(!classes.empty(), "a step with an op that is cut has a class");
  MovedStep made;
  LT_ASSIGN(made.how.along, as_in_parts(step, classes.front(), expanded));
  made.graph = std::move(expanded.graph);
  made.how.made = IdVector<OpId, Made>(made.graph.op_count(), Made::kBetween);
  for (const OpId op : step.ops())
    for (const OpId part : expanded.parts[op])
      made.how.made[part] = expanded.parts[op].size() == 1 ? Made::kWhole : Made::kPart;
  for (const OpId op : made.graph.ops()) {
    if (made.how.made[op] != Made::kBetween) continue;
    if (const auto least = parts_to_be_view(made.graph, op, classes.front().least_extent))
      made.how.views.push_back({op, *least});
  }
  return made;
}

// Of cuts of other classes those that cut something within two parts of the largest one.
std::vector<CutRule> of_use(const ir::Graph& step, std::span<const AxisClass> classes,
                            std::vector<CutRule> rules) {
  if (rules.empty()) return rules;
  const fission::Cuts labels = fission::cut_class(step, classes.front(), 2);
  std::erase_if(rules, [&](const CutRule& rule) {
    return rule.parts * static_cast<int64_t>(step.op_count()) >
               static_cast<int64_t>(kSplit.cut_trial_ops) ||
           !fission::cuts_of(step, std::span(&rule, 1), labels);
  });
  return rules;
}

// With the rewrite that frees their axis. Where that is of the largest class, labels cut it.
Status add_freed_moves(const ir::Graph& step, const OptimizeOptions& options,
                       std::vector<Candidate>& moves) {
  LT_ASSIGN(const std::vector<FreedClass> classes, freed_classes(step, options));
  for (const FreedClass& freed : classes) {
    if (freed.is_labelled()) {
      moves.push_back({.rewrites = {freed.rewrite}});
      continue;
    }
    for (CutRule& rule :
         of_use(freed.made->step, freed.made->classes, freed.cuts(/*instead=*/false)))
      moves.push_back({.cuts = {std::move(rule)}, .rewrites = {freed.rewrite}});
  }
  return {};
}

}  // namespace

Result<StepMoves> step_moves(const ir::Graph& forward, const ir::Graph& step,
                             const OptimizeOptions& options) {
  StepMoves moves;
  for (const std::string& name : open_rewrites(options))
    moves.moves.push_back({.rewrites = {name}});
  const std::vector<std::string>& without = options.rewrites.without;
  const bool may_block = std::find(without.begin(), without.end(), "query-blocks") == without.end();
  if (options.query_blocks <= 1 && may_block)
    for (int64_t blocks = 2; blocks <= kSplit.most_moved_blocks; blocks *= 2)
      moves.moves.push_back({.query_blocks = blocks});
  if (options.ideas.more_cuts && options.cuts.empty() && step.op_count() <= kSplit.cut_trial_ops) {
    LT_ASSIGN(const std::vector<AxisClass> classes, classes_to_cut(step));
    for (CutRule& rule : of_use(step, classes, cuts_within(step, classes)))
      moves.moves.push_back({.cuts = {std::move(rule)}});
    LT_RETURN_IF_ERROR(add_freed_moves(step, options, moves.moves));
  }
  const auto steps = std::make_shared<StepsToCut>(forward);  // of all copies of the function
  moves.step = [steps, &options](const Candidate& candidate) -> Result<MovedStep> {
    LT_ASSIGN(ir::Graph moved, steps->step(with(options, candidate)));
    if (candidate.cuts.empty()) return MovedStep{std::move(moved)};
    return parted_step(moved, candidate.cuts);
  };
  return moves;
}

}  // namespace lowtide::pipeline

#include "pipeline/label_problem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "analysis/describe.h"
#include "fission/unfold.h"
#include "ops/op_table.h"
#include "pipeline/named_runs.h"
#include "plan/schedule_problem.h"

namespace lowtide::pipeline {
namespace {

using ir::OpId;
using plan::SchedOpId;

// Problems are copied for each labels that are judged, and nobody reads their names.
void drop_names(plan::ScheduleProblem& problem) {
  for (plan::SchedOp& op : problem.ops) op.name.clear();
  for (plan::SchedValue& value : problem.values) value.name.clear();
  for (plan::SchedResident& resident : problem.residents) resident.name.clear();
}

uint64_t hash_of(const std::vector<int64_t>& words) {
  return XXH3_64bits(words.data(), words.size() * sizeof(int64_t));
}

// Of the levels, and of each op that is cut its axis, bounds, and the level that it has them by.
uint64_t hash_of(const CutStep& cut) {
  std::vector<int64_t> words;
  words.reserve(4 * cut.cuts.size());
  for (const fission::Levels::Level& level : cut.levels.levels)
    words.insert(words.end(), {level.parent, level.parts});
  std::map<const std::vector<int64_t>*, uint64_t> hashes;  // most ops share their bounds
  for (const OpId op : cut.cuts.ids()) {
    if (!cut.cuts[op]) continue;
    const std::vector<int64_t>& bounds = cut.cuts[op]->bounds.list();
    const auto [known, is_new] = hashes.try_emplace(&bounds, 0);
    if (is_new) known->second = hash_of(bounds);
    words.insert(words.end(), {static_cast<int64_t>(op.index()), cut.level_of[op],
                               cut.cuts[op]->axis, static_cast<int64_t>(known->second)});
  }
  return hash_of(words);
}

// An op that reads a view may be judged as one of what that shows. From the last to the first, as
// one may be of another. One that the graph has as a view, whose result the step hands out, or
// whose operand it overwrites (readers would have to come before that) stays what it is, and is
// taken from the list. What is a piece of a join is taken over by none. Labels under which it is a
// copy all the same are judged by a little more than they take: its operand stays as long as it.
void see_through(const ir::Graph& step, std::vector<fission::ViewInParts>& views,
                 analysis::ScheduleView& view) {
  plan::ScheduleProblem& problem = view.problem;
  std::map<ir::StorageId, plan::SchedValueId> value_of;
  std::map<ir::StorageId, plan::SchedResidentId> resident_of;
  for (const auto id : view.storage.ids()) value_of[view.storage[id]] = id;
  for (const auto id : view.resident.ids()) resident_of[view.resident[id]] = id;
  const auto made_by = [&](OpId op) {
    const ir::Value& made = step.value(step.op(op).outputs[0]);
    const auto found = value_of.find(made.storage);
    const bool copies = made.alias == ir::Alias::kOwn && found != value_of.end();
    return copies && !problem.values[found->second].is_output ? found->second
                                                              : plan::SchedValueId::none();
  };
  const auto is_overwritten = [&](ir::ValueId input) {
    const auto value = value_of.find(step.value(input).storage);
    if (value != value_of.end()) return !problem.values[value->second].writers.empty();
    const auto resident = resident_of.find(step.value(input).storage);
    return resident == resident_of.end() || !problem.residents[resident->second].writers.empty();
  };
  std::erase_if(views, [&](const fission::ViewInParts& one) {
    const std::vector<ir::ValueId>& read = step.op(one.op).inputs;
    return !made_by(one.op).valid() || std::any_of(read.begin(), read.end(), is_overwritten);
  });
  // No other value takes their place.
  IdVector<plan::SchedValueId, char> stays(problem.values.size(), 0);
  const auto add = [](const std::vector<SchedOpId>& more, std::vector<SchedOpId>& readers) {
    std::vector<SchedOpId> all;
    std::set_union(readers.begin(), readers.end(), more.begin(), more.end(),
                   std::back_inserter(all));
    readers = std::move(all);
  };
  for (auto one = views.rbegin(); one != views.rend(); ++one) {
    const plan::SchedValueId made = made_by(one->op);
    stays[made] = 1;
    for (const ir::ValueId input : step.op(one->op).inputs) {
      const ir::StorageId from = step.value(input).storage;
      if (const auto value = value_of.find(from); value != value_of.end()) {
        add(problem.values[made].readers, problem.values[value->second].readers);
        stays[value->second] = 1;
      }
      if (const auto value = resident_of.find(from); value != resident_of.end())
        add(problem.values[made].readers, problem.residents[value->second].readers);
    }
  }
  std::erase_if(problem.in_place,
                [&](const plan::InPlacePair& pair) { return stays[pair.input] != 0; });
}

// Whether the class's axis is the outermost dimension of what the op makes.
Result<bool> is_outermost(const ir::Graph& step, const fission::AxisClass& axis_class, OpId op) {
  const auto axis = std::find_if(axis_class.axes.begin(), axis_class.axes.end(),
                                 [&](const fission::ClassAxis& one) { return one.op == op; });
  if (axis == axis_class.axes.end()) return false;
  LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(step, op)));
  return std::any_of(map.uses.begin(), map.uses.end(), [&](const ops::AxisUse& use) {
    return use.is_output && use.operand == 0 && use.axis == axis->axis && use.dim == 0;
  });
}

// Concats along another dimension than the first.
std::vector<std::pair<OpId, int64_t>> inner_joins(const ir::Graph& step) {
  std::vector<std::pair<OpId, int64_t>> joins;
  for (const OpId id : step.ops()) {
    const ir::Op& op = step.op(id);
    if (op.kind != "Concat") continue;
    const ir::Dims& dims = step.value(op.outputs[0]).dims;
    int64_t before = 1;
    for (int64_t d = 0; d < std::get<int64_t>(op.attrs.at("axis")); ++d)
      before *= *dims[static_cast<size_t>(d)].constant();
    if (before > 1) joins.emplace_back(id, before);
  }
  return joins;
}

}  // namespace

LabelProblem::LabelProblem(ir::Graph step, const OptimizeOptions& options, int64_t order_units,
                           LabelledStep how)
    : step_(std::move(step)),
      options_(options),
      order_units_(order_units),
      views_(std::move(how.views)),
      made_(std::move(how.made)),
      estimator_(options.device, options.costs ? &*options.costs : nullptr) {}

Result<std::unique_ptr<LabelProblem>> LabelProblem::make(ir::Graph step,
                                                         const OptimizeOptions& options,
                                                         int64_t order_units, LabelledStep how) {
  const std::optional<fission::ClassAxis> along = how.along;
  std::unique_ptr<LabelProblem> made(
      new LabelProblem(std::move(step), options, order_units, std::move(how)));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(made->step_));
  const auto is_labelled = [&](const fission::AxisClass& one) {
    return !along || std::any_of(one.axes.begin(), one.axes.end(), [&](const auto& axis) {
      return axis.op == along->op && axis.axis == along->axis;
    });
  };
  const auto labelled = std::find_if(classes.begin(), classes.end(), is_labelled);
  if (labelled == classes.end()) return std::unique_ptr<LabelProblem>();
  made->axis_class_ = *labelled;
  if (along) made->axis_class_.least_extent = std::min(labelled->least_extent, along->extent);
  for (auto view = made->views_.begin(); view != made->views_.end();) {
    LT_ASSIGN(const bool stays, is_outermost(made->step_, made->axis_class_, view->op));
    view = stays || view->least_parts == 1 ? view + 1 : made->views_.erase(view);
  }
  made->reader_.emplace(made->step_, made->axis_class_);
  LT_RETURN_IF_ERROR(made->pose());
  return made;
}

// The whole step's problem, its best order, and prices.
Status LabelProblem::pose() {
  const auto price = [this](const plan::OpDesc& op) -> Result<double> {
    LT_ASSIGN(const cost::Estimate estimate, estimator_.estimate(op));
    return estimate.seconds;
  };
  LT_ASSIGN(auto seconds, fission::PartSeconds::make(step_, price));
  seconds_.emplace(std::move(seconds));
  const int64_t alignment = options_.device.alignment_bytes;
  LT_ASSIGN(auto ends, LevelEnds::make(step_, axis_class_, price,
                                       {alignment, options_.pieces, options_.kernels != nullptr}));
  ends_.emplace(std::move(ends));
  analysis::OpCosts costs;
  costs.workspace_bytes = workspaces();
  LT_ASSIGN(costs.seconds, seconds_of(fission::Cuts(step_.op_count())));
  std::vector<plan::Link> links;
  if (options_.schedule.transfers)
    for (const SlowTierChoice& tier : options_.slow_tiers) links.push_back(tier.link);
  LT_ASSIGN(auto view, analysis::make_schedule_view(step_, costs, alignment, {.links = links}));
  view_.emplace(std::move(view));
  drop_names(view_->problem);
  see_through(step_, views_, *view_);
  LT_ASSIGN(auto scale, fission::Scale::make(step_, *view_, axis_class_, alignment, views_));
  scale_.emplace(std::move(scale));
  given_ = best_order(view_->problem).sequence;
  joins_ = inner_joins(step_);
  return {};
}

Result<IdVector<OpId, double>> LabelProblem::seconds_of(const fission::Cuts& cuts) const {
  LT_ASSIGN(auto seconds, seconds_->all(cuts));
  LT_RETURN_IF_ERROR(ends_->add_copies(cuts, seconds));
  for (const fission::ViewInParts& view : views_)
    if (view.is_view(cuts)) seconds[view.op] = 0;
  return seconds;
}

// Parts of one element of what lies before a Concat's axis have that axis outermost, so what they
// join may lie one behind the other (rewrite/pieces.h).
double LabelProblem::join_seconds(const CutStep& cut) const {
  double seconds = 0;
  for (const auto& [op, before] : joins_) {
    if (!cut.cuts[op] || cut.cuts[op]->bounds.back() != before) continue;
    const std::vector<int64_t>& bounds = cut.cuts[op]->bounds.list();
    int64_t single = 0;
    for (size_t k = 1; k < bounds.size(); ++k) single += bounds[k] - bounds[k - 1] == 1;
    seconds +=
        cut.seconds[op] * static_cast<double>(single) / static_cast<double>(bounds.size() - 1);
  }
  return seconds;
}

// As the operands lie in the step, before layouts are chosen: an estimate. Of ops that no kernel
// takes so, none.
IdVector<OpId, int64_t> LabelProblem::workspaces() const {
  IdVector<OpId, int64_t> bytes(step_.op_count(), 0);
  if (options_.kernels == nullptr) return bytes;
  for (const OpId id : step_.ops()) {
    const auto desc = analysis::describe(step_, id);
    const auto needed = desc ? options_.kernels->workspace_bytes(*desc) : Result<int64_t>(0);
    bytes[id] = needed.value_or(0);
  }
  return bytes;
}

plan::ScheduleOutcome LabelProblem::best_order(const plan::ScheduleProblem& problem) const {
  order::OrderOptions quick = options_.order;
  quick.exact_search = quick.beam = quick.cut_bound = false;
  quick.random_restarts = 0;
  quick.limits.max_units = order_units_;
  return order::solve(problem, quick);
}

Result<std::optional<CutStep>> LabelProblem::cut(const fission::Labels& labels) const {
  auto levels = reader_->levels(labels);
  if (!levels) return std::nullopt;
  CutStep made{.levels = *std::move(levels)};
  made.cuts = fission::cuts_of(step_, axis_class_, made.levels);
  made.level_of = fission::levels_as_cut(made.levels, made.cuts);
  if (fission::has_idle_level(made.levels, made.level_of) ||
      fission::has_broken_loop(step_, made.levels, made.level_of))
    return std::nullopt;
  LT_ASSIGN(made.seconds, seconds_of(made.cuts));
  made.once_seconds = std::accumulate(made.seconds.begin(), made.seconds.end(), 0.0);
  made.join_seconds = join_seconds(made);
  made.hash = hash_of(made);
  return made;
}

fission::Scaled LabelProblem::scaled(const CutStep& cut, int64_t budget_bytes) const {
  fission::Scaled scaled = scale_->problem(cut.levels, cut.cuts, cut.seconds);
  plan::ScheduleProblem& problem = scaled.problem;
  problem.budget_bytes = budget_bytes;
  if (!options_.schedule.recompute)
    for (plan::SchedOp& op : problem.ops) op.may_rerun = false;
  return scaled;
}

std::vector<SchedOpId> LabelProblem::runs_in(const fission::Scaled& scaled,
                                             const StepRuns& runs) const {
  IdVector<SchedOpId, SchedOpId> scaled_op(view_->op.size());
  for (const SchedOpId op : scaled.op.ids())
    if (scaled.op[op].valid()) scaled_op[scaled.op[op]] = op;
  IdVector<SchedOpId, std::vector<SchedOpId>> begins(scaled.op.size());
  for (const auto& [before, after] : scaled.problem.control)
    if (!scaled.op[before].valid()) begins[after].push_back(before);
  IdVector<SchedOpId, char> has_begun(scaled.op.size(), 0);
  std::vector<SchedOpId> sequence;
  for (const SchedOpId op : runs) {
    for (const SchedOpId begin : begins[scaled_op[op]])
      if (!std::exchange(has_begun[begin], 1)) sequence.push_back(begin);
    sequence.push_back(scaled_op[op]);
  }
  return sequence;
}

StepRuns LabelProblem::of_step(const std::vector<SchedOpId>& sequence,
                               const fission::Scaled& scaled) {
  StepRuns runs;
  for (const SchedOpId op : sequence)
    if (scaled.op[op].valid()) runs.push_back(scaled.op[op]);
  return runs;
}

std::vector<std::string> LabelProblem::names_of(const StepRuns& runs) const {
  std::vector<std::string> names;
  for (const SchedOpId run : runs) names.push_back(step_.op(view_->op[run]).name);
  return names;
}

StepRuns LabelProblem::runs_named(std::span<const std::string> names) const {
  plan::ScheduleProblem named = view_->problem;
  for (const SchedOpId op : named.ops.ids()) named.ops[op].name = step_.op(view_->op[op]).name;
  StepRuns runs;
  for (const plan::SchedAction& action : named_runs(named, names)) runs.push_back(action.op);
  return runs;
}

std::vector<std::string> LabelProblem::unfolded(const CutStep& cut, const StepRuns& runs) const {
  IdVector<SchedOpId, int> of_run(view_->op.size());
  for (const SchedOpId op : view_->op.ids()) of_run[op] = cut.level_of[view_->op[op]];
  std::vector<std::string> names;
  for (const fission::PartRun& run :
       fission::unfold(view_->problem, cut.levels, of_run, runs, scale_->waits_for())) {
    const OpId op = view_->op[run.op];
    std::string name = step_.op(op).name;
    if (cut.cuts[op]) name = fission::part_name(name, static_cast<size_t>(run.part));
    const bool is_of_two = cut.cuts[op] && made(op) == LabelledStep::Made::kPart;
    names.push_back(is_of_two ? fission::with_layers_exchanged(name) : name);
  }
  return names;
}

}  // namespace lowtide::pipeline

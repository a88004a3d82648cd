#include "pipeline/label_judge.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "fission/scale.h"
#include "plan/schedule_simulator.h"
#include "remat/bounds/closure_cut.h"

namespace lowtide::pipeline {

using fission::Labels;
using plan::SchedOpId;

std::vector<size_t> by_rank(const std::vector<LabelState>& states) {
  std::vector<size_t> order(states.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool is_known[2] = {states[a].once_peak_bytes > 0, states[b].once_peak_bytes > 0};
    if (is_known[0] != is_known[1]) return is_known[0];
    return states[a].candidate.is_better_than(states[b].candidate);
  });
  return order;
}

void LabelJudge::keep_within(int64_t budget_bytes) {
  budget_bytes_ = budget_bytes;
  may_cut_ = false;
}

LabelState LabelJudge::once(const LabelsAhead& ahead, const CutStep& cut) const {
  LabelState made{.candidate = ahead.candidate, .variant = ahead.variant, .order = ahead.order};
  made.candidate.seconds = made.once_seconds = made.least_seconds = cut.once_seconds;
  made.join_seconds = cut.join_seconds;
  return made;
}

// The order that a state has from another one, scheduled anew around its peak where that misses the
// budget.
order::ProfiledOrder LabelJudge::inherited(const LabelProblem& of, const fission::Scaled& scaled,
                                           const plan::ProblemIndex& index,
                                           LabelState& made) const {
  const plan::ScheduleProblem& problem = scaled.problem;
  order::ProfiledOrder known{of.runs_in(scaled, made.order), {}};
  auto profile = plan::simulate(problem, index, known.sequence);
  LT_CHECK(profile.has_value(), "an order of the whole step is one of its parts");
  known.profile = *std::move(profile);
  const int64_t peak = known.profile.peak_bytes;
  if (peak <= budget_bytes_ || !options_.ideas.waist || !options_.schedule.remat.reorder)
    return known;
  const std::vector<SchedOpId> all(problem.ops.ids().begin(), problem.ops.ids().end());
  const order::WaistOptions how{.enough_bytes = budget_bytes_, .worth = tuning_.worth};
  known = order::reschedule(problem, index, std::move(known), all, how).order;
  if (known.profile.peak_bytes < peak) made.order = LabelProblem::of_step(known.sequence, scaled);
  return known;
}

void LabelJudge::bound(const LabelProblem& of, const CutStep& cut_step, const Limits& limits,
                       LabelState& made) const {
  const fission::Scaled scaled = of.scaled(cut_step, budget_bytes_);
  const plan::ScheduleProblem& problem = scaled.problem;
  plan::ProblemIndex index(problem);
  const auto [order, profile] = inherited(of, scaled, index, made);
  made.candidate.peak_bytes = made.once_peak_bytes = profile.peak_bytes;
  made.may_fit = made.candidate.fits = made.candidate.peak_bytes <= budget_bytes_;
  if (made.may_fit) return;
  made.may_fit = true;  // in another order
  const bool may_change = options_.schedule.recompute || problem.link;
  if (!may_change)
    made.forecast = LabelForecast(of, cut_step, scaled, order, profile, budget_bytes_);
  if (!may_change || !may_cut_) return;
  const remat::CutBoundResult cut =
      remat::closure_cut(remat::StepGraph(problem, std::move(index)), profile,
                         {.order = order,
                          .limits = limits.with_units(tuning_.cut_units),
                          .patience = tuning_.cut_patience,
                          .tolerance = tuning_.cut_tolerance});
  made.may_fit = cut.feasible;
  if (cut.feasible) made.least_seconds = std::max(made.least_seconds, cut.lower_bound_seconds);
  made.forecast = LabelForecast(of, cut_step, scaled, cut);
}

Result<std::optional<JudgedLabels>> LabelJudge::judge(const LabelsAhead& ahead,
                                                      const Seen& seen) const {
  const LabelProblem& of = ahead.posed->problem();
  LT_ASSIGN(const auto cut, of.cut(ahead.candidate.labels));
  if (!cut || (ahead.may_be_known && seen.contains({ahead.posed->hash(), cut->hash})))
    return std::nullopt;
  JudgedLabels made{.hash = cut->hash, .once = once(ahead, *cut)};
  if (made.once.least_if_joined() >= ahead.below_seconds) return made;
  bound(of, *cut, ahead.limits, made.bounded.emplace(made.once));
  return made;
}

Result<std::vector<ForecastLabels>> LabelJudge::forecast(
    const PosedVariant& posed, const LabelState& from, double below_seconds, const Seen& seen,
    const Read& read, const std::function<bool()>& is_late) const {
  const LabelProblem& of = posed.problem();
  LT_ASSIGN(std::vector<Labels> neighbours, posed.neighbours(from.candidate.labels));
  std::vector<ForecastLabels> made;
  std::set<std::string> texts;  // of these
  std::set<uint64_t> hashes;
  for (Labels& labels : neighbours) {
    if (is_late()) break;
    std::string text = fission::print(labels);
    if (!texts.insert(text).second || read.contains({posed.hash(), text})) continue;
    LT_ASSIGN(const auto cut, of.cut(labels));
    made.push_back({.labels = std::move(labels), .text = std::move(text)});
    ForecastLabels& next = made.back();
    if (!cut) continue;
    next.hash = cut->hash;
    next.once_seconds = cut->once_seconds;
    const bool is_known =
        !hashes.insert(cut->hash).second || seen.contains({posed.hash(), cut->hash});
    if (is_known || cut->once_seconds >= below_seconds || !options_.ideas.forecast) continue;
    next.key = {from.forecast.over_bytes(of, *cut), from.forecast.seconds(of, *cut), 0};
  }
  return made;
}

Result<SearchedLabels> LabelJudge::search(const LabelProblem& of, const Labels& labels,
                                          const Limits& limits, const LabelStarts& from) const {
  LT_ASSIGN(const auto cut, of.cut(labels));
  const PosedLabels posed = pose(of, *cut, budget_bytes_);
  LabelScheduleOptions how{.limits = limits.with_units(from.units),
                           .all_starts = from.all,
                           .known_starts = &known_starts_};
  for (size_t k = 0; k < from.runs.size(); ++k)
    how.starts.push_back(from.of[k] == &of ? from.runs[k]
                                           : of.runs_named(from.of[k]->names_of(from.runs[k])));
  return SearchedLabels{schedule_within(of, posed, options_, how),
                        LabelProblem::of_step(posed.order.sequence, posed.scaled),
                        posed.order.peak_bytes};
}

Result<std::vector<std::vector<std::string>>> LabelJudge::starts(const LabelProblem& of,
                                                                 const Candidate& candidate,
                                                                 const StepRuns& runs, bool tight,
                                                                 const Limits& limits) const {
  LT_ASSIGN(const auto cut, of.cut(candidate.labels));
  std::vector<std::vector<std::string>> made = {of.unfolded(*cut, runs)};
  if (!tight || runs.size() == of.view().op.size()) return made;
  PosedLabels posed = pose(of, *cut, budget_bytes_);
  posed.scaled.problem.budget_bytes = budget_bytes_ - budget_bytes_ / tuning_.tight_share;
  const auto found = schedule_within(of, posed, options_,
                                     {.limits = limits.with_units(tuning_.closer_units),
                                      .starts = {runs},
                                      .known_starts = &known_starts_});
  if (found && !found->runs.empty()) made.push_back(of.unfolded(*cut, found->runs));
  return made;
}

}  // namespace lowtide::pipeline

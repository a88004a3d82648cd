// What the label search (label_search.h) finds out about one state: what it takes each op once, a
// bound on what it takes within the budget, a schedule by a short search, and which labels are next
// to it. Each is a function of the state and of what is handed over beside it, and of nothing that
// the search finds out meanwhile; so workers (base/workers.h) may do it ahead of its turn, and it
// comes to the same.
//
// Tests: label_judge_test.cc, tests/split_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "base/shared_set.h"
#include "fission/labels.h"
#include "order/waist.h"
#include "pipeline/label_forecast.h"
#include "pipeline/label_problem.h"
#include "pipeline/label_schedule.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/step_variants.h"

namespace lowtide::pipeline {

// Smaller is better: how far it is from fitting in bytes, what it takes, its peak.
using LabelKey = std::tuple<int64_t, double, int64_t>;

// What is known of labels.
struct LabelState {
  Candidate candidate = {};
  size_t variant = 0;
  StepRuns order = {};      // each op once: of the whole step's problem
  StepRuns runs = {};       // behind the candidate's estimate
  double once_seconds = 0;  // each op once
  int64_t once_peak_bytes = 0;
  // Of every schedule of one part of everything, and whether no bound says that it cannot fit; with
  // a cut along a second axis as far as what is a view in a plan is one here (label_problem.h).
  double least_seconds = 0;
  double join_seconds = 0;  // of these, what Concats may spare (CutStep)
  bool may_fit = false;
  LabelForecast forecast = {};  // of its neighbours

  double least_if_joined() const { return least_seconds - join_seconds; }
  // Whether the schedule is better than what was known; then it is what is known.
  bool take(LabelSchedule found) {
    if (candidate.fits && candidate.seconds <= found.seconds) return false;
    candidate.fits = true;
    candidate.seconds = found.seconds;
    candidate.peak_bytes = found.peak_bytes;
    runs = std::move(found.runs);
    return true;
  }
  LabelKey key() const { return {forecast.over_bytes(), least_seconds, candidate.peak_bytes}; }
};

// The states by their places, the best estimate first; last those of which a bound was not asked,
// as each op once they take too long.
std::vector<size_t> by_rank(const std::vector<LabelState>& states);

// Labels and the step that they are of, to be judged.
struct LabelsAhead {
  const PosedVariant* posed = nullptr;
  size_t variant = 0;
  Candidate candidate = {};   // with the moves of the variant
  StepRuns order = {};        // to begin with
  bool may_be_known = false;  // what they cut: to be looked up
  double below_seconds = 0;   // each op once: what takes no less gets no bound
  Limits limits = {};
};

struct JudgedLabels {
  uint64_t hash = 0;     // of what they cut
  LabelState once = {};  // without a bound
  std::optional<LabelState> bounded = {};
};

// One of a state's neighbours.
struct ForecastLabels {
  fission::Labels labels = {};
  std::string text = {};
  std::optional<uint64_t> hash = {};  // of what they cut; none: nothing
  double once_seconds = 0;
  LabelKey key = {};  // with a forecast
};

// What a search for a state's schedule starts from.
struct LabelStarts {
  std::vector<const LabelProblem*> of = {};
  std::vector<StepRuns> runs = {};
  bool all = false;  // beside those of its own
  int64_t units = 0;
  bool operator==(const LabelStarts&) const = default;
};

struct SearchedLabels {
  std::optional<LabelSchedule> schedule = {};
  StepRuns order = {};  // each op once
  int64_t order_peak_bytes = 0;
};

class LabelJudge {
 public:
  // Hashes of variants and of what labels cut; by variant: labels that were looked at.
  using Seen = SharedSet<std::pair<uint64_t, uint64_t>>;
  using Read = SharedSet<std::pair<uint64_t, std::string>>;

  // Both must stay.
  LabelJudge(const OptimizeOptions& options, const LabelSearchTuning& tuning)
      : options_(options), tuning_(tuning), budget_bytes_(*options.budget_bytes) {}
  int64_t budget_bytes() const { return budget_bytes_; }
  // From now on: another budget, and no cuts, as what they say of it is of no use.
  void keep_within(int64_t budget_bytes);

  // Each op once.
  LabelState once(const LabelsAhead& ahead, const CutStep& cut) const;
  // By a known order: where it fits, each op once is the least there is; where it does not, the
  // cut. `made` is what `once` says.
  void bound(const LabelProblem& of, const CutStep& cut, const Limits& limits,
             LabelState& made) const;
  // None: they cut nothing, or it is known.
  Result<std::optional<JudgedLabels>> judge(const LabelsAhead& ahead, const Seen& seen) const;

  // Of labels that were not looked at; those that are cut in a known way or dominated have no key.
  Result<std::vector<ForecastLabels>> forecast(const PosedVariant& posed, const LabelState& from,
                                               double below_seconds, const Seen& seen,
                                               const Read& read,
                                               const std::function<bool()>& is_late) const;

  Result<SearchedLabels> search(const LabelProblem& of, const fission::Labels& labels,
                                const Limits& limits, const LabelStarts& from) const;

  // Schedules of a state as names of its parts' ops: what is behind its estimate, and with `tight`
  // and where something runs again one for a little less memory, as addresses may need more than
  // the peak.
  Result<std::vector<std::vector<std::string>>> starts(const LabelProblem& of,
                                                       const Candidate& candidate,
                                                       const StepRuns& runs, bool tight,
                                                       const Limits& limits) const;

 private:
  order::ProfiledOrder inherited(const LabelProblem& of, const fission::Scaled& scaled,
                                 const plan::ProblemIndex& index, LabelState& made) const;

  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  int64_t budget_bytes_;
  bool may_cut_ = true;
  mutable remat::KnownStarts known_starts_;  // what it remembers changes no answer
};

}  // namespace lowtide::pipeline

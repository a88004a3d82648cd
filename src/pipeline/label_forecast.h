// What labels may be expected to take before they are judged, from labels that differ in one level
// and were: MAGIS's scores of regions (section 4.3), by prices of the closure cut
// (remat/bounds/closure_cut.h) instead of heat.
//
// The cut of the judged labels has a binding op, a price for each byte that is in memory while that
// op runs, and two choices of what is kept and what runs again between which that price lies. With
// the bytes and seconds of other labels each of these choices takes
//
//     each op once + reruns + price * (bytes held - budget)
//
// With a link comes what the cut charges for transfers. It is taken to be the same for other
// labels, though what parts read whole moves more often in more parts.
//
// So what counts for a mutation are the bytes that it frees at the binding moment, times their
// price, less the extra time of parts. The cut of the other labels at that op and price is at most
// so much, but for workspace and for what is reused in place, which are left out. It is a forecast
// all the same: another op may bind there, at another price. It decides in which order labels are
// judged, and nothing else.
//
// Where nothing fits, an op needs more than the budget whatever is kept, and without recompute and
// transfers the moment of the peak does: bytes that are freed there count alone. Where each op once
// fits, or no cut is made, labels are expected to take each op once.
//
// Tests: label_forecast_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "fission/scale.h"
#include "pipeline/label_problem.h"
#include "plan/schedule_problem.h"
#include "plan/schedule_simulator.h"
#include "remat/bounds/closure_cut.h"

namespace lowtide::pipeline {

class LabelForecast {
 public:
  LabelForecast() = default;  // each op once

  // Of labels and what the cut says of `scaled`, their problem.
  LabelForecast(const LabelProblem& problem, const CutStep& labels, const fission::Scaled& scaled,
                const remat::CutBoundResult& cut);

  // The same without recompute, of an order of the problem that misses the budget.
  LabelForecast(const LabelProblem& problem, const CutStep& labels, const fission::Scaled& scaled,
                const std::vector<plan::SchedOpId>& order, const plan::ScheduleProfile& profile,
                int64_t budget_bytes);

  // Of the labels known: how far they are from fitting; 0: they may fit.
  int64_t over_bytes() const { return is_over_ ? choices_.front().over_bytes : 0; }
  // Of other labels of the same problem, likewise,
  int64_t over_bytes(const LabelProblem& problem, const CutStep& labels) const;
  // and what they take within the budget.
  double seconds(const LabelProblem& problem, const CutStep& labels) const;

 private:
  // What memory holds at the binding moment, and what runs again for that.
  struct Choice {
    std::vector<plan::SchedValueId> held;  // of the whole step's problem, ascending
    std::vector<plan::SchedOpId> reruns;   // likewise
    int64_t held_bytes = 0;                // with the labels known: Scale::bytes_at
    int64_t over_bytes = 0;                // likewise all that is there, less the budget
    double moves_seconds = 0;              // of transfers beside reruns, as the cut weighs them
  };
  double moves_seconds(const LabelProblem& problem, const CutStep& labels,
                       const remat::CutBoundResult& cut, const Choice& choice) const;
  double reruns_seconds(const LabelProblem& problem, const CutStep& labels,
                        const Choice& choice) const;
  int64_t bytes_of(const LabelProblem& problem, const CutStep& labels, const Choice& choice) const;
  int64_t over_bytes(const LabelProblem& problem, const CutStep& labels,
                     const Choice& choice) const;

  plan::SchedOpId op_;  // that binds, of the whole step's problem
  std::vector<Choice> choices_;
  double seconds_per_byte_ = 0;
  bool is_over_ = false;  // nothing fits: the one choice is what needs least
};

}  // namespace lowtide::pipeline

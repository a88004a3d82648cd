// What states of the label search (label_search.h) take beyond what is proven of them, learnt from
// those whose schedules were found. It decides which states are searched, and in which order; a
// state that it speaks against loses its search, never what is known of it.
//
// Two ratios, each the least seen so far, so that what is expected is seldom too much: of extra
// time found to extra time proven by the closure cut; and, where a link moves tensors, of extra
// time to the bytes that are too much each op once, since with a link the cut proves little.
//
// Tests: label_gap_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/label_judge.h"
#include "pipeline/label_search.h"

namespace lowtide::pipeline {

class LabelGap {
 public:
  LabelGap(int64_t budget_bytes, bool has_link)
      : budget_bytes_(budget_bytes), has_link_(has_link) {}

  // The state's schedule within the budget takes its candidate's seconds.
  void learn(const LabelState& found) {
    const double more = found.candidate.seconds - found.once_seconds;
    const double proven = found.least_seconds - found.once_seconds;
    if (proven > 0) per_proven_ = std::min(per_proven_, more / proven);
    if (const int64_t over = found.once_peak_bytes - budget_bytes_; over > 0)
      per_byte_ = std::min(per_byte_, more / static_cast<double>(over));
  }

  // What a state without a schedule is expected to take, in seconds: its bound, and that share of
  // what the ratios say. Without a link only the first of them.
  double expected_seconds(const LabelState& state, double share) const {
    const double proven = state.least_seconds - state.once_seconds;
    const double more = per_proven_ < kAnyTime ? share * (per_proven_ - 1) * proven : 0;
    return std::max(state.least_seconds + more, state.once_seconds + share * moving_seconds(state));
  }

  // By bytes that are too much, with a link; 0 where a schedule is known.
  double moving_seconds(const LabelState& state) const {
    if (!has_link_ || state.candidate.fits || per_byte_ == kAnyTime) return 0;
    return per_byte_ * static_cast<double>(state.once_peak_bytes - budget_bytes_);
  }

  // As the state's key, with what it is expected to take instead of its bound.
  LabelKey guessed_key(const LabelState& state) const {
    const Candidate& candidate = state.candidate;
    const double guessed =
        candidate.fits ? candidate.seconds : state.once_seconds + moving_seconds(state);
    return {state.forecast.over_bytes(), std::max(state.least_seconds, guessed),
            candidate.peak_bytes};
  }

 private:
  const int64_t budget_bytes_;
  const bool has_link_;
  double per_proven_ = kAnyTime, per_byte_ = kAnyTime;  // as long as nothing was found
};

}  // namespace lowtide::pipeline

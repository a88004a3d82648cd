// Where a search under a budget stands: what is told to a caller while it goes on. One type for all
// who search and all who pass it on; the caller's function is called from the calling thread,
// between pieces of work, and may raise the flag of the limits (base/limits.h).
//
// Tests: src/remat/remat_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace lowtide::plan {

enum class SearchStage : uint8_t {
  kRuns,       // which op runs when, and how often
  kTransfers,  // what moves when
  kProof,      // that nothing is much faster
  kParts,      // in how many parts which ops run
};

// "runs", "transfers", "proof", "parts".
constexpr std::string_view name(SearchStage stage) {
  switch (stage) {
    case SearchStage::kRuns:
      return "runs";
    case SearchStage::kTransfers:
      return "transfers";
    case SearchStage::kProof:
      return "proof";
    case SearchStage::kParts:
      return "parts";
  }
  return "?";
}

struct Progress {
  int64_t budget_bytes = 0;  // the one that is searched (of a front, one after another)
  double seconds = 0;        // of the best answer so far, which keeps the budget; 0: none yet
  int64_t peak_bytes = 0;    // of that one
  // Proven for every schedule within the budget; 0: nothing is, as in all parts that are tried.
  double lower_bound_seconds = 0;
  double share = 0;  // of the work that is done; never falls
  // Where answers have addresses: of a faster schedule whose bytes keep the budget, and which has
  // none yet; 0: there is none.
  double unpacked_seconds = 0;
  SearchStage stage = SearchStage::kRuns;  // what is being done
};

using ProgressFunction = std::function<void(const Progress&)>;

// What a part of the work tells, as the whole tells it: the share from `from` to `to`. Empty where
// `whole` is.
inline ProgressFunction part_of(const ProgressFunction& whole, double from, double to) {
  if (!whole) return {};
  return [whole, from, to](Progress progress) {
    progress.share = from + (to - from) * progress.share;
    whole(progress);
  };
}

}  // namespace lowtide::plan

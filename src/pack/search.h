// Does a part fit below a capacity? What a search for the answer is to its caller: it can be
// stopped and resumed. There are two: the decision search, here, and the tightest-first search
// (tightest.h).
//
// Tests: pack_exhaustive_test.cc, pack_ideas_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pack/instance.h"
#include "pack/pack.h"
#include "pack/topology.h"

namespace lowtide::pack {

enum class Verdict {
  kFits,     // a packing was found
  kRefuted,  // proven: there is none
  kOpen,     // the limit of work, or `stop`, ended the search
};

// True if the tables of the decision search stay within some hundred megabytes.
bool searchable(const Part& part);

// Decides one capacity at a time. The topology must outlive it.
class Decider {
 public:
  virtual ~Decider() = default;
  // Begins anew: a capacity (in units of the part), and the items in the order in which they are
  // tried where nothing else tells them apart.
  virtual void reset(int64_t capacity, std::span<const int32_t> static_order) = 0;
  // Goes on for at most about so many units of work; resumable while the verdict is kOpen. `stop`
  // (may be null) is polled now and then; when it is set the search returns kOpen.
  virtual Verdict run(int64_t units, const class StopSignal* stop) = 0;
  virtual int64_t units() const = 0;  // of the last run, with what a reset before it took
  virtual const std::vector<int64_t>& offsets() const = 0;  // by item of the part; after kFits
};

// By backtracking with inference (minimalloc, Moffitt 2023).
std::unique_ptr<Decider> make_decision_search(const Topology& topology, const PackOptions& options);

}  // namespace lowtide::pack

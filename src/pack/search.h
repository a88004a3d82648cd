// The decision search, by backtracking with inference (minimalloc, Moffitt 2023): does a part fit
// below a capacity? It can be stopped and resumed.
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
  kOpen,     // the budget ended the search
};

// True if the tables of the decision search stay within some hundred megabytes.
bool searchable(const Part& part);

// One static order, one capacity. `topology` must outlive it.
class DecisionSearch {
 public:
  DecisionSearch(const Topology& topology, const PackOptions& options);
  ~DecisionSearch();
  DecisionSearch(DecisionSearch&&) noexcept;
  DecisionSearch& operator=(DecisionSearch&&) noexcept;

  // Begins anew: a capacity (in units of the part), and the items in the order in which they are
  // tried where offsets are equal.
  void reset(int64_t capacity, std::span<const int32_t> static_order);
  // Goes on for at most about `budget` units of work; resumable while the verdict is kOpen. `stop`
  // (may be null) is polled now and then; when it is set the search returns kOpen.
  Verdict run(int64_t budget, const class StopSignal* stop);
  int64_t units() const;                 // of the last run, with what a reset before it took
  std::vector<int64_t> offsets() const;  // by item of the part; after kFits

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::pack

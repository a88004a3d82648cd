// Does a part fit below a capacity? A depth-first search that can be stopped and resumed
// (minimalloc, Moffitt 2023).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pack/instance.h"
#include "pack/pack.h"

namespace lowtide::pack {

enum class Verdict {
  kFits,     // a packing was found
  kRefuted,  // proven: there is none
  kOpen,     // the budget ended the search
};

// True if the tables of the search stay within some hundred megabytes.
bool searchable(const Part& part);

// One static order, one capacity. All of `part` and `options` that it needs is copied.
class DecisionSearch {
 public:
  DecisionSearch(const Part& part, const PackOptions& options, const std::string& static_order);
  ~DecisionSearch();
  DecisionSearch(DecisionSearch&&) noexcept;
  DecisionSearch& operator=(DecisionSearch&&) noexcept;

  // Begins anew with another capacity (in units of the part).
  void reset(int64_t capacity);
  // Goes on for at most about `budget` units of work; resumable while the verdict is kOpen. `stop`
  // (may be null) is polled now and then; when it is set the search returns kOpen.
  Verdict run(int64_t budget, const class StopSignal* stop);
  int64_t units() const;                 // of the last run
  std::vector<int64_t> offsets() const;  // by item of the part; after kFits

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::pack

// Weisfeiler-Leman refinement (colour refinement, 1968): where else in the problem stands what
// stands here?
//
// Networks repeat blocks, so a way to recompute one is likely a good way to recompute its siblings.
// Ops are alike when they cost the same, make and read the same sizes, and their neighbours do, too
// (a hash that is refined twice by the hashes of producers and readers). Nothing is assumed of
// names or of the order. What plays the same role in which block follows from it: blocks.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "remat/search/action_table.h"

namespace lowtide::remat {

class Repeats {
 public:
  explicit Repeats(const ActionTable& table);

  // The ops alike to this one, itself included, ascending.
  std::span<const SchedOpId> alike(SchedOpId op) const { return classes_[class_of_[op]]; }
  bool any() const { return any_; }

 private:
  IdVector<SchedOpId, size_t> class_of_;
  std::vector<std::vector<SchedOpId>> classes_;
  bool any_ = false;
};

}  // namespace lowtide::remat

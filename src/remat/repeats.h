// Repeated structure: where else in the problem stands what stands here?
//
// Networks repeat blocks, so a way to recompute one is likely a good way to recompute its siblings.
// Ops are alike when they cost the same, make and read the same sizes, and their neighbours do, too
// (a hash refined by the hashes of producers and readers, Weisfeiler and Leman). From two ops that
// are alike a partial isomorphism grows along the values they read and make, as long as what is met
// on both sides is alike, and no op is on both sides. Nothing is assumed of names or of the order,
// and blocks need no borders: how far a block reaches is how far the growth goes.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "remat/action_table.h"

namespace lowtide::remat {

class Repeats {
 public:
  explicit Repeats(const ActionTable& table);

  // The ops alike to this one, itself included, ascending.
  std::span<const int> alike(int op) const {
    return classes_[static_cast<size_t>(class_of_[static_cast<size_t>(op)])];
  }
  bool any() const { return any_; }

 private:
  std::vector<int> class_of_;
  std::vector<std::vector<int>> classes_;
  bool any_ = false;
};

// Grows isomorphisms; keeps its scratch memory.
class SiblingMap {
 public:
  explicit SiblingMap(const ActionTable& table)
      : table_(&table),
        image_(static_cast<size_t>(table.ops()), -1),
        is_image_(static_cast<size_t>(table.ops()), 0) {}

  // From `from` to `to`, which must be alike and not the same; at most `most` ops.
  void grow(const Repeats& repeats, int from, int to, size_t most);

  std::span<const std::pair<int, int>> pairs() const { return pairs_; }
  // -1: not mapped.
  int image(int op) const { return image_[static_cast<size_t>(op)]; }

 private:
  void match(const Repeats& repeats, int from, int to);

  const ActionTable* table_;
  std::vector<int> image_;
  std::vector<char> is_image_;
  std::vector<std::pair<int, int>> pairs_;
};

}  // namespace lowtide::remat

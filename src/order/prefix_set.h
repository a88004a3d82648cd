// A hash table of executed sets: open addressing over bit sets that are stored whole, so that
// membership is never a guess.
//
// Tests: order_random_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lowtide::order {

class PrefixSet {
 public:
  // `words`: length of each bit set; `max_bytes`: memory of the stored sets and the table.
  PrefixSet(size_t words, int64_t max_bytes)
      : words_(words), max_bytes_(max_bytes), slots_(kFirstSlots, 0) {}

  // Whether the set is there.
  bool contains(std::span<const uint64_t> bits, uint64_t hash) const {
    return slots_[find(bits, hash)] != 0;
  }
  // Adds it; false if it was there already.
  bool insert(std::span<const uint64_t> bits, uint64_t hash) {
    size_t slot = find(bits, hash);
    if (slots_[slot] != 0) return false;
    if ((hashes_.size() + 1) * 2 > slots_.size()) {
      grow();
      slot = find(bits, hash);
    }
    bits_.insert(bits_.end(), bits.begin(), bits.end());
    hashes_.push_back(hash);
    slots_[slot] = static_cast<uint32_t>(hashes_.size());
    return true;
  }
  bool full() const {
    const size_t bytes = bits_.size() * 8 + hashes_.size() * 8 + slots_.size() * 4;
    return static_cast<int64_t>(bytes) > max_bytes_ || hashes_.size() > kMostSets;
  }

 private:
  static constexpr size_t kFirstSlots = 1024;
  static constexpr size_t kMostSets = size_t{1} << 30;

  size_t find(std::span<const uint64_t> bits, uint64_t hash) const {
    size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot] != 0) {
      const size_t at = slots_[slot] - 1;
      if (hashes_[at] == hash &&
          std::equal(bits.begin(), bits.end(),
                     bits_.begin() + static_cast<std::ptrdiff_t>(at * words_)))
        break;
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }
  void grow() {
    slots_.assign(slots_.size() * 2, 0);
    for (size_t i = 0; i < hashes_.size(); ++i) {
      size_t slot = hashes_[i] & (slots_.size() - 1);
      while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<uint32_t>(i + 1);
    }
  }

  size_t words_;
  int64_t max_bytes_;
  std::vector<uint32_t> slots_;  // index of a stored set plus one; 0 is empty
  std::vector<uint64_t> hashes_;
  std::vector<uint64_t> bits_;
};

}  // namespace lowtide::order

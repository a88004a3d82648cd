// What the decision search looks up at each step: who coexists with whom, who is alive in which
// section, what is in the way.
//
// Tests: pack_ideas_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pack/instance.h"

namespace lowtide::pack {

// Lists of lists in two arrays.
class Adjacency {
 public:
  // `counts[i]` is the length of list i; the lists are then filled by `push`.
  explicit Adjacency(const std::vector<int64_t>& counts);
  Adjacency() = default;
  void push(size_t list, int32_t value) { items_[static_cast<size_t>(fill_[list]++)] = value; }
  std::span<const int32_t> operator[](size_t list) const {
    return {items_.data() + starts_[list], static_cast<size_t>(starts_[list + 1] - starts_[list])};
  }

 private:
  std::vector<int64_t> starts_;
  std::vector<int64_t> fill_;
  std::vector<int32_t> items_;
};

struct Topology {
  std::vector<Item> items;          // as in the part
  std::vector<Obstacle> obstacles;  // by rising low
  Adjacency neighbours;             // items that coexist with an item
  Adjacency members;                // items alive in a section
  Adjacency in_the_way;             // obstacles that coexist with an item, by rising low
  Adjacency section_obstacles;      // obstacles of a section
  int32_t sections = 0;

  // The lowest aligned offset from `offset` on at which the item meets no obstacle.
  int64_t lift(int32_t i, int64_t offset) const;
  // Bytes of obstacles of a section above `floor`.
  int64_t taken_above(int32_t section, int64_t floor) const;
};

Topology make_topology(const Part& part);

// Items ordered by `letters` (see PackOptions::static_orders), each descending; unknown letters are
// passed over.
std::vector<int32_t> static_order(const Part& part, const std::string& letters);

// Entries that the tables of `part` would take.
int64_t topology_entries(const Part& part);

}  // namespace lowtide::pack

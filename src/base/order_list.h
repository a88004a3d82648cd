// Order maintenance: a linked list of numbered items that also answers which of two comes first.
//
// Each item carries a label, and labels grow along the list. A new item gets the label halfway
// between its neighbours'. Where there is no room, the smallest aligned range of labels around the
// place that is sparse enough is spread evenly (Bender, Cole, Demaine, Farach-Colton and Zito 2002,
// "Two simplified algorithms for maintaining order in a list", section 2): O(log n) amortized for
// an insertion, O(1) for everything else. Labels are not part of the order: two lists are the same
// when they hold the same items in the same order, whatever was inserted and erased before.
//
// Items are numbers chosen by the caller, from 0; those that are not in the list cost memory, too.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"

namespace lowtide {

class OrderList {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  OrderList() : nodes_(1) { nodes_[0] = {.previous = 0, .next = 0, .label = 0, .in = true}; }

  bool contains(uint32_t item) const {
    return item + 1 < nodes_.size() && item != kNone && nodes_[item + 1].in;
  }
  // The neighbours; kNone behind either end.
  uint32_t first() const { return item_of(nodes_[0].next); }
  uint32_t last() const { return item_of(nodes_[0].previous); }
  uint32_t next(uint32_t item) const { return item_of(node(item).next); }
  uint32_t previous(uint32_t item) const { return item_of(node(item).previous); }
  // True when a stands before b.
  bool before(uint32_t a, uint32_t b) const { return node(a).label < node(b).label; }

  // `at` kNone: at the front.
  void insert_after(uint32_t item, uint32_t at) {
    LT_CHECK(!contains(item), "the item is in the list already");
    if (item + 1 >= nodes_.size()) nodes_.resize(item + 2);
    const uint32_t left = at == kNone ? 0 : at + 1;
    LT_CHECK(nodes_[left].in, "the neighbour is not in the list");
    while (room_after(left) < 2) spread(left);
    const uint32_t right = nodes_[left].next;
    nodes_[item + 1] = {.previous = left,
                        .next = right,
                        .label = nodes_[left].label + room_after(left) / 2,
                        .in = true};
    nodes_[left].next = item + 1;
    nodes_[right].previous = item + 1;
  }
  void push_back(uint32_t item) { insert_after(item, last()); }
  void erase(uint32_t item) {
    LT_CHECK(contains(item), "the item is not in the list");
    Node& gone = nodes_[item + 1];
    nodes_[gone.previous].next = gone.next;
    nodes_[gone.next].previous = gone.previous;
    gone.in = false;
  }

 private:
  static constexpr int kLabelBits = 62;
  static constexpr uint64_t kEnd = uint64_t{1} << kLabelBits;

  // Node 0 stands before the first item and behind the last one; node i + 1 is item i.
  struct Node {
    uint32_t previous = 0, next = 0;
    uint64_t label = 0;
    bool in = false;
  };

  static uint32_t item_of(uint32_t node) { return node == 0 ? kNone : node - 1; }
  const Node& node(uint32_t item) const {
    LT_DCHECK(contains(item), "the item is not in the list");
    return nodes_[item + 1];
  }
  uint64_t room_after(uint32_t left) const {
    const uint32_t right = nodes_[left].next;
    return (right == 0 ? kEnd : nodes_[right].label) - nodes_[left].label;
  }

  // Gives the labels of the smallest sparse range around a node anew. A range of 2^i labels is
  // sparse when it holds at most (4/3)^i nodes; all labels together are, below 10^7 items.
  void spread(uint32_t around) {
    const uint64_t label = nodes_[around].label;
    uint32_t begin = around;
    uint64_t count = 1;
    uint32_t end = nodes_[around].next;  // exclusive; 0: the end of the list
    double most = 1;
    for (int bits = 1; bits <= kLabelBits; ++bits) {
      most *= 4.0 / 3.0;
      const uint64_t size = uint64_t{1} << bits;
      const uint64_t low = label & ~(size - 1);
      for (; begin != 0 && nodes_[nodes_[begin].previous].label >= low; ++count)
        begin = nodes_[begin].previous;
      for (; end != 0 && nodes_[end].label < low + size; ++count) end = nodes_[end].next;
      if (static_cast<double>(count) > most || size / count < 4) continue;
      const uint64_t distance = size / count;
      uint32_t at = begin;
      for (uint64_t i = 0; i < count; ++i, at = nodes_[at].next)
        nodes_[at].label = low + i * distance;
      return;
    }
    LT_CHECK(false, "an order list is full");
  }

  std::vector<Node> nodes_;
};

}  // namespace lowtide

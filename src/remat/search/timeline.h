// Timeline: a packed-memory array (Bender, Demaine and Farach-Colton 2000) of the nodes of a
// sequence in their order, with the bytes present at each, under insertion, removal and "add to all
// from here to there".
//
// The array has free slots. Slots stand in buckets of kBucket; the nodes of a bucket are in its
// first slots, the rest is free. A node's slot number is its place in time, so two nodes are
// compared by one integer. Insertion shifts within the bucket; when that is full, the smallest
// aligned window of buckets that is empty enough is spread out anew.
//
// Bytes are kept by bucket, too: what was added to all of it, least and largest, and how much of it
// lies above the capacity. Adding to a whole bucket costs a constant where it stays wholly below or
// wholly above the capacity, and one pass over kBucket doubles, in vector code, where not. That
// makes the energy of the retention search (overflow summed over time) exact and cheap: an edit
// that spans thousands of runs costs little more than one that spans a hundred.
//
// Nothing of that is done before somebody asks for the overflow. A bucket of which a part changes
// is stale until then: the run of an op adds to its own bucket several times, and one pass does for
// all of them. What is added to many whole buckets waits as a difference at the first and behind
// the last: one walk adds all that waits, and what was undone meanwhile is nothing by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/id.h"

namespace lowtide::remat {

// A run in a sequence, wherever it stands there.
struct NodeTag;
using NodeId = Id<NodeTag>;
// A place of the array. Of two nodes the one in the lower slot is earlier.
struct SlotTag;
using SlotId = Id<SlotTag>;

class Timeline {
 public:
  static constexpr int kBucket = 32;

  // Holds up to `nodes` nodes before it grows. `capacity` may be infinite.
  Timeline(int nodes, double capacity);

  // Appends at the end.
  void append(NodeId node);
  // Puts `node` right after `previous`, with no bytes.
  void insert_after(NodeId previous, NodeId node) {
    const auto place = static_cast<size_t>(open_after(previous, node));
    bytes_[place] = -added_to(place_of(node) / kBucket);
  }
  // With its bytes and more: as if they were added.
  void insert_beside(NodeId previous, NodeId node, double more) {
    const auto place = static_cast<size_t>(open_after(previous, node));
    const int bucket = place_of(node) / kBucket;
    bytes_[place] = bytes_[place - 1] + more;
    if (bytes_[place] + added_to(bucket) != 0) note_change(bucket);
  }
  void remove(NodeId node);

  // None: it does not stand in the sequence.
  SlotId slot(NodeId node) const { return slot_[node]; }
  bool before(NodeId a, NodeId b) const { return slot(a) < slot(b); }
  // Neighbours in time; none beyond the ends.
  NodeId next(NodeId node) const;
  NodeId previous(NodeId node) const;
  NodeId first() const;
  NodeId last() const;
  int size() const { return size_; }
  size_t slots() const { return node_.size(); }
  // The first node at `slot` or later, or none.
  NodeId node_from(SlotId slot) const { return node_from(static_cast<int>(slot.index())); }

  double bytes(NodeId node) const {
    const size_t s = slot(node).index();
    return bytes_[s] + added_to(static_cast<int>(s / kBucket));
  }
  // Adds to one node; to all after a node up to another; to all between two.
  void add_at(NodeId node, double bytes) {
    const int place = place_of(node), bucket = place / kBucket;
    if (bytes == 0) return;
    if (nodes_[static_cast<size_t>(bucket)] == 1) return add(place, place, bytes);
    bytes_[static_cast<size_t>(place)] += bytes;
    note_change(bucket);
  }
  void add_after(NodeId from, NodeId to, double bytes) {
    add(place_of(from) + 1, place_of(to), bytes);
  }
  void add_between(NodeId from, NodeId to, double bytes) {
    add(place_of(from) + 1, place_of(to) - 1, bytes);
  }
  // Sum over nodes of what lies above the capacity.
  double overflow() const {
    refresh();
    return overflow_;
  }
  double capacity() const { return capacity_; }
  double peak() const;
  NodeId fullest() const;  // the first of those with the most bytes; none of none
  // A node above the capacity, the first at or after `slot`, cyclically; none if there is none.
  NodeId overflowing_from(SlotId slot) const;
  // Slots looked at so far: the work done. A change of a part of a bucket counts as a pass over it,
  // whether or not others share that pass.
  int64_t work() const { return work_; }

 private:
  struct Summary {
    double added = 0;    // to all slots of the bucket, besides bytes_ and what waits
    double largest = 0;  // with `added`; -infinity when empty
    double least = 0;
    double overflow = 0;    // of the bucket
    bool is_stale = false;  // least, largest and overflow are of before: see stale_
  };
  // Within, slots and buckets are counted with: a slot's number is its bucket's, times kBucket, and
  // its place there.
  int place_of(NodeId node) const { return static_cast<int>(slot_[node].index()); }
  NodeId node_from(int first) const;
  // A slot behind that of `previous`; what bytes are there is left to the caller.
  int open_after(NodeId previous, NodeId node);
  // To all in slots first..last, both included; nothing where first > last.
  void add(int first, int last, double bytes);
  void add_to_part(int bucket, int from, int to, double bytes);
  void reset(int buckets);
  void make_known(NodeId node);
  double added_to(int bucket) const {
    const double added = summary_[static_cast<size_t>(bucket)].added;
    return bucket < first_waiting_ || bucket > last_waiting_ ? added : added + waiting_for(bucket);
  }
  double waiting_for(int bucket) const;
  void add_between_buckets(int first, int last, double bytes);
  void add_what_waits() const;
  double add_to_summary(int bucket, double bytes) const;
  void note_change(int bucket) {
    work_ += kBucket / 4;
    mark_stale(bucket);
  }
  void mark_stale(int bucket) {
    Summary& s = summary_[static_cast<size_t>(bucket)];
    if (s.is_stale) return;
    s.is_stale = true;
    stale_.push_back(bucket);
  }
  void refresh() const {
    if (!stale_.empty() || first_waiting_ <= last_waiting_) bring_up_to_date();
  }
  void bring_up_to_date() const;
  void summarize(int bucket) const;
  void make_room(int bucket);
  void spread(int first_bucket, int buckets);
  double overflow_of(int bucket) const;

  double capacity_;
  int buckets_ = 0;
  int size_ = 0;
  mutable double overflow_ = 0;  // of all buckets, as their summaries say
  int64_t work_ = 0;
  IdVector<NodeId, SlotId> slot_;
  std::vector<NodeId> node_;    // by slot
  std::vector<double> bytes_;   // by slot; free slots are far below any capacity
  std::vector<int32_t> nodes_;  // of each bucket
  mutable std::vector<Summary> summary_;
  mutable std::vector<int> stale_;  // buckets
  // What waits to be added to each bucket, beyond the one before it: between two, both included.
  mutable std::vector<double> waiting_;
  mutable int first_waiting_ = std::numeric_limits<int>::max(), last_waiting_ = -1;
  std::vector<NodeId> moved_nodes_;  // of spread
  std::vector<double> moved_bytes_;
};

}  // namespace lowtide::remat

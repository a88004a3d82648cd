// A section is a machine that does one thing at a time, a buffer an operation that needs several
// machines at once, offsets are times and the capacity is the deadline of all. So rules of
// disjunctive scheduling apply, and so does what works best there: branch where it is tightest,
// learn from failures where that is, and start over.
//
// If there is a packing, there is one in which no single buffer can be moved to a lower offset.
// There a buffer that does not lie at its lowest legal offset is kept from it by another one, which
// lies below it and reaches into its place. An unplaced buffer is ready if no unplaced neighbour
// (one that coexists with it) fits below it: lowest offset + size of each is above its own lowest
// offset. A node takes one buffer that is ready and tries two things:
//
//   place      it lies at its lowest offset; what is unplaced beside it comes above it
//   postpone   it does not: its lowest offset rises to the least end that a neighbour can have
//              which begins below the buffer's end. If there is none, it had to be placed.
//
// A buffer whose lowest offset is not the end of a placed one (its support) can only be postponed.
// Some buffer is always ready (the one of the least end is), and any of them will do: so, unlike in
// the decision search, where offsets rise along a branch, the search can stay where it is tightest.
//
// Inference, in a section with `total` unplaced bytes:
//
//   first       those whose lowest offset + total <= capacity can be its lowest unplaced buffer; if
//               there are none, the node fails
//   not first   all others lie above one of these: no lower than the least end among them
//   twins       of buffers with the same life, size and alignment one lies below the next one
//
// Tightest: the section with the least (number that can be first)^3 / weight, where each failure in
// a section adds to its weight, a late one a little more than an early one (weighted degrees:
// Boussemart, Hemery, Lecoutre and Sais 2004). There the lowest one, then the one that comes first
// in the static order, is to be placed; if it is not ready, the one of the least end below it.
// After some failures, as many as Luby's sequence says, the search starts over with the weights it
// has learnt.
//
// Decomposition and memo are as in the decision search. What can be done below a node depends only
// on its unplaced buffers, their lowest offsets and supports, so that the memo outlives a restart.
//
// Cost of a node: O(unplaced + sections of the component + neighbours), plus the members of those
// sections in which something could be first and was raised. Tested against brute force in
// tightest_test.cc.
#include "pack/tightest.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "pack/luby.h"
#include "pack/state_hash.h"
#include "pack/stop_signal.h"

namespace lowtide::pack {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct TightestTuning {
  size_t most_refuted_slots = size_t{1} << 16;  // 1 MiB
  size_t refuted_slots_per_item = 256;
  int64_t least_failures = 100;    // before the first restart
  double fading = 1 + 1.0 / 2000;  // what a failure weighs more than the one before
};
constexpr TightestTuning kTightest;

// The lowest offset of a placed buffer: above all others.
constexpr int64_t kGone = std::numeric_limits<int64_t>::max();
constexpr int64_t kStepsInUnit = 5;   // as in the decision search
constexpr int64_t kStepsInNode = 64;  // beside those that grow with the node
constexpr int32_t kNone = -1;
constexpr double kMostWeight = 1e100;

struct Sections {
  int32_t begin;
  int32_t end;
};

// What is to be taken back.
struct Undo {
  enum Kind : int8_t { kRaised, kPutDown, kFirsts } kind;
  int32_t index;   // of an item; kFirsts: of a section
  int64_t lowest;  // kFirsts: their number
  int64_t support;
};

// A component: sections and the unplaced items in them.
struct Node {
  Sections span;
  size_t unplaced_begin = 0, unplaced_end = 0;  // in unplaced_
  size_t child_begin = 0, child_end = 0;        // in children_
  size_t child = 0;                             // being searched
  size_t trail = 0;                             // before the placement
  int32_t placed = kNone;
  Key key;
};

class TightestSearch final : public Decider {
 public:
  TightestSearch(const Topology& topology, const PackOptions& options)
      : topology_(topology), options_(options), salts_(draw_salts(topology.items.size())) {
    for (const Item& item : topology_.items) {
      size_.push_back(item.size);
      life_.push_back({item.begin, item.end});
    }
    find_twins();
  }
  void reset(int64_t capacity, std::span<const int32_t> static_order) override;
  Verdict run(int64_t units, const StopSignal* stop) override;
  int64_t units() const override { return steps_ / kStepsInUnit; }
  const std::vector<int64_t>& offsets() const override { return offset_; }

 private:
  enum class Step { kDescend, kSuccess, kFail };

  size_t items() const { return topology_.items.size(); }
  size_t refuted_slots() const {
    return std::min(kTightest.most_refuted_slots,
                    std::bit_ceil(kTightest.refuted_slots_per_item * items() + 1));
  }
  const Item& item(int32_t i) const { return topology_.items[static_cast<size_t>(i)]; }
  Sections life(int32_t i) const { return life_[static_cast<size_t>(i)]; }
  std::span<const int32_t> neighbours(int32_t i) const {
    return topology_.neighbours[static_cast<size_t>(i)];
  }
  int64_t lowest(int32_t i) const { return lowest_[static_cast<size_t>(i)]; }
  int64_t least_end(int32_t i) const { return lowest(i) + size_[static_cast<size_t>(i)]; }
  bool unplaced(int32_t i) const { return lowest(i) != kGone; }
  bool can_be_first(int32_t i, int32_t section) const { return fits(section, lowest(i)); }

  void find_twins();
  void add_to_sections(int32_t i, int sign);
  bool first_inference();
  bool fits(int32_t section, int64_t floor) const;
  void mark(int32_t section);
  bool raise(int32_t i, int64_t offset);
  bool fail_in(int32_t section);
  bool infer(int32_t section);
  bool infer_all(bool fine);
  bool support(int32_t i, int64_t offset);
  bool place(int32_t i);
  bool postpone(int32_t i);
  void undo_to(size_t mark);
  int32_t tightest(Sections span);
  int32_t choose(Sections span);
  int32_t ready_below(int32_t i);
  void split(Node& node);
  void open(Sections span, const Node& parent);
  void close(bool refuted);
  bool place_next(Node& node);
  Step advance(bool returned, bool succeeded);
  void start_over();

  const Topology& topology_;
  PackOptions options_;
  std::vector<Key> salts_;
  std::vector<int64_t> size_;  // per item
  std::vector<Sections> life_;
  std::vector<int32_t> next_twin_;  // per item, or kNone
  std::vector<int32_t> order_;      // the static order
  std::vector<int32_t> rank_;       // in it, per item
  int64_t capacity_ = 0;

  std::vector<int64_t> lowest_;    // per item: the lowest offset it can have; kGone if placed
  std::vector<int64_t> support_;   // per item: the lowest offset above all that is placed beside it
  std::vector<int64_t> offset_;    // per item: where it was placed
  std::vector<int64_t> total_;     // per section: unplaced bytes
  std::vector<int32_t> firsts_;    // per section: how many can be first
  std::vector<int32_t> crossing_;  // per boundary before a section: unplaced items on both sides
  std::vector<double> weight_;     // per section
  double failure_weight_ = 1;
  std::vector<Undo> trail_;
  std::vector<int32_t> dirty_;  // sections to be inferred
  std::vector<char> is_dirty_;

  std::vector<Node> nodes_;
  std::vector<int32_t> unplaced_;
  std::vector<Sections> children_;
  std::vector<Key> refuted_;  // made by reset: most searches of a portfolio never begin

  Verdict verdict_ = Verdict::kOpen;
  bool returned_ = false;   // the top node has just got an answer from its child
  bool succeeded_ = false;  // that answer
  int64_t failures_ = 0;    // since it started over
  int64_t starts_ = 0;
  int64_t steps_ = 0;
  int64_t reset_steps_ = 0;  // not yet counted in a run
};

void TightestSearch::find_twins() {
  next_twin_.assign(items(), kNone);
  if (!options_.twins) return;
  std::vector<int32_t> sorted;
  for (size_t i = 0; i < items(); ++i) sorted.push_back(static_cast<int32_t>(i));
  const auto kind = [this](int32_t i) {
    return std::tuple(item(i).begin, item(i).end, item(i).size, item(i).alignment);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int32_t a, int32_t b) { return kind(a) < kind(b); });
  for (size_t k = 0; k + 1 < sorted.size(); ++k)
    if (kind(sorted[k]) == kind(sorted[k + 1]))
      next_twin_[static_cast<size_t>(sorted[k])] = sorted[k + 1];
}

void TightestSearch::add_to_sections(int32_t i, int sign) {
  const auto [begin, end] = life(i);
  for (int32_t s = begin; s < end; ++s) {
    total_[static_cast<size_t>(s)] += sign * item(i).size;
    if (s > begin) crossing_[static_cast<size_t>(s)] += sign;
  }
  steps_ += end - begin;
}

// Whether the unplaced bytes of a section fit below the capacity if they begin at `floor`.
bool TightestSearch::fits(int32_t section, int64_t floor) const {
  int64_t need = floor + total_[static_cast<size_t>(section)];
  if (!topology_.obstacles.empty()) need += topology_.taken_above(section, floor);
  return need <= capacity_;
}

void TightestSearch::mark(int32_t section) {
  if (is_dirty_[static_cast<size_t>(section)] != 0) return;
  is_dirty_[static_cast<size_t>(section)] = 1;
  dirty_.push_back(section);
}

// The item lies at `offset` or above, and its next twin above it; false if one of them cannot.
bool TightestSearch::raise(int32_t i, int64_t offset) {
  for (; i != kNone && unplaced(i) && lowest(i) < offset; i = next_twin_[static_cast<size_t>(i)]) {
    const size_t k = static_cast<size_t>(i);
    const int64_t before = lowest_[k];
    trail_.push_back({Undo::kRaised, i, before, support_[k]});
    lowest_[k] = topology_.lift(i, offset);
    const auto [begin, end] = life(i);
    steps_ += 4 + end - begin;
    if (least_end(i) > capacity_) return false;
    for (int32_t s = begin; s < end; ++s)
      if (fits(s, before)) mark(s);  // it could be first there
    offset = least_end(i);
  }
  return true;
}

bool TightestSearch::fail_in(int32_t section) {
  ++failures_;
  weight_[static_cast<size_t>(section)] += failure_weight_;
  failure_weight_ *= kTightest.fading;
  if (failure_weight_ > kMostWeight) {
    for (double& weight : weight_) weight /= kMostWeight;
    failure_weight_ /= kMostWeight;
  }
  return false;
}

// The rules of one section.
bool TightestSearch::infer(int32_t section) {
  const size_t s = static_cast<size_t>(section);
  if (total_[s] == 0) return true;
  const std::span<const int32_t> members = topology_.members[s];
  steps_ += static_cast<int64_t>(members.size());
  int32_t firsts = 0, others = 0;
  int64_t end = kGone;
  for (int32_t i : members) {
    if (!unplaced(i)) continue;
    if (can_be_first(i, section)) {
      ++firsts;
      end = std::min(end, least_end(i));
    } else {
      ++others;
    }
  }
  if (firsts == 0) return fail_in(section);
  if (firsts != firsts_[s]) {
    trail_.push_back({Undo::kFirsts, section, firsts_[s], 0});
    firsts_[s] = firsts;
  }
  if (others == 0 || !options_.not_first) return true;
  for (int32_t i : members)
    if (lowest(i) < end && !can_be_first(i, section) && !raise(i, end)) return fail_in(section);
  return true;
}

// Infers what is marked, until nothing is; `fine`: so far.
bool TightestSearch::infer_all(bool fine) {
  for (size_t k = 0; k < dirty_.size(); ++k) {
    is_dirty_[static_cast<size_t>(dirty_[k])] = 0;
    fine = fine && infer(dirty_[k]);
  }
  dirty_.clear();
  return fine;
}

// The item lies above something that was placed.
bool TightestSearch::support(int32_t i, int64_t offset) {
  const size_t k = static_cast<size_t>(i);
  if (support_[k] >= offset) return true;
  const int64_t lifted = topology_.lift(i, offset);
  trail_.push_back({Undo::kRaised, i, lowest_[k], support_[k]});
  support_[k] = lifted;
  return raise(i, lifted);
}

// Places the item at its lowest offset; false if that leaves no completion. To be undone in both
// cases.
bool TightestSearch::place(int32_t i) {
  const size_t k = static_cast<size_t>(i);
  const int64_t end = least_end(i);
  trail_.push_back({Undo::kPutDown, i, lowest_[k], support_[k]});
  offset_[k] = lowest_[k];
  lowest_[k] = kGone;
  add_to_sections(i, -1);
  for (int32_t s = life(i).begin; s < life(i).end; ++s) mark(s);
  steps_ += static_cast<int64_t>(neighbours(i).size());
  bool fine = true;
  for (int32_t other : neighbours(i)) {
    if (!unplaced(other)) continue;
    fine = support(other, end);
    if (fine) continue;
    fail_in(std::max(life(i).begin, life(other).begin));
    break;
  }
  return infer_all(fine);
}

// The ready item does not lie at its lowest offset; false if it has to.
bool TightestSearch::postpone(int32_t i) {
  int64_t end = kGone;
  steps_ += static_cast<int64_t>(neighbours(i).size());
  for (int32_t other : neighbours(i))
    if (lowest(other) < least_end(i)) end = std::min(end, least_end(other));
  if (end == kGone) return fail_in(tightest(life(i)));
  const bool fine = raise(i, end);
  return infer_all(fine);
}

void TightestSearch::undo_to(size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Undo& undo = trail_.back();
    const size_t k = static_cast<size_t>(undo.index);
    if (undo.kind == Undo::kFirsts) {
      firsts_[k] = static_cast<int32_t>(undo.lowest);
      continue;
    }
    lowest_[k] = undo.lowest;
    support_[k] = undo.support;
    if (undo.kind == Undo::kPutDown) add_to_sections(undo.index, 1);
  }
}

int32_t TightestSearch::tightest(Sections span) {
  int32_t best = kNone;
  double least = 0;
  steps_ += 2 * (span.end - span.begin);
  for (int32_t section = span.begin; section < span.end; ++section) {
    const size_t s = static_cast<size_t>(section);
    if (total_[s] == 0) continue;
    const double firsts = firsts_[s];
    const double weight = options_.section_weights ? weight_[s] : 1;
    const double score = firsts * firsts * firsts / weight;
    if (best != kNone && score >= least) continue;
    best = section;
    least = score;
  }
  return best;
}

// The ready item that is to be placed or postponed next.
int32_t TightestSearch::choose(Sections span) {
  const int32_t section = tightest(span);
  const std::span<const int32_t> members = topology_.members[static_cast<size_t>(section)];
  steps_ += static_cast<int64_t>(members.size());
  const auto key = [this](int32_t i) {
    return std::pair(lowest(i), rank_[static_cast<size_t>(i)]);  // a placed one comes last
  };
  return ready_below(*std::min_element(members.begin(), members.end(),
                                       [&](int32_t a, int32_t b) { return key(a) < key(b); }));
}

// The item, or if it is not ready the neighbour of the least end that fits below it, and so on.
int32_t TightestSearch::ready_below(int32_t i) {
  for (;;) {
    int32_t below = kNone;
    int64_t end = lowest(i);
    steps_ += static_cast<int64_t>(neighbours(i).size());
    for (int32_t other : neighbours(i)) {
      if (!unplaced(other) || least_end(other) > end) continue;
      if (least_end(other) == end && below != kNone) continue;
      below = other;
      end = least_end(other);
    }
    if (below == kNone) return i;
    i = below;
  }
}

// The components that are left of the node's one.
void TightestSearch::split(Node& node) {
  node.child_begin = node.child = children_.size();
  const auto add = [&](int32_t begin, int32_t end) {
    const auto left = [](int64_t total) { return total > 0; };
    if (std::any_of(total_.begin() + begin, total_.begin() + end, left))
      children_.push_back({begin, end});
  };
  int32_t begin = node.span.begin;
  const Sections placed = life(node.placed);
  for (int32_t s = placed.begin + 1; options_.decomposition && s < placed.end; ++s)
    if (crossing_[static_cast<size_t>(s)] == 0) {
      add(begin, s);
      begin = s;
    }
  add(begin, node.span.end);
  node.child_end = children_.size();
}

// Puts the node of a component on the stack, below `parent` (a copy: the stack moves).
void TightestSearch::open(Sections span, const Node& parent) {
  Node node;
  node.span = span;
  node.unplaced_begin = unplaced_.size();
  for (size_t k = parent.unplaced_begin; k < parent.unplaced_end; ++k) {
    const int32_t i = unplaced_[k];
    if (!unplaced(i) || life(i).end <= span.begin || span.end <= life(i).begin) continue;
    unplaced_.push_back(i);
    const size_t at = static_cast<size_t>(i);
    const uint64_t state =
        mix(static_cast<uint64_t>(lowest_[at]), static_cast<uint64_t>(support_[at]));
    node.key.a += mix(salts_[at].a, state);
    node.key.b += mix(salts_[at].b, state);
  }
  node.unplaced_end = unplaced_.size();
  steps_ += 3 * static_cast<int64_t>(parent.unplaced_end - parent.unplaced_begin);
  node.child_begin = node.child_end = node.child = children_.size();
  node.trail = trail_.size();
  nodes_.push_back(node);
}

// Takes the top node off; its parent goes on with the answer.
void TightestSearch::close(bool refuted) {
  const Node& node = nodes_.back();
  if (refuted && options_.memo) refuted_[node.key.a & (refuted_.size() - 1)] = node.key;
  unplaced_.resize(node.unplaced_begin);
  children_.resize(std::min(children_.size(), node.child_begin));
  nodes_.pop_back();
  returned_ = true;
  succeeded_ = !refuted;
}

// Places an item; false if all that can be were refuted.
bool TightestSearch::place_next(Node& node) {
  for (;;) {
    const int32_t i = choose(node.span);
    if (lowest(i) == support_[static_cast<size_t>(i)]) {
      node.trail = trail_.size();
      node.placed = i;
      if (place(i)) return true;
      undo_to(node.trail);
      steps_ += kStepsInNode;
    }
    if (!postpone(i)) return false;
  }
}

// One step of the top node: its next component, its next placement, or its end.
TightestSearch::Step TightestSearch::advance(bool returned, bool succeeded) {
  Node& node = nodes_.back();
  if (returned && succeeded) {
    ++node.child;
  } else {
    if (returned) {
      undo_to(node.trail);
      children_.resize(node.child_begin);
      if (!postpone(node.placed)) return Step::kFail;
    } else if (options_.memo && refuted_[node.key.a & (refuted_.size() - 1)] == node.key) {
      return Step::kFail;
    }
    if (!place_next(node)) return Step::kFail;
    split(node);
  }
  return node.child == node.child_end ? Step::kSuccess : Step::kDescend;
}

void TightestSearch::start_over() {
  undo_to(0);
  nodes_.clear();
  unplaced_.clear();
  children_.clear();
  returned_ = false;
  Node root;
  unplaced_ = order_;
  root.unplaced_end = unplaced_.size();
  open({0, topology_.sections}, root);
  failures_ = 0;
  ++starts_;
}

// What holds before anything is placed.
bool TightestSearch::first_inference() {
  for (const Obstacle& o : topology_.obstacles)
    if (o.high > capacity_) return false;
  for (int32_t i : order_) {
    const size_t k = static_cast<size_t>(i);
    lowest_[k] = support_[k] = topology_.lift(i, 0);
    if (least_end(i) > capacity_) return false;
  }
  for (int32_t s = 0; s < topology_.sections; ++s) mark(s);
  bool fine = true;
  for (int32_t i : order_)
    if (next_twin_[static_cast<size_t>(i)] != kNone)
      fine = fine && raise(next_twin_[static_cast<size_t>(i)], least_end(i));
  return infer_all(fine);
}

void TightestSearch::reset(int64_t capacity, std::span<const int32_t> static_order) {
  LT_CHECK(static_order.size() == items(), "a static order ranks every item");
  const size_t sections = static_cast<size_t>(topology_.sections);
  capacity_ = capacity;
  order_.assign(static_order.begin(), static_order.end());
  rank_.resize(items());
  for (size_t r = 0; r < items(); ++r)
    rank_[static_cast<size_t>(order_[r])] = static_cast<int32_t>(r);
  trail_.clear();
  dirty_.clear();
  if (options_.memo) refuted_.assign(refuted_slots(), Key());
  lowest_.assign(items(), 0);
  support_.assign(items(), 0);
  offset_.assign(items(), 0);
  total_.assign(sections, 0);
  firsts_.assign(sections, 0);
  crossing_.assign(sections + 1, 0);
  weight_.assign(sections, 1);
  failure_weight_ = 1;
  is_dirty_.assign(sections, 0);
  starts_ = 0;
  steps_ = static_cast<int64_t>(items());
  for (int32_t i : order_) add_to_sections(i, 1);
  verdict_ = items() == 0 ? Verdict::kFits : Verdict::kOpen;
  if (!first_inference()) verdict_ = Verdict::kRefuted;
  trail_.clear();
  if (verdict_ == Verdict::kOpen) start_over();
  reset_steps_ = steps_;
}

Verdict TightestSearch::run(int64_t units, const StopSignal* stop) {
  const int64_t limit = units > std::numeric_limits<int64_t>::max() / kStepsInUnit
                            ? std::numeric_limits<int64_t>::max()
                            : units * kStepsInUnit;
  steps_ = std::exchange(reset_steps_, 0);
  for (int64_t count = 1; verdict_ == Verdict::kOpen; ++count) {
    if (steps_ >= limit) return Verdict::kOpen;
    if ((count & 255) == 0 && stop != nullptr && stop->set()) return Verdict::kOpen;
    if (options_.restarts && failures_ >= kTightest.least_failures * luby(starts_)) start_over();
    const Step step = advance(std::exchange(returned_, false), succeeded_);
    if (step == Step::kDescend) {
      const Node parent = nodes_.back();
      open(children_[parent.child], parent);
      continue;
    }
    close(step == Step::kFail);
    if (nodes_.empty()) verdict_ = step == Step::kFail ? Verdict::kRefuted : Verdict::kFits;
  }
  return verdict_;
}

}  // namespace

std::unique_ptr<Decider> make_tightest_search(const Topology& topology,
                                              const PackOptions& options) {
  return std::make_unique<TightestSearch>(topology, options);
}

}  // namespace lowtide::pack

// The decision search: minimalloc's backtracking, with incremental state and two more inference
// rules.
//
// A node places one buffer at the lowest legal offset it has there. That loses nothing: in a
// packing in which no single buffer can be lowered, taken in the order of its offsets, each buffer
// lies at the lowest offset that is legal given those before it (one more step down would meet only
// buffers that lie lower). So only such sequences are searched:
//
//   canonical     offsets never fall; at equal offsets ranks rise (equal offsets never coexist, so
//                 any order will do)
//   dominance     a buffer is not placed at or above h = min over unplaced of (lowest offset +
//                 size), since the buffer that attains h could then be lowered into the hole
//   obstacles     fixed buffers stand in the way: the lowest legal offset hops over them
//
// Inference, in each section (a maximal set of coexisting buffers), with `total` its unplaced
// bytes:
//
//   floor + total <= capacity   floor = the least lowest offset of its unplaced buffers, or the
//                               last offset if higher
//   r + sum <= capacity         release bound: for each r, sum = the sizes of the unplaced buffers
//                               whose lowest offset is at least r
//
// Decomposition: when no unplaced buffer crosses a boundary between two sections, both sides are
// searched on their own, and if one has no packing the other is not tried again. Memo: what can be
// done below a node depends on its unplaced buffers, their lowest offsets and the last placement
// only; refuted ones are remembered under a 128-bit hash.
//
// A frame is one component (a range of sections and its unplaced buffers). Frames are kept on an
// explicit stack, so the search stops and resumes anywhere. State is undone from a trail. Cost of a
// node: O(unplaced + sections of the component + neighbours), plus the members of those sections
// whose floor moved.
#include "pack/search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"
#include "pack/state_hash.h"
#include "pack/stop_signal.h"
#include "pack/topology.h"

namespace lowtide::pack {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct DecisionTuning {
  // Of the topology of a part, for the memory that they take (160 MB); larger ones are not
  // searched.
  int64_t most_entries = 40'000'000;
  size_t most_memo_slots = size_t{1} << 18;  // 4 MiB
  size_t memo_slots_per_item = 64;
};
constexpr DecisionTuning kDecision;

// The lowest offset of a placed buffer: above all others.
constexpr int64_t kPlaced = std::numeric_limits<int64_t>::max();
constexpr int64_t kStepsPerUnit = 5;  // elementary steps in a unit; a usual node takes 500 to 1,000
constexpr int64_t kStepsOfNode = 128;  // beside those that grow with the node
constexpr int32_t kNobody = -1;

struct Change {  // of lowest_[item]
  int32_t item;
  bool placed;  // or raised
  int64_t before;
};

struct Span {  // a component to be searched: a range of sections
  int32_t begin;
  int32_t end;
};

struct Frame {
  Span span;
  size_t unplaced_begin = 0, unplaced_end = 0;    // in unplaced_
  size_t candidate_begin = 0, candidate_end = 0;  // in candidates_
  size_t next = 0;                                // candidate
  size_t child_begin = 0, child_end = 0;          // in children_
  size_t child = 0;                               // being searched
  size_t trail = 0;
  int64_t last_offset = 0;
  int32_t last_rank = kNobody;  // of the item at last_offset
  int32_t placed = kNobody;
  Key key;
};

class DecisionSearch final : public Decider {
 public:
  DecisionSearch(const Topology& topology, const PackOptions& options)
      : topology_(topology), options_(options) {
    if (!options_.canonical) options_.memo = options_.monotonic_floor = false;
    if (!options_.sections) options_.section_inference = options_.decomposition = false;
    hashes_.resize(items());
    for (size_t i = 0; i < topology_.items.size(); ++i) {
      size_.push_back(topology_.items[i].size);
      life_sum_ += topology_.items[i].end - topology_.items[i].begin;
      life_.push_back({topology_.items[i].begin, topology_.items[i].end});
    }
  }

  void reset(int64_t capacity, std::span<const int32_t> static_order) override;
  Verdict run(int64_t units, const StopSignal* stop) override;
  int64_t units() const override { return steps_ / kStepsPerUnit; }
  const std::vector<int64_t>& offsets() const override { return offset_; }

 private:
  enum class Step { kDescend, kSuccess, kFail };

  size_t items() const { return topology_.items.size(); }
  size_t memo_slots() const {
    return std::min(kDecision.most_memo_slots,
                    std::bit_ceil(kDecision.memo_slots_per_item * items() + 1));
  }
  const Item& item(int32_t i) const { return topology_.items[static_cast<size_t>(i)]; }
  int64_t& lowest(int32_t i) { return lowest_[static_cast<size_t>(i)]; }
  int64_t size(int32_t i) const { return size_[static_cast<size_t>(i)]; }

  bool raise(int32_t i, int64_t offset);
  bool has_room(int32_t section, int64_t floor) const;
  bool find_witness(int32_t section, int64_t offset);
  bool release_bound_holds(int32_t section);
  bool infer(Span span, int64_t offset);
  bool place(int32_t i, const Frame& frame);
  void lift_out(int32_t i);
  void undo(Frame& frame);
  void split(Frame& frame);
  void open(Span span, const Frame& parent);
  void choose(Frame& frame);
  Key key_of(const Frame& frame);
  bool refuted_before(const Frame& frame);
  void close(bool refuted);
  Step advance(bool returned, bool succeeded);

  int32_t rank(int32_t i) const { return rank_[static_cast<size_t>(i)]; }

  const Topology& topology_;
  PackOptions options_;
  std::vector<int32_t> rank_;  // in the static order
  std::vector<int64_t> size_;
  int64_t life_sum_ = 0;  // of sections
  std::vector<Span> life_;
  std::vector<Key> salt_ = draw_salts(topology_.items.size());
  struct Hash {
    int64_t lowest = -1;
    Key key;
  };
  std::vector<Hash> hashes_;  // per item: what key_of adds for it, and for which lowest offset
  int64_t capacity_ = 0;

  std::vector<int64_t> lowest_;  // per item: the lowest legal offset; kPlaced if placed
  std::vector<int64_t> offset_;  // per item: where it was placed
  std::vector<int64_t> total_;   // per section: unplaced bytes
  std::vector<size_t> witness_;  // per section: the member that last showed that there is room
  // Per boundary before a section: unplaced buffers alive on both sides.
  std::vector<int32_t> crossing_;
  std::vector<Change> trail_;

  std::vector<Frame> frames_;
  std::vector<int32_t> unplaced_;
  std::vector<int32_t> candidates_;
  std::vector<Span> children_;
  std::vector<Key> memo_;  // made by reset: most searches of a portfolio never begin
  std::vector<std::pair<int64_t, int64_t>> releases_;  // scratch

  Verdict verdict_ = Verdict::kOpen;
  bool returned_ = false;   // the frame on top has just got an answer from its child
  bool succeeded_ = false;  // that answer
  int64_t steps_ = 0;
  int64_t reset_steps_ = 0;  // not yet counted in a run
};

bool DecisionSearch::raise(int32_t i, int64_t offset) {
  if (lowest(i) >= offset) return true;
  trail_.push_back({i, false, lowest(i)});
  lowest(i) = topology_.lift(i, offset);
  return lowest(i) + size(i) <= capacity_;
}

// Whether the unplaced bytes of a section fit below the capacity if they begin at `floor`.
bool DecisionSearch::has_room(int32_t section, int64_t floor) const {
  int64_t need = floor + total_[static_cast<size_t>(section)];
  if (!topology_.obstacles.empty()) need += topology_.taken_above(section, floor);
  return need <= capacity_;
}

// Whether a section has room above its floor. That is so if it has room above the lowest offset of
// any one of its unplaced buffers, and the one that showed it last time mostly shows it again: only
// when it does not, another is looked for. Which one it is changes no answer, so undoing leaves it.
bool DecisionSearch::find_witness(int32_t section, int64_t offset) {
  const size_t s = static_cast<size_t>(section);
  const std::span<const int32_t> members = topology_.members[s];
  size_t at = witness_[s];
  for (size_t looked = 0; looked < members.size(); ++looked) {
    const int64_t low = lowest(members[at]);
    if (low != kPlaced && has_room(section, std::max(offset, low))) {
      witness_[s] = at;
      steps_ += static_cast<int64_t>(looked);
      return true;
    }
    if (++at == members.size()) at = 0;
  }
  steps_ += static_cast<int64_t>(members.size());
  return false;
}

// For each r: r + sizes of the section's unplaced buffers with lowest offset >= r fit below the
// capacity.
bool DecisionSearch::release_bound_holds(int32_t section) {
  const size_t s = static_cast<size_t>(section);
  releases_.clear();
  for (int32_t i : topology_.members[s])
    if (lowest(i) != kPlaced) releases_.emplace_back(lowest(i), size(i));
  steps_ += static_cast<int64_t>(2 * topology_.members[s].size());
  std::sort(releases_.begin(), releases_.end());
  int64_t end = 0;
  for (const auto& [release, bytes] : releases_) end = std::max(end, release) + bytes;
  return end <= capacity_;
}

// Every section of the component must still have room. `offset`: nothing will be placed below.
bool DecisionSearch::infer(Span span, int64_t offset) {
  steps_ += span.end - span.begin;
  const int64_t least = options_.monotonic_floor ? offset : 0;
  for (int32_t section = span.begin; section < span.end; ++section) {
    if (total_[static_cast<size_t>(section)] == 0) continue;
    if (!options_.unallocated_floor && !has_room(section, least)) return false;
    if (options_.unallocated_floor && !find_witness(section, least)) return false;
    if (options_.release_bound && !release_bound_holds(section)) return false;
  }
  return true;
}

// Places i at its lowest offset; false if that leaves no completion. To be undone in both cases.
bool DecisionSearch::place(int32_t i, const Frame& frame) {
  const int64_t offset = lowest(i);
  const Item& placed = item(i);
  offset_[static_cast<size_t>(i)] = offset;
  trail_.push_back({i, true, offset});
  lowest(i) = kPlaced;
  for (int32_t s = placed.begin; s < placed.end; ++s) {
    total_[static_cast<size_t>(s)] -= placed.size;
    if (s > placed.begin) --crossing_[static_cast<size_t>(s)];
  }
  const auto neighbours = topology_.neighbours[static_cast<size_t>(i)];
  steps_ += static_cast<int64_t>(neighbours.size()) + placed.end - placed.begin;
  for (int32_t other : neighbours)
    if (!raise(other, offset + placed.size)) return false;
  return !options_.section_inference || infer(frame.span, offset);
}

void DecisionSearch::lift_out(int32_t i) {
  for (int32_t s = item(i).begin; s < item(i).end; ++s) {
    total_[static_cast<size_t>(s)] += size(i);
    if (s > item(i).begin) ++crossing_[static_cast<size_t>(s)];
  }
}

// Takes back the frame's placement and all that was placed after it.
void DecisionSearch::undo(Frame& frame) {
  while (trail_.size() > frame.trail) {
    const Change& change = trail_.back();
    lowest(change.item) = change.before;
    if (change.placed) lift_out(change.item);
    trail_.pop_back();
  }
  frame.placed = kNobody;
  children_.resize(frame.child_begin);
}

// The components that are left of the frame's one.
void DecisionSearch::split(Frame& frame) {
  frame.child_begin = frame.child = children_.size();
  const auto add = [&](int32_t begin, int32_t end) {
    for (int32_t s = begin; s < end; ++s)
      if (total_[static_cast<size_t>(s)] > 0) {
        children_.push_back({begin, end});
        return;
      }
  };
  int32_t begin = frame.span.begin;
  if (options_.decomposition) {
    const Item& placed = item(frame.placed);
    for (int32_t s = placed.begin + 1; s < placed.end; ++s)
      if (crossing_[static_cast<size_t>(s)] == 0) {
        add(begin, s);
        begin = s;
      }
  }
  add(begin, frame.span.end);
  frame.child_end = children_.size();
}

// Puts the frame of a component on the stack, below `parent` (a copy: the stack moves).
void DecisionSearch::open(Span span, const Frame& parent) {
  Frame frame;
  frame.span = span;
  frame.unplaced_begin = unplaced_.size();
  for (size_t k = parent.unplaced_begin; k < parent.unplaced_end; ++k) {
    const int32_t i = unplaced_[k];
    const Span life = life_[static_cast<size_t>(i)];
    if (lowest(i) == kPlaced || life.end <= span.begin || span.end <= life.begin) continue;
    unplaced_.push_back(i);
  }
  frame.unplaced_end = unplaced_.size();
  steps_ += static_cast<int64_t>(parent.unplaced_end - parent.unplaced_begin);
  if (options_.canonical && parent.placed != kNobody) {
    frame.last_offset = offset_[static_cast<size_t>(parent.placed)];
    frame.last_rank = rank(parent.placed);
  }
  frame.child_begin = frame.child_end = frame.child = children_.size();
  frame.candidate_begin = candidates_.size();
  if (options_.memo) frame.key = key_of(frame);
  if (!options_.memo || !refuted_before(frame)) choose(frame);
  frame.candidate_end = candidates_.size();
  frame.next = frame.candidate_begin;
  frames_.push_back(frame);
}

// Lists the frame's candidates in the order in which they are tried.
void DecisionSearch::choose(Frame& frame) {
  int64_t ceiling = kPlaced;
  if (options_.dominance)
    for (size_t k = frame.unplaced_begin; k < frame.unplaced_end; ++k)
      ceiling = std::min(ceiling, lowest(unplaced_[k]) + size(unplaced_[k]));
  for (size_t k = frame.unplaced_begin; k < frame.unplaced_end; ++k) {
    const int32_t i = unplaced_[k];
    const int64_t at = lowest(i);
    if (at >= ceiling || at < frame.last_offset) continue;
    if (at == frame.last_offset && rank(i) < frame.last_rank) continue;
    candidates_.push_back(i);
  }
  if (options_.dynamic_order)
    std::stable_sort(candidates_.begin() + static_cast<std::ptrdiff_t>(frame.candidate_begin),
                     candidates_.end(),
                     [this](int32_t a, int32_t b) { return lowest(a) < lowest(b); });
  steps_ += static_cast<int64_t>(frame.unplaced_end - frame.unplaced_begin);
}

Key DecisionSearch::key_of(const Frame& frame) {
  Key key{mix(static_cast<uint64_t>(frame.last_offset), static_cast<uint64_t>(frame.last_rank)),
          mix(static_cast<uint64_t>(frame.last_rank), static_cast<uint64_t>(frame.last_offset))};
  for (size_t k = frame.unplaced_begin; k < frame.unplaced_end; ++k) {
    const size_t i = static_cast<size_t>(unplaced_[k]);
    Hash& hash = hashes_[i];
    if (hash.lowest != lowest_[i]) {
      hash.lowest = lowest_[i];
      hash.key = {mix(salt_[i].a, static_cast<uint64_t>(lowest_[i])),
                  mix(salt_[i].b, static_cast<uint64_t>(lowest_[i]))};
    }
    key.a += hash.key.a;
    key.b += hash.key.b;
  }
  return key;
}

bool DecisionSearch::refuted_before(const Frame& frame) {
  return memo_[frame.key.a & (memo_.size() - 1)] == frame.key;
}

// Takes the top frame off; its parent goes on with the answer.
void DecisionSearch::close(bool refuted) {
  const Frame& frame = frames_.back();
  if (refuted && options_.memo) memo_[frame.key.a & (memo_.size() - 1)] = frame.key;
  unplaced_.resize(frame.unplaced_begin);
  candidates_.resize(frame.candidate_begin);
  children_.resize(std::min(children_.size(), frame.child_begin));
  frames_.pop_back();
  returned_ = true;
  succeeded_ = !refuted;
}

// One step of the top frame: try its next candidate, or its next component, or close it.
DecisionSearch::Step DecisionSearch::advance(bool returned, bool succeeded) {
  Frame& frame = frames_.back();
  if (returned && succeeded) ++frame.child;
  if (returned && !succeeded) undo(frame);
  while (frame.placed == kNobody) {
    if (frame.next == frame.candidate_end) return Step::kFail;
    frame.placed = candidates_[frame.next++];
    frame.trail = trail_.size();
    frame.child_begin = children_.size();
    if (!place(frame.placed, frame)) {
      undo(frame);
      steps_ += kStepsOfNode;
      continue;
    }
    split(frame);
  }
  if (frame.child == frame.child_end) return Step::kSuccess;
  return Step::kDescend;
}

void DecisionSearch::reset(int64_t capacity, std::span<const int32_t> static_order) {
  LT_CHECK(static_order.size() == items(), "a static order ranks every item");
  capacity_ = capacity;
  rank_.resize(items());
  for (size_t r = 0; r < items(); ++r)
    rank_[static_cast<size_t>(static_order[r])] = static_cast<int32_t>(r);
  verdict_ = Verdict::kOpen;
  returned_ = false;
  trail_.clear();
  frames_.clear();
  unplaced_.clear();
  candidates_.clear();
  children_.clear();
  if (options_.memo) memo_.assign(memo_slots(), Key());
  const size_t sections = static_cast<size_t>(topology_.sections);
  lowest_.assign(items(), 0);
  offset_.assign(items(), 0);
  total_.assign(sections, 0);
  witness_.assign(sections, 0);
  crossing_.assign(sections + 1, 0);
  Frame root;
  for (int32_t i : static_order) {
    lowest(i) = topology_.lift(i, 0);
    if (lowest(i) + size(i) > capacity_) verdict_ = Verdict::kRefuted;
    unplaced_.push_back(i);
    lift_out(i);
  }
  for (const Obstacle& o : topology_.obstacles)
    if (o.high > capacity_) verdict_ = Verdict::kRefuted;
  root.unplaced_end = unplaced_.size();
  const Span all{0, topology_.sections};
  steps_ = static_cast<int64_t>(items()) + life_sum_;
  if (verdict_ == Verdict::kOpen && options_.section_inference && !infer(all, 0))
    verdict_ = Verdict::kRefuted;
  if (items() == 0 && verdict_ == Verdict::kOpen) verdict_ = Verdict::kFits;
  if (verdict_ == Verdict::kOpen) open(all, root);
  reset_steps_ = steps_;
}

Verdict DecisionSearch::run(int64_t units, const StopSignal* stop) {
  const int64_t limit = units > std::numeric_limits<int64_t>::max() / kStepsPerUnit
                            ? std::numeric_limits<int64_t>::max()
                            : units * kStepsPerUnit;
  steps_ = std::exchange(reset_steps_, 0);
  for (int64_t nodes = 1; verdict_ == Verdict::kOpen; ++nodes) {
    if (steps_ >= limit) return Verdict::kOpen;
    if ((nodes & 255) == 0 && stop != nullptr && stop->set()) return Verdict::kOpen;
    const Step step = advance(std::exchange(returned_, false), succeeded_);
    if (step == Step::kDescend) {
      const Frame parent = frames_.back();
      open(children_[parent.child], parent);
    } else {
      close(step == Step::kFail);
      if (frames_.empty()) verdict_ = step == Step::kFail ? Verdict::kRefuted : Verdict::kFits;
    }
  }
  return verdict_;
}

}  // namespace

bool searchable(const Part& part) {
  return topology_entries(part) <= kDecision.most_entries;
}

std::unique_ptr<Decider> make_decision_search(const Topology& topology,
                                              const PackOptions& options) {
  return std::make_unique<DecisionSearch>(topology, options);
}

}  // namespace lowtide::pack

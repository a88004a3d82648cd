#include "pack/tied.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/work.h"

namespace lowtide::pack {
namespace {

using plan::Buffer;
using plan::BufferId;
using plan::PackOutcome;
using plan::PackProblem;
using Offsets = IdVector<BufferId, int64_t>;

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct TiedTuning {
  size_t most_for_pairs = 4096;     // buffers: first fit of everything looks at all pairs
  int shuffles = 24;                // random orders of the groups
  int moves = 3000;                 // of the local search over orders of everything: tries
  int64_t move_units = 40'000'000;  // of that search, at most,
  int64_t move_share = 4;           // and at most this part of all work
  size_t refined = 3;               // placements whose other buffers are packed anew by the search,
  int64_t refine_share = 2;         // each with this part of what work is left
};
constexpr TiedTuning kTied;

constexpr int64_t kUnplaced = -1;
constexpr int64_t kFitLooksPerUnit = 2;
constexpr int64_t kUnitsPerTry = 100;  // beside its looks

// One thing to place: a group, or a buffer by itself.
struct Shape {
  struct Member {
    BufferId id;
    int64_t at = 0;  // above the shape's base
  };
  std::vector<Member> members;
  int64_t alignment = 1;  // of the base
  int64_t span = 0;       // from the lowest to the highest byte
  int64_t bytes = 0;
  Interval live{std::numeric_limits<int64_t>::max(), 0};  // of all members together
};

std::vector<Shape> shapes_of(const PackProblem& problem) {
  std::vector<Shape> shapes;
  std::map<int32_t, size_t> of_group;
  const auto add = [&](Shape& shape, BufferId id, int64_t at) {
    const Buffer& b = problem.buffers[id];
    shape.members.push_back({id, at});
    shape.alignment = b.alignment_bytes;  // that of all members
    shape.bytes += b.size_bytes;
    shape.live = {std::min(shape.live.begin, b.live.begin), std::max(shape.live.end, b.live.end)};
  };
  for (BufferId id : problem.buffers.ids()) {
    const Buffer& b = problem.buffers[id];
    if (b.fixed_offset || b.size_bytes == 0) continue;
    if (!b.tie) {
      add(shapes.emplace_back(), id, 0);
      continue;
    }
    const auto [known, is_new] = of_group.emplace(b.tie->group, shapes.size());
    if (is_new) shapes.emplace_back();
    add(shapes[known->second], id, b.tie->at);
  }
  for (Shape& shape : shapes) {
    int64_t lowest = shape.members[0].at;
    for (const Shape::Member& m : shape.members) lowest = std::min(lowest, m.at);
    for (Shape::Member& m : shape.members) {
      m.at -= lowest;
      shape.span = std::max(shape.span, m.at + problem.buffers[m.id].size_bytes);
    }
  }
  return shapes;
}

// Offsets as they grow; buffers without a place have kUnplaced. What has one is looked at from the
// bottom up, so a shape's place takes one pass over all that is placed, for each of its members.
class FirstFit {
 public:
  explicit FirstFit(const PackProblem& problem)
      : problem_(problem), offsets_(problem.buffers.size(), kUnplaced) {
    placed_.reserve(problem.buffers.size());
    for (BufferId id : problem.buffers.ids())
      if (problem.buffers[id].fixed_offset && problem.buffers[id].size_bytes > 0)
        take(id, *problem.buffers[id].fixed_offset);
  }

  // The lowest base at which no member of the shape meets a placed buffer.
  void place(const Shape& shape) {
    const int64_t base = shape.members.size() == 1 ? base_of_one(shape) : base_of_group(shape);
    for (const Shape::Member& member : shape.members) take(member.id, base + member.at);
  }

  const Offsets& offsets() const { return offsets_; }
  int64_t height() const { return height_; }
  int64_t looks() const { return looks_; }

 private:
  struct Placed {
    Interval bytes, live;
  };

  int64_t base_of_one(const Shape& shape) {
    const Buffer& b = problem_.buffers[shape.members[0].id];
    int64_t base = 0;
    for (const Placed& other : placed_) {
      if (other.bytes.begin >= base + b.size_bytes) break;
      ++looks_;
      if (other.bytes.end > base && other.live.overlaps(b.live))
        base = align_up(other.bytes.end, shape.alignment);
    }
    return base;
  }

  // Each placed buffer keeps a member from bases between two.
  int64_t base_of_group(const Shape& shape) {
    kept_from_.clear();
    for (const Shape::Member& member : shape.members) {
      const Buffer& b = problem_.buffers[member.id];
      for (const Placed& other : placed_)
        if (other.bytes.end > member.at && other.live.overlaps(b.live))
          kept_from_.push_back(
              {other.bytes.begin - member.at - b.size_bytes, other.bytes.end - member.at});
    }
    looks_ += static_cast<int64_t>(placed_.size() * shape.members.size());
    std::sort(kept_from_.begin(), kept_from_.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    int64_t base = 0;
    for (const Interval& bases : kept_from_) {
      if (bases.begin >= base) break;
      if (bases.end > base) base = align_up(bases.end, shape.alignment);
    }
    return base;
  }

  void take(BufferId id, int64_t offset) {
    const Buffer& b = problem_.buffers[id];
    offsets_[id] = offset;
    const auto above =
        std::upper_bound(placed_.begin(), placed_.end(), offset,
                         [](int64_t at, const Placed& other) { return at < other.bytes.begin; });
    placed_.insert(above, {{offset, offset + b.size_bytes}, b.live});
    height_ = std::max(height_, offset + b.size_bytes);
  }

  const PackProblem& problem_;
  Offsets offsets_;
  std::vector<Placed> placed_;       // by where they begin
  std::vector<Interval> kept_from_;  // bases, open at both ends
  int64_t height_ = 0, looks_ = 0;
};

using Order = std::vector<size_t>;  // of shapes

// By falling key; ties as they come.
template <class Key>
Order sorted_by(const std::vector<Shape>& shapes, const Key& key) {
  Order order(shapes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(shapes[a]) > key(shapes[b]); });
  return order;
}

std::vector<Order> plain_orders(const std::vector<Shape>& shapes) {
  const auto life = [](const Shape& s) { return s.live.end - s.live.begin; };
  return {
      sorted_by(shapes, [](const Shape& s) { return s.span; }),
      sorted_by(shapes, [](const Shape& s) { return -s.live.begin; }),
      sorted_by(shapes, [&](const Shape& s) { return std::pair(life(s), s.span); }),
      sorted_by(shapes,
                [&](const Shape& s) {
                  return static_cast<double>(s.bytes) * static_cast<double>(life(s));
                }),
      // Groups first: they are the hardest to place.
      sorted_by(shapes, [](const Shape& s) { return std::pair(s.members.size() > 1, s.span); }),
  };
}

class TiedPacker {
 public:
  TiedPacker(const PackProblem& problem, const PackOptions& options)
      : problem_(problem), options_(options), shapes_(shapes_of(problem)) {
    for (const Shape& shape : shapes_)
      if (problem.buffers[shape.members[0].id].tie) groups_.push_back(shape);
  }

  PackOutcome run() {
    const WorkBudget clock;
    find_bound();
    if (!infeasible()) {
      place_everything();
      move_in_order();
      for (const Order& order : plain_orders(groups_)) place_groups(order, heuristics_only());
      shuffle_groups();
      refine();
    }
    return outcome(clock.seconds());
  }

 private:
  // A packing, and the places that its groups have.
  struct Candidate {
    Offsets offsets;
    int64_t height = 0;
  };

  PackOptions heuristics_only() const {
    PackOptions options = options_;
    options.search = false;
    return options;
  }

  // The problem without ties is easier, and a group needs its span.
  void find_bound() {
    PackProblem free = problem_;
    for (Buffer& b : free.buffers) b.tie.reset();
    PackOptions quick = heuristics_only();
    quick.class_orders = false;
    const PackOutcome relaxed = plan_of(free, quick);
    bound_ = relaxed.lower_bound_bytes;
    for (const Shape& group : groups_) bound_ = std::max(bound_, group.span);
    refuted_ = relaxed.status == plan::SolveStatus::kInfeasible ||
               (problem_.capacity_bytes && bound_ > *problem_.capacity_bytes);
  }

  bool infeasible() const { return refuted_; }
  int64_t target() const { return std::max(bound_, problem_.capacity_bytes.value_or(bound_)); }
  bool done() const {
    return (!found_.empty() && found_.front().height <= target()) || timed_out_ ||
           units_ >= options_.limits.max_units;
  }

  PackOutcome plan_of(const PackProblem& problem, const PackOptions& options) {
    PackOutcome outcome = solve_untied(problem, options);
    units_ += outcome.work.units;
    timed_out_ |= outcome.work.timed_out;
    return outcome;
  }

  void keep(Offsets offsets, int64_t height) {
    for (BufferId id : problem_.buffers.ids())
      if (problem_.buffers[id].size_bytes == 0)
        offsets[id] = problem_.buffers[id].fixed_offset.value_or(0);
    const auto place = std::upper_bound(
        found_.begin(), found_.end(), height,
        [](int64_t h, const Candidate& candidate) { return h < candidate.height; });
    if (place == found_.end() && found_.size() == kTied.refined) return;
    found_.insert(place, {std::move(offsets), height});
    if (found_.size() > kTied.refined) found_.pop_back();
  }

  void place_everything() {
    if (problem_.buffers.size() > kTied.most_for_pairs) return;
    for (const Order& order : plain_orders(shapes_)) {  // whatever the limit of work
      const int64_t height = place_all(order);
      if (!best_order_.empty() && height >= best_height_) continue;
      best_order_ = order;
      best_height_ = height;
    }
  }

  int64_t place_all(const Order& order) {
    FirstFit fit(problem_);
    for (size_t s : order) fit.place(shapes_[s]);
    units_ += fit.looks() / kFitLooksPerUnit + kUnitsPerTry;
    keep(fit.offsets(), fit.height());
    return fit.height();
  }

  // Local search: one shape moves to another place in the order; kept unless it gets worse.
  void move_in_order() {
    Rng rng(2);
    const int64_t end =
        units_ + std::min(kTied.move_units, options_.limits.max_units / kTied.move_share);
    for (int k = 0; k < kTied.moves && best_order_.size() > 1 && units_ < end && !done(); ++k) {
      Order order = best_order_;
      const size_t from = rng.below(order.size()), to = rng.below(order.size());
      const size_t moved = order[from];
      order.erase(order.begin() + static_cast<long>(from));
      order.insert(order.begin() + static_cast<long>(to), moved);
      const int64_t height = place_all(order);
      if (height > best_height_) continue;
      best_order_ = std::move(order);
      best_height_ = height;
    }
  }

  // First fit of the groups in this order, the others around them.
  void place_groups(const Order& order, const PackOptions& options) {
    if (!found_.empty() && done()) return;
    FirstFit fit(problem_);
    for (size_t s : order) fit.place(groups_[s]);
    units_ += fit.looks() / kFitLooksPerUnit + kUnitsPerTry;
    pack_around(fit.offsets(), options);
  }

  // All that is tied stays where `places` has it.
  void pack_around(const Offsets& places, const PackOptions& options) {
    PackProblem rest = problem_;
    for (BufferId id : rest.buffers.ids()) {
      Buffer& b = rest.buffers[id];
      if (b.tie) b.fixed_offset = places[id];
      b.tie.reset();
    }
    PackOutcome packed = plan_of(rest, options);
    if (packed.offsets.size() != rest.buffers.size() && rest.capacity_bytes) {
      rest.capacity_bytes.reset();  // the groups are in its way where they are: as low as it gets
      packed = plan_of(rest, options);
    }
    if (packed.offsets.size() == rest.buffers.size()) keep(packed.offsets, packed.height_bytes);
  }

  void shuffle_groups() {
    Rng rng(1);
    Order order(groups_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    PackOptions quick = heuristics_only();
    quick.class_orders = false;
    for (int k = 0; k < kTied.shuffles && groups_.size() > 1 && !done(); ++k) {
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
      place_groups(order, quick);
    }
  }

  void refine() {
    const std::vector<Candidate> best = found_;
    for (const Candidate& candidate : best) {
      if (done() || !options_.search) return;
      PackOptions options = options_;
      options.limits.max_units =
          std::max<int64_t>(1, (options_.limits.max_units - units_) / kTied.refine_share);
      pack_around(candidate.offsets, options);
    }
  }

  PackOutcome outcome(double seconds) const {
    PackOutcome result;
    result.lower_bound_bytes = bound_;
    result.work = {units_, seconds, timed_out_};
    if (infeasible()) {
      result.status = plan::SolveStatus::kInfeasible;
      return result;
    }
    if (found_.empty()) return result;
    result.offsets = found_.front().offsets;
    result.height_bytes = found_.front().height;
    const bool fits = !problem_.capacity_bytes || result.height_bytes <= *problem_.capacity_bytes;
    if (fits && result.height_bytes == bound_)
      result.status = plan::SolveStatus::kOptimal;
    else if (fits && (problem_.capacity_bytes || !options_.search))
      result.status = plan::SolveStatus::kFeasible;
    return result;
  }

  const PackProblem& problem_;
  const PackOptions& options_;
  std::vector<Shape> shapes_, groups_;
  std::vector<Candidate> found_;  // the best few, lowest first
  Order best_order_;              // of the shapes, for first fit of everything
  int64_t best_height_ = 0;
  int64_t bound_ = 0;
  bool refuted_ = false;
  int64_t units_ = 0;
  bool timed_out_ = false;
};

}  // namespace

bool has_ties(const PackProblem& problem) {
  return std::any_of(problem.buffers.begin(), problem.buffers.end(),
                     [](const Buffer& b) { return b.tie.has_value(); });
}

PackOutcome solve_tied(const PackProblem& problem, const PackOptions& options) {
  return TiedPacker(problem, options).run();
}

}  // namespace lowtide::pack

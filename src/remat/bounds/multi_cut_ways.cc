#include "remat/bounds/multi_cut_ways.h"

#include <algorithm>
#include <array>

namespace lowtide::remat {

LeastShare least_share(const std::vector<int64_t>& shares, size_t from, size_t to) {
  LeastShare least{shares[to], to};
  for (size_t k = to; k-- > from;)
    if (shares[k] < least.share) least = {shares[k], k};
  return least;
}

int64_t store_ticks(const LinkTicks& link, const LinkShares& shares, size_t from, size_t to) {
  return link.copy + scaled_down(link.out, least_share(shares.store, from, to).share);
}

namespace {

// The cheaper of the two, the first if they are equal.
void consider(ValueWay& best, const ValueWay& other) {
  if (other.ticks < best.ticks) best = other;
}

// Which of "there" and "has a copy" the worth of a kept value comes from.
void start_kept(const ValueTerms& t, ValueWay& way) {
  (t.worth >= t.copy ? way.starts_present : way.starts_copied) = true;
}
void end_kept(const ValueTerms& t, ValueWay& way) {
  (t.worth_after >= t.copy_after ? way.ends_present : way.ends_copied) = true;
}

// Begins gone or present, and is there in the segment (or, if it is not, stays gone).
void ways_without_copy(const ValueTerms& t, bool made, bool there, const ValueWay& from,
                       ValueWay& best) {
  ValueWay way = from;
  if (!there) return consider(best, way);
  way.ends_present = true;
  way.ticks = from.ticks - t.worth_after;
  consider(best, way);
  way = from;
  consider(best, way);  // dropped
  if (!t.link) return;
  way.stored = true;
  way.ticks = from.ticks + t.store - t.copy_after;
  way.ends_copied = true;
  consider(best, way);
  if (!made || t.worth_after <= t.copy_after) return;
  way.ends_copied = false;
  way.ends_present = true;  // kept: away for a while, then made again
  way.ticks = from.ticks + t.store - t.worth_after;
  consider(best, way);
}

// Begins kept or away; `loaded`: only a load brings it there.
void ways_with_copy(const ValueTerms& t, bool needed, bool loaded, const ValueWay& from,
                    ValueWay& best) {
  ValueWay way = from;
  end_kept(t, way);
  way.loaded = loaded;
  way.ticks = from.ticks + (loaded ? t.load : 0) - std::max(t.worth_after, t.copy_after);
  consider(best, way);
  if (needed && loaded) return;  // kept is worth as much as away, so nothing else is better
  way = from;
  way.ends_copied = true;
  way.ticks = from.ticks - t.copy_after;
  consider(best, way);
}

}  // namespace

ValueWay cheapest_way(const ValueTerms& t, bool made, bool needed) {
  ValueWay best;
  ValueWay gone;
  gone.ticks = t.input ? t.worth : 0;  // present, until the op has read it
  gone.starts_present = t.input;
  if (made || !needed) ways_without_copy(t, made, made, gone, best);
  if (!t.old) return best;
  ValueWay present;
  present.ticks = t.stay + t.worth;
  present.starts_present = present.stays = true;
  ways_without_copy(t, made, true, present, best);
  if (!t.link) return best;
  ValueWay away;
  away.ticks = t.input ? std::max(t.worth, t.copy) : t.copy;
  if (t.input) {
    start_kept(t, away);
  } else {
    away.starts_copied = true;
  }
  ways_with_copy(t, needed, !made, away, best);
  ValueWay kept;
  kept.ticks = t.stay + std::max(t.worth, t.copy);
  kept.stays = true;
  start_kept(t, kept);
  ways_with_copy(t, needed, false, kept, best);
  return best;
}

namespace {

// The ways of a resident that moves, from cut to cut: there or away, its store paid or not yet.
class ResidentWalk {
 public:
  ResidentWalk(const ResidentTerms& terms, const LinkShares& shares,
               const std::vector<int64_t>& price)
      : terms_(terms), shares_(shares), segments_(shares.load.size()), at_cut_(segments_, 0) {
    for (size_t k = 1; k < segments_; ++k)
      at_cut_[k] = terms.read_at_cut[k - 1] ? kNoWay : ticks_of_staying(terms.bytes, price[k - 1]);
    steps_.resize(segments_ + 1);
  }

  ResidentWay best() {
    ResidentWay still = never_moves();
    steps_[0][kAway].ticks = 0;
    for (size_t k = 0; k < segments_; ++k) pass(k);
    size_t state = kAway;
    for (size_t s = 0; s < 4; ++s)
      if (steps_[segments_][s].ticks < steps_[segments_][state].ticks) state = s;
    if (steps_[segments_][state].ticks >= still.ticks) return still;
    return read(state);
  }

 private:
  enum State : size_t { kAway = 0, kThere = 1, kStored = 2 };  // kStored is added to the others
  struct Step {
    int64_t ticks = kNoWay;
    size_t from = 0;
    bool loaded = false;
    bool stored = false;
  };

  LoadWay load_to(size_t k) const {
    return cheapest_load(
        terms_.link, shares_, [this](size_t i) { return at_cut_[i]; }, 0, k);
  }

  ResidentWay never_moves() const {
    ResidentWay way;
    way.ticks = 0;
    way.there.assign(segments_ - 1, 0);
    for (size_t k = 1; k < segments_; ++k) {
      if (at_cut_[k] == kNoWay) continue;
      way.there[k - 1] = 1;
      way.ticks += at_cut_[k];
    }
    return way;
  }

  // Through segment k, to the cut after it or the end, where it is away.
  void pass(size_t k) {
    const bool last = k + 1 == segments_;
    const int64_t load = load_to(k).ticks;
    for (size_t s = 0; s < 4; ++s) {
      if (steps_[k][s].ticks >= kNoWay) continue;
      const bool was_there = s & kThere;
      for (const bool there : {false, true}) {
        if (last && there) continue;
        const bool read = !last && at_cut_[k + 1] == kNoWay;
        if (read && !there) continue;
        Step step{steps_[k][s].ticks, s, !was_there && (there || terms_.needed[k]), false};
        if (step.loaded) step.ticks += load;
        if (there && !read) step.ticks += at_cut_[k + 1];
        step.stored =
            terms_.written && !(s & kStored) && !there && (last || k >= terms_.written_by);
        if (step.stored) step.ticks += store_ticks(terms_.link, shares_, terms_.written_from, k);
        const size_t to = (there ? kThere : kAway) | (step.stored ? kStored : (s & kStored));
        if (step.ticks < steps_[k + 1][to].ticks) steps_[k + 1][to] = step;
      }
    }
  }

  ResidentWay read(size_t state) const {
    ResidentWay way;
    way.ticks = steps_[segments_][state].ticks;
    way.there.assign(segments_ - 1, 0);
    for (size_t k = segments_; k-- > 0;) {
      const Step& step = steps_[k + 1][state];
      if (step.loaded) {
        way.loads.push_back(load_to(k));
        way.load_to.push_back(k);
      }
      if (step.stored) way.stored = true, way.stored_by = k;
      if (k + 1 < segments_ && (state & kThere) && at_cut_[k + 1] != kNoWay) way.there[k] = 1;
      state = step.from;
    }
    return way;
  }

  const ResidentTerms& terms_;
  const LinkShares& shares_;
  const size_t segments_;
  std::vector<int64_t> at_cut_;  // by segment that follows it
  std::vector<std::array<Step, 4>> steps_;
};

}  // namespace

ResidentWay cheapest_way(const ResidentTerms& terms, const LinkShares& shares,
                         const std::vector<int64_t>& price) {
  return ResidentWalk(terms, shares, price).best();
}

}  // namespace lowtide::remat

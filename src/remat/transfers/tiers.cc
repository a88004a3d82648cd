#include "remat/transfers/tiers.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace lowtide::remat {
namespace {

using plan::SchedSlot;

struct SlotTag;
using SlotId = Id<SlotTag>;  // of a slow tier, by its place in the profile's list

class Shifter {
 public:
  Shifter(const plan::ScheduleProblem& problem, std::vector<SchedSlot> slots, const Moves& away,
          IdleSpanView& view)
      : problem_(problem),
        slots_(std::move(slots)),
        view_(view),
        moved_(view.movables.size(), 0),
        idle_(view.movables.size(), 0),
        stores_(view.movables.size(), 0),
        loads_(view.movables.size(), 0) {
    for (const Away& a : away) {
      const IdleSpan& span = view.spans[a.span];
      const MovableId m = span.movable;
      moved_[m] = 1;
      stores_[m] += a.store, loads_[m] += a.load;
      for (RunId run : span.runs()) idle_[m] += view.seconds[run];
    }
    IdVector<plan::SchedValueId, MovableId> of_value(problem.values.size());
    IdVector<plan::SchedResidentId, MovableId> of_resident(problem.residents.size());
    for (MovableId m : view.movables.ids())
      if (view.movables[m].value.valid())
        of_value[view.movables[m].value] = m;
      else
        of_resident[view.movables[m].resident] = m;
    for (const SchedSlot& slot : slots_)
      movable_.push_back(slot.value.valid() ? of_value[slot.value] : of_resident[slot.resident]);
  }

  std::optional<CrowdedTier> run() {
    for (uint8_t tier = 0; tier < view_.links.size(); ++tier) {
      const int64_t room = view_.links[tier].bytes;
      plan::Held most = plan::most_held(problem_, slots_, tier);
      if (most.bytes <= room) continue;
      if (tier + 1u == view_.links.size()) return CrowdedTier{tier, most.bytes};
      std::vector<SlotId> gone;
      while (most.bytes > room) {
        gone.push_back(best_at(most.at, tier));
        shift(gone.back(), static_cast<uint8_t>(tier + 1));
        most = plan::most_held(problem_, slots_, tier);
      }
      // Those that others have made room for meanwhile come back, the first first.
      for (SlotId slot : gone) {
        shift(slot, tier);
        if (plan::most_held(problem_, slots_, tier).bytes > room)
          shift(slot, static_cast<uint8_t>(tier + 1));
      }
      for (MovableId m : view_.movables.ids())
        if (!moved_[m] && view_.movables[m].tier == tier)
          set_tier(view_, view_.movables[m], static_cast<uint8_t>(tier + 1));
    }
    return {};
  }

 private:
  // The slot that goes from `tier`, of those occupied at the position.
  SlotId best_at(size_t at, uint8_t tier) const {
    SlotId best;
    double best_share = std::numeric_limits<double>::infinity();
    for (SlotId i : movable_.ids()) {
      const SchedSlot& slot = slots_[i.index()];
      if (slot.tier != tier || at < slot.begin || at >= slot.end) continue;
      const MovableId m = movable_[i];
      const auto [out, in] = transfer_seconds(view_.movables[m], view_.links[tier + 1u]);
      const double transfers = stores_[m] * out + loads_[m] * in;
      const double share = transfers / std::max(idle_[m], 1e-12);
      if (!best.valid() || share < best_share) best = i, best_share = share;
    }
    LT_CHECK(best.valid(), "a full tier that nothing occupies");
    return best;
  }

  void shift(SlotId slot, uint8_t tier) {
    slots_[slot.index()].tier = tier;
    set_tier(view_, view_.movables[movable_[slot]], tier);
  }

  const plan::ScheduleProblem& problem_;
  std::vector<SchedSlot> slots_;
  IdleSpanView& view_;
  IdVector<SlotId, MovableId> movable_;
  // Whether it moves, how long it is away, its transfers.
  IdVector<MovableId, char> moved_;
  IdVector<MovableId, double> idle_, stores_, loads_;
};

}  // namespace

bool any_limit(std::span<const plan::Link> links) {
  return std::any_of(links.begin(), links.end(),
                     [](const plan::Link& link) { return link.bytes != plan::Link::kUnlimited; });
}

bool keeps_room(const plan::ScheduleProblem& problem, std::span<const SchedSlot> slots) {
  const std::vector<plan::Link> links = plan::links_of(problem);
  for (size_t tier = 0; tier < links.size(); ++tier)
    if (plan::most_held(problem, slots, static_cast<uint8_t>(tier)).bytes > links[tier].bytes)
      return false;
  return true;
}

std::optional<CrowdedTier> shift_tiers(const plan::ScheduleProblem& problem,
                                       std::vector<SchedSlot> slots, const Moves& away,
                                       IdleSpanView& view) {
  return Shifter(problem, std::move(slots), away, view).run();
}

}  // namespace lowtide::remat

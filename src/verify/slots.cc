// Slots in slow tiers. A slot holds something from the first store of its storage until the last
// transfer of it has been waited for; that of a resident with its home there holds it before,
// during and after the step. Slots that hold something at the same moment lie apart.
#include <fmt/core.h>

#include <algorithm>

#include "base/interval.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

struct Slot {
  PlanStorageId storage;
  Interval live{-1, -1}, range;
};

// Those in one tier.
std::vector<Slot> slots_of(const plan::Plan& plan, int32_t tier) {
  const auto steps = std::ssize(plan.steps);
  IdVector<PlanStorageId, Interval> live(plan.storages.size(), {steps, -1});
  for (int64_t t = 0; t < steps; ++t) {
    const plan::Step& step = plan.steps[static_cast<size_t>(t)];
    if (step.kind == plan::Step::Kind::kStore)
      live[step.storage].begin = std::min(live[step.storage].begin, t);
    if (step.kind == plan::Step::Kind::kStore || step.kind == plan::Step::Kind::kLoad ||
        step.kind == plan::Step::Kind::kWait)
      live[step.storage].end = t + 1;
  }
  std::vector<Slot> slots;
  for (PlanStorageId s : plan.storages.ids()) {
    const plan::PlanStorage& storage = plan.storages[s];
    if (storage.slow_tier != tier) continue;
    if (storage.home_slow) live[s] = {-1, steps + 1};
    slots.push_back({s, live[s], {storage.slow_address, storage.slow_address + storage.bytes}});
  }
  return slots;
}

}  // namespace

void check_slots(const Facts& facts, Findings& findings) {
  const plan::Plan& plan = facts.plan;
  const auto describe = [&](const Slot& slot) {
    return fmt::format("the slot of '{}' at [{}, {})", facts.storage_name(slot.storage),
                       slot.range.begin, slot.range.end);
  };
  for (int32_t tier = 0; tier < std::ssize(plan.slow_tiers); ++tier) {
    const plan::SlowTier& where = plan.slow_tiers[static_cast<size_t>(tier)];
    std::vector<Slot> slots = slots_of(plan, tier);
    for (const Slot& slot : slots) {
      if (slot.range.begin % plan.alignment_bytes != 0)
        findings.add(Violation::kMisaligned,
                     fmt::format("{} is not aligned to {}", describe(slot), plan.alignment_bytes));
      if (slot.range.end > where.bytes)
        findings.add(Violation::kSlotOutside, fmt::format("{} ends behind the {} bytes of '{}'",
                                                          describe(slot), where.bytes, where.name));
    }
    std::erase_if(slots, [](const Slot& slot) { return slot.range.empty() || slot.live.empty(); });
    for (size_t i = 0; i < slots.size(); ++i)
      for (size_t j = i + 1; j < slots.size(); ++j)
        if (slots[i].live.overlaps(slots[j].live) && slots[i].range.overlaps(slots[j].range))
          findings.add(Violation::kSlotOverlap,
                       fmt::format("{} and {} overlap in '{}'", describe(slots[i]),
                                   describe(slots[j]), where.name));
  }
}

}  // namespace lowtide::verify

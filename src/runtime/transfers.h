// The slow memory of one planned session: its tiers, one copy engine for each, and the slot of
// every storage that moves. Knows of the plan which storage has which slot; which steps move what,
// and when, is the session's.
//
// Tests: session_moves_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"
#include "runtime/copy_engine.h"
#include "runtime/slow_tier.h"

namespace lowtide::runtime {

struct SlowMemoryOptions {
  std::string folder = {};  // tiers are files here; empty: host memory outside the arena
  std::string tier = {};    // the name of the only one that is; empty: all of them
  Throttle throttle = {};   // of every tier
};

class Transfers {
 public:
  // Opens the tiers that the plan's storages have slots in, as large as those slots reach. `plan`
  // must outlive this and have passed plan::check. Error: kInput (a slot outside its tier, or as
  // open_slow_tier), kInternal.
  static Result<Transfers> open(const plan::Plan& plan, const SlowMemoryOptions& options);

  // In a step, by one thread. A store or load of a storage is followed by its wait before the next.
  void begin_step();
  void store(plan::PlanStorageId storage, std::byte* from);
  void load(plan::PlanStorageId storage, std::byte* to);
  Status wait(plan::PlanStorageId storage);
  // Until nothing is under way, also after a failure.
  Status end_step();
  TransferTotals totals() const;  // of the step that ended last

  // Slots between steps: `offset` bytes into the storage. Where a store was cut off, reading takes
  // what was to be stored from the arena, which nothing has written since. Error: as
  // transfer_error.
  Status write_slot(plan::PlanStorageId storage, int64_t offset, std::span<const std::byte> from);
  Status read_slot(plan::PlanStorageId storage, int64_t offset, std::span<std::byte> to) const;
  void fill_slot(plan::PlanStorageId storage, std::byte with);  // SessionOptions::poison

 private:
  struct Tier {
    std::unique_ptr<SlowTier> memory;    // null: no storage has a slot here
    std::unique_ptr<CopyEngine> engine;  // ends before its memory; null: nothing moves in a step
  };
  explicit Transfers(const plan::Plan& plan);
  Status open_tier(size_t index, const SlowMemoryOptions& options);
  const Tier& tier_of(plan::PlanStorageId storage) const;
  std::string_view name_of(plan::PlanStorageId storage) const;
  Transfer transfer(plan::PlanStorageId storage, std::byte* memory) const;

  const plan::Plan* plan_;
  std::vector<Tier> tiers_;
  IdVector<plan::PlanStorageId, CopyEngine::TransferId> under_way_;
};

}  // namespace lowtide::runtime

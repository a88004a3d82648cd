#include "runtime/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace lowtide::runtime {

using plan::PlanStorage;
using plan::PlanStorageId;
using plan::Step;

Transfers::Transfers(const plan::Plan& plan)
    : plan_(&plan), tiers_(plan.slow_tiers.size()), under_way_(plan.storages.size(), 0) {}

Result<Transfers> Transfers::open(const plan::Plan& plan, const SlowMemoryOptions& options) {
  Transfers made(plan);
  for (size_t i = 0; i < plan.slow_tiers.size(); ++i)
    LT_RETURN_IF_ERROR(made.open_tier(i, options));
  return made;
}

Status Transfers::open_tier(size_t index, const SlowMemoryOptions& options) {
  const plan::SlowTier& planned = plan_->slow_tiers[index];
  const auto here = [&](PlanStorageId s) {
    return plan_->storages[s].slow_tier == static_cast<int32_t>(index);
  };
  int64_t reach = -1;
  for (PlanStorageId s : plan_->storages.ids()) {
    if (!here(s)) continue;
    const PlanStorage& storage = plan_->storages[s];
    const int64_t end = storage.slow_address + storage.bytes;
    if (storage.slow_address < 0 || end > planned.bytes)
      return error(
          ErrorCode::kInput,
          fmt::format("the slot of '{}' at {}..+{} lies outside slow tier '{}' of {} bytes",
                      name_of(s), storage.slow_address, storage.bytes, planned.name,
                      planned.bytes));
    reach = std::max(reach, end);
  }
  if (reach < 0) return {};
  const bool is_file = options.tier.empty() || options.tier == planned.name;
  LT_ASSIGN(tiers_[index].memory,
            open_slow_tier({.name = planned.name,
                            .bytes = reach,
                            .folder = is_file ? options.folder : std::string()}));
  const auto moves = std::count_if(plan_->steps.begin(), plan_->steps.end(), [&](const Step& step) {
    return (step.kind == Step::Kind::kStore || step.kind == Step::Kind::kLoad) &&
           here(step.storage);
  });
  if (moves == 0) return {};
  LT_ASSIGN(tiers_[index].engine,
            CopyEngine::make(*tiers_[index].memory, static_cast<size_t>(moves), options.throttle));
  return {};
}

const Transfers::Tier& Transfers::tier_of(PlanStorageId storage) const {
  const int32_t tier = plan_->storages[storage].slow_tier;
  LT_CHECK(tier >= 0, "a storage without a slot is moved");
  return tiers_[static_cast<size_t>(tier)];
}

std::string_view Transfers::name_of(PlanStorageId storage) const {
  return plan_->values[plan_->storages[storage].root].name;
}

Transfer Transfers::transfer(PlanStorageId id, std::byte* memory) const {
  const PlanStorage& storage = plan_->storages[id];
  return {.memory = memory,
          .slot = storage.slow_address,
          .bytes = storage.bytes,
          .storage = name_of(id)};
}

void Transfers::begin_step() {
  for (const Tier& tier : tiers_)
    if (tier.engine != nullptr) tier.engine->restart();
}

void Transfers::store(PlanStorageId storage, std::byte* from) {
  under_way_[storage] = tier_of(storage).engine->begin_store(transfer(storage, from));
}

void Transfers::load(PlanStorageId storage, std::byte* to) {
  under_way_[storage] = tier_of(storage).engine->begin_load(transfer(storage, to));
}

Status Transfers::wait(PlanStorageId storage) {
  return tier_of(storage).engine->wait(under_way_[storage]);
}

Status Transfers::end_step() {
  Status first;
  for (const Tier& tier : tiers_) {
    if (tier.engine == nullptr) continue;
    Status status = tier.engine->wait_all();
    if (first && !status) first = std::move(status);
  }
  return first;
}

TransferTotals Transfers::totals() const {
  TransferTotals sum;
  for (const Tier& tier : tiers_) {
    if (tier.engine == nullptr) continue;
    const TransferTotals of = tier.engine->totals();
    sum.stored_bytes += of.stored_bytes;
    sum.loaded_bytes += of.loaded_bytes;
    sum.transfer_seconds += of.transfer_seconds;
    sum.exposed_seconds += of.exposed_seconds;
  }
  return sum;
}

Status Transfers::write_slot(PlanStorageId storage, int64_t offset,
                             std::span<const std::byte> from) {
  return store_bytes(*tier_of(storage).memory, plan_->storages[storage].slow_address + offset, from,
                     name_of(storage));
}

Status Transfers::read_slot(PlanStorageId storage, int64_t offset, std::span<std::byte> to) const {
  const Tier& tier = tier_of(storage);
  const int64_t slot = plan_->storages[storage].slow_address;
  const std::optional<Transfer> torn =
      tier.engine != nullptr ? tier.engine->torn_store() : std::nullopt;
  if (torn && torn->slot == slot) {
    std::memcpy(to.data(), torn->memory + offset, to.size());
    return {};
  }
  return load_bytes(*tier.memory, slot + offset, to, name_of(storage));
}

void Transfers::fill_slot(PlanStorageId storage, std::byte with) {
  const PlanStorage& of = plan_->storages[storage];
  const std::vector<std::byte> contents(static_cast<size_t>(of.bytes), with);
  // A failure shows when the slot is used.
  (void)tier_of(storage).memory->write(of.slow_address, contents);
}

}  // namespace lowtide::runtime

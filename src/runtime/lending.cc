#include "runtime/lending.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

namespace lowtide::runtime {

using plan::Plan;
using plan::PlanStorage;
using plan::PlanStorageId;
using plan::PlanValue;
using plan::PlanValueId;

namespace {

bool is_row_major(const plan::TensorDesc& type) {
  if (!type.layout.blocked.empty()) return false;
  return strides_of(type.layout, type.dims) == strides_of(Layout{}, type.dims);
}

// Why a value cannot be lent; empty: it can.
std::string obstacle(const Plan& plan, PlanValueId v, bool is_piece) {
  const PlanValue& value = plan.values[v];
  const PlanStorage& storage = plan.storages[value.storage];
  if (value.producer.valid() || !storage.resident) return "is computed in the step";
  if (storage.root != v || value.offset_bytes != 0) return "lies inside another value";
  if (storage.home_slow) return "lies in slow memory between steps";
  if (is_piece) return "is a piece of a larger value";
  if (!is_row_major(value.type)) return fmt::format("lies as {}", print(value.type.layout));
  return {};
}

}  // namespace

Result<Lending> Lending::of(const Plan& plan, std::span<const std::string> names) {
  Lending lending;
  if (names.empty()) return lending;
  lending.lent_ = IdVector<PlanStorageId, bool>(plan.storages.size(), false);
  lending.homes_ = StoragePlaces(plan.storages.size(), nullptr);
  IdVector<PlanStorageId, bool> is_piece(plan.storages.size(), false);
  for (const std::vector<plan::PlanPiece>& pieces : pieces_of(plan))
    for (const plan::PlanPiece& piece : pieces) is_piece[piece.storage] = true;
  std::map<std::string_view, PlanValueId> by_name;
  for (PlanValueId v : plan.values.ids()) by_name.emplace(plan.values[v].name, v);
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      return error(ErrorCode::kUsage, fmt::format("the plan has no value '{}' to lend", name));
    const PlanStorageId s = plan.values[found->second].storage;
    const std::string why = obstacle(plan, found->second, is_piece[s]);
    if (!why.empty())
      return error(ErrorCode::kUsage, fmt::format("value '{}' cannot be lent: it {}", name, why));
    lending.lent_[s] = true;
  }
  return lending;
}

std::vector<Interval> Lending::holes(const Plan& plan) const {
  std::vector<Interval> found;
  for (PlanStorageId s : plan.storages.ids())
    if (has(s) && plan.storages[s].bytes > 0)
      found.push_back(
          {plan.storages[s].address, plan.storages[s].address + plan.storages[s].bytes});
  std::sort(found.begin(), found.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> joined;
  for (const Interval& hole : found) {
    if (!joined.empty() && hole.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, hole.end);
    else
      joined.push_back(hole);
  }
  return joined;
}

int64_t Lending::bytes(const Plan& plan) const {
  int64_t sum = 0;
  for (PlanStorageId s : plan.storages.ids())
    if (has(s)) sum += plan.storages[s].bytes;
  return sum;
}

Status Lending::lend(const Plan& plan, PlanValueId v, std::span<std::byte> memory) {
  const PlanValue& value = plan.values[v];
  if (!has(value.storage) || plan.storages[value.storage].root != v)
    return error(
        ErrorCode::kUsage,
        fmt::format("value '{}' was not said to be lent when the session was opened", value.name));
  const int64_t bytes = plan::size_bytes(value.type);
  if (std::ssize(memory) != bytes)
    return error(ErrorCode::kUsage, fmt::format("value '{}' has {} bytes; {} were lent", value.name,
                                                bytes, memory.size()));
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const auto element = static_cast<uintptr_t>(lowtide::size_bytes(value.type.dtype));
  if (memory.data() == nullptr || address % element != 0)
    return error(ErrorCode::kUsage,
                 fmt::format("the memory lent for '{}' is not aligned to its elements of {} bytes",
                             value.name, element));
  homes_[value.storage] = memory.data();
  return {};
}

Status Lending::check_all_there(const Plan& plan) const {
  if (empty()) return {};
  for (PlanStorageId s : plan.storages.ids())
    if (lent_[s] && homes_[s] == nullptr)
      return error(ErrorCode::kUsage, fmt::format("no memory was lent for value '{}'",
                                                  plan.values[plan.storages[s].root].name));
  return {};
}

}  // namespace lowtide::runtime

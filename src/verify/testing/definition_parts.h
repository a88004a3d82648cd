// What the parts of the naive judge (definition.h) share: questions about a plan, answered by
// looking through all of it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ops/op_table.h"
#include "plan/plan.h"

namespace lowtide::verify {

plan::PlanValueId shown_version(const plan::Plan& p, plan::PlanValueId v);
// The storages in memory that one consists of, and where they begin in it: itself, or what its
// root's producer joins.
std::vector<std::pair<plan::PlanStorageId, int64_t>> lies_in(const plan::Plan& p,
                                                             plan::PlanStorageId s);
bool is_whole(const plan::Plan& p, plan::PlanStorageId s);
plan::PlanOpId maker_of(const plan::Plan& p, plan::PlanStorageId s);
bool holds_output(const plan::Plan& p, plan::PlanStorageId s);
bool reads(const plan::Plan& p, plan::PlanOpId o, plan::PlanStorageId s);
// One place of the op lists the pair; the dying input is read once, from its first byte to its
// last.
bool may_take_over(const plan::Plan& p, plan::PlanStorageId from, plan::PlanStorageId heir);
// The most bytes that pairs without a common storage save, by trying all choices.
int64_t most_saved(const plan::Plan& p,
                   const std::vector<std::pair<plan::PlanStorageId, plan::PlanStorageId>>& pairs);

// By node: the room of each arc. most_flow: by depth-first augmenting paths, which use it up.
using Network = std::map<size_t, std::map<size_t, int64_t>>;
int64_t most_flow(Network& room, size_t source, size_t sink);

// What must run directly before each op, and all that must before one of them.
std::map<plan::PlanOpId, std::set<plan::PlanOpId>> predecessors(const plan::Plan& p);
std::set<plan::PlanOpId> ancestors_in(
    const std::map<plan::PlanOpId, std::set<plan::PlanOpId>>& before, plan::PlanOpId op);
// Ops that have run, and those that have not, whenever `op` runs for the first time.
std::set<plan::PlanOpId> ancestors_of(const plan::Plan& p, plan::PlanOpId op);
std::set<plan::PlanOpId> descendants_of(const plan::Plan& p, plan::PlanOpId op);

// definition_floor.cc: whether every schedule needs the claimed floor.
bool floor_is_right(const plan::Plan& p);
// Likewise: that of whatever parts, as far as the plan runs its op or parts of it.
bool parts_floor_is_right(const plan::Plan& p);
// definition_steps.cc: whether the steps are right, null or what is wrong with them; the bytes
// present at their peak.
const char* wrong_with_steps(const plan::Plan& p, int64_t& peak);
// Null, or which claim of a time, the budget or the floor is wrong.
const char* wrong_with_times(const plan::Plan& p);

}  // namespace lowtide::verify

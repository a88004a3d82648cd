#include "verify/parts_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ops/destinations.h"
#include "ops/op_table.h"
#include "plan/part_name.h"

namespace lowtide::verify {
namespace {

// What an op, or one of its parts, says of the claim.
struct Maker {
  std::string_view kind;
  DType dtype = DType::kF32;
  int64_t bytes = 0;       // of its result
  int64_t most_parts = 1;  // that make parts of the result
  bool adds = false;       // into what is there
};

// The two longest axes together, as an op runs in parts of parts. Asked of the whole axis as one
// part: does it say which slice of the result that is? Of an op that the op table refuses there are
// other findings.
int64_t most_parts(const ops::Instance& instance) {
  int64_t most = 1, next = 1;
  const auto map = ops::axis_map(instance);
  if (!map) return most;
  for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
    const auto extent = map->axes[static_cast<size_t>(axis)].extent.constant();
    if (!extent || *extent <= next || !ops::can_split(*map, axis)) continue;
    const auto all_of_it = ops::part(instance, axis, 0, *extent);
    if (!all_of_it || all_of_it->outputs[0].whole) continue;
    next = std::min(most, *extent), most = std::max(most, *extent);
  }
  return most * next;
}

std::optional<Maker> maker_of(const ops::Instance& instance) {
  const auto made = ops::infer(instance);
  if (!made || made->empty()) return std::nullopt;
  const ops::Type& type = made->front().type;
  int64_t bytes = size_bytes(type.dtype);
  for (const sym::Expr& dim : type.dims) bytes *= dim.constant().value_or(0);
  return Maker{instance.kind, type.dtype, bytes, most_parts(instance),
               !ops::accumulators(instance).empty()};
}

// What it computes, whatever its result is written into.
std::optional<Maker> maker_of(const Facts& facts, PlanOpId id) {
  const ops::Instance instance = facts.instance(id);
  if (!ops::destination_of(instance)) return maker_of(instance);
  const ops::SliceOp slice = ops::slice_op(*ops::find(instance.kind), instance);
  return maker_of(slice.instance(instance.kind));
}

std::string wrong_kind(const plan::PartsFloor& claimed, const Maker& op) {
  if ((op.kind == "MatMul" || op.kind == "Conv") && op.dtype == DType::kF32) return {};
  return fmt::format(
      "in any parts: op '{}' is claimed to set the floor, and is a {} of {}; only a MatMul or a "
      "Conv of f32 can",
      claimed.op, op.kind, name(op.dtype));
}

std::string wrong_parts(const plan::PartsFloor& claimed, int64_t most) {
  if (claimed.parts >= most) return {};
  return fmt::format(
      "in any parts: op '{}' is claimed to run in at most {}, the op table lets it run in {}",
      claimed.op, claimed.parts, most);
}

std::string wrong_bytes(const plan::PartsFloor& claimed, int64_t result_bytes) {
  const int64_t least = result_bytes / claimed.parts;
  if (claimed.part_bytes <= least) return {};
  return fmt::format(
      "in any parts: op '{}' in {} is claimed to make {} bytes each, its result of {} bytes makes "
      "{}",
      claimed.op, claimed.parts, claimed.part_bytes, result_bytes, least);
}

std::string wrong_claim(const plan::PartsFloor& claimed, const Maker& op) {
  std::string why = wrong_kind(claimed, op);
  if (why.empty()) why = wrong_parts(claimed, op.most_parts);
  return why.empty() ? wrong_bytes(claimed, op.bytes) : why;
}

// The parts of one op are no more than it can run in, unless they are shares of a sum, all but one
// of which add into others. They have no longer axes than it, and make together at least what it
// makes.
std::string wrong_beside_parts(const plan::PartsFloor& claimed, const std::vector<Maker>& parts) {
  Maker all = parts.front();
  all.bytes = 0;
  for (const Maker& part : parts) {
    all.bytes += part.bytes;
    all.most_parts = std::max(all.most_parts, part.most_parts);
    all.adds = all.adds || part.adds;
  }
  const auto run = static_cast<int64_t>(parts.size());
  if (!all.adds && claimed.parts < run)
    return fmt::format(
        "in any parts: op '{}' is claimed to run in at most {}, and runs in {} in this plan",
        claimed.op, claimed.parts, run);
  return wrong_claim(claimed, all);
}

// Or a part of a part of it.
bool is_part_of(std::string_view name, std::string_view op) {
  const auto part = plan::part_name(name), outer = part ? plan::part_name(part->op) : std::nullopt;
  return (part && part->op == op) || (outer && outer->op == op);
}

}  // namespace

PartsFloorVerdict check_parts_floor(const Precedence& precedence) {
  const Facts& facts = precedence.facts;
  const plan::Plan& plan = facts.plan;
  const plan::PartsFloor& claimed = *plan.claims.parts_floor;
  int64_t staying = facts.resident_bytes;
  for (PlanStorageId s : plan.storages.ids())
    if (precedence.may_move(s)) staying -= plan.storages[s].bytes;
  if (claimed.bytes > staying && claimed.bytes - staying > claimed.part_bytes)
    return {fmt::format("in any parts: a floor of {} bytes claimed, {} stay and {} are of op '{}'",
                        claimed.bytes, staying, claimed.part_bytes, claimed.op),
            {}};
  if (claimed.op.empty() && claimed.part_bytes == 0) return {};
  std::vector<Maker> parts;
  for (const PlanOpId id : plan.ops.ids()) {
    const bool is_whole = plan.ops[id].name == claimed.op;
    if (!is_whole && !is_part_of(plan.ops[id].name, claimed.op)) continue;
    const std::optional<Maker> maker = maker_of(facts, id);
    if (maker && is_whole) return {wrong_claim(claimed, *maker), {}};
    if (maker) parts.push_back(*maker);
  }
  if (!parts.empty())
    if (std::string why = wrong_beside_parts(claimed, parts); !why.empty())
      return {std::move(why), {}};
  return {{},
          fmt::format("the floor in any parts, {} bytes, rests on op '{}' of the step in one part, "
                      "which only --against its model can check",
                      claimed.bytes, claimed.op)};
}

std::string wrong_parts_floor(const plan::PartsFloor& claimed, const ir::Graph& whole) {
  if (claimed.op.empty() && claimed.part_bytes == 0) return {};
  for (const ir::OpId id : whole.ops()) {
    if (whole.op(id).name != claimed.op) continue;
    if (const auto maker = maker_of(ops::instance_of(whole, id)))
      return wrong_claim(claimed, *maker);
  }
  return fmt::format("in any parts: the step in one part has no op '{}'", claimed.op);
}

}  // namespace lowtide::verify

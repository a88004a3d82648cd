#include "verify/parts_floor.h"

#include <fmt/format.h>

#include <optional>

#include "base/dtype.h"

namespace lowtide::verify {
namespace {

// Empty, or that the op makes less than it is claimed to.
std::string wrong_part(const plan::PartsFloor& claimed, int64_t result_bytes) {
  const int64_t least = result_bytes / claimed.parts;
  if (claimed.part_bytes <= least) return {};
  return fmt::format(
      "in any parts: op '{}' in {} is claimed to make {} bytes each, its result of {} bytes makes "
      "{}",
      claimed.op, claimed.parts, claimed.part_bytes, result_bytes, least);
}

}  // namespace

PartsFloorVerdict check_parts_floor(const Precedence& precedence) {
  const plan::Plan& plan = precedence.facts.plan;
  const plan::PartsFloor& claimed = *plan.claims.parts_floor;
  int64_t staying = precedence.facts.resident_bytes;
  for (PlanStorageId s : plan.storages.ids())
    if (precedence.may_move(s)) staying -= plan.storages[s].bytes;
  if (claimed.bytes > staying && claimed.bytes - staying > claimed.part_bytes)
    return {fmt::format("in any parts: a floor of {} bytes claimed, {} stay and {} are of op '{}'",
                        claimed.bytes, staying, claimed.part_bytes, claimed.op),
            {}};
  if (claimed.part_bytes == 0) return {};
  for (const plan::PlanOp& op : plan.ops)
    if (op.name == claimed.op && !op.outputs.empty() && op.outputs[0].valid()) {
      const plan::TensorDesc& type = plan.values[op.outputs[0]].type;
      return {wrong_part(claimed, plan::element_count(type) * size_bytes(type.dtype)), {}};
    }
  return {{},
          fmt::format("the floor in any parts, {} bytes, rests on op '{}' of the step in one part, "
                      "which only --against its model can check",
                      claimed.bytes, claimed.op)};
}

std::string wrong_parts_floor(const plan::PartsFloor& claimed, const ir::Graph& whole) {
  if (claimed.part_bytes == 0) return {};
  for (const ir::OpId id : whole.ops()) {
    const ir::Op& op = whole.op(id);
    if (op.name != claimed.op || op.outputs.empty() || !op.outputs[0].valid()) continue;
    const auto bytes = ir::size_bytes(whole.value(op.outputs[0])).constant();
    return wrong_part(claimed, bytes.value_or(0));
  }
  return fmt::format("in any parts: the step in one part has no op '{}'", claimed.op);
}

}  // namespace lowtide::verify

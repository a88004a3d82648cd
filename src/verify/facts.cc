#include "verify/facts.h"

#include <algorithm>

namespace lowtide::verify {
namespace {

ir::Attrs symbolic(const plan::Attrs& attrs) {
  ir::Attrs result;
  for (const auto& [key, attr] : attrs) {
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attr)) {
      result[key] = ir::Dims(numbers->begin(), numbers->end());
    } else if (const auto* integer = std::get_if<int64_t>(&attr)) {
      result[key] = *integer;
    } else if (const auto* real = std::get_if<double>(&attr)) {
      result[key] = *real;
    } else {
      result[key] = std::get<std::string>(attr);
    }
  }
  return result;
}

}  // namespace

Facts::Facts(const plan::Plan& p)
    : plan(p),
      attrs(p.ops.size()),
      memory(p.storages.size()),
      is_whole(p.storages.size(), 0),
      is_piece(p.storages.size(), 0),
      is_view_op(p.ops.size(), 0),
      version(p.values.size()),
      last_version(p.storages.size()),
      maker(p.storages.size()),
      is_output(p.storages.size(), 0),
      readers(p.storages.size()),
      makes(p.ops.size()),
      control_after(p.ops.size()),
      pairs(p.ops.size()) {
  find_memory();
  for (PlanValueId v : p.values.ids()) {
    PlanValueId shown = v;
    while (p.values[shown].alias == plan::PlanAlias::kView) shown = p.values[shown].base;
    version[v] = shown;
    if (p.values[v].is_output)
      for (const plan::PlanPiece& piece : memory[p.values[v].storage]) is_output[piece.storage] = 1;
  }
  for (PlanStorageId s : p.storages.ids()) {
    last_version[s] = p.storages[s].root;
    maker[s] = p.values[p.storages[s].root].producer;
    if (is_whole[s]) continue;
    if (maker[s].valid())
      makes[maker[s]].push_back(s);
    else
      resident_bytes += p.storages[s].bytes;
  }
  for (PlanOpId o : p.ops.ids()) {
    const plan::PlanOp& op = p.ops[o];
    attrs[o] = symbolic(op.attrs);
    for (PlanOpId before : op.control) control_after[before].push_back(o);
    for (PlanValueId v : op.outputs)
      if (p.values[v].alias == plan::PlanAlias::kUpdate) last_version[p.values[v].storage] = v;
    is_view_op[o] = !op.outputs.empty() &&
                    std::all_of(op.outputs.begin(), op.outputs.end(),
                                [&](PlanValueId v) { return plan::is_view(p.values[v].alias); });
    if (is_view_op[o]) continue;
    for (PlanValueId input : op.inputs) {
      if (!input.valid()) continue;
      for (const auto& [s, offset] : memory[p.values[input].storage])
        if (maker[s] != o && (readers[s].empty() || readers[s].back() != o))
          readers[s].push_back(o);
    }
  }
  for (PlanOpId o : p.ops.ids()) find_pairs(o);
}

// Ops come in an order in which an input is made before it is read, so pieces are known before they
// are joined.
void Facts::find_memory() {
  for (PlanStorageId s : plan.storages.ids()) memory[s] = {{s, 0}};
  for (const plan::PlanOp& op : plan.ops)
    for (PlanValueId output : op.outputs) {
      const plan::PlanValue& whole = plan.values[output];
      if (whole.alias != plan::PlanAlias::kPieces) continue;
      is_whole[whole.storage] = 1;
      memory[whole.storage].clear();
      int64_t offset = 0;
      for (PlanValueId input : op.inputs) {
        for (const plan::PlanPiece& piece : memory[plan.values[input].storage]) {
          is_piece[piece.storage] = 1;
          memory[whole.storage].push_back({piece.storage, offset + piece.offset_bytes});
        }
        offset += size_bytes(plan.values[input].type);
      }
    }
}

ops::Instance Facts::instance(PlanOpId id) const {
  const plan::PlanOp& op = plan.ops[id];
  ops::Instance result{op.kind, &attrs[id], {}};
  for (PlanValueId input : op.inputs) {
    if (!input.valid()) {
      result.inputs.emplace_back();
      continue;
    }
    const plan::TensorDesc& type = plan.values[input].type;
    result.inputs.emplace_back(
        ops::Type{type.dtype, ir::Dims(type.dims.begin(), type.dims.end()), type.layout});
  }
  return result;
}

void Facts::find_pairs(PlanOpId id) {
  const plan::PlanOp& op = plan.ops[id];
  if (ops::find(op.kind) == nullptr) return;
  for (const auto& [in, out] : ops::in_place_pairs(instance(id))) {
    if (in < 0 || out < 0 || static_cast<size_t>(in) >= op.inputs.size() ||
        static_cast<size_t>(out) >= op.outputs.size())
      continue;
    const PlanValueId input = op.inputs[static_cast<size_t>(in)];
    const PlanValueId output = op.outputs[static_cast<size_t>(out)];
    if (!input.valid() || plan.values[output].alias != plan::PlanAlias::kOwn) continue;
    const plan::PlanValue& value = plan.values[input];
    const PlanStorageId from = value.storage, heir = plan.values[output].storage;
    const int64_t operands = std::count_if(
        op.inputs.begin(), op.inputs.end(),
        [&](PlanValueId other) { return other.valid() && plan.values[other].storage == from; });
    const bool fills =
        value.offset_bytes == 0 && !value.type.layout.strided() &&
        size_bytes(value.type) == size_bytes(plan.values[plan.storages[from].root].type);
    if (operands == 1 && fills && maker[from].valid() && !is_output[from] && !is_whole[from] &&
        !is_piece[from] && plan.storages[from].bytes == plan.storages[heir].bytes)
      pairs[id].emplace_back(from, heir);
  }
}

bool Facts::may_reuse(PlanOpId op, PlanStorageId from, PlanStorageId heir) const {
  return std::find(pairs[op].begin(), pairs[op].end(), std::pair(from, heir)) != pairs[op].end();
}

namespace {

using Pairs = std::vector<std::pair<PlanStorageId, PlanStorageId>>;

// NOLINTNEXTLINE(misc-no-recursion): as deep as an op has in-place pairs, a handful
int64_t best_from(const plan::Plan& plan, const Pairs& pairs, size_t next, Pairs& taken) {
  if (next == pairs.size()) return 0;
  const auto [from, heir] = pairs[next];
  int64_t best = best_from(plan, pairs, next + 1, taken);
  const bool clash =
      std::any_of(taken.begin(), taken.end(),
                  [&, f = from, h = heir](const auto& t) { return t.first == f || t.second == h; });
  if (clash) return best;
  taken.emplace_back(from, heir);
  best = std::max(best, plan.storages[from].bytes + best_from(plan, pairs, next + 1, taken));
  taken.pop_back();
  return best;
}

}  // namespace

// A maximum matching, weighted by the bytes, among few pairs.
int64_t most_reused_bytes(const Facts& facts, const Pairs& pairs) {
  Pairs taken;
  return best_from(facts.plan, pairs, 0, taken);
}

}  // namespace lowtide::verify

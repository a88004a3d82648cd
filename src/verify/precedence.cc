#include "verify/precedence.h"

#include <algorithm>

namespace lowtide::verify {

Precedence::Precedence(const Facts& of)
    : facts(of),
      predecessors(of.plan.ops.size()),
      followers(of.plan.ops.size()),
      may_rerun(of.plan.ops.size(), 0),
      inputs(of.plan.ops.size()),
      movable_(of.plan.storages.size(), 0) {
  const plan::Plan& plan = facts.plan;
  IdVector<PlanValueId, std::vector<PlanOpId>> version_readers(plan.values.size());
  for (PlanOpId o : plan.ops.ids()) {
    const plan::PlanOp& op = plan.ops[o];
    const ops::Row* row = ops::find(op.kind);
    may_rerun[o] =
        row != nullptr && ops::traits(*row).recomputable && !ops::traits(*row).has_effect;
    for (PlanValueId input : op.inputs) {
      if (!input.valid()) continue;
      const plan::PlanValue& version = plan.values[facts.version[input]];
      version_readers[facts.version[input]].push_back(o);
      if (version.alias == plan::PlanAlias::kUpdate) add(version.producer, o);
      if (plan.values[input].producer.valid())
        predecessors[o].push_back(plan.values[input].producer);
    }
    for (PlanOpId before : op.control) add(before, o);
  }
  for (PlanOpId o : plan.ops.ids())
    for (PlanValueId output : plan.ops[o].outputs) {
      if (plan.values[output].alias != plan::PlanAlias::kUpdate) continue;
      may_rerun[o] = 0;
      if (const PlanOpId maker = facts.maker[plan.values[output].storage]; maker.valid())
        may_rerun[maker] = 0;
      for (PlanOpId reader : version_readers[facts.version[plan.values[output].base]])
        if (reader != o) add(reader, o);
    }
  for (PlanStorageId s : plan.storages.ids())
    for (PlanOpId reader : facts.readers[s]) inputs[reader].push_back(s);
  if (!plan.slow_tiers.empty()) find_movable();
}

void Precedence::add(PlanOpId before, PlanOpId after) {
  predecessors[after].push_back(before);
  if (!facts.is_view_op[before] && !facts.is_view_op[after]) followers[before].push_back(after);
}

void Precedence::find_movable() {
  const plan::Plan& plan = facts.plan;
  for (PlanStorageId s : plan.storages.ids())
    movable_[s] =
        !facts.maker[s].valid() && (!facts.readers[s].empty() || plan.storages[s].home_slow);
  for (const plan::PlanValue& value : plan.values)
    if (value.is_output && value.alias != plan::PlanAlias::kUpdate) movable_[value.storage] = 0;
}

Precedence::Mark Precedence::ancestors(PlanOpId op) const {
  Mark mark(facts.plan.ops.size(), 0);
  mark[op] = 1;
  for (size_t i = op.index() + 1; i-- > 0;)
    if (mark[PlanOpId(i)])
      for (PlanOpId p : predecessors[PlanOpId(i)]) mark[p] = 1;
  mark[op] = 0;
  return mark;
}

Precedence::Mark Precedence::descendants(PlanOpId op) const {
  Mark mark(facts.plan.ops.size(), 0);
  mark[op] = 1;
  for (size_t i = op.index() + 1; i < mark.size(); ++i)
    for (PlanOpId p : predecessors[PlanOpId(i)])
      if (mark[p]) mark[PlanOpId(i)] = 1;
  mark[op] = 0;
  return mark;
}

Moment::Moment(const Precedence& p, PlanOpId o)
    : precedence(p),
      op(o),
      before(p.ancestors(o)),
      after(p.descendants(o)),
      is_input(p.facts.plan.storages.size(), 0) {
  const Facts& facts = p.facts;
  const plan::Plan& plan = facts.plan;
  present_bytes = facts.resident_bytes + plan.ops[op].workspace_bytes;
  for (PlanStorageId s : facts.makes[op]) present_bytes += plan.storages[s].bytes;
  for (PlanStorageId s : p.inputs[op]) {
    is_input[s] = facts.maker[s].valid();
    if (is_input[s]) present_bytes += plan.storages[s].bytes;
  }
  for (PlanStorageId s : plan.storages.ids())
    if (p.may_move(s) && !p.reads(op, s)) present_bytes -= plan.storages[s].bytes;
  for (const auto& pair : facts.pairs[op]) {
    const auto& readers = facts.readers[pair.first];
    const bool needed =
        std::any_of(readers.begin(), readers.end(), [&](PlanOpId r) { return after[r] != 0; });
    const bool comes_back = !plan.slow_tiers.empty() || !locked(facts.maker[pair.first]);
    if (!needed || comes_back) pairs.push_back(pair);
  }
  present_bytes -= most_reused_bytes(facts, pairs);
}

bool Moment::locked(PlanOpId maker) const {
  if (!before[maker]) return false;
  const auto& later = precedence.followers[maker];
  return !precedence.may_rerun[maker] ||
         std::any_of(later.begin(), later.end(),
                     [&](PlanOpId next) { return before[next] || next == op; });
}

int64_t Moment::stay_bytes(PlanStorageId s) const {
  if (!is_input[s]) return precedence.facts.plan.storages[s].bytes;
  auto others = pairs;
  std::erase_if(others, [&](const auto& pair) { return pair.first == s; });
  return most_reused_bytes(precedence.facts, pairs) - most_reused_bytes(precedence.facts, others);
}

Segments::Segments(const Precedence& precedence, const std::vector<Moment>& moments)
    : first(precedence.facts.plan.ops.size(), 0),
      latest(precedence.facts.plan.ops.size(), moments.size()),
      last(latest) {
  const auto ops = precedence.facts.plan.ops.ids();
  Precedence::Mark is_cut(precedence.facts.plan.ops.size(), 0);
  for (size_t k = moments.size(); k-- > 0;) {
    const Moment& moment = moments[k];
    for (PlanOpId o : ops) {
      if (moment.before[o]) latest[o] = k;
      if (moment.after[o] || o == moment.op) first[o] = std::max(first[o], k + 1);
    }
    is_cut[moment.op] = 1;
    latest[moment.op] = k + 1;
  }
  for (PlanOpId o : ops) {
    last[o] = precedence.may_rerun[o] ? moments.size() : latest[o];
    for (PlanOpId next : precedence.followers[o])
      last[o] = std::min(last[o], is_cut[next] ? latest[next] - 1 : latest[next]);
  }
}

}  // namespace lowtide::verify

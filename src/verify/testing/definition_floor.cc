// The naive judge's floor: for each op, what is with it while it runs for the first time, and the
// least that must stay with it for what comes later, by plain augmenting paths; or what the runs
// that lead to one op have with them, all ways tried. What is asked about pairs of the whole plan
// is asked once, and written down in tables.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>

#include "verify/testing/definition_parts.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;

using Pairs = std::vector<std::pair<PlanStorageId, PlanStorageId>>;

using OpSet = std::set<PlanOpId>;

bool computes_the_same_again(const Plan& p, PlanOpId o) {
  const ops::Row* row = ops::find(p.ops[o].kind);
  if (row == nullptr || !ops::traits(*row).recomputable || ops::traits(*row).has_effect)
    return false;
  for (const plan::PlanValue& value : p.values)
    if (value.alias == PlanAlias::kUpdate &&
        (value.producer == o || maker_of(p, value.storage) == o))
      return false;
  return true;
}

// All runs of `first` come before all of `second`, whatever data flows between them.
bool never_after(const Plan& p, PlanOpId first, PlanOpId second) {
  if (only_views(p, first) || only_views(p, second)) return false;
  const auto& control = p.ops[second].control;
  if (std::find(control.begin(), control.end(), first) != control.end()) return true;
  for (PlanValueId out : p.ops[second].outputs)
    if (p.values[out].alias == PlanAlias::kUpdate && first != second)
      for (PlanValueId in : p.ops[first].inputs)
        if (in.valid() && shown_version(p, in) == shown_version(p, p.values[out].base)) return true;
  return false;
}

// A resident that is always in the arena: nothing moves, or it is returned as it is, or no op wants
// it and the plan leaves it there.
bool stays_at_home(const Plan& p, PlanStorageId s) {
  if (!p.storages[s].resident) return false;
  bool moves = p.storages[s].home_slow;
  for (PlanOpId o : p.ops.ids()) moves |= !only_views(p, o) && reads(p, o, s);
  for (const plan::PlanValue& value : p.values)
    moves &= value.storage != s || !value.is_output || value.alias == PlanAlias::kUpdate;
  return p.slow_tiers.empty() || !moves;
}

struct Tables {
  explicit Tables(const Plan& p) {
    const std::map<PlanOpId, OpSet> before = predecessors(p);
    for (PlanOpId o : p.ops.ids()) {
      above.push_back(ancestors_in(before, o));
      below.push_back({});
      again.push_back(computes_the_same_again(p, o));
      std::vector<PlanOpId> later;
      for (PlanOpId other : p.ops.ids())
        if (never_after(p, o, other)) later.push_back(other);
      first_of.push_back(std::move(later));
    }
    for (PlanOpId o : p.ops.ids())
      for (PlanOpId up : above[o]) below[up].insert(o);
    for (PlanStorageId s : p.storages.ids()) {
      home.push_back(stays_at_home(p, s));
      output.push_back(holds_output(p, s));
    }
  }

  IdVector<PlanOpId, OpSet> above, below;              // ancestors, descendants
  IdVector<PlanOpId, char> again;                      // computes_the_same_again
  IdVector<PlanOpId, std::vector<PlanOpId>> first_of;  // never_after
  IdVector<PlanStorageId, char> home, output;
};

class FirstRun {
 public:
  FirstRun(const Plan& p, const Tables& tables, PlanOpId op)
      : p_(p),
        tables_(tables),
        op_(op),
        above_(tables.above[op]),
        below_(tables.below[op]),
        over_(p.ops.size(), 0),
        wanted_(p.storages.size(), 0) {
    for (PlanOpId o : above_) over_[o] = is_over(o);
    for (PlanOpId o : below_)
      if (!only_views(p, o))
        for (PlanValueId v : p.ops[o].inputs)
          if (v.valid())
            for (const auto& [s, offset] : lies_in(p, p.values[v].storage))
              if (maker_of(p, s) != o) wanted_[s] = 1;
    for (PlanStorageId s : p.storages.ids())
      for (PlanValueId out : p.ops[op].outputs) {
        const PlanStorageId heir = p.values[out].storage;
        if (reads(p, op, s) && p.storages[heir].root == out && may_take_over(p, s, heir) &&
            (!wanted_[s] || !p.slow_tiers.empty() || !over(maker_of(p, s))))
          pairs_.emplace_back(s, heir);
      }
  }

  int64_t bytes_at_hand() const {
    int64_t bytes = p_.ops[op_].workspace_bytes - most_saved(p_, pairs_);
    for (PlanStorageId s : p_.storages.ids()) {
      const bool touched = reads(p_, op_, s) || maker_of(p_, s) == op_;
      if (touched || tables_.home[s]) bytes += p_.storages[s].bytes;
    }
    return bytes;
  }

  // least_kept() is at most that: all that is wanted stays.
  int64_t most_kept() const {
    int64_t bytes = 0;
    for (PlanStorageId s : p_.storages.ids())
      if (may_stay(s) && (wanted_[s] || tables_.output[s])) bytes += p_.storages[s].bytes;
    return bytes;
  }

  int64_t least_kept() const {
    constexpr int64_t kMuch = int64_t{1} << 61;
    const size_t n = p_.ops.size(), source = n + p_.storages.size(), sink = source + 1;
    Network room;
    const auto node = [&](PlanOpId o) { return over(o) ? sink : size_t{o.index()}; };
    for (PlanStorageId s : p_.storages.ids()) {
      if (!may_stay(s)) continue;
      if (wanted_[s] || tables_.output[s]) room[source][n + s.index()] = kMuch;
      room[n + s.index()][node(maker_of(p_, s))] = price(s);
    }
    for (PlanOpId o : p_.ops.ids()) {
      if (!open(o)) continue;
      if (!only_views(p_, o))
        for (PlanValueId v : p_.ops[o].inputs)
          if (v.valid())
            for (const auto& [s, in_whole] : lies_in(p_, p_.values[v].storage))
              if (may_stay(s) && maker_of(p_, s) != o) room[node(o)][n + s.index()] = kMuch;
      for (PlanOpId later : tables_.first_of[o])
        if (open(later)) room[node(o)][node(later)] = kMuch;
    }
    return most_flow(room, source, sink);
  }

 private:
  bool open(PlanOpId o) const { return o != op_ && !below_.contains(o) && !over(o); }
  // Has run, and will not again.
  bool over(PlanOpId o) const { return o.valid() && over_[o] != 0; }
  bool is_over(PlanOpId o) const {
    if (!tables_.again[o]) return true;
    for (PlanOpId later : tables_.first_of[o])
      if (above_.contains(later) || later == op_) return true;
    return false;
  }
  // Made by an op that may have run.
  bool may_stay(PlanStorageId s) const {
    const PlanOpId maker = maker_of(p_, s);
    return maker.valid() && maker != op_ && !below_.contains(maker);
  }
  // Inputs are there anyway; keeping one is paid with what it alone could have saved.
  int64_t price(PlanStorageId s) const {
    if (!reads(p_, op_, s)) return p_.storages[s].bytes;
    Pairs without;
    for (const auto& pair : pairs_)
      if (pair.first != s) without.push_back(pair);
    return most_saved(p_, pairs_) - most_saved(p_, without);
  }

  const Plan& p_;
  const Tables& tables_;
  const PlanOpId op_;
  const OpSet &above_, &below_;
  IdVector<PlanOpId, char> over_;
  IdVector<PlanStorageId, char> wanted_;
  Pairs pairs_;
};

}  // namespace

// By the certificate: whatever order the runs that lead to its op come in, one of them has the
// claimed bytes with it. All sets of storages that are still to be made are written down, beginning
// with what the op reads, until there are no more; runs of too many bytes lead nowhere.
bool shown_by_certificate(const Plan& p, int64_t claimed) {
  const auto& way = p.claims.certificate.floor;
  if (!way || !p.slow_tiers.empty() || only_views(p, way->op)) return false;
  using ToMake = std::set<PlanStorageId>;
  std::set<ToMake> known;
  std::vector<ToMake> todo;
  const auto run = [&](PlanOpId o, const ToMake& wanted_after) {
    int64_t bytes = p.ops[o].workspace_bytes;
    Pairs pairs;
    ToMake to_make;
    for (PlanStorageId s : p.storages.ids()) {
      const bool is_read = reads(p, o, s), is_made = maker_of(p, s) == o;
      if (is_read || is_made || wanted_after.contains(s) || p.storages[s].resident)
        bytes += p.storages[s].bytes;
      if (wanted_after.contains(s) && !is_made) to_make.insert(s);
      if (!is_read || p.storages[s].resident) continue;
      if (p.storages[s].bytes >= way->least_bytes) to_make.insert(s);
      for (PlanStorageId heir : p.storages.ids())
        if (!wanted_after.contains(s) && maker_of(p, heir) == o && may_take_over(p, s, heir))
          pairs.emplace_back(s, heir);
    }
    if (bytes - most_saved(p, pairs) < claimed && known.insert(to_make).second)
      todo.push_back(to_make);
  };
  run(way->op, {});
  while (!todo.empty()) {
    const ToMake wanted = todo.back();
    todo.pop_back();
    if (wanted.empty()) return false;
    for (PlanOpId o : p.ops.ids())
      if (std::any_of(wanted.begin(), wanted.end(),
                      [&](PlanStorageId s) { return maker_of(p, s) == o; }))
        run(o, wanted);
  }
  return true;
}

namespace {

// Of a MatMul or Conv. What is computed, where it is written into something larger.
std::vector<int64_t> dims_computed(const Plan& p, const plan::PlanOp& op) {
  std::vector<int64_t> dims = p.values[op.outputs[0]].type.dims;
  if (const auto into = op.attrs.find("into"); into != op.attrs.end()) {
    const auto& range = std::get<std::vector<int64_t>>(into->second);
    dims[static_cast<size_t>(range[0])] = range[2] - range[1];
  }
  return dims;
}

// By the textbook: each dimension of the result of a product or a convolution can be computed
// element by element, along two of them at once; the channels of a convolution in groups only group
// by group.
int64_t most_parts(const Plan& p, const plan::PlanOp& op) {
  std::vector<int64_t> dims = dims_computed(p, op);
  const auto group = op.attrs.find("group");
  if (op.kind == "Conv" && group != op.attrs.end() && std::get<int64_t>(group->second) > 1)
    dims[1] = std::get<int64_t>(group->second);
  dims.insert(dims.end(), {1, 1});
  std::sort(dims.begin(), dims.end(), std::greater<>());
  return dims[0] * dims[1];
}

bool is_numbered(const std::string& name, const std::string& op) {
  const std::string number = "/part[0-9]+";
  if (name.substr(0, op.size()) != op) return false;
  return std::regex_match(name.substr(op.size()), std::regex(number + "(" + number + ")?"));
}

}  // namespace

bool parts_floor_is_right(const Plan& p) {
  if (!p.claims.parts_floor) return true;
  const plan::PartsFloor& claimed = *p.claims.parts_floor;
  int64_t staying = 0;
  for (PlanStorageId s : p.storages.ids())
    if (stays_at_home(p, s)) staying += p.storages[s].bytes;
  if (claimed.bytes - staying > claimed.part_bytes) return false;
  if (claimed.op.empty() && claimed.part_bytes == 0) return true;
  int64_t most = 1, bytes = 0, parts = 0;
  bool is_whole = false, is_sum = false;
  for (const plan::PlanOp& op : p.ops) is_whole = is_whole || op.name == claimed.op;
  for (const plan::PlanOp& op : p.ops) {
    if (is_whole ? op.name != claimed.op : !is_numbered(op.name, claimed.op)) continue;
    if (op.kind != "MatMul" && op.kind != "Conv") return false;
    if (p.values[op.outputs[0]].type.dtype != DType::kF32) return false;
    int64_t made = 4;
    for (const int64_t dim : dims_computed(p, op)) made *= dim;
    bytes += made, parts += 1;
    is_sum = is_sum || (op.inputs.size() > 3 && op.inputs[3].valid());  // behind the bias
    most = std::max(most, most_parts(p, op));
  }
  if (parts == 0) return true;  // the plan does not say
  if (!is_sum) most = std::max(most, parts);
  return most <= claimed.parts && claimed.part_bytes <= bytes / claimed.parts;
}

bool floor_is_right(const Plan& p) {
  if (!p.claims.floor_bytes) return true;
  const int64_t claimed = *p.claims.floor_bytes;
  int64_t resident = 0;
  for (PlanStorageId s : p.storages.ids())
    if (stays_at_home(p, s)) resident += p.storages[s].bytes;
  if (claimed <= resident) return true;
  const Tables tables(p);
  for (PlanOpId o : p.ops.ids()) {
    if (only_views(p, o)) continue;
    const FirstRun run(p, tables, o);
    const int64_t at_hand = run.bytes_at_hand();
    if (claimed <= at_hand) return true;
    if (!p.slow_tiers.empty() || claimed > at_hand + run.most_kept()) continue;
    if (claimed <= at_hand + run.least_kept()) return true;
  }
  return shown_by_certificate(p, claimed);
}

}  // namespace lowtide::verify

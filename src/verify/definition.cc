// Positions, not states. `ran[op]` is the step of an op; a storage is alive in [ran[maker], its
// end), and its end is the step that frees it, the step of its heir's maker, or the end of time.
// Everything else is a condition on these numbers, tested for every pair that it is about.
#include "verify/definition.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ops/op_table.h"
#include "plan/plan_check.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using OpSet = std::set<PlanOpId>;

bool only_views(const Plan& p, PlanOpId o) {
  for (PlanValueId v : p.ops[o].outputs)
    if (p.values[v].alias != PlanAlias::kView) return false;
  return !p.ops[o].outputs.empty();
}

PlanValueId shown_version(const Plan& p, PlanValueId v) {
  while (p.values[v].alias == PlanAlias::kView) v = p.values[v].base;
  return v;
}

PlanOpId maker_of(const Plan& p, PlanStorageId s) {
  return p.values[p.storages[s].root].producer;
}

bool holds_output(const Plan& p, PlanStorageId s) {
  for (const plan::PlanValue& value : p.values)
    if (value.storage == s && value.is_output) return true;
  return false;
}

bool reads(const Plan& p, PlanOpId o, PlanStorageId s) {
  for (PlanValueId v : p.ops[o].inputs)
    if (v.valid() && p.values[v].storage == s) return true;
  return false;
}

OpSet readers_of(const Plan& p, PlanStorageId s) {
  OpSet readers;
  for (PlanOpId o : p.ops.ids())
    if (reads(p, o, s) && o != maker_of(p, s) && !only_views(p, o)) readers.insert(o);
  return readers;
}

// What must run directly before each op.
std::map<PlanOpId, OpSet> predecessors(const Plan& p) {
  std::map<PlanOpId, OpSet> before;
  for (PlanOpId o : p.ops.ids()) {
    before[o].insert(p.ops[o].control.begin(), p.ops[o].control.end());
    for (PlanValueId v : p.ops[o].inputs)
      if (v.valid() && p.values[v].producer.valid()) before[o].insert(p.values[v].producer);
  }
  std::map<PlanValueId, PlanOpId> destroyed_by;  // by version
  for (const plan::PlanValue& value : p.values)
    if (value.alias == PlanAlias::kUpdate)
      destroyed_by[shown_version(p, value.base)] = value.producer;
  for (PlanOpId o : p.ops.ids()) {
    for (PlanValueId v : p.ops[o].inputs) {
      if (!v.valid()) continue;
      const auto found = destroyed_by.find(shown_version(p, v));
      if (found != destroyed_by.end() && found->second != o) before[found->second].insert(o);
    }
  }
  return before;
}

// ---- what ops make: the graph is built anew with the op table and compared
// ---------------------------------------------

ir::Attrs as_graph_attrs(const plan::Attrs& attrs) {
  ir::Attrs result;
  for (const auto& [key, attr] : attrs) {
    ir::AttrValue& twin = result[key];
    if (std::holds_alternative<int64_t>(attr)) twin = std::get<int64_t>(attr);
    if (std::holds_alternative<double>(attr)) twin = std::get<double>(attr);
    if (std::holds_alternative<std::string>(attr)) twin = std::get<std::string>(attr);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attr))
      twin = ir::Dims(list->begin(), list->end());
  }
  return result;
}

bool same_value(const plan::PlanValue& value, const ir::Value& made,
                const std::map<PlanValueId, ir::ValueId>& twin) {
  if (made.dtype != value.type.dtype || made.layout != value.type.layout) return false;
  if (made.dims != ir::Dims(value.type.dims.begin(), value.type.dims.end())) return false;
  if (static_cast<int>(made.alias) != static_cast<int>(value.alias)) return false;
  if (made.alias != ir::Alias::kOwn && made.base != twin.at(value.base)) return false;
  return made.offset_bytes == sym::Expr(value.offset_bytes);
}

bool ops_make_their_outputs(const Plan& p) {
  ir::Graph graph;
  std::map<PlanValueId, ir::ValueId> twin;
  for (PlanValueId v : p.values.ids()) {
    const plan::PlanValue& value = p.values[v];
    if (value.producer.valid()) continue;
    if (value.offset_bytes != 0) return false;
    ir::Value own;
    own.name = "given" + std::to_string(v.index());
    own.dtype = value.type.dtype;
    own.dims = ir::Dims(value.type.dims.begin(), value.type.dims.end());
    own.layout = value.type.layout;
    twin[v] = graph.add_value(own);
  }
  for (PlanOpId o : p.ops.ids()) {
    const plan::PlanOp& op = p.ops[o];
    std::vector<ir::ValueId> inputs;
    for (PlanValueId v : op.inputs) inputs.push_back(v.valid() ? twin.at(v) : ir::ValueId::none());
    if (ops::find(op.kind) == nullptr) return false;
    ops::AppendOptions options;
    options.name = "op" + std::to_string(o.index());
    const auto appended = ops::append(graph, op.kind, inputs, as_graph_attrs(op.attrs), options);
    if (!appended) return false;
    const std::vector<ir::ValueId>& made = graph.op(*appended).outputs;
    if (made.size() != op.outputs.size()) return false;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!same_value(p.values[op.outputs[i]], graph.value(made[i]), twin)) return false;
      twin[op.outputs[i]] = made[i];
    }
  }
  return ir::check(graph).has_value();
}

bool sizes_fit(const Plan& p) {
  for (const plan::PlanValue& value : p.values) {
    int64_t bytes = lowtide::size_bytes(value.type.dtype);
    for (int64_t dim : value.type.dims) bytes *= dim;
    const plan::PlanInitial& initial = value.initial;
    if (value.producer.valid()) continue;
    if (initial.kind == plan::PlanInitial::Kind::kInline &&
        static_cast<int64_t>(initial.bytes.size()) != bytes)
      return false;
    if (initial.kind == plan::PlanInitial::Kind::kExternal && initial.length != 0 &&
        initial.length != bytes)
      return false;
  }
  for (PlanStorageId s : p.storages.ids()) {
    const plan::PlanStorage& storage = p.storages[s];
    const int64_t bytes = size_bytes(p.values[storage.root].type);
    if (storage.bytes % p.alignment_bytes != 0 || storage.bytes < bytes ||
        storage.bytes - bytes >= p.alignment_bytes)
      return false;
    const bool given = !maker_of(p, s).valid();
    if (storage.resident != given) return false;
  }
  for (const plan::PlanOp& op : p.ops)
    if (op.workspace_bytes % p.alignment_bytes != 0) return false;
  return true;
}

// ---- time
// --------------------------------------------------------------------------------------------------------------

struct Times {
  std::map<PlanOpId, int64_t> ran;
  IdVector<PlanStorageId, int64_t> begin, end;
};

bool ops_run_in_order(const Plan& p, Times& times) {
  for (size_t t = 0; t < p.steps.size(); ++t) {
    if (p.steps[t].kind == plan::Step::Kind::kFree) continue;
    if (p.steps[t].kind != plan::Step::Kind::kCompute ||
        !times.ran.emplace(p.steps[t].op, t).second)
      return false;
  }
  if (times.ran.size() != p.ops.size()) return false;
  for (const auto& [op, befores] : predecessors(p))
    for (PlanOpId before : befores)
      if (times.ran[before] >= times.ran[op]) return false;
  return true;
}

// One place of the op lists the pair; the dying input is read once, from its first byte to its
// last.
bool may_take_over(const Plan& p, PlanStorageId from, PlanStorageId heir) {
  const PlanOpId o = maker_of(p, heir);
  if (!maker_of(p, from).valid() || holds_output(p, from) ||
      p.storages[from].bytes != p.storages[heir].bytes)
    return false;
  const plan::OpDesc desc = describe(p, o);
  const ir::Attrs attrs = as_graph_attrs(desc.attrs);
  ops::Instance instance{desc.kind, &attrs, {}};
  for (const auto& input : desc.inputs) {
    if (!input)
      instance.inputs.emplace_back();
    else
      instance.inputs.emplace_back(
          ops::Type{input->dtype, ir::Dims(input->dims.begin(), input->dims.end()), input->layout});
  }
  const plan::PlanOp& op = p.ops[o];
  int uses = 0;
  for (PlanValueId v : op.inputs) uses += v.valid() && p.values[v].storage == from ? 1 : 0;
  for (const auto& [in, out] : ops::in_place_pairs(instance)) {
    const PlanValueId v = op.inputs[static_cast<size_t>(in)];
    if (!v.valid() || p.values[v].storage != from ||
        p.storages[heir].root != op.outputs[static_cast<size_t>(out)])
      continue;
    if (p.values[op.outputs[static_cast<size_t>(out)]].storage != heir || uses != 1) continue;
    if (p.values[v].offset_bytes == 0 &&
        size_bytes(p.values[v].type) == size_bytes(p.values[p.storages[from].root].type))
      return true;
  }
  return false;
}

// Where the one run of its maker puts the storage.
plan::Placement place_of(const Plan& p, PlanStorageId s) {
  for (const plan::Step& step : p.steps)
    for (const plan::Placement& made : step.makes)
      if (made.storage == s) return made;
  return {};
}
int64_t address_of(const Plan& p, PlanStorageId s) {
  return maker_of(p, s).valid() ? place_of(p, s).address : p.storages[s].address;
}

bool storages_live_as_they_should(const Plan& p, Times& times) {
  const auto never = static_cast<int64_t>(p.steps.size());
  times.begin.resize(p.storages.size());
  times.end.resize(p.storages.size());
  for (PlanStorageId s : p.storages.ids()) {
    const PlanOpId maker = maker_of(p, s);
    times.begin[s] = maker.valid() ? times.ran[maker] : -1;
    std::vector<int64_t> ends;
    for (size_t t = 0; t < p.steps.size(); ++t)
      if (p.steps[t].kind == plan::Step::Kind::kFree && p.steps[t].storage == s)
        ends.push_back(static_cast<int64_t>(t));
    bool taken = false;
    for (PlanStorageId heir : p.storages.ids()) {
      if (!place_of(p, heir).reuses.valid() || place_of(p, heir).reuses != s) continue;
      if (!may_take_over(p, s, heir) || address_of(p, s) != address_of(p, heir)) return false;
      ends.push_back(times.ran[maker_of(p, heir)]);
      taken = true;
    }
    const bool stays = !maker.valid() || holds_output(p, s);
    if (ends.size() != (stays ? 0u : 1u)) return false;
    times.end[s] = stays ? never + 1 : ends[0];
    if (times.end[s] <= times.begin[s]) return false;
    for (PlanOpId o : p.ops.ids()) {
      const bool heir_maker = taken && times.ran[o] == times.end[s];
      if (reads(p, o, s) && times.ran[o] >= times.end[s] && !heir_maker) return false;
    }
  }
  for (PlanValueId v : p.values.ids())  // results show their own version at the end
    if (p.values[v].is_output)
      for (const plan::PlanValue& later : p.values)
        if (later.alias == PlanAlias::kUpdate &&
            shown_version(p, later.base) == shown_version(p, v))
          return false;
  return true;
}

// ---- space
// -------------------------------------------------------------------------------------------------------------

// Everything that is present while step t runs lies apart in the arena; answers the bytes of it in
// `present`.
bool apart_at(const Plan& p, const Times& times, size_t t, int64_t& present) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  present = 0;
  const auto now = static_cast<int64_t>(t);
  for (PlanStorageId s : p.storages.ids()) {
    if (times.begin[s] > now || times.end[s] <= now) continue;
    present += p.storages[s].bytes;
    if (p.storages[s].bytes > 0)
      ranges.emplace_back(address_of(p, s), address_of(p, s) + p.storages[s].bytes);
  }
  const plan::Step& step = p.steps[t];
  if (step.kind == plan::Step::Kind::kCompute && p.ops[step.op].workspace_bytes > 0) {
    present += p.ops[step.op].workspace_bytes;
    ranges.emplace_back(step.workspace_address,
                        step.workspace_address + p.ops[step.op].workspace_bytes);
    if (step.workspace_address % p.alignment_bytes != 0) return false;
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].second > p.arena_bytes || (i > 0 && ranges[i].first < ranges[i - 1].second))
      return false;
  return true;
}

bool space_is_right(const Plan& p, const Times& times, int64_t& peak) {
  peak = 0;
  for (PlanStorageId s : p.storages.ids()) {
    const plan::PlanStorage& storage = p.storages[s];
    const int64_t address = address_of(p, s);
    if (address % p.alignment_bytes != 0 || address + storage.bytes > p.arena_bytes) return false;
    if (storage.resident) peak += storage.bytes;
  }
  if (p.ops.empty()) {  // only what is resident, for which any step would do
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const plan::PlanStorage& s : p.storages)
      if (s.bytes > 0) ranges.emplace_back(s.address, s.address + s.bytes);
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].first < ranges[i - 1].second) return false;
  }
  for (size_t t = 0; t < p.steps.size(); ++t) {
    if (p.steps[t].kind != plan::Step::Kind::kCompute) continue;
    int64_t present = 0;
    if (!apart_at(p, times, t, present)) return false;
    peak = std::max(peak, present);
  }
  return true;
}

// ---- the bound
// -----------------------------------------------------------------------------------------------------------

class States {
 public:
  States(const Plan& p, PlanOpId op) : p_(p), op_(op), before_(predecessors(p)) {
    std::vector<PlanOpId> open{op};
    while (!open.empty()) {
      const PlanOpId o = open.back();
      open.pop_back();
      for (PlanOpId b : before_[o])
        if (above_.insert(b).second) open.push_back(b);
    }
    below_.insert(op);
    for (bool grew = true; grew;) {
      grew = false;
      for (const auto& [o, befores] : before_)
        for (PlanOpId b : befores)
          if (below_.contains(b)) grew |= below_.insert(o).second;
    }
    for (PlanOpId o : p.ops.ids())
      if (!above_.contains(o) && !below_.contains(o)) free_.push_back(o);
    for (PlanStorageId s : p.storages.ids())
      readers_[s] = readers_of(p, s), output_[s] = holds_output(p, s);
  }

  bool possible(const OpSet& state) const {
    for (PlanOpId o : above_)
      if (!state.contains(o)) return false;
    for (PlanOpId o : state) {
      if (below_.contains(o)) return false;
      for (PlanOpId b : before_.at(o))
        if (!state.contains(b)) return false;
    }
    return true;
  }

  int64_t live(const OpSet& state) const {
    int64_t bytes = 0;
    for (PlanStorageId s : p_.storages.ids()) {
      if (!maker_of(p_, s).valid() || !state.contains(maker_of(p_, s))) continue;
      bool kept = output_.at(s);
      for (PlanOpId r : readers_.at(s)) kept |= !state.contains(r);
      if (kept) bytes += p_.storages[s].bytes;
    }
    return bytes;
  }

  int64_t around() const {
    int64_t bytes = p_.ops[op_].workspace_bytes;
    std::vector<std::pair<PlanStorageId, PlanStorageId>> pairs;
    for (PlanStorageId s : p_.storages.ids()) {
      if (!maker_of(p_, s).valid() || maker_of(p_, s) == op_) bytes += p_.storages[s].bytes;
      if (!reads(p_, op_, s)) continue;
      bool can_die = true;
      for (PlanOpId r : readers_.at(s)) can_die &= r == op_ || !below_.contains(r);
      for (PlanStorageId heir : p_.storages.ids())
        if (can_die && maker_of(p_, heir) == op_ && may_take_over(p_, s, heir))
          pairs.emplace_back(s, heir);
    }
    int64_t most = 0;
    for (uint32_t choice = 0; choice < 1u << pairs.size(); ++choice) {
      std::set<PlanStorageId> used;
      int64_t saved = 0;
      bool ok = true;
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (!(choice >> i & 1u)) continue;
        ok &= used.insert(pairs[i].first).second && used.insert(pairs[i].second).second;
        saved += p_.storages[pairs[i].first].bytes;
      }
      if (ok) most = std::max(most, saved);
    }
    return bytes - most;
  }

  // The cheapest state by trying all; false when there are too many.
  bool least_by_trying(int64_t& least, OpSet* state_out) const {
    if (free_.size() > static_cast<size_t>(kMaxFreeOps)) return false;
    least = INT64_MAX;
    for (uint32_t choice = 0; choice < 1u << free_.size(); ++choice) {
      OpSet state = above_;
      for (size_t i = 0; i < free_.size(); ++i)
        if (choice >> i & 1u) state.insert(free_[i]);
      if (!possible(state)) continue;
      const int64_t bytes = live(state);
      if (bytes >= least) continue;
      least = bytes;
      if (state_out != nullptr) *state_out = state;
    }
    return true;
  }

  // The same by depth-first augmenting paths in a residual graph kept as a map of maps.
  int64_t least_by_paths() const {
    constexpr int64_t kMuch = int64_t{1} << 61;
    const size_t n = p_.ops.size(), source = n + p_.storages.size(), sink = source + 1;
    std::map<size_t, std::map<size_t, int64_t>> room;
    const auto node = [&](PlanOpId o) {
      return above_.contains(o) ? source : below_.contains(o) ? sink : size_t{o.index()};
    };
    for (const auto& [o, befores] : before_)
      for (PlanOpId b : befores)
        if (node(o) != node(b)) room[node(o)][node(b)] = kMuch;
    for (PlanStorageId s : p_.storages.ids()) {
      if (!maker_of(p_, s).valid() || below_.contains(maker_of(p_, s))) continue;
      room[node(maker_of(p_, s))][n + s.index()] = p_.storages[s].bytes;
      if (output_.at(s)) room[n + s.index()][sink] = kMuch;
      for (PlanOpId r : readers_.at(s)) room[n + s.index()][node(r)] = kMuch;
    }
    int64_t total = 0;
    while (true) {
      std::map<size_t, size_t> from{{source, source}};
      std::vector<size_t> open{source};
      while (!open.empty() && !from.contains(sink)) {
        const size_t at = open.back();
        open.pop_back();
        for (const auto& [to, left] : room[at])
          if (left > 0 && from.emplace(to, at).second) open.push_back(to);
      }
      if (!from.contains(sink)) return total;
      int64_t amount = INT64_MAX;
      for (size_t at = sink; at != source; at = from[at])
        amount = std::min(amount, room[from[at]][at]);
      for (size_t at = sink; at != source; at = from[at])
        room[from[at]][at] -= amount, room[at][from[at]] += amount;
      total += amount;
    }
  }

 private:
  const Plan& p_;
  const PlanOpId op_;
  std::map<PlanOpId, OpSet> before_;
  OpSet above_, below_;
  std::vector<PlanOpId> free_;
  std::map<PlanStorageId, OpSet> readers_;
  std::map<PlanStorageId, bool> output_;
};

// Whether both plans have the same values and ops, in storages of the same size and role: what
// ops make, roles and the peak of the program order are then the same.
bool same_graph(const Plan& a, const Plan& b) {
  if (a.values != b.values || a.ops != b.ops || a.storages.size() != b.storages.size())
    return false;
  for (PlanStorageId s : a.storages.ids()) {
    const plan::PlanStorage &one = a.storages[s], &other = b.storages[s];
    if (one.root != other.root || one.bytes != other.bytes || one.category != other.category)
      return false;
  }
  return true;
}

// Whether the certificates of both plans speak of the same ops, sizes and state.
bool same_question(const Plan& a, const Plan& b) {
  return a.claims.certificate == b.claims.certificate && same_graph(a, b);
}

bool bound_is_right(const Plan& p, const Plan* known_good) {
  const plan::Claims& claims = p.claims;
  if (claims.lower_bound_bytes > claims.peak_bytes) return false;
  if (claims.order_proven != (claims.lower_bound_bytes >= claims.peak_bytes)) return false;
  if (!claims.certificate) {
    int64_t resident = 0;
    for (PlanStorageId s : p.storages.ids())
      if (!maker_of(p, s).valid()) resident += p.storages[s].bytes;
    return claims.lower_bound_bytes == resident;
  }
  if (claims.lower_bound_bytes != claims.certificate->value_bytes) return false;
  if (known_good != nullptr && same_question(p, *known_good)) return true;
  const States states(p, claims.certificate->op);
  const OpSet state(claims.certificate->prefix.begin(), claims.certificate->prefix.end());
  if (!states.possible(state)) return false;
  const int64_t live = states.live(state);
  if (claims.certificate->value_bytes != live + states.around()) return false;
  int64_t least = 0;
  if (!states.least_by_trying(least, nullptr)) least = states.least_by_paths();
  return live == least;
}

}  // namespace

int64_t peak_before_by_definition(const plan::Plan& p) {
  std::vector<int64_t> held(p.ops.size() + 1, 0);
  for (PlanStorageId s : p.storages.ids()) {
    const PlanOpId maker = maker_of(p, s);
    size_t first = maker.valid() ? maker.index() : 0, last = p.ops.size();
    if (maker.valid() && !holds_output(p, s)) {
      last = first;
      for (PlanOpId r : readers_of(p, s)) last = std::max(last, size_t{r.index()});
    }
    for (size_t o = first; o <= last; ++o) held[o] += p.storages[s].bytes;
  }
  int64_t peak = held.back();  // after the last op only residents and results are left: never above
                               // the ops' own
  for (PlanOpId o : p.ops.ids()) peak = std::max(peak, held[o.index()] + p.ops[o].workspace_bytes);
  return peak;
}

bool find_certificate(const plan::Plan& plan, PlanOpId op, plan::BoundCertificate& certificate) {
  const States states(plan, op);
  int64_t least = 0;
  OpSet state;
  if (!states.least_by_trying(least, &state)) return false;
  certificate = {op, {state.begin(), state.end()}, least + states.around()};
  return true;
}

bool valid_by_definition(const plan::Plan& p, std::string* why, const plan::Plan* known_good) {
  const auto no = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return false;
  };
  if (!plan::check(p)) return no("ids or numbers");
  if (!sizes_fit(p)) return no("sizes");
  if (!(known_good != nullptr && same_graph(p, *known_good))) {
    if (!ops_make_their_outputs(p)) return no("outputs");
    if (!roles_by_definition(p)) return no("roles");
  }
  Times times;
  if (!ops_run_in_order(p, times)) return no("order");
  if (!storages_live_as_they_should(p, times)) return no("lives");
  int64_t peak = 0;
  if (!space_is_right(p, times, peak)) return no("addresses");
  if (peak != p.claims.peak_bytes) return no("peak");
  if (peak_before_by_definition(p) != p.claims.peak_before_bytes) return no("peak before");
  double seconds = 0;
  for (const plan::PlanOp& op : p.ops) seconds += op.predicted_seconds;
  for (double claimed :
       {p.claims.once_seconds, p.claims.predicted_seconds, p.claims.lower_bound_seconds})
    if (std::abs(seconds - claimed) > 1e-9 * seconds) return no("seconds");
  return bound_is_right(p, known_good) || no("bound");
}

}  // namespace lowtide::verify

// Everything that does not follow from the steps: what ops make, sizes, the bound. The steps have
// their own file (definition_steps.cc).
#include "verify/testing/definition.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ops/destinations.h"
#include "ops/op_table.h"
#include "plan/plan_check.h"
#include "plan/tick_scale.h"
#include "verify/testing/definition_parts.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using OpSet = std::set<PlanOpId>;

}  // namespace

PlanValueId shown_version(const Plan& p, PlanValueId v) {
  while (p.values[v].alias == PlanAlias::kView) v = p.values[v].base;
  return v;
}

PlanOpId maker_of(const Plan& p, PlanStorageId s) {
  return p.values[p.storages[s].root].producer;
}

bool is_whole(const Plan& p, PlanStorageId s) {
  return p.values[p.storages[s].root].alias == PlanAlias::kPieces;
}

// NOLINTNEXTLINE(misc-no-recursion): wholes of wholes
std::vector<std::pair<PlanStorageId, int64_t>> lies_in(const Plan& p, PlanStorageId s) {
  if (!is_whole(p, s)) return {{s, 0}};
  std::vector<std::pair<PlanStorageId, int64_t>> all;
  int64_t begin = 0;
  for (PlanValueId v : p.ops[maker_of(p, s)].inputs) {
    for (const auto& [piece, offset] : lies_in(p, p.values[v].storage))
      all.emplace_back(piece, begin + offset);
    begin += size_bytes(p.values[v].type);
  }
  return all;
}

namespace {

bool touches(const Plan& p, PlanValueId v, PlanStorageId s) {
  for (const auto& [piece, offset] : lies_in(p, p.values[v].storage))
    if (piece == s) return true;
  return false;
}

bool is_piece(const Plan& p, PlanStorageId s) {
  for (PlanStorageId other : p.storages.ids())
    for (const auto& [piece, offset] : lies_in(p, other))
      if (other != s && piece == s) return true;
  return false;
}

}  // namespace

bool holds_output(const Plan& p, PlanStorageId s) {
  for (PlanValueId v : p.values.ids())
    if (p.values[v].is_output && touches(p, v, s)) return true;
  return false;
}

bool reads(const Plan& p, PlanOpId o, PlanStorageId s) {
  for (PlanValueId v : p.ops[o].inputs)
    if (v.valid() && touches(p, v, s)) return true;
  return false;
}

namespace {

OpSet readers_of(const Plan& p, PlanStorageId s) {
  OpSet readers;
  for (PlanOpId o : p.ops.ids())
    if (reads(p, o, s) && o != maker_of(p, s) && !only_views(p, o)) readers.insert(o);
  return readers;
}

}  // namespace

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

OpSet ancestors_in(const std::map<PlanOpId, OpSet>& before, PlanOpId op) {
  OpSet above;
  std::vector<PlanOpId> open{op};
  while (!open.empty()) {
    const PlanOpId o = open.back();
    open.pop_back();
    for (PlanOpId b : before.at(o))
      if (above.insert(b).second) open.push_back(b);
  }
  return above;
}

OpSet ancestors_of(const Plan& p, PlanOpId op) {
  return ancestors_in(predecessors(p), op);
}

OpSet descendants_of(const Plan& p, PlanOpId op) {
  const std::map<PlanOpId, OpSet> before = predecessors(p);
  OpSet below{op};
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [o, befores] : before)
      for (PlanOpId b : befores)
        if (below.contains(b)) grew |= below.insert(o).second;
  }
  below.erase(op);
  return below;
}

namespace {

// ---- what ops make: the graph is built anew with the op table and compared ----

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
  if (value.base.valid() != made.base.valid()) return false;
  if (value.base.valid() && made.base != twin.at(value.base)) return false;
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

// An update overwrites all of a parameter's or state's own storage, no two of an op the same, and
// no two ops one state.
bool updates_persist(const Plan& p) {
  std::set<std::pair<PlanOpId, PlanStorageId>> overwritten;
  std::set<PlanStorageId> states;
  for (const plan::PlanValue& value : p.values) {
    if (value.alias != PlanAlias::kUpdate) continue;
    const PlanOpId maker = maker_of(p, value.storage);
    const plan::PlanStorage& storage = p.storages[value.storage];
    const plan::PlanValue& root = p.values[storage.root];
    const bool kept =
        storage.category == Category::kParameter || storage.category == Category::kOptimizerState;
    if (maker.valid() || !kept || root.initial.kind == plan::PlanInitial::Kind::kFed) return false;
    if (value.offset_bytes != 0 || size_bytes(value.type) != size_bytes(root.type)) return false;
    if (p.values[value.base].type.layout.strided()) return false;
    if (!overwritten.emplace(value.producer, value.storage).second) return false;
    if (storage.category == Category::kOptimizerState && !states.insert(value.storage).second)
      return false;
  }
  return true;
}

// Of a whole that ops write in slices every place along the axis is written once, and only the op
// that writes the next slice reads it before.
bool slices_are_whole(const Plan& p) {
  std::map<PlanValueId, std::pair<int64_t, std::vector<char>>> written;  // axis; by place
  const auto lacks = [&](PlanValueId v) {
    const auto found = written.find(shown_version(p, v));
    return found != written.end() &&
           std::count(found->second.second.begin(), found->second.second.end(), char{0}) > 0;
  };
  for (PlanOpId o : p.ops.ids()) {
    const plan::PlanOp& op = p.ops[o];
    const auto attr = op.attrs.find("into");
    const bool into = attr != op.attrs.end();
    // The rest is the last operand, as large as the result; no operand of a slice is.
    const bool has_rest = into && !op.inputs.empty() && op.inputs.back().valid() &&
                          op.inputs.size() > ops::rest_operand(*ops::find(op.kind));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!op.inputs[i].valid() || !lacks(op.inputs[i])) continue;
      const bool is_rest = has_rest && i + 1 == op.inputs.size();
      if (!is_rest || shown_version(p, op.inputs[i]) != op.inputs[i]) return false;
    }
    if (!into) continue;
    const auto& range = std::get<std::vector<int64_t>>(attr->second);
    auto& [axis, places] = written[op.outputs[0]];
    axis = range[0];
    places.assign(static_cast<size_t>(range[3]), 0);
    if (has_rest) {
      if (!lacks(op.inputs.back()) || written[op.inputs.back()].first != axis) return false;
      places = written[op.inputs.back()].second;
    }
    for (int64_t at = range[1]; at < range[2]; ++at)
      if (std::exchange(places[static_cast<size_t>(at)], 1) != 0) return false;
  }
  return std::none_of(p.values.ids().begin(), p.values.ids().end(),
                      [&](PlanValueId v) { return p.values[v].is_output && lacks(v); });
}

// Each element of a strided view, counted through one by one, lies in what its storage holds; only
// views have strides.
bool strides_stay_inside(const Plan& p) {
  for (const plan::PlanValue& value : p.values) {
    const std::vector<int64_t>&dims = value.type.dims, &strides = value.type.layout.strides;
    if (strides.empty()) continue;
    if (value.alias != PlanAlias::kView || strides.size() != dims.size()) return false;
    const int64_t room = size_bytes(p.values[p.storages[value.storage].root].type);
    const int64_t bytes = lowtide::size_bytes(value.type.dtype);
    for (int64_t i = 0; i < element_count(value.type); ++i) {
      int64_t rest = i, at = value.offset_bytes;
      for (size_t d = dims.size(); d-- > 0; rest /= dims[d])
        at += rest % dims[d] * strides[d] * bytes;
      if (at < 0 || at + bytes > room) return false;
    }
  }
  return true;
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
  if (!strides_stay_inside(p)) return false;
  for (PlanStorageId s : p.storages.ids()) {
    const plan::PlanStorage& storage = p.storages[s];
    const int64_t bytes = is_whole(p, s) ? 0 : size_bytes(p.values[storage.root].type);
    for (const auto& [piece, offset] : lies_in(p, s))
      if (offset % p.alignment_bytes != 0) return false;
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

}  // namespace

// One place of the op lists the pair; the dying input is read once, from its first byte to its
// last.
bool may_take_over(const Plan& p, PlanStorageId from, PlanStorageId heir) {
  const PlanOpId o = maker_of(p, heir);
  if (!maker_of(p, from).valid() || holds_output(p, from) || is_whole(p, from) ||
      is_piece(p, from) || p.storages[from].bytes != p.storages[heir].bytes)
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
    if (p.values[v].offset_bytes == 0 && !p.values[v].type.layout.strided() &&
        size_bytes(p.values[v].type) == size_bytes(p.values[p.storages[from].root].type))
      return true;
  }
  return false;
}

int64_t most_flow(Network& room, size_t source, size_t sink) {
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

int64_t most_saved(const Plan& p,
                   const std::vector<std::pair<PlanStorageId, PlanStorageId>>& pairs) {
  int64_t most = 0;
  for (uint32_t choice = 0; choice < 1u << pairs.size(); ++choice) {
    std::set<PlanStorageId> used;
    int64_t saved = 0;
    bool ok = true;
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (!(choice >> i & 1u)) continue;
      ok &= used.insert(pairs[i].first).second && used.insert(pairs[i].second).second;
      saved += p.storages[pairs[i].first].bytes;
    }
    if (ok) most = std::max(most, saved);
  }
  return most;
}

namespace {

// ---- the bound ----

class States {
 public:
  States(const Plan& p, PlanOpId op)
      : p_(p),
        op_(op),
        before_(predecessors(p)),
        above_(ancestors_of(p, op)),
        below_(descendants_of(p, op)) {
    below_.insert(op);
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
    return bytes - most_saved(p_, pairs);
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

  // The same as a flow.
  int64_t least_by_paths() const {
    constexpr int64_t kMuch = int64_t{1} << 61;
    const size_t n = p_.ops.size(), source = n + p_.storages.size(), sink = source + 1;
    Network room;
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
    return most_flow(room, source, sink);
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
// ops make, roles and the peak of the given order are then the same.
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
  return a.claims.certificate.peak == b.claims.certificate.peak && same_graph(a, b);
}

bool bound_is_right(const Plan& p, const Plan* known_good) {
  const plan::Claims& claims = p.claims;
  const bool once = !plan::reruns_or_moves(p);
  if (once && claims.lower_bound_bytes > claims.peak_bytes) return false;
  if (claims.order_proven != (once && claims.lower_bound_bytes >= claims.peak_bytes)) return false;
  if (!claims.certificate.peak) {
    int64_t resident = 0;
    for (PlanStorageId s : p.storages.ids())
      if (!maker_of(p, s).valid()) resident += p.storages[s].bytes;
    return claims.lower_bound_bytes == resident;
  }
  if (claims.lower_bound_bytes != claims.certificate.peak->value_bytes) return false;
  if (known_good != nullptr && same_question(p, *known_good)) return true;
  const States states(p, claims.certificate.peak->op);
  const OpSet state(claims.certificate.peak->prefix.begin(), claims.certificate.peak->prefix.end());
  if (!states.possible(state)) return false;
  const int64_t live = states.live(state);
  if (claims.certificate.peak->value_bytes != live + states.around()) return false;
  int64_t least = 0;
  if (!states.least_by_trying(least, nullptr)) least = states.least_by_paths();
  return live == least;
}

// What every schedule pays needs no evidence. More is believed of a plan that asks what the good
// plan asks.
bool time_bound_is_right(const Plan& p, const Plan* known_good) {
  const plan::Claims& claims = p.claims;
  if (claims.lower_bound_ticks <= plan::TickScale(p).once()) return true;
  if (known_good == nullptr || !claims.certificate.time) return false;
  const plan::Claims& good = known_good->claims;
  return claims.certificate.time == good.certificate.time &&
         claims.certificate.cases == good.certificate.cases &&
         claims.lower_bound_ticks <= good.lower_bound_ticks &&
         claims.budget_bytes == good.budget_bytes && p.slow_tiers == known_good->slow_tiers &&
         same_graph(p, *known_good);
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
  // After the last op only residents and results are left: never above the ops' own.
  int64_t peak = held.back();
  for (PlanOpId o : p.ops.ids()) peak = std::max(peak, held[o.index()] + p.ops[o].workspace_bytes);
  return peak;
}

bool find_certificate(const plan::Plan& plan, PlanOpId op, plan::PeakCut& certificate) {
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
    if (!updates_persist(p)) return no("updates");
    if (!slices_are_whole(p)) return no("slices");
    if (!roles_by_definition(p)) return no("roles");
  }
  int64_t peak = 0;
  if (const char* wrong = wrong_with_steps(p, peak)) return no(wrong);
  if (peak != p.claims.peak_bytes) return no("peak");
  if (peak_before_by_definition(p) != p.claims.peak_before_bytes) return no("peak before");
  if (const char* wrong = wrong_with_times(p)) return no(wrong);
  if (!time_bound_is_right(p, known_good)) return no("bound on the time");
  return bound_is_right(p, known_good) || no("bound");
}

}  // namespace lowtide::verify

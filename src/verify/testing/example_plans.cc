#include "verify/testing/example_plans.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "ops/op_table.h"
#include "plan/plan_check.h"
#include "plan/tick_scale.h"
#include "verify/facts.h"
#include "verify/testing/definition.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

class GraphMaker {
 public:
  explicit GraphMaker(Rng& rng) : rng_(rng) {}

  ir::Graph make(int ops) {
    for (int i = 0; i < 2; ++i) pool_.push_back(given(fmt::format("x{}", i), Category::kInput));
    for (int i = 0; i < 2; ++i)
      params_.push_back(given(fmt::format("w{}", i), Category::kParameter));
    scale_ = given("scale", Category::kParameter, {8});
    for (int i = 0; i < ops; ++i) {
      if (2 * i >= ops) phase_ = Phase::kBackward;
      add_op();
    }
    for (ir::ValueId v : graph_.values())
      if (graph_.readers(v).empty() && graph_.value(v).producer.valid() && rng_.below(3) > 0 &&
          shown_last(v))
        graph_.set_output(v, true);
    return std::move(graph_);
  }

 private:
  ir::ValueId given(std::string name, Category category, ir::Dims dims = {4, 8}) {
    ir::Value value;
    value.name = std::move(name);
    value.dims = std::move(dims);
    value.category = category;
    if (category == Category::kParameter) value.initial.kind = ir::InitialValue::Kind::kSeeded;
    if (rng_.below(3) == 0 && value.dims.size() == 2) {
      value.initial.kind = ir::InitialValue::Kind::kInline;
      value.initial.bytes = std::string(4 * 4 * 8, 'i');
    }
    return graph_.add_value(std::move(value));
  }

  // Not overwritten: a result may be marked only then.
  bool shown_last(ir::ValueId v) const { return !overwritten_.contains(graph_.value(v).storage); }

  ir::ValueId any() { return pool_[rng_.below(pool_.size())]; }

  void add(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs = {}) {
    const auto op =
        ops::append(graph_, kind, std::move(inputs), std::move(attrs), {.phase = phase_});
    LT_CHECK(op.has_value(), op ? "" : op.error().message);
    for (ir::ValueId v : graph_.op(*op).outputs)
      if (graph_.value(v).dims == ir::Dims{4, 8}) pool_.push_back(v);
    if (op->index() > 1 && rng_.below(6) == 0)
      graph_.add_control(ir::OpId(rng_.below(op->index())), *op);
  }

  void add_op() {
    switch (rng_.below(11)) {
      case 0:
        return add("Relu", {any()});
      case 1:
        return add("Add", {any(), any()});
      case 2:
        return add("Mul", {any(), any()});
      case 3:
        return add("Softmax", {any()}, {{"axis", int64_t{1}}});
      case 4:
        return add("MatMul", {any(), any()}, {{"trans_b", int64_t{1}}});
      case 5:
        return add_view();
      case 6:
        return add("Dropout", {any()}, {{"ratio", 0.1}, {"stream", int64_t{7}}});
      case 7:
        return add("Concat", {any(), any()}, {{"axis", int64_t{0}}});
      case 8:
        return add("Transpose", {any()}, {{"perm", ir::Dims{1, 0}}});
      default:
        return add_update();
    }
  }

  void add_view() {
    const auto sliced = ops::append(
        graph_, "Slice", {any()},
        {{"starts", ir::Dims{2, 0}}, {"sizes", ir::Dims{2, 8}}, {"steps", ir::Dims{1, 1}}},
        {.phase = phase_});
    LT_CHECK(sliced.has_value(), sliced ? "" : sliced.error().message);
    add("Reshape", {graph_.op(*sliced).outputs[0]}, {{"shape", ir::Dims{16}}});
    add("Reshape", {any()}, {{"shape", ir::Dims{8, 4}}});
  }

  void add_update() {
    ir::ValueId& param = params_[rng_.below(params_.size())];
    const ir::ValueId gradient = any();
    if (graph_.value(gradient).storage == graph_.value(param).storage) return;
    const auto op = ops::append(graph_, "SgdUpdate", {param, gradient},
                                {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}},
                                {.phase = Phase::kUpdate});
    LT_CHECK(op.has_value(), op ? "" : op.error().message);
    const ir::StorageId storage = graph_.value(param).storage;
    std::erase_if(pool_, [&](ir::ValueId v) { return graph_.value(v).storage == storage; });
    param = graph_.op(*op).outputs[0];
    pool_.push_back(param);
    overwritten_.insert(storage);
  }

  Rng& rng_;
  ir::Graph graph_;
  Phase phase_ = Phase::kForward;
  ir::ValueId scale_;
  std::vector<ir::ValueId> pool_, params_;  // what ops may read
  std::set<ir::StorageId> overwritten_;
};

class Lowering {
 public:
  Lowering(const ir::Graph& graph, Rng& rng, const LowerOptions& options)
      : graph_(graph), rng_(rng), options_(options) {}

  plan::Plan run() {
    write_values();
    write_ops();
    write_steps();
    reuse();
    write_frees();
    place();
    claim();
    return std::move(plan_);
  }

 private:
  void write_values() {
    plan_.model = "example";
    for (ir::ValueId v : graph_.values()) {
      const ir::Value& value = graph_.value(v);
      plan::PlanValue out;
      out.name = value.name;
      out.type.dtype = value.dtype;
      for (const sym::Expr& dim : value.dims) out.type.dims.push_back(*dim.constant());
      out.type.layout = value.layout;
      out.alias = static_cast<plan::PlanAlias>(value.alias);
      if (value.base.valid()) out.base = PlanValueId(value.base.index());
      out.offset_bytes = *value.offset_bytes.constant();
      out.storage = PlanStorageId(value.storage.index());
      if (value.producer.valid()) out.producer = PlanOpId(value.producer.index());
      out.is_output = value.is_output;
      out.initial.kind = static_cast<plan::PlanInitial::Kind>(value.initial.kind);
      out.initial.bytes = value.initial.bytes;
      plan_.values.push_back(std::move(out));
    }
    for (ir::StorageId s : graph_.storages()) {
      const ir::Value& root = graph_.value(graph_.storage(s).root);
      plan::PlanStorage out;
      out.root = PlanValueId(graph_.storage(s).root.index());
      const bool whole = root.alias == ir::Alias::kPieces;
      out.bytes = whole ? 0 : align_up(*ir::size_bytes(root).constant(), plan_.alignment_bytes);
      out.category = root.category;
      out.resident = !root.producer.valid();
      if (!out.resident && graph_.op(root.producer).phase == Phase::kBackward)
        out.category = Category::kTemporary;
      plan_.storages.push_back(out);
    }
    for (ir::OpId o : graph_.ops()) {
      if (graph_.op(o).phase != Phase::kUpdate) continue;
      const ir::StorageId read = graph_.value(graph_.op(o).inputs[1]).storage;
      const ir::Value& root = graph_.value(graph_.storage(read).root);
      if (root.producer.valid() && graph_.op(root.producer).phase == Phase::kBackward)
        plan_.storages[PlanStorageId(read.index())].category = Category::kGradient;
    }
  }

  void write_ops() {
    for (ir::OpId o : graph_.ops()) {
      const ir::Op& op = graph_.op(o);
      plan::PlanOp out;
      out.kind = op.kind;
      out.name = op.name;
      out.phase = op.phase;
      for (const auto& [key, attr] : op.attrs) {
        if (const auto* dims = std::get_if<ir::Dims>(&attr)) {
          std::vector<int64_t> numbers;
          for (const sym::Expr& dim : *dims) numbers.push_back(*dim.constant());
          out.attrs[key] = numbers;
        } else if (const auto* integer = std::get_if<int64_t>(&attr)) {
          out.attrs[key] = *integer;
        } else if (const auto* real = std::get_if<double>(&attr)) {
          out.attrs[key] = *real;
        } else {
          out.attrs[key] = std::get<std::string>(attr);
        }
      }
      for (ir::ValueId v : op.inputs)
        out.inputs.push_back(v.valid() ? PlanValueId(v.index()) : PlanValueId::none());
      for (ir::ValueId v : op.outputs) out.outputs.push_back(PlanValueId(v.index()));
      for (ir::OpId before : op.control) out.control.push_back(PlanOpId(before.index()));
      const bool scratch = options_.plain
                               ? op.kind == "Concat"
                               : rng_.below(4) == 0 && op.kind != "Reshape" && op.kind != "Slice";
      if (scratch) out.workspace_bytes = 64 * rng_.between(1, 4);
      out.predicted_seconds = rng_.uniform();
      plan_.ops.push_back(std::move(out));
    }
  }

  // Any order that the predecessors allow.
  void write_steps() {
    std::vector<std::set<size_t>> before(plan_.ops.size());
    for (PlanOpId o : plan_.ops.ids()) {
      for (PlanOpId b : plan_.ops[o].control) before[o.index()].insert(b.index());
      for (PlanValueId v : plan_.ops[o].inputs)
        if (v.valid() && plan_.values[v].producer.valid())
          before[o.index()].insert(plan_.values[v].producer.index());
      for (PlanValueId v : plan_.ops[o].outputs) {
        if (plan_.values[v].alias != plan::PlanAlias::kUpdate) continue;
        for (size_t earlier = 0; earlier < o.index(); ++earlier)
          for (PlanValueId read : plan_.ops[PlanOpId(earlier)].inputs)
            if (read.valid() && plan_.values[read].storage == plan_.values[v].storage)
              before[o.index()].insert(earlier);
      }
    }
    std::vector<char> ran(plan_.ops.size(), 0);
    for (size_t n = 0; n < plan_.ops.size(); ++n) {
      std::vector<size_t> ready;
      for (size_t o = 0; o < ran.size() && ready.size() < 4; ++o)
        if (!ran[o] &&
            std::all_of(before[o].begin(), before[o].end(), [&](size_t b) { return ran[b]; }))
          ready.push_back(o);
      const size_t next = options_.plain ? ready[0] : ready[rng_.below(ready.size())];
      ran[next] = 1;
      order_.push_back(PlanOpId(next));
    }
  }

  // The op that uses each storage last.
  void reuse() {
    const Facts facts(plan_);
    last_use_ = IdVector<PlanStorageId, size_t>(plan_.storages.size(), 0);
    for (size_t t = 0; t < order_.size(); ++t) {
      const auto use = [&](PlanValueId v) {
        for (const plan::PlanPiece& piece : facts.memory[plan_.values[v].storage])
          last_use_[piece.storage] = t;
      };
      for (PlanValueId v : plan_.ops[order_[t]].inputs)
        if (v.valid()) use(v);
      for (PlanValueId v : plan_.ops[order_[t]].outputs) use(v);
    }
    taken_ = IdVector<PlanStorageId, char>(plan_.storages.size(), 0);
    reuses_ = IdVector<PlanStorageId, PlanStorageId>(plan_.storages.size());
    for (size_t t = 0; t < order_.size(); ++t)
      for (const auto& [from, heir] : facts.pairs[order_[t]])
        if (last_use_[from] == t && !taken_[from] && !reuses_[heir].valid() &&
            (options_.plain || rng_.below(4) > 0)) {
          reuses_[heir] = from;
          taken_[from] = 1;
        }
  }

  void write_frees() {
    const Facts facts(plan_);
    for (size_t t = 0; t < order_.size(); ++t) {
      plan::Step step;
      step.op = order_[t];
      for (PlanStorageId s : facts.makes[step.op])
        step.makes.push_back({.storage = s, .reuses = reuses_[s]});
      plan_.steps.push_back(step);
      for (PlanStorageId s : plan_.storages.ids()) {
        if (last_use_[s] != t || !facts.maker[s].valid() || facts.is_whole[s] ||
            facts.is_output[s] || taken_[s])
          continue;
        plan::Step free;
        free.kind = plan::Step::Kind::kFree;
        free.storage = s;
        plan_.steps.push_back(free);
      }
    }
  }

  // First fit in order of time; heirs follow whom they take over.
  void place() {
    struct Range {
      int64_t begin, end;
    };
    std::vector<std::pair<PlanStorageId, Range>> alive;
    const auto fit = [&](int64_t bytes) {
      int64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const auto& [s, range] : alive)
          if (at < range.end && range.begin < at + bytes) at = range.end, moved = true;
      }
      plan_.arena_bytes = std::max(plan_.arena_bytes, at + bytes);
      return at;
    };
    const auto put = [&](PlanStorageId s, PlanStorageId reuses) {
      const auto old = std::find_if(alive.begin(), alive.end(),
                                    [&](const auto& entry) { return entry.first == reuses; });
      const int64_t bytes = plan_.storages[s].bytes;
      const int64_t address = old != alive.end() ? old->second.begin : fit(bytes);
      if (old != alive.end()) alive.erase(old);
      alive.push_back({s, {address, address + bytes}});
      return address;
    };
    const Facts facts(plan_);
    for (PlanStorageId s : plan_.storages.ids())
      if (!facts.maker[s].valid()) plan_.storages[s].address = put(s, PlanStorageId::none());
    for (plan::Step& step : plan_.steps) {
      if (step.kind == plan::Step::Kind::kFree) {
        std::erase_if(alive, [&](const auto& entry) { return entry.first == step.storage; });
        continue;
      }
      for (plan::Placement& made : step.makes) made.address = put(made.storage, made.reuses);
      if (plan_.ops[step.op].workspace_bytes > 0)
        step.workspace_address = fit(plan_.ops[step.op].workspace_bytes);
    }
  }

  void claim() {
    claim_what_is_found(plan_);
    const Report report = verify(plan_);
    plan_.claims.lower_bound_bytes = report.resident_bytes;
    plan::PeakCut certificate;
    if (options_.certificate && !plan_.ops.empty() &&
        find_certificate(plan_, plan_.steps[report.peak_step].op, certificate)) {
      plan_.claims.certificate.peak = certificate;
      plan_.claims.lower_bound_bytes = certificate.value_bytes;
    }
    plan_.claims.order_proven = plan_.claims.lower_bound_bytes == plan_.claims.peak_bytes;
  }

  const ir::Graph& graph_;
  Rng& rng_;
  const LowerOptions options_;
  plan::Plan plan_;
  std::vector<PlanOpId> order_;
  IdVector<PlanStorageId, size_t> last_use_;
  IdVector<PlanStorageId, char> taken_;
  IdVector<PlanStorageId, PlanStorageId> reuses_;
};

}  // namespace

ir::Graph random_graph(Rng& rng, int ops) {
  return GraphMaker(rng).make(ops);
}

plan::Plan lower(const ir::Graph& graph, Rng& rng, const LowerOptions& options) {
  return Lowering(graph, rng, options).run();
}

void claim_what_is_found(plan::Plan& plan) {
  const Report report = verify(plan);
  plan::Claims& claims = plan.claims;
  claims.peak_bytes = report.peak_bytes;
  claims.peak_before_bytes = peak_before_by_definition(plan);
  claims.once_seconds = report.once_seconds;
  claims.predicted_seconds = report.predicted_seconds;
  claims.exposed_seconds = report.exposed_seconds;
  claims.lower_bound_ticks = plan::TickScale(plan).once();
  claims.lower_bound_seconds = std::min(claims.once_seconds, claims.predicted_seconds);
  claims.order_proven =
      claims.lower_bound_bytes == claims.peak_bytes && !plan::reruns_or_moves(plan);
}

namespace {

// One change at a time; what verify() refuses is taken back.
class Changer {
 public:
  Changer(const plan::Plan& plan, Rng& rng) : plan_(plan), rng_(rng) {}

  void add_tier() {
    plan_.slow_tiers.push_back(
        {"host", 1 << 20, 1e5 * (1 + rng_.uniform()), 2e5, 1e-3, 1e-6 * rng_.uniform()});
    if (!plan_.slow_tiers.empty() && rng_.below(3) == 0)
      plan_.slow_tiers.push_back({"disk", 1 << 20, 1e4, 1e4, 0.1, 0});
  }

  bool move_out() {
    const PlanStorageId s(rng_.below(plan_.storages.size()));
    const auto hole = find_hole(s);
    if (!hole || plan_.storages[s].resident || plan_.storages[s].slow_tier >= 0) return false;
    plan::Plan changed = plan_;
    give_slot(changed, s);
    const auto [first, last] = *hole;
    const size_t loads = last - rng_.below(last - first);  // in (first, last]
    insert(changed, last, {.kind = plan::Step::Kind::kWait, .storage = s});
    insert(changed, loads,
           {.kind = plan::Step::Kind::kLoad, .storage = s, .address = address_of(s, first)});
    insert(changed, first + 1, {.kind = plan::Step::Kind::kFree, .storage = s});
    insert(changed, first + 1, {.kind = plan::Step::Kind::kWait, .storage = s});
    insert(changed, first + rng_.below(2), {.kind = plan::Step::Kind::kStore, .storage = s});
    return keep(changed);
  }

  bool rerun() {
    const PlanStorageId s(rng_.below(plan_.storages.size()));
    const PlanOpId op = plan_.values[plan_.storages[s].root].producer;
    const auto hole = find_hole(s);
    if (!hole || !op.valid()) return false;
    plan::Plan changed = plan_;
    const auto [first, last] = *hole;
    // Views of it run again too, as far as they are views of what this op makes.
    for (PlanOpId o : plan_.ops.ids())
      if (o != op && plan_.values[plan_.ops[o].outputs[0]].alias == plan::PlanAlias::kView &&
          plan_.values[plan_.ops[o].outputs[0]].storage == s)
        insert(changed, last, {.op = o});
    plan::Step again{.op = op};
    again.workspace_address = changed.arena_bytes;
    changed.arena_bytes += plan_.ops[op].workspace_bytes;
    again.makes.push_back({.storage = s, .address = address_of(s, first)});
    insert(changed, last, again);
    insert(changed, first + 1, {.kind = plan::Step::Kind::kFree, .storage = s});
    return keep(changed);
  }

  bool send_home() {
    const PlanStorageId s(rng_.below(plan_.storages.size()));
    if (!plan_.storages[s].resident || plan_.storages[s].home_slow) return false;
    plan::Plan changed = plan_;
    give_slot(changed, s);
    changed.storages[s].home_slow = true;
    changed.storages[s].address = 0;
    changed.steps.push_back({.kind = plan::Step::Kind::kStore, .storage = s});
    changed.steps.push_back({.kind = plan::Step::Kind::kWait, .storage = s});
    changed.steps.push_back({.kind = plan::Step::Kind::kFree, .storage = s});
    insert(changed, 0, {.kind = plan::Step::Kind::kWait, .storage = s});
    insert(changed, 0,
           {.kind = plan::Step::Kind::kLoad, .storage = s, .address = plan_.storages[s].address});
    return keep(changed);
  }

  plan::Plan take() { return std::move(plan_); }

 private:
  static void insert(plan::Plan& p, size_t at, const plan::Step& step) {
    p.steps.insert(p.steps.begin() + static_cast<std::ptrdiff_t>(at), step);
  }

  bool touches(size_t t, PlanStorageId s) const {
    const plan::Step& step = plan_.steps[t];
    if (step.kind != plan::Step::Kind::kCompute) return step.storage == s;
    for (const plan::Placement& made : step.makes)
      if (made.storage == s || made.reuses == s) return true;
    for (const auto* values : {&plan_.ops[step.op].inputs, &plan_.ops[step.op].outputs})
      for (PlanValueId v : *values)
        if (v.valid() && plan_.values[v].storage == s) return true;
    return false;
  }
  // Two steps that touch the storage, with others between them.
  std::optional<std::pair<size_t, size_t>> find_hole(PlanStorageId s) const {
    std::vector<size_t> when;
    for (size_t t = 0; t < plan_.steps.size(); ++t)
      if (touches(t, s)) when.push_back(t);
    if (when.size() < 2) return std::nullopt;
    const size_t i = rng_.below(when.size() - 1);
    if (when[i + 1] - when[i] < 2) return std::nullopt;
    return std::pair(when[i], when[i + 1]);
  }
  int64_t address_of(PlanStorageId s, size_t t) const {
    int64_t address = 0;
    for (size_t u = 0; u <= t; ++u) {
      if (plan_.steps[u].kind == plan::Step::Kind::kLoad && plan_.steps[u].storage == s)
        address = plan_.steps[u].address;
      for (const plan::Placement& made : plan_.steps[u].makes)
        if (made.storage == s) address = made.address;
    }
    return address;
  }
  void give_slot(plan::Plan& p, PlanStorageId s) {
    if (p.storages[s].slow_tier >= 0) return;
    p.storages[s].slow_tier = static_cast<int32_t>(rng_.below(p.slow_tiers.size()));
    p.storages[s].slow_address = next_slot_;
    next_slot_ += p.storages[s].bytes;
  }
  bool keep(plan::Plan& changed) {
    claim_what_is_found(changed);
    if (!verify(changed).ok()) return false;
    plan_ = std::move(changed);
    return true;
  }

  plan::Plan plan_;
  Rng& rng_;
  int64_t next_slot_ = 0;
};

}  // namespace

plan::Plan rerun_and_move(const plan::Plan& plan, Rng& rng, int tries, int* reruns, int* moves) {
  Changer changer(plan, rng);
  changer.add_tier();
  for (int i = 0; i < tries; ++i) {
    const uint64_t choice = rng.below(5);
    const bool changed = choice < 2   ? changer.rerun()
                         : choice < 4 ? changer.move_out()
                                      : changer.send_home();
    int* count = choice < 2 ? reruns : moves;
    if (changed && count != nullptr) ++*count;
  }
  plan::Plan result = changer.take();
  claim_what_is_found(result);
  return result;
}

}  // namespace lowtide::verify

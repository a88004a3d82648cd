// One walk over the sequence. A value or a moving resident is a *holding*: values first, residents
// behind them. For each of them it is known which instance is there and which transfer of it nobody
// has waited for yet.
#include "pipeline/write_steps.h"

#include <algorithm>

namespace lowtide::pipeline {
namespace {

using plan::BufferId;
using plan::PlanStorageId;
using plan::SchedAction;
using plan::SchedInstance;
using plan::SchedOpId;
using plan::SchedResidentId;
using plan::SchedValueId;
using plan::Step;

class StepWriter {
 public:
  StepWriter(const PlanInputs& in, int64_t resident_bytes)
      : in_(in),
        graph_(in.graph),
        problem_(in.view.problem),
        resident_bytes_(resident_bytes),
        holdings_(problem_.values.size() + problem_.residents.size()),
        reads_(problem_.ops.size()),
        holding_of_(graph_.storage_count(), kNone),
        taken_over_(in.profile.instances.size(), 0),
        ends_at_(in.sequence.size()),
        views_after_(graph_.op_count()),
        made_at_(graph_.op_count(), kNever),
        joined_at_(graph_.op_count(), kNever) {
    for (SchedValueId v : problem_.values.ids()) {
      holdings_[v.index()].storage = plan_id(in.view.storage[v]);
      holding_of_[in.view.storage[v]] = v.index();
      for (SchedOpId op : problem_.values[v].readers) reads_[op].push_back(v.index());
    }
    for (SchedResidentId r : problem_.residents.ids()) {
      if (!in.buffers.slot_of_resident[r].valid()) continue;  // it stays
      const size_t holding = problem_.values.size() + r.index();
      holdings_[holding].storage = plan_id(in.view.resident[r]);
      holding_of_[in.view.resident[r]] = holding;
      for (SchedOpId op : problem_.residents[r].readers) reads_[op].push_back(holding);
    }
    find_ends();
  }

  std::vector<Step> write() {
    write_first_views();
    for (at_ = 0; at_ < in_.sequence.size(); ++at_) {
      const size_t first_born = next_;
      for (; next_ < in_.profile.instances.size() && in_.profile.instances[next_].birth == at_;
           ++next_)
        holdings_[holding_of(in_.profile.instances[next_])].instance = next_;
      if (in_.sequence[at_].kind == SchedAction::Kind::kRun)
        write_run(in_.sequence[at_].op);
      else
        write_move(in_.sequence[at_], first_born);
      for (size_t ended : ends_at_[at_])
        add(Step::Kind::kFree, holdings_[holding_of(in_.profile.instances[ended])].storage);
    }
    for (Holding& holding : holdings_) wait(holding);
    for (ir::ValueId value : graph_.values())
      if (graph_.value(value).is_output) join(value);
    return std::move(steps_);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr int64_t kNever = -1;
  struct Holding {
    PlanStorageId storage{};
    size_t instance = kNone;
    bool under_way = false;               // a transfer that nobody waited for,
    bool leaving = false;                 // a store
    std::vector<ir::OpId> first_views{};  // run once it has arrived for the first time
  };

  size_t holding_of(const SchedInstance& instance) const {
    return instance.value.valid() ? size_t{instance.value.index()}
                                  : problem_.values.size() + instance.resident.index();
  }

  // Which instances are freed after which action: not those whose buffer is taken over, nor the
  // last of an output. A drop frees by itself.
  void find_ends() {
    std::vector<size_t> last(holdings_.size(), kNone);
    for (size_t i = 0; i < in_.profile.instances.size(); ++i) {
      const SchedInstance& instance = in_.profile.instances[i];
      if (instance.reuses >= 0) taken_over_[static_cast<size_t>(instance.reuses)] = 1;
      last[holding_of(instance)] = i;
    }
    for (size_t i = 0; i < in_.profile.instances.size(); ++i) {
      const SchedInstance& instance = in_.profile.instances[i];
      const bool stays = instance.value.valid() && problem_.values[instance.value].is_output &&
                         last[instance.value.index()] == i;
      const bool dropped = in_.sequence[instance.end].kind == SchedAction::Kind::kDrop &&
                           dropped_holding(in_.sequence[instance.end]) == holding_of(instance);
      if (!stays && !dropped && !taken_over_[i]) ends_at_[instance.end].push_back(i);
    }
    // What the action read first, then what it made; by value.
    for (size_t at = 0; at < ends_at_.size(); ++at)
      std::stable_sort(ends_at_[at].begin(), ends_at_[at].end(), [&](size_t a, size_t b) {
        const SchedInstance &x = in_.profile.instances[a], &y = in_.profile.instances[b];
        return std::pair(x.birth == at, holding_of(x)) < std::pair(y.birth == at, holding_of(y));
      });
  }

  size_t dropped_holding(const SchedAction& action) const {
    return action.value.valid() ? size_t{action.value.index()}
                                : problem_.values.size() + action.resident.index();
  }

  // Views by the op after which they run; those of residents come first, or with their first load.
  // Views on pieces run where somebody reads them (join).
  void write_first_views() {
    for (ir::OpId id : graph_.ops()) {
      if (!analysis::is_view_op(graph_, id)) continue;
      const ir::ValueId view = graph_.op(id).outputs[0];
      if (on_pieces(view)) continue;
      const ir::OpId made = analysis::version_producer(graph_, view);
      const size_t holding = holding_of_[graph_.value(view).storage];
      if (made.valid())
        views_after_[made].push_back(id);
      else if (holding != kNone)
        holdings_[holding].first_views.push_back(id);
      else
        add_compute(id, BufferId::none());
    }
  }

  void write_run(SchedOpId op) {
    for (size_t holding : reads_[op])
      if (!holdings_[holding].leaving) wait(holdings_[holding]);
    for (ir::ValueId input : graph_.op(in_.view.op[op]).inputs)
      if (input.valid()) join(input);
    add_compute(in_.view.op[op], in_.buffers.of_workspace[at_]);
    made_at_[in_.view.op[op]] = static_cast<int64_t>(at_);
    for (ir::OpId view : views_after_[in_.view.op[op]]) add_compute(view, BufferId::none());
  }

  bool on_pieces(ir::ValueId value) const {
    return !graph_.storage(graph_.value(value).storage).pieces.empty();
  }

  // Runs the views from the pieces to this value that did not run since a piece was made.
  // NOLINTNEXTLINE(misc-no-recursion): once per view between a piece and the value
  void join(ir::ValueId value) {
    if (!on_pieces(value)) return;
    int64_t since = kNever;
    for (const ir::Piece& piece : graph_.memory_of(value))
      since = std::max(since, made_at_[graph_.value(graph_.storage(piece.storage).root).producer]);
    const ir::OpId maker = graph_.value(value).producer;
    if (joined_at_[maker] > since) return;
    for (ir::ValueId input : graph_.op(maker).inputs)
      if (input.valid()) join(input);
    add_compute(maker, BufferId::none());
    joined_at_[maker] = static_cast<int64_t>(at_);
  }

  void write_move(const SchedAction& action, size_t born) {
    Holding& holding = holdings_[dropped_holding(action)];
    if (action.kind == SchedAction::Kind::kLoad) {
      add(Step::Kind::kLoad, holding.storage);
      steps_.back().address = address_of(born);
      holding.under_way = true;
      holding.leaving = false;
      return;
    }
    wait(holding);
    if (action.kind == SchedAction::Kind::kDrop) {
      add(Step::Kind::kFree, holding.storage);
      return;
    }
    add(Step::Kind::kStore, holding.storage);
    holding.under_way = holding.leaving = true;
  }

  // For a load: before its first use. For a store: before its drop; reads may go on meanwhile.
  void wait(Holding& holding) {
    if (!holding.under_way) return;
    add(Step::Kind::kWait, holding.storage);
    holding.under_way = holding.leaving = false;
    for (ir::OpId view : holding.first_views) add_compute(view, BufferId::none());
    holding.first_views.clear();
  }

  void add(Step::Kind kind, PlanStorageId storage) {
    Step& step = steps_.emplace_back();
    step.kind = kind;
    step.storage = storage;
  }

  void add_compute(ir::OpId op, BufferId workspace) {
    Step step;
    step.op = plan_id(op);
    if (workspace.valid())
      step.workspace_address = resident_bytes_ + in_.packing.offsets[workspace];
    for (ir::ValueId output : graph_.op(op).outputs) {
      const ir::Value& value = graph_.value(output);
      if (value.alias != ir::Alias::kOwn) continue;
      const size_t instance = holdings_[holding_of_[value.storage]].instance;
      plan::Placement& made = step.makes.emplace_back();
      made.storage = plan_id(value.storage);
      made.address = address_of(instance);
      if (const int32_t from = in_.profile.instances[instance].reuses; from >= 0)
        made.reuses =
            holdings_[holding_of(in_.profile.instances[static_cast<size_t>(from)])].storage;
    }
    steps_.push_back(std::move(step));
  }

  int64_t address_of(size_t instance) const {
    return resident_bytes_ + in_.packing.offsets[in_.buffers.of_instance[instance]];
  }

  const PlanInputs& in_;
  const ir::Graph& graph_;
  const plan::ScheduleProblem& problem_;
  const int64_t resident_bytes_;
  std::vector<Holding> holdings_;
  // Holdings: with the residents that move, which are no values of plan/problem_index.h.
  IdVector<SchedOpId, std::vector<size_t>> reads_;
  IdVector<ir::StorageId, size_t> holding_of_;
  std::vector<char> taken_over_;              // by instance
  std::vector<std::vector<size_t>> ends_at_;  // instances to free, by position
  IdVector<ir::OpId, std::vector<ir::OpId>> views_after_;
  IdVector<ir::OpId, int64_t> made_at_, joined_at_;  // where an op, or a view on pieces, ran last
  size_t at_ = 0, next_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> make_steps(const PlanInputs& inputs, int64_t resident_bytes) {
  return StepWriter(inputs, resident_bytes).write();
}

}  // namespace lowtide::pipeline

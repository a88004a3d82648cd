#include "remat/transfers/idle_spans.h"

#include <algorithm>
#include <utility>

#include "plan/problem_index.h"
#include "plan/sequence_simulator.h"

namespace lowtide::remat {
namespace {

using plan::SchedOpId;
using plan::SchedResidentId;
using plan::SchedValueId;

class IdleSpanFinder {
 public:
  IdleSpanFinder(const plan::ScheduleProblem& problem, const IdleSpanOptions& options,
                 IdleSpanView& view)
      : problem_(problem), options_(options), view_(view) {
    for (SchedOpId op : view.runs) view.seconds.push_back(problem.ops[op].seconds);
  }

  void find() {
    if (options_.values) add_values();
    if (options_.residents) add_residents();
  }

 private:
  struct Use {
    RunId run;
    bool birth, write;
  };

  void add_values() {
    const auto uses = uses_of_values();
    for (SchedValueId v : problem_.values.ids()) {
      const plan::SchedValue& value = problem_.values[v];
      Movable movable{.value = v, .bytes = value.bytes, .moved_parts = value.moved_parts};
      int version = 0;
      for (size_t i = 0; i + 1 < uses[v].size(); ++i) {
        version += uses[v][i].write;
        if (uses[v][i + 1].birth) continue;
        size_t last = i + 1;
        while (last + 1 < uses[v].size() && !uses[v][last + 1].birth) ++last;
        const bool stays = problem_.values[v].is_output && last + 1 == uses[v].size();
        add_span(movable, {.movable = {},
                           .from = just_after(uses[v][i].run),
                           .to = just_before(uses[v][i + 1].run),
                           .version = version,
                           .stays_until = stays ? RunId(view_.runs.size()) : uses[v][last].run});
      }
      keep(std::move(movable));
    }
  }

  // In order of time; a run that makes a value begins a new instance of it.
  IdVector<SchedValueId, std::vector<Use>> uses_of_values() const {
    const plan::ProblemIndex index(problem_);
    IdVector<SchedValueId, std::vector<Use>> uses(problem_.values.size());
    for (RunId run : view_.runs.ids()) {
      const SchedOpId op = view_.runs[run];
      for (SchedValueId v : index.reads[op]) uses[v].push_back({run, false, false});
      for (SchedValueId v : index.writes[op]) uses[v].back().write = true;  // reads it, too
      for (SchedValueId v : index.makes[op]) uses[v].push_back({run, true, false});
    }
    return uses;
  }

  void add_residents() {
    IdVector<SchedOpId, std::vector<RunId>> when(problem_.ops.size());
    for (RunId run : view_.runs.ids()) when[view_.runs[run]].push_back(run);
    const RunId end(view_.runs.size());
    for (SchedResidentId r : problem_.residents.ids()) {
      const plan::SchedResident& resident = problem_.residents[r];
      std::vector<Use> uses;
      for (SchedOpId reader : resident.readers)
        for (RunId run : when[reader])
          uses.push_back(
              {run, false,
               std::binary_search(resident.writers.begin(), resident.writers.end(), reader)});
      if (uses.empty()) continue;
      std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.run < b.run; });
      Movable movable{.resident = r, .bytes = resident.bytes, .moved_parts = resident.moved_parts};
      int version = 0;
      Moment from(0);
      for (const Use& use : uses) {
        add_span(movable, {{}, from, just_before(use.run), version, end});
        version += use.write;
        from = just_after(use.run);
      }
      // The last one always exists, even when no run is left for it.
      take_span(movable, {{}, from, view_.end(), version, end});
      keep(std::move(movable));
    }
  }

  void add_span(Movable& movable, const IdleSpan& span) {
    // The first idle span of a resident always exists, even when no run is before its first use.
    if (span.to <= span.from && !span.begins_with_step()) return;
    take_span(movable, span);
  }

  void take_span(Movable& movable, IdleSpan span) {
    span.movable = MovableId(view_.movables.size());
    movable.spans.push_back(view_.spans.push_back(span));
  }

  void keep(Movable&& movable) {
    if (movable.spans.empty()) return;
    if (movable.bytes == 0) {
      view_.spans.resize(view_.spans.size() - movable.spans.size());
      return;
    }
    set_tier(view_, movable, 0);
    view_.movables.push_back(std::move(movable));
  }

  const plan::ScheduleProblem& problem_;
  const IdleSpanOptions& options_;
  IdleSpanView& view_;
};

}  // namespace

Result<IdleSpanView> find_idle_spans(const plan::ScheduleProblem& problem,
                                     std::span<const plan::SchedAction> runs,
                                     const IdleSpanOptions& options) {
  LT_CHECK(problem.link.has_value(), "spans of a problem without a link");
  IdleSpanView view;
  LT_ASSIGN(plan::SequenceProfile profile, plan::simulate_sequence(problem, runs));
  view.links = plan::links_of(problem);
  for (const int64_t bytes : profile.action_bytes) view.base_bytes.push_back(bytes);
  for (const plan::SchedAction& action : runs) {
    LT_CHECK(action.kind == plan::SchedAction::Kind::kRun, "spans of a schedule with transfers");
    view.runs.push_back(action.op);
  }
  IdleSpanFinder(problem, options, view).find();
  return view;
}

TransferSeconds transfer_seconds(const Movable& movable, const plan::Link& link) {
  const auto bytes = static_cast<double>(movable.moved_bytes());
  const double latency = static_cast<double>(movable.moved_parts) * link.latency_seconds;
  return {latency + bytes / link.bytes_per_second_out, latency + bytes / link.bytes_per_second_in};
}

void set_tier(IdleSpanView& view, Movable& movable, uint8_t tier) {
  movable.tier = tier;
  const auto [out, in] = transfer_seconds(movable, view.links[tier]);
  movable.out_seconds = out;
  movable.in_seconds = in;
}

}  // namespace lowtide::remat

// The minimum cuts are dear, and a deep network has as many of them as ops. So each op first gets
// what it needs at most, all ops together in one pass (Surely): only ops for which that is above
// the floor found so far are cut. Repeated layers need the same, so a handful of cuts is left.
#include "remat/bounds/floor.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "remat/bounds/backward_search.h"
#include "remat/bounds/closure_cut_network.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FloorTuning {
  size_t borders = 4;  // beside the first one: as many parts of the given order
  // Ops of all networks together, about 1 us each: of whole steps a handful of ops is cut; of steps
  // in many parts, which need nearly alike, all would be, for hours.
  int64_t most_ops = 5'000'000;
};
constexpr FloorTuning kFloor;

// Without a link: bytes that are enough beside what the op itself needs, for each op t. One choice
// of t's cut network: exactly the ops before t in the given order have run, and what may run again
// does if it stands before a border in that order; the others' values stay. A value then stays
// from the first place at which its producer does not run again, until nobody who may still run
// needs it. Every reader says until when it needs its inputs: until it runs, or, while it may run
// again, as long as what it makes is needed. Any border will do. If all run again, a gradient that
// is small costs all that it was made of; if nobody does, every activation stays. In a choice with
// `late_leaves`, ops that nobody waits for (updates) have not run before t either: where the given
// order has them last, they would keep what they read from being made again.
class Surely {
 public:
  Surely(const StepGraph& graph, size_t border, bool late_leaves)
      : graph_(graph),
        late_leaves_(late_leaves),
        stays_from_(graph.size()),
        needed_to_(graph.problem->values.size(), 0) {
    const plan::ScheduleProblem& problem = *graph.problem;
    for (size_t i = graph.size(); i-- > 0;) {
      const SchedOpId op(i);
      const bool comes_back = problem.ops[op].may_rerun && i < border;
      stays_from_[op] = is_late(op) || comes_back ? graph.size() : i + 1;
      for (SchedOpId next : graph.waits_after[op])
        if (!is_late(next)) stays_from_[op] = std::min(stays_from_[op], size_t{next.index()});
      size_t needed = is_late(op) ? graph.size() : i;
      for (SchedValueId v : graph.makes[op]) {
        if (problem.values[v].is_output) needed_to_[v] = graph.size();
        needed = std::max(needed, std::min(stays_from_[op], needed_to_[v]));
      }
      for (SchedValueId v : graph.reads[op]) needed_to_[v] = std::max(needed_to_[v], needed);
    }
  }

  // By op, what it reads not counted; and after all of them.
  IdVector<SchedOpId, int64_t> staying_bytes() const {
    IdVector<SchedOpId, int64_t> bytes(graph_.size() + 1, 0);
    const plan::ScheduleProblem& problem = *graph_.problem;
    for (SchedValueId v : problem.values.ids()) {
      const size_t from = stays_from_[problem.values[v].producer];
      if (from >= needed_to_[v]) continue;
      bytes[SchedOpId(from)] += problem.values[v].bytes;
      bytes[SchedOpId(needed_to_[v])] -= problem.values[v].bytes;
    }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    for (SchedOpId op : graph_.ticks.ids())
      for (SchedValueId v : graph_.reads[op])
        if (stays_from_[problem.values[v].producer] <= op.index() && op.index() < needed_to_[v])
          bytes[op] -= problem.values[v].bytes;
    // What a late op itself keeps from running again stays while it runs.
    for (SchedOpId op : graph_.ticks.ids())
      for (SchedOpId next : graph_.waits_after[op])
        if (is_late(next))
          for (SchedValueId v : graph_.makes[op]) bytes[next] += problem.values[v].bytes;
    return bytes;
  }

 private:
  bool is_late(SchedOpId op) const { return late_leaves_ && graph_.succs[op].empty(); }

  const StepGraph& graph_;
  const bool late_leaves_;
  IdVector<SchedOpId, size_t> stays_from_;    // what the op makes, while ops from there on run
  IdVector<SchedValueId, size_t> needed_to_;  // and before this one
};

// The least of several choices: borders at the beginning, where most is present if nothing runs
// again (the end of a step's forward part), at the end, and some between.
IdVector<SchedOpId, int64_t> surely_staying(const StepGraph& graph) {
  IdVector<SchedOpId, int64_t> least = Surely(graph, 0, false).staying_bytes();
  const auto most = std::max_element(least.begin(), least.end());
  std::vector<size_t> borders{static_cast<size_t>(most - least.begin())};
  for (size_t k = 0; k <= kFloor.borders; ++k) borders.push_back(graph.size() * k / kFloor.borders);
  for (size_t border : borders)
    for (const bool late_leaves : {false, true}) {
      const auto bytes = Surely(graph, border, late_leaves).staying_bytes();
      for (SchedOpId op : graph.ticks.ids()) least[op] = std::min(least[op], bytes[op]);
    }
  return least;
}

void describe(const StepGraph& graph, Floor& floor) {
  const plan::ScheduleProblem& problem = *graph.problem;
  for (SchedValueId v : graph.reads[floor.op]) floor.present.push_back(v);
  for (SchedValueId v : graph.makes[floor.op]) floor.present.push_back(v);
  std::sort(floor.present.begin(), floor.present.end());
  floor.workspace_bytes = problem.ops[floor.op].workspace_bytes;
  floor.resident_bytes = problem.resident_bytes;
  if (problem.link)
    for (const plan::SchedResident& r : problem.residents)
      if (!std::binary_search(r.readers.begin(), r.readers.end(), floor.op))
        floor.resident_bytes -= r.bytes;
}

class Finder {
 public:
  Finder(const StepGraph& graph, const FloorQuestion& question)
      : problem_(*graph.problem), graph_(graph), question_(question), most_(most_bytes(graph)) {
    floor_.bytes = problem_.resident_bytes;
    if (problem_.link)
      for (const plan::SchedResident& r : problem_.residents) floor_.bytes -= r.bytes;
    floor_.resident_bytes = floor_.bytes;
  }

  Floor find() {
    std::vector<SchedOpId> ops(problem_.ops.ids().begin(), problem_.ops.ids().end());
    std::stable_sort(ops.begin(), ops.end(),
                     [&](SchedOpId a, SchedOpId b) { return most_[a] > most_[b]; });
    std::optional<Cut> highest;
    SchedOpId highest_op;
    const auto so_far = [&] { return highest ? highest->bytes : floor_.bytes; };
    const auto look_at = [&](SchedOpId op) {
      if (auto cut = cut_of(op, question_.to_exceed(so_far())))
        highest = std::move(cut), highest_op = op;
    };
    if (question_.first.valid()) look_at(question_.first);
    for (SchedOpId op : ops) {
      if (question_.is_answered(so_far(), most_[op]) || is_spent()) break;
      if (op != question_.first) look_at(op);
    }
    if (!highest) return floor_;
    if (question_.enough == FloorQuestion::kAny) choose_by_own_bytes(ops, *highest, highest_op);
    floor_.bytes = highest->bytes;
    floor_.op = highest_op;
    floor_.kept = std::move(highest->kept);
    describe(graph_, floor_);
    return floor_;
  }

 private:
  struct Cut {
    int64_t bytes = 0;
    std::vector<SchedValueId> kept;
  };

  // Of several ops that need so much, the one that needs most by itself.
  void choose_by_own_bytes(std::vector<SchedOpId>& ops, Cut& highest, SchedOpId& highest_op) {
    IdVector<SchedOpId, int64_t> own(graph_.size());
    for (SchedOpId op : ops) own[op] = graph_.own_bytes(op);
    std::sort(ops.begin(), ops.end(),
              [&](SchedOpId a, SchedOpId b) { return own[a] != own[b] ? own[a] > own[b] : a < b; });
    for (SchedOpId op : ops) {
      if (most_[op] < highest.bytes) continue;
      if (op == highest_op || is_spent()) break;
      if (auto cut = cut_of(op, highest.bytes - 1)) {
        highest = std::move(*cut), highest_op = op;
        break;
      }
    }
  }

  // What each op needs at most.
  static IdVector<SchedOpId, int64_t> most_bytes(const StepGraph& graph) {
    const plan::ScheduleProblem& problem = *graph.problem;
    int64_t always = problem.resident_bytes;
    if (problem.link)
      for (const plan::SchedResident& r : problem.residents) always -= r.bytes;
    IdVector<SchedOpId, int64_t> most =
        problem.link ? IdVector<SchedOpId, int64_t>(graph.size(), 0) : surely_staying(graph);
    for (SchedOpId op : graph.ticks.ids()) most[op] += always + graph.own_bytes(op);
    if (problem.link)
      for (const plan::SchedResident& r : problem.residents)
        for (SchedOpId op : r.readers) most[op] += r.bytes;
    return most;
  }

  // What was found until then holds: a floor is the highest of many.
  bool is_spent() const {
    return networks_ * static_cast<int64_t>(graph_.size()) > kFloor.most_ops;
  }

  // The least that the op needs, if that is above so much.
  std::optional<Cut> cut_of(SchedOpId op, int64_t above) {
    ++networks_;
    ClosureNetwork net(graph_, op);
    Cut cut{.bytes = net.fixed_bytes(), .kept = {}};
    if (!problem_.link) {
      // Everything that may run again does: at least as much stays as at best.
      const std::vector<char> all(graph_.size(), 1);
      if (cut.bytes + net.follow(all, /*with_lists=*/false).stored_bytes <= above)
        return std::nullopt;
      CutChoice choice;
      cut.bytes += net.least_bytes(choice);
      cut.kept = std::move(choice.stored);
    }
    if (cut.bytes <= above) return std::nullopt;
    return cut;
  }

  const plan::ScheduleProblem& problem_;
  const StepGraph& graph_;
  const FloorQuestion question_;
  const IdVector<SchedOpId, int64_t> most_;
  int64_t networks_ = 0;
  Floor floor_;
};

}  // namespace

Floor cut_floor(const plan::ScheduleProblem& problem, const FloorQuestion& question) {
  const StepGraph graph(problem);
  return Finder(graph, question).find();
}

Floor floor_of(const plan::ScheduleProblem& problem, const FloorQuestion& question) {
  const StepGraph graph(problem);
  Floor floor = Finder(graph, question).find();
  if (problem.link || question.is_answered(floor.bytes)) return floor;
  const auto higher = backward_floor(graph, question.to_exceed(floor.bytes));
  if (!higher) return floor;
  floor = Floor();
  floor.bytes = higher->bytes;
  floor.op = higher->op;
  floor.kept = higher->waiting;
  floor.way = {higher->goal, higher->least_bytes};
  describe(graph, floor);
  return floor;
}

}  // namespace lowtide::remat

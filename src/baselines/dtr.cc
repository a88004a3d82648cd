#include "baselines/dtr.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "plan/problem_index.h"

namespace lowtide::baselines {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct DtrTuning {
  double most_times = 50;  // each op once, so often: more time than that is no answer
  size_t most_runs = 50;   // for each op
};
constexpr DtrTuning kDtr;
constexpr double kLeastStale = 1e-12;  // seconds
constexpr int64_t kUnitsPerLook = 10;  // at a value that may be evicted

// Costs of evicted values that hang together, by union-find; a value that leaves its set leaves it
// by number alone.
class EvictedSets {
 public:
  explicit EvictedSets(size_t values) : set_of_(values) {}

  void enter(SchedValueId v, double cost, const std::vector<SchedValueId>& evicted_neighbours) {
    size_t set = parents_.size();
    parents_.push_back(set);
    costs_.push_back(cost);
    set_of_[v] = set;
    for (const SchedValueId neighbour : evicted_neighbours) {
      const size_t other = root(set_of_[neighbour]);
      if (other == set) continue;
      parents_[set] = other;
      costs_[other] += costs_[set];
      set = other;
    }
  }
  void leave(SchedValueId v, double cost) { costs_[root(set_of_[v])] -= cost; }
  size_t root_of(SchedValueId v) { return root(set_of_[v]); }
  double cost_of(size_t root) const { return std::max(0.0, costs_[root]); }

 private:
  size_t root(size_t set) {
    while (parents_[set] != set) set = parents_[set] = parents_[parents_[set]];
    return set;
  }
  IdVector<SchedValueId, size_t> set_of_;  // of evicted values
  std::vector<size_t> parents_;
  std::vector<double> costs_;  // by root
};

class Dtr {
 public:
  Dtr(const plan::ScheduleProblem& problem, const plan::ProblemIndex& index,
      const IdVector<SchedValueId, char>& never_evicted, Judge& judge)
      : problem_(problem),
        index_(index),
        never_evicted_(never_evicted),
        judge_(judge),
        values_(problem.values.size()),
        ran_(problem.ops.size(), 0),
        used_(problem.resident_bytes),
        sets_(problem.values.size()) {
    for (const SchedValueId v : problem.values.ids())
      values_[v].reads_left = problem.values[v].readers.size();
  }

  // False: the budget is not kept, or `missing()` could not be made again.
  bool run() {
    for (const SchedOpId op : problem_.ops.ids())
      if (!perform(op)) return false;
    return true;
  }
  // The value that an op of the order wanted when it could not be made again.
  SchedValueId missing() const { return missing_; }
  const std::vector<SchedAction>& sequence() const { return sequence_; }

 private:
  struct State {
    bool present = false, evicted = false;
    size_t reads_left = 0;  // by ops that have not run yet
    int locks = 0;
    double last_use = 0;
  };
  // A run whose inputs are being brought together.
  struct Frame {
    SchedOpId op;
    std::vector<SchedValueId> locked;
  };

  SchedOpId producer(SchedValueId v) const { return problem_.values[v].producer; }
  double cost(SchedValueId v) const { return problem_.ops[producer(v)].seconds; }
  bool may_run_again(SchedOpId op) const {
    const auto after = index_.waits_after[op];
    return problem_.ops[op].may_rerun &&
           std::none_of(after.begin(), after.end(), [&](SchedOpId o) { return ran_[o] != 0; });
  }
  bool is_dead(SchedValueId v) const {
    return values_[v].reads_left == 0 && !problem_.values[v].is_output;
  }

  void lock(Frame& frame, SchedValueId v) {
    ++values_[v].locks;
    frame.locked.push_back(v);
  }
  Frame begin(SchedOpId op) {
    Frame frame{op, {}};
    for (const SchedValueId v : index_.reads[op])
      if (values_[v].present) lock(frame, v);
    return frame;
  }

  // The next run of the order, with all that has to be made again for it.
  bool perform(SchedOpId op) {
    std::vector<Frame> frames{begin(op)};
    while (!frames.empty()) {
      const auto reads = index_.reads[frames.back().op];
      const auto absent = std::find_if(reads.begin(), reads.end(),
                                       [&](SchedValueId v) { return !values_[v].present; });
      if (absent != reads.end()) {
        if (!may_run_again(producer(*absent))) {
          missing_ = frames.size() == 1 ? *absent : wanted_by_first(frames);
          return false;
        }
        frames.push_back(begin(producer(*absent)));
        continue;
      }
      const Frame frame = std::move(frames.back());
      frames.pop_back();
      if (!make_room(frame.op, frames.empty())) return false;
      finish(frame, frames.empty() ? nullptr : &frames.back());
    }
    return sequence_.size() < kDtr.most_runs * problem_.ops.size() &&
           now_ <= kDtr.most_times * judge_.once_seconds();
  }

  SchedValueId wanted_by_first(const std::vector<Frame>& frames) const {
    for (const SchedValueId v : index_.reads[frames[0].op])
      if (producer(v) == frames[1].op && !values_[v].present) return v;
    return SchedValueId::none();
  }

  // Bytes that the run takes over from an input that ends with it.
  int64_t taken_over(SchedOpId op, bool of_order) const {
    int64_t bytes = 0;
    std::vector<SchedValueId> taken;
    const auto is_taken = [&](SchedValueId v) {
      return std::find(taken.begin(), taken.end(), v) != taken.end();
    };
    for (const size_t i : index_.pairs[op]) {
      const plan::InPlacePair& pair = problem_.in_place[i];
      const State& input = values_[pair.input];
      if (problem_.values[pair.input].is_output || input.locks != 1 ||
          input.reads_left > (of_order ? 1 : 0) || is_taken(pair.input) || is_taken(pair.output) ||
          values_[pair.output].present ||
          problem_.values[pair.input].bytes != problem_.values[pair.output].bytes)
        continue;
      taken.insert(taken.end(), {pair.input, pair.output});
      bytes += problem_.values[pair.input].bytes;
    }
    return bytes;
  }

  bool make_room(SchedOpId op, bool of_order) {
    int64_t needed = problem_.ops[op].workspace_bytes - taken_over(op, of_order);
    for (const SchedValueId v : index_.makes[op])
      if (!values_[v].present) needed += problem_.values[v].bytes;
    while (used_ > judge_.budget() - needed) {
      const SchedValueId victim = least_worth();
      if (!victim.valid() || judge_.work().exhausted()) return false;
      leave(victim);
    }
    return true;
  }

  SchedValueId least_worth() {
    SchedValueId best;
    double least = std::numeric_limits<double>::infinity();
    int64_t looks = 0;
    for (const SchedValueId v : problem_.values.ids()) {
      const State& state = values_[v];
      const plan::SchedValue& value = problem_.values[v];
      if (!state.present || state.locks > 0 || value.bytes == 0 || value.is_output ||
          never_evicted_[v] != 0 || !may_run_again(value.producer))
        continue;
      looks += 1 + static_cast<int64_t>(value.readers.size());
      const double stale = std::max(now_ - state.last_use, kLeastStale);
      const double worth =
          (cost(v) + neighbourhood_cost(v)) / (static_cast<double>(value.bytes) * stale);
      if (worth < least) least = worth, best = v;
    }
    judge_.work().spend(kUnitsPerLook * (looks + static_cast<int64_t>(values_.size()) / 10));
    return best;
  }

  std::vector<SchedValueId> evicted_neighbours(SchedValueId v) const {
    std::vector<SchedValueId> found;
    for (const SchedValueId input : index_.reads[producer(v)])
      if (values_[input].evicted) found.push_back(input);
    for (const SchedOpId reader : problem_.values[v].readers)
      for (const SchedValueId output : index_.makes[reader])
        if (values_[output].evicted) found.push_back(output);
    return found;
  }
  double neighbourhood_cost(SchedValueId v) {
    std::vector<size_t> roots;
    for (const SchedValueId neighbour : evicted_neighbours(v))
      roots.push_back(sets_.root_of(neighbour));
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    double sum = 0;
    for (const size_t root : roots) sum += sets_.cost_of(root);
    return sum;
  }

  void leave(SchedValueId v) {
    State& state = values_[v];
    used_ -= problem_.values[v].bytes;
    sets_.enter(v, cost(v), evicted_neighbours(v));
    state.present = false;
    state.evicted = true;
  }

  // The run itself. `above`: the run that it makes something for.
  void finish(const Frame& frame, Frame* above) {
    const SchedOpId op = frame.op;
    sequence_.push_back(SchedAction::run(op));
    now_ += problem_.ops[op].seconds;
    for (const SchedValueId v : index_.makes[op]) {
      State& state = values_[v];
      state.last_use = now_;
      if (std::exchange(state.present, true)) continue;
      used_ += problem_.values[v].bytes;
      if (std::exchange(state.evicted, false)) sets_.leave(v, cost(v));
    }
    for (const SchedValueId v : frame.locked) values_[v].last_use = now_, --values_[v].locks;
    if (above == nullptr) {
      ran_[op] = 1;
      for (const SchedValueId v : index_.reads[op]) --values_[v].reads_left;
    } else {
      for (const SchedValueId v : index_.reads[above->op])
        if (producer(v) == op && values_[v].present &&
            std::find(above->locked.begin(), above->locked.end(), v) == above->locked.end())
          lock(*above, v);
    }
    for (const SchedValueId v : frame.locked)
      if (is_dead(v) && values_[v].locks == 0 && values_[v].present) leave(v);
    for (const SchedValueId v : index_.makes[op])
      if (is_dead(v) && values_[v].locks == 0 && values_[v].present) leave(v);
  }

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex& index_;
  const IdVector<SchedValueId, char>& never_evicted_;
  Judge& judge_;
  IdVector<SchedValueId, State> values_;
  IdVector<SchedOpId, char> ran_;
  int64_t used_ = 0;
  double now_ = 0;
  EvictedSets sets_;
  SchedValueId missing_;
  std::vector<SchedAction> sequence_;
};

}  // namespace

void add_dtr(const plan::ScheduleProblem& problem, Judge& judge) {
  const plan::ProblemIndex index(problem);
  IdVector<SchedValueId, char> never_evicted(problem.values.size(), 0);
  while (judge.work().look()) {
    Dtr dtr(problem, index, never_evicted, judge);
    if (dtr.run()) {
      judge.score(dtr.sequence());
      return;
    }
    if (!dtr.missing().valid()) return;
    never_evicted[dtr.missing()] = 1;
  }
}

}  // namespace lowtide::baselines

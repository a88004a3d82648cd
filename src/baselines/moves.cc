#include "baselines/moves.h"

#include <algorithm>
#include <deque>

#include "plan/problem_index.h"
#include "plan/sequence_simulator.h"

namespace lowtide::baselines {
namespace {

// A value's one time away, by places of runs.
struct Trip {
  SchedValueId value;
  size_t last_use = 0, next_use = 0;  // runs
  size_t drop = 0, load = 0;          // right before these runs
  double stored = 0;                  // when its store ends, from the beginning
  double loaded = 0;                  // when its load begins, back from the end
};

class Timing {
 public:
  Timing(const plan::ScheduleProblem& problem, std::span<const SchedAction> runs,
         const plan::SequenceProfile& profile, int64_t memory_bytes)
      : problem_(problem), runs_(runs), present_(profile.action_bytes), memory_(memory_bytes) {}

  void find_trips(std::span<const SchedValueId> moved) {
    const plan::ProblemIndex index(problem_);
    std::vector<double> begins(runs_.size() + 1, 0);
    IdVector<SchedValueId, std::vector<size_t>> uses(problem_.values.size());
    IdVector<SchedValueId, int> births(problem_.values.size(), 0);
    for (size_t i = 0; i < runs_.size(); ++i) {
      begins[i + 1] = begins[i] + seconds(i);
      for (const SchedValueId v : index.reads[runs_[i].op]) uses[v].push_back(i);
      for (const SchedValueId v : index.makes[runs_[i].op]) ++births[v], uses[v].push_back(i);
    }
    for (const SchedValueId v : moved) {
      const plan::SchedValue& value = problem_.values[v];
      if (births[v] != 1 || !value.writers.empty() || value.is_output || value.bytes == 0) continue;
      Trip trip;
      double longest = 0;
      for (size_t k = 0; k + 1 < uses[v].size(); ++k) {
        const double idle = begins[uses[v][k + 1]] - begins[uses[v][k] + 1];
        if (uses[v][k + 1] - uses[v][k] > 1 && idle > longest)
          longest = idle, trip = {v, uses[v][k], uses[v][k + 1]};
      }
      if (longest > 0) trips_.push_back(trip);
    }
    std::stable_sort(trips_.begin(), trips_.end(),
                     [](const Trip& a, const Trip& b) { return a.last_use < b.last_use; });
  }

  // Stores and drops: forwards.
  void leave() {
    double now = 0, link_free = 0;
    std::deque<Trip*> leaving;
    size_t next = 0;
    const auto drop = [&](size_t i) {
      Trip* trip = leaving.front();
      leaving.pop_front();
      trip->drop = i;
      if (trip->next_use <= i) return;  // too late to be of use
      now = std::max(now, trip->stored);
      for (size_t k = i; k < trip->next_use; ++k) present_[k] -= bytes(*trip);
    };
    for (size_t i = 0; i < runs_.size(); ++i) {
      const auto must_leave = [&] {
        return leaving.front()->stored <= now || present_[i] > memory_ ||
               leaving.front()->next_use <= i;
      };
      while (!leaving.empty() && must_leave()) drop(i);
      now += seconds(i);
      for (; next < trips_.size() && trips_[next].last_use == i; ++next) {
        link_free =
            std::max(link_free, now) + transfer(trips_[next], problem_.link->bytes_per_second_out);
        trips_[next].stored = link_free;
        leaving.push_back(&trips_[next]);
      }
    }
    std::erase_if(trips_, [](const Trip& trip) { return trip.drop >= trip.next_use; });
  }

  // Loads: backwards. What is on its way is present.
  void come_back() {
    std::vector<Trip*> by_use;
    for (Trip& trip : trips_) by_use.push_back(&trip);
    std::stable_sort(by_use.begin(), by_use.end(),
                     [](const Trip* a, const Trip* b) { return a->next_use > b->next_use; });
    double now = 0, link_free = 0;
    std::deque<Trip*> coming;
    size_t next = 0;
    int64_t coming_bytes = 0;
    const auto load = [&](size_t i) {
      Trip* trip = coming.front();
      coming.pop_front();
      coming_bytes -= bytes(*trip);
      trip->load = std::max(i, trip->drop);
      now = std::max(now, trip->loaded);
    };
    for (size_t i = runs_.size(); i-- > 0;) {
      while (!coming.empty() && present_[i] + coming_bytes > memory_) load(i + 1);
      now += seconds(i);
      while (!coming.empty() && (coming.front()->loaded <= now || coming.front()->drop >= i))
        load(i);
      for (; next < by_use.size() && by_use[next]->next_use == i; ++next) {
        link_free =
            std::max(link_free, now) + transfer(*by_use[next], problem_.link->bytes_per_second_in);
        by_use[next]->loaded = link_free;
        coming.push_back(by_use[next]);
        coming_bytes += bytes(*by_use[next]);
      }
    }
    while (!coming.empty()) load(0);
  }

  std::vector<SchedAction> sequence() const {
    std::vector<std::vector<const Trip*>> drops(runs_.size() + 1), loads(runs_.size() + 1),
        stores(runs_.size() + 1);
    for (const Trip& trip : trips_) {
      stores[trip.last_use].push_back(&trip);
      drops[trip.drop].push_back(&trip);
      loads[trip.load].push_back(&trip);
    }
    std::vector<SchedAction> actions;
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (const Trip* trip : drops[i]) actions.push_back(SchedAction::drop(trip->value));
      // What is wanted last was given its time on the link first.
      std::stable_sort(loads[i].begin(), loads[i].end(),
                       [](const Trip* a, const Trip* b) { return a->loaded > b->loaded; });
      for (const Trip* trip : loads[i]) actions.push_back(SchedAction::load(trip->value));
      actions.push_back(runs_[i]);
      for (const Trip* trip : stores[i]) actions.push_back(SchedAction::store(trip->value));
    }
    return actions;
  }

 private:
  double seconds(size_t run) const { return problem_.ops[runs_[run].op].seconds; }
  int64_t bytes(const Trip& trip) const { return problem_.values[trip.value].bytes; }
  double transfer(const Trip& trip, double bytes_per_second) const {
    return problem_.link->latency_seconds + static_cast<double>(bytes(trip)) / bytes_per_second;
  }

  const plan::ScheduleProblem& problem_;
  std::span<const SchedAction> runs_;
  std::vector<int64_t> present_;  // during each run, when all is away from its drop to its use
  const int64_t memory_;
  std::vector<Trip> trips_;  // as they leave
};

}  // namespace

std::vector<SchedAction> with_moves(const plan::ScheduleProblem& problem,
                                    std::span<const SchedAction> runs,
                                    std::span<const SchedValueId> moved, int64_t memory_bytes) {
  const auto profile = plan::simulate_sequence(problem, runs);
  if (!profile || !problem.link) return {};
  Timing timing(problem, runs, *profile, memory_bytes);
  timing.find_trips(moved);
  timing.leave();
  timing.come_back();
  return timing.sequence();
}

}  // namespace lowtide::baselines

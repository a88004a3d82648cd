// The oracle of this folder's tests, by shortest paths (Dijkstra 1959): the best schedule of a
// small problem, of everything that a schedule may do (order, any number of reruns, transfers,
// residents that move), in the model of plan/sequence_simulator.h. Paths lead over the states of
// oracle_states.h, once for each set of residents that move.
//
// Times are compared exactly: use whole numbers (plan/testing/schedule_test_problems.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/bounds/testing/oracle_states.h"

namespace lowtide::remat {

struct OracleAnswer {
  double seconds = 0;      // of fastest(): least of all schedules within the budget
  int64_t peak_bytes = 0;  // of least_peak(): least of all schedules
  std::vector<plan::SchedAction> sequence;
};

class RematOracle {
 public:
  explicit RematOracle(const plan::ScheduleProblem& problem, const OracleOptions& options = {})
      : problem_(problem), options_(options) {
    options_.transfers &= problem.link.has_value();
  }

  // The fastest schedule within the budget; without one, of all. Nothing if none fits.
  std::optional<OracleAnswer> fastest() { return over_moving_residents(false); }
  // The schedule of least peak, whatever its time.
  std::optional<OracleAnswer> least_peak() { return over_moving_residents(true); }
  // False when an answer was given up for the number of states.
  bool complete() const { return complete_; }

 private:
  using State = OracleStates::State;
  struct Reached {
    double key = 0;  // time of the compute stream, or the peak
    const State* from = nullptr;
    std::optional<plan::SchedAction> action;
    bool settled = false;
  };
  using Item = std::pair<double, const State*>;
  struct Later {
    bool operator()(const Item& a, const Item& b) const { return a.first > b.first; }
  };

  std::optional<OracleAnswer> over_moving_residents(bool peak_only) {
    std::optional<OracleAnswer> best;
    const size_t residents = options_.transfers ? problem_.residents.size() : 0;
    for (uint32_t moving = 0; moving < (1u << residents); ++moving) {
      double better_than = std::numeric_limits<double>::infinity();
      if (best) better_than = peak_only ? static_cast<double>(best->peak_bytes) : best->seconds;
      if (auto answer = search(moving, peak_only, better_than)) best = std::move(answer);
    }
    return best;
  }

  std::optional<OracleAnswer> search(uint32_t moving, bool peak_only, double better_than) {
    const OracleStates states(problem_, options_, peak_only, moving);
    if (!peak_only && problem_.budget_bytes && states.start_bytes() > *problem_.budget_bytes)
      return {};
    map_.clear();
    queue_ = {};
    reach(states.start(), peak_only ? static_cast<double>(states.start_bytes()) : 0, nullptr, {});
    const State* goal = nullptr;
    while (!queue_.empty() && queue_.top().first < better_than) {
      const auto [key, state] = queue_.top();
      queue_.pop();
      Reached& reached = map_.at(*state);
      if (std::exchange(reached.settled, true)) continue;
      if (static_cast<int64_t>(map_.size()) > options_.max_states) {
        complete_ = false;
        return {};
      }
      if (states.is_goal(*state) && key + states.rest(*state) < better_than) {
        better_than = key + states.rest(*state);
        goal = state;
      }
      states.expand(
          *state, [&, from = state, so_far = key](State next, int64_t bytes, double seconds,
                                                  const std::optional<plan::SchedAction>& action) {
            reach(std::move(next),
                  peak_only ? std::max(so_far, static_cast<double>(bytes)) : so_far + seconds, from,
                  action);
          });
    }
    if (goal == nullptr) return {};
    OracleAnswer answer;
    if (peak_only) {
      answer.peak_bytes = static_cast<int64_t>(better_than);
    } else {
      answer.seconds = better_than;
    }
    answer.sequence = path_to(goal);
    return answer;
  }

  void reach(State state, double key, const State* from,
             const std::optional<plan::SchedAction>& action) {
    const auto [entry, is_new] = map_.try_emplace(std::move(state));
    if (!is_new && entry->second.key <= key) return;
    entry->second = {key, from, action, false};
    queue_.push({key, &entry->first});
  }

  std::vector<plan::SchedAction> path_to(const State* state) const {
    std::vector<plan::SchedAction> path;
    for (; state != nullptr; state = map_.at(*state).from)
      if (const auto& action = map_.at(*state).action) path.push_back(*action);
    std::reverse(path.begin(), path.end());
    return path;
  }

  const plan::ScheduleProblem& problem_;
  OracleOptions options_;
  bool complete_ = true;
  std::unordered_map<State, Reached, OracleStates::Hash> map_;
  std::priority_queue<Item, std::vector<Item>, Later> queue_;
};

}  // namespace lowtide::remat

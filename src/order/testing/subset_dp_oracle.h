// Dynamic programming over all closed sets of ops (a subset DP), the oracle of this folder's tests:
// optimum and cuts of small problems, straight from the definitions in plan/schedule_problem.h.
// Shares no code with the solver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/schedule_problem.h"

namespace lowtide::order {

class SubsetDp {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // At most 20 ops.
  explicit SubsetDp(const plan::ScheduleProblem& problem)
      : problem_(problem),
        n_(problem.ops.size()),
        needs_(n_, 0),
        makes_(n_),
        readers_(problem.values.size(), 0) {
    for (plan::SchedValueId v : problem.values.ids()) {
      const auto& value = problem.values[v];
      makes_[value.producer.index()].push_back(v);
      for (plan::SchedOpId r : value.readers) {
        readers_[v.index()] |= 1u << r.index();
        needs_[r.index()] |= 1u << value.producer.index();
      }
    }
    for (const auto& [first, second] : problem.control)
      needs_[second.index()] |= 1u << first.index();
    for (uint32_t set = 0; set < (1u << n_); ++set)
      if (is_closed(set)) closed_.push_back(set);
  }

  // Least over all completions of `from` of the largest step peak, resident bytes included.
  int64_t best_completion(uint32_t from) const {
    std::vector<int64_t> best(size_t{1} << n_, kNever);
    best[from] = problem_.resident_bytes;
    for (uint32_t set : closed_) {  // ascending, so subsets come first
      if (best[set] == kNever) continue;
      for (size_t v = 0; v < n_; ++v) {
        if (!can_run(set, v)) continue;
        auto& next = best[set | 1u << v];
        next = std::min(next, std::max(best[set], step_peak(set, v)));
      }
    }
    return best[(size_t{1} << n_) - 1];
  }
  int64_t optimum() const { return best_completion(0); }

  bool can_run(uint32_t set, size_t v) const { return !(set >> v & 1) && (needs_[v] & ~set) == 0; }
  const std::vector<uint32_t>& closed_sets() const { return closed_; }

  // Bytes that remain after `set`, resident bytes included.
  int64_t live(uint32_t set) const {
    int64_t bytes = problem_.resident_bytes;
    for (plan::SchedValueId v : problem_.values.ids()) {
      const auto& value = problem_.values[v];
      const bool made = set >> value.producer.index() & 1;
      if (made && (value.is_output || (readers_[v.index()] & ~set) != 0)) bytes += value.bytes;
    }
    return bytes;
  }

  int64_t step_peak(uint32_t set, size_t v) const {
    return live(set) + appearing(v) - reused(v, [&](plan::SchedValueId in) {
             return (readers_[in.index()] & ~set) == 1u << v;
           });
  }

  // The right-hand side of the cut bound of op v, by looking at every closed set that holds its
  // ancestors but not v.
  int64_t cut(size_t v) const {
    int64_t least = kNever;
    uint32_t most = 0;  // the largest such set: everything but v and its descendants
    for (uint32_t set : closed_) {
      if (!can_run(set, v)) continue;
      least = std::min(least, live(set));
      most |= set;
    }
    const int64_t most_reused =
        reused(v, [&](plan::SchedValueId in) { return (readers_[in.index()] & ~most) == 1u << v; });
    return least + appearing(v) - most_reused;
  }
  int64_t best_cut() const {
    int64_t best = problem_.resident_bytes;
    for (size_t v = 0; v < n_; ++v) best = std::max(best, cut(v));
    return best;
  }

 private:
  bool is_closed(uint32_t set) const {
    for (size_t v = 0; v < n_; ++v)
      if ((set >> v & 1) && (needs_[v] & ~set) != 0) return false;
    return true;
  }
  int64_t appearing(size_t v) const {
    int64_t bytes = problem_.ops[plan::SchedOpId(v)].workspace_bytes;
    for (plan::SchedValueId out : makes_[v]) bytes += problem_.values[out].bytes;
    return bytes;
  }
  template <class LastReader>
  int64_t reused(size_t v, LastReader is_last) const {
    int64_t saved = 0;
    std::vector<plan::SchedValueId> used;
    for (const auto& pair : problem_.in_place) {
      const auto& in = problem_.values[pair.input];
      const auto& out = problem_.values[pair.output];
      if (pair.op.index() != v || in.is_output || in.bytes != out.bytes || !is_last(pair.input))
        continue;
      if (std::count(used.begin(), used.end(), pair.input) > 0 ||
          std::count(used.begin(), used.end(), pair.output) > 0)
        continue;
      used.push_back(pair.input);
      used.push_back(pair.output);
      saved += in.bytes;
    }
    return saved;
  }

  const plan::ScheduleProblem& problem_;
  size_t n_;
  std::vector<uint32_t> needs_;
  std::vector<std::vector<plan::SchedValueId>> makes_;
  std::vector<uint32_t> readers_;
  std::vector<uint32_t> closed_;
};

}  // namespace lowtide::order

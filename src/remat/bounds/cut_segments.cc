#include "remat/bounds/cut_segments.h"

#include <algorithm>

#include "remat/bounds/closure_cut_network.h"

namespace lowtide::remat {

std::optional<std::vector<SchedOpId>> multi_cut_with(const StepGraph& graph,
                                                     std::vector<SchedOpId> cuts, SchedOpId op) {
  const auto side = sides_of(graph, op);
  size_t at = 0;
  for (SchedOpId cut : cuts) {
    if (side[cut] == Side::kOther || side[cut] == Side::kSelf) return std::nullopt;
    at += side[cut] == Side::kBefore;
  }
  cuts.insert(cuts.begin() + static_cast<std::ptrdiff_t>(at), op);
  return cuts;
}

namespace {

void find_segments(const StepGraph& graph, CutSegments& s) {
  const size_t n = graph.size(), cuts = s.size();
  s.first = IdVector<SchedOpId, size_t>(n, 0);
  s.latest = s.last = IdVector<SchedOpId, size_t>(n, cuts);
  for (size_t i = cuts; i-- > 0;) {
    const auto side = sides_of(graph, s.cuts[i]);
    for (SchedOpId op : side.ids()) {
      if (side[op] == Side::kBefore) s.latest[op] = i;
      if (side[op] == Side::kAfter || side[op] == Side::kSelf)
        s.first[op] = std::max(s.first[op], i + 1);
    }
    s.latest[s.cuts[i]] = i + 1;
  }
  for (SchedOpId op : s.last.ids()) {
    if (!graph.problem->ops[op].may_rerun) s.last[op] = s.latest[op];
    for (SchedOpId next : graph.waits_after[op]) {
      const bool is_cut = std::find(s.cuts.begin(), s.cuts.end(), next) != s.cuts.end();
      s.last[op] = std::min(s.last[op], s.latest[next] - (is_cut ? 1 : 0));
    }
  }
}

void find_bytes(const StepGraph& graph, SchedOpId cut, CutSegments& s) {
  const plan::ScheduleProblem& problem = *graph.problem;
  const ClosureNetwork network(graph, cut);
  s.capacity.push_back(*problem.budget_bytes - network.fixed_bytes());
  IdVector<SchedValueId, int64_t> bytes(problem.values.size());
  for (SchedValueId v : bytes.ids()) bytes[v] = network.charged_bytes(v);
  s.stay_bytes.push_back(std::move(bytes));
  IdVector<SchedValueId, char> is_input(problem.values.size(), 0);
  for (SchedValueId v : graph.reads[cut]) is_input[v] = 1;
  s.is_input.push_back(std::move(is_input));
}

}  // namespace

CutSegments::CutSegments(const StepGraph& step, std::vector<SchedOpId> ops)
    : graph(&step), cuts(std::move(ops)) {
  find_segments(step, *this);
  for (SchedOpId cut : cuts) find_bytes(step, cut, *this);
}

}  // namespace lowtide::remat

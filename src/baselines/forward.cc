#include "baselines/forward.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lowtide::baselines {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ForwardTuning {
  size_t middles = 64;  // ops that may be the middle: where most is present
};
constexpr ForwardTuning kForward;

// The op itself and what it depends on, or what depends on it.
IdVector<SchedOpId, char> reached(const plan::ScheduleProblem& problem,
                                  const plan::ProblemIndex& index, SchedOpId from, bool up) {
  IdVector<SchedOpId, char> seen(problem.ops.size(), 0);
  std::vector<SchedOpId> found{from};
  seen[from] = 1;
  const auto visit = [&](SchedOpId op) {
    if (!index.is_op(op) || seen[op] != 0) return;
    seen[op] = 1;
    found.push_back(op);
  };
  for (size_t i = 0; i < found.size(); ++i) {
    const SchedOpId op = found[i];
    if (up) {
      for (const SchedValueId v : index.reads[op]) visit(problem.values[v].producer);
    } else {
      for (const SchedValueId v : index.makes[op])
        for (const SchedOpId reader : index.readers[v]) visit(reader);
    }
  }
  return seen;
}

// Bytes of what `op` depends on that are read by what depends on it.
int64_t crossing(const plan::ScheduleProblem& problem, const IdVector<SchedOpId, char>& above,
                 SchedOpId op, const IdVector<SchedOpId, char>& below) {
  int64_t bytes = 0;
  for (const plan::SchedValue& value : problem.values)
    if (above[value.producer] != 0 && problem.ops[value.producer].may_rerun &&
        std::any_of(value.readers.begin(), value.readers.end(),
                    [&](SchedOpId reader) { return reader != op && below[reader] != 0; }))
      bytes += value.bytes;
  return bytes;
}

// Ops at which most bytes are present in the order that came in, in that order.
std::vector<SchedOpId> fullest_ops(const plan::ScheduleProblem& problem) {
  std::vector<int64_t> present(problem.ops.size() + 1, 0);
  for (const plan::SchedValue& value : problem.values) {
    size_t last = value.producer.index();
    if (!value.readers.empty()) last = std::max<size_t>(last, value.readers.back().index());
    if (value.is_output) last = problem.ops.size() - 1;
    present[value.producer.index()] += value.bytes;
    present[last + 1] -= value.bytes;
  }
  std::partial_sum(present.begin(), present.end(), present.begin());
  std::vector<SchedOpId> ops;
  for (const SchedOpId op : problem.ops.ids()) ops.push_back(op);
  std::stable_sort(ops.begin(), ops.end(), [&](SchedOpId a, SchedOpId b) {
    return present[a.index()] > present[b.index()];
  });
  if (ops.size() > kForward.middles) ops.resize(kForward.middles);
  std::sort(ops.begin(), ops.end());
  return ops;
}

}  // namespace

IdVector<SchedOpId, char> forward_part(const plan::ScheduleProblem& problem,
                                       const plan::ProblemIndex& index) {
  IdVector<SchedOpId, char> best(problem.ops.size(), 0);
  int64_t most = 0;
  for (const SchedOpId op : fullest_ops(problem)) {
    IdVector<SchedOpId, char> above = reached(problem, index, op, true);
    const int64_t bytes = crossing(problem, above, op, reached(problem, index, op, false));
    if (bytes > most) most = bytes, best = std::move(above);
  }
  return best;
}

}  // namespace lowtide::baselines

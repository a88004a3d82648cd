#include "remat/bounds/floor.h"

#include <algorithm>
#include <numeric>

namespace lowtide::remat {
namespace {

// What is present while an op runs, whatever it reuses; the floor of the op is at most this and
// what could be needed later.
int64_t own_bytes(const StepGraph& graph, SchedOpId op) {
  const plan::ScheduleProblem& problem = *graph.problem;
  int64_t bytes = problem.ops[op].workspace_bytes;
  for (SchedValueId v : graph.reads[op]) bytes += problem.values[v].bytes;
  for (SchedValueId v : graph.makes[op]) bytes += problem.values[v].bytes;
  return bytes;
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

}  // namespace

Floor floor_of(const plan::ScheduleProblem& problem) {
  const StepGraph graph(problem);
  Floor floor;
  floor.bytes = problem.resident_bytes;
  if (problem.link)
    for (const plan::SchedResident& r : problem.residents) floor.bytes -= r.bytes;
  floor.resident_bytes = floor.bytes;
  std::vector<SchedOpId> ops(problem.ops.ids().begin(), problem.ops.ids().end());
  IdVector<SchedOpId, int64_t> own(graph.size());
  for (SchedOpId op : ops) own[op] = own_bytes(graph, op);
  std::stable_sort(ops.begin(), ops.end(),
                   [&](SchedOpId a, SchedOpId b) { return own[a] > own[b]; });
  const std::vector<char> all(graph.size(), 1);
  int64_t fixed = 0;
  for (SchedOpId op : ops) {
    ClosureNetwork net(graph, op);
    CutChoice choice;
    int64_t bytes = net.fixed_bytes();
    if (!problem.link) {
      // Everything that may run again does: at least as much stays as at best.
      if (bytes + net.follow(all).stored_bytes <= floor.bytes) continue;
      bytes += net.least_bytes(choice);
    }
    if (bytes <= floor.bytes) continue;
    floor = {};
    floor.bytes = bytes;
    floor.op = op;
    floor.kept = choice.stored;
    fixed = net.fixed_bytes();
  }
  if (!floor.op.valid()) return floor;
  describe(graph, floor);
  floor.reused_bytes = floor.resident_bytes + own[floor.op] - fixed;
  return floor;
}

}  // namespace lowtide::remat

#include "plan/problem_index.h"

#include <utility>
#include <vector>

namespace lowtide::plan {

ProblemIndex::ProblemIndex(const ScheduleProblem& problem)
    : op_count(problem.ops.size()), value_count(problem.values.size()) {
  std::vector<std::pair<SchedOpId, SchedValueId>> read, made, written;
  std::vector<std::pair<SchedValueId, SchedOpId>> reader_of;
  size_t uses = 0;
  for (const SchedValue& value : problem.values) uses += value.readers.size() + value.is_output;
  made.reserve(value_count);
  reader_of.reserve(uses);
  for (const SchedValueId v : problem.values.ids()) {
    const SchedValue& value = problem.values[v];
    made.emplace_back(value.producer, v);
    for (const SchedOpId reader : value.readers) reader_of.emplace_back(v, reader);
    if (value.is_output) reader_of.emplace_back(v, end());
    for (const SchedOpId writer : value.writers) written.emplace_back(writer, v);
  }
  read.reserve(uses);
  for (const auto& [v, reader] : reader_of) read.emplace_back(reader, v);
  reads = {rows(), read};
  makes = {rows(), made};
  writes = {rows(), written};
  readers = {value_count, reader_of};
  waits_after = {rows(), problem.control};
  std::vector<std::pair<SchedOpId, SchedOpId>> back;
  back.reserve(problem.control.size());
  for (const auto& [first, second] : problem.control) back.emplace_back(second, first);
  waits_for = {rows(), back};
  std::vector<std::pair<SchedOpId, size_t>> pair_of;
  pair_of.reserve(problem.in_place.size());
  for (size_t i = 0; i < problem.in_place.size(); ++i)
    pair_of.emplace_back(problem.in_place[i].op, i);
  pairs = {rows(), pair_of};
}

}  // namespace lowtide::plan

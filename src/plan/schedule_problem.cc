#include "plan/schedule_problem.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"

namespace lowtide::plan {
namespace {

tl::unexpected<Error> bad(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

Status check_value(const ScheduleProblem& problem, SchedValueId id) {
  const SchedValue& value = problem.values[id];
  const size_t n = problem.ops.size();
  if (value.bytes < 0)
    return bad(
        fmt::format("value {} has {} bytes; sizes are not negative", id.index(), value.bytes));
  if (!value.producer.valid() || value.producer.index() >= n)
    return bad(fmt::format("value {} has producer {}; ops are 0 to {}", id.index(),
                           value.producer.valid() ? int64_t{value.producer.index()} : -1,
                           static_cast<int64_t>(n) - 1));
  for (size_t i = 0; i < value.readers.size(); ++i) {
    const SchedOpId reader = value.readers[i];
    if (reader.index() >= n)
      return bad(fmt::format("value {} is read by op {}; there are {} ops", id.index(),
                             reader.index(), n));
    if (reader <= value.producer)
      return bad(
          fmt::format("value {} is made by op {} and read by op {}, which comes no later; list ops "
                      "in a valid order",
                      id.index(), value.producer.index(), reader.index()));
    if (i > 0 && !(value.readers[i - 1] < reader))
      return bad(fmt::format("the readers of value {} are not ascending at op {}", id.index(),
                             reader.index()));
  }
  return {};
}

Status check_pairs(const ScheduleProblem& problem) {
  SchedOpId last(0);
  for (const InPlacePair& pair : problem.in_place) {
    if (pair.op.index() >= problem.ops.size() || pair.input.index() >= problem.values.size() ||
        pair.output.index() >= problem.values.size())
      return bad("an in-place pair names an op or value that does not exist");
    const auto& readers = problem.values[pair.input].readers;
    if (!std::binary_search(readers.begin(), readers.end(), pair.op) ||
        problem.values[pair.output].producer != pair.op)
      return bad(fmt::format("in-place pair of op {}: it must read value {} and make value {}",
                             pair.op.index(), pair.input.index(), pair.output.index()));
    if (pair.op < last)
      return bad(fmt::format("in-place pairs are not sorted by op at op {}", pair.op.index()));
    last = pair.op;
  }
  return {};
}

}  // namespace

Status check(const ScheduleProblem& problem) {
  if (problem.resident_bytes < 0)
    return bad(fmt::format("{} resident bytes; sizes are not negative", problem.resident_bytes));
  int64_t total = problem.resident_bytes;
  const auto add = [&](int64_t bytes) {
    const auto sum = checked_add(total, bytes);
    if (!sum || *sum > kMaxBytes) return false;
    total = *sum;
    return true;
  };
  for (SchedOpId op : problem.ops.ids()) {
    if (problem.ops[op].workspace_bytes < 0)
      return bad(fmt::format("op {} has {} bytes of workspace; sizes are not negative", op.index(),
                             problem.ops[op].workspace_bytes));
    if (!add(problem.ops[op].workspace_bytes)) return bad("all sizes together exceed 2^62 bytes");
  }
  for (SchedValueId v : problem.values.ids()) {
    LT_RETURN_IF_ERROR(check_value(problem, v));
    if (!add(problem.values[v].bytes)) return bad("all sizes together exceed 2^62 bytes");
  }
  for (const auto& [first, second] : problem.control)
    if (second.index() >= problem.ops.size() || !(first < second))
      return bad(fmt::format("control edge {} -> {} does not follow the incoming order",
                             first.index(), second.index()));
  return check_pairs(problem);
}

}  // namespace lowtide::plan

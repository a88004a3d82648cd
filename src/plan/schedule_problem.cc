#include "plan/schedule_problem.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "plan/tick_scale.h"

namespace lowtide::plan {

ScheduleProblem::ScheduleProblem() = default;
ScheduleProblem::ScheduleProblem(const ScheduleProblem&) = default;
ScheduleProblem::ScheduleProblem(ScheduleProblem&&) noexcept = default;
ScheduleProblem& ScheduleProblem::operator=(const ScheduleProblem&) = default;
ScheduleProblem& ScheduleProblem::operator=(ScheduleProblem&&) noexcept = default;
ScheduleProblem::~ScheduleProblem() = default;

namespace {

tl::unexpected<Error> bad(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

constexpr size_t kMostLinks = 255;

// Checks the ops that read and overwrite `what`, a value or resident.
Status check_uses(const ScheduleProblem& problem, const std::string& what,
                  const std::vector<SchedOpId>& readers, const std::vector<SchedOpId>& writers) {
  for (size_t i = 0; i < readers.size(); ++i) {
    if (!readers[i].valid() || readers[i].index() >= problem.ops.size())
      return bad(fmt::format("{} is read by an op that does not exist; there are {} ops", what,
                             problem.ops.size()));
    if (i > 0 && !(readers[i - 1] < readers[i]))
      return bad(
          fmt::format("the readers of {} are not ascending at op {}", what, readers[i].index()));
  }
  for (size_t i = 0; i < writers.size(); ++i) {
    if (!std::binary_search(readers.begin(), readers.end(), writers[i]))
      return bad(fmt::format("a writer of {} is not among its readers", what));
    if (i > 0 && !(writers[i - 1] < writers[i]))
      return bad(
          fmt::format("the writers of {} are not ascending at op {}", what, writers[i].index()));
    if (problem.ops[writers[i]].may_rerun)
      return bad(fmt::format("op {} overwrites {} and may run again; it must not",
                             writers[i].index(), what));
  }
  return {};
}

template <class Moved>
Status check_moved(const std::string& who, const Moved& moved) {
  constexpr int64_t kMostParts = int64_t{1} << 20;
  const int64_t parts = moved.moved_parts;
  if (parts < 1 || parts > kMostParts || moved.bytes > kMaxBytes / parts)
    return bad(
        fmt::format("{} moves in {} parts of {} bytes; it must be from 1 to {} parts, and at "
                    "most 2^62 bytes of all",
                    who, parts, moved.bytes, kMostParts));
  return {};
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
  LT_RETURN_IF_ERROR(
      check_uses(problem, fmt::format("value {}", id.index()), value.readers, value.writers));
  if (!value.readers.empty() && value.readers.front() <= value.producer)
    return bad(
        fmt::format("value {} is made by op {} and read by op {}, which comes no later; list ops "
                    "in a valid order",
                    id.index(), value.producer.index(), value.readers.front().index()));
  LT_RETURN_IF_ERROR(check_moved(fmt::format("value {}", id.index()), value));
  if (!value.writers.empty() && problem.ops[value.producer].may_rerun)
    return bad(fmt::format("value {} is overwritten, but its producer, op {}, may run again",
                           id.index(), value.producer.index()));
  return {};
}

Status check_residents(const ScheduleProblem& problem) {
  int64_t bytes = 0;
  for (SchedResidentId r : problem.residents.ids()) {
    const SchedResident& resident = problem.residents[r];
    if (resident.bytes < 0 || resident.bytes > problem.resident_bytes - bytes)
      return bad(fmt::format("resident {} has {} bytes; all of them together have {}", r.index(),
                             resident.bytes, problem.resident_bytes));
    bytes += resident.bytes;
    LT_RETURN_IF_ERROR(check_moved(fmt::format("resident {}", r.index()), resident));
    LT_RETURN_IF_ERROR(check_uses(problem, fmt::format("resident {}", r.index()), resident.readers,
                                  resident.writers));
  }
  return {};
}

Status check_link(const Link& link) {
  for (const double speed : {link.bytes_per_second_out, link.bytes_per_second_in})
    if (!(speed >= 1))
      return bad(fmt::format("the link moves {} bytes per second; it must be at least 1", speed));
  if (!(link.latency_seconds >= 0 && link.latency_seconds <= kMaxSeconds))
    return bad(fmt::format("the link has a latency of {} seconds; it must be from 0 to {}",
                           link.latency_seconds, kMaxSeconds));
  if (!(link.compute_seconds_per_byte >= 0 && link.compute_seconds_per_byte <= 1))
    return bad(fmt::format("the link takes {} seconds of compute per byte; it must be from 0 to 1",
                           link.compute_seconds_per_byte));
  if (link.bytes < 1)
    return bad(
        fmt::format("the tier of a link has room for {} bytes; it must be at least 1", link.bytes));
  return {};
}

Status check_links(const ScheduleProblem& problem) {
  if (!problem.link && !problem.more_links.empty())
    return bad("there are further links, but no first one");
  const std::vector<Link> links = links_of(problem);
  if (links.size() > kMostLinks)
    return bad(
        fmt::format("there are {} links; at most {} are possible", links.size(), kMostLinks));
  for (const Link& link : links) LT_RETURN_IF_ERROR(check_link(link));
  return {};
}

Status check_op(const ScheduleProblem& problem, SchedOpId op) {
  const SchedOp& o = problem.ops[op];
  if (o.workspace_bytes < 0)
    return bad(fmt::format("op {} has {} bytes of workspace; sizes are not negative", op.index(),
                           o.workspace_bytes));
  if (!(o.seconds >= 0 && o.seconds <= kMaxSeconds))
    return bad(fmt::format("op {} takes {} seconds; it must be from 0 to {}", op.index(), o.seconds,
                           kMaxSeconds));
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
    LT_RETURN_IF_ERROR(check_op(problem, op));
    if (!add(problem.ops[op].workspace_bytes)) return bad("all sizes together exceed 2^62 bytes");
  }
  for (SchedValueId v : problem.values.ids()) {
    LT_RETURN_IF_ERROR(check_value(problem, v));
    if (!add(problem.values[v].moved_bytes())) return bad("all sizes together exceed 2^62 bytes");
  }
  for (const auto& [first, second] : problem.control)
    if (second.index() >= problem.ops.size() || !(first < second))
      return bad(fmt::format("control edge {} -> {} does not follow the incoming order",
                             first.index(), second.index()));
  LT_RETURN_IF_ERROR(check_pairs(problem));
  LT_RETURN_IF_ERROR(check_residents(problem));
  return check_links(problem);
}

std::vector<SchedAction> runs_of(std::span<const SchedAction> sequence) {
  std::vector<SchedAction> runs;
  for (const SchedAction& action : sequence)
    if (action.kind == SchedAction::Kind::kRun) runs.push_back(action);
  return runs;
}

std::vector<Link> links_of(const ScheduleProblem& problem) {
  std::vector<Link> links = problem.more_links;
  if (problem.link) links.insert(links.begin(), *problem.link);
  return links;
}

std::optional<Link> combined_link(const ScheduleProblem& problem) {
  std::optional<Link> all = problem.link;
  for (const Link& link : problem.more_links) {
    all->bytes_per_second_out += link.bytes_per_second_out;
    all->bytes_per_second_in += link.bytes_per_second_in;
    all->latency_seconds = std::min(all->latency_seconds, link.latency_seconds);
    all->compute_seconds_per_byte =
        std::min(all->compute_seconds_per_byte, link.compute_seconds_per_byte);
    all->bytes =
        all->bytes > Link::kUnlimited - link.bytes ? Link::kUnlimited : all->bytes + link.bytes;
  }
  return all;
}

void forbid_transfers(ScheduleProblem& problem) {
  problem.link.reset();
  problem.more_links.clear();
}

}  // namespace lowtide::plan

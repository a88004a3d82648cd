#include "plan/remat_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "plan/schedule_scanner.h"

namespace lowtide::plan {
namespace {

Result<SchedOp> read_op(ScheduleScanner& scanner) {
  SchedOp op;
  LT_ASSIGN(const double microseconds, scanner.real("cost"));
  if (microseconds < 0) return scanner.bad("the cost is negative");
  op.seconds = microseconds * 1e-6;
  LT_ASSIGN(const int64_t may_rerun, scanner.number("may-recompute flag", 1));
  op.may_rerun = may_rerun != 0;
  LT_RETURN_IF_ERROR(scanner.end_line());
  return op;
}

Status read_edges(ScheduleScanner& scanner, ScheduleProblem& problem) {
  if (!scanner.next_line()) return scanner.bad("the number of edges is missing");
  LT_ASSIGN(const int64_t edges, scanner.number("number of edges", kMostIndex));
  LT_RETURN_IF_ERROR(scanner.end_line());
  const auto most = static_cast<int64_t>(problem.ops.size()) - 1;
  for (int64_t i = 0; i < edges; ++i) {
    if (!scanner.next_line())
      return scanner.bad(fmt::format("{} edges are announced, {} are there", edges, i));
    LT_ASSIGN(const int64_t before, scanner.number("first op", most));
    LT_ASSIGN(const int64_t after, scanner.number("second op", most));
    LT_RETURN_IF_ERROR(scanner.end_line());
    problem.control.emplace_back(static_cast<size_t>(before), static_cast<size_t>(after));
  }
  return {};
}

}  // namespace

Result<ScheduleProblem> parse_remat_file(std::string_view text, std::string_view origin) {
  ScheduleScanner scanner(text, origin);
  if (!scanner.next_line()) return scanner.bad("the first line must be 'ops values resident'");
  LT_ASSIGN(const int64_t ops, scanner.number("number of ops", kMostIndex));
  LT_ASSIGN(const int64_t values, scanner.number("number of values", kMostIndex));
  ScheduleProblem problem;
  LT_ASSIGN(problem.resident_bytes, scanner.number("resident bytes", kMaxBytes));
  LT_RETURN_IF_ERROR(scanner.end_line());
  for (int64_t i = 0; i < ops; ++i) {
    if (!scanner.next_line())
      return scanner.bad(fmt::format("{} ops are announced, {} are there", ops, i));
    LT_ASSIGN(SchedOp op, read_op(scanner));
    problem.ops.push_back(std::move(op));
  }
  for (int64_t i = 0; i < values; ++i) {
    if (!scanner.next_line())
      return scanner.bad(fmt::format("{} values are announced, {} are there", values, i));
    LT_ASSIGN(SchedValue value, read_value_line(scanner, ops));
    problem.values.push_back(std::move(value));
  }
  LT_RETURN_IF_ERROR(read_edges(scanner, problem));
  if (scanner.next_line()) return scanner.bad("there is text after the last edge");
  if (const Status status = check(problem); !status)
    return error(status.error().code, fmt::format("{}: {}", origin, status.error().message));
  return problem;
}

}  // namespace lowtide::plan

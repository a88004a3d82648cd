#include "plan/schedule_text.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/bytes.h"
#include "plan/schedule_scanner.h"

namespace lowtide::plan {
namespace {

constexpr std::string_view kHeader = "lowtide-schedule 2";
constexpr std::string_view kOldHeader = "lowtide-schedule 1";  // had fewer statements
constexpr std::string_view kWrites = "writes", kParts = "parts";

void append_quoted(std::string& out, std::string_view name) {
  out += '"';
  for (const char c : name) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (c >= 0x20 && c < 0x7f) {
          out += c;
        } else {
          fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
  }
  out += '"';
}

void append_uses(std::string& out, const std::vector<SchedOpId>& readers,
                 const std::vector<SchedOpId>& writers, int64_t moved_parts) {
  const auto put = std::back_inserter(out);
  for (SchedOpId reader : readers) fmt::format_to(put, " {}", reader.index());
  if (!writers.empty()) fmt::format_to(put, " {}", kWrites);
  for (SchedOpId writer : writers) fmt::format_to(put, " {}", writer.index());
  if (moved_parts != 1) fmt::format_to(put, " {} {}", kParts, moved_parts);
  out += '\n';
}

// Reads one statement of the own form into the problem.
class StatementReader {
 public:
  StatementReader(ScheduleScanner& scanner, ScheduleProblem& problem)
      : scanner_(scanner), problem_(problem) {}

  // False at `end`.
  Result<bool> read() {
    const std::string_view keyword = scanner_.word();
    const size_t rank = rank_of(keyword);
    const bool repeats = rank == last_rank_ && rank < kFirstRepeated && rank != kLink;
    if (rank < last_rank_ || repeats || rank == kUnknown)
      return scanner_.bad(
          "a statement is unknown, repeated or out of order; the order is resident, budget, link, "
          "op, value, movable, inplace, control, end");
    last_rank_ = rank;
    LT_RETURN_IF_ERROR(read_operands(rank));
    LT_RETURN_IF_ERROR(scanner_.end_line());
    return rank != kEnd;
  }

 private:
  enum Rank : size_t {
    kStart,
    kResident,
    kBudget,
    kLink,
    kOp,
    kValue,
    kMovable,
    kInPlace,
    kControl,
    kEnd,
    kUnknown
  };
  static constexpr size_t kFirstRepeated = kOp;

  static size_t rank_of(std::string_view keyword) {
    constexpr std::string_view kWords[] = {"",      "resident", "budget",  "link",    "op",
                                           "value", "movable",  "inplace", "control", "end"};
    for (size_t i = kResident; i <= kEnd; ++i)
      if (keyword == kWords[i]) return i;
    return kUnknown;
  }

  Status read_operands(size_t rank) {
    switch (rank) {
      case kResident: {
        LT_ASSIGN(problem_.resident_bytes, scanner_.number("resident", kMaxBytes));
        return {};
      }
      case kBudget: {
        LT_ASSIGN(problem_.budget_bytes, scanner_.number("budget", kMaxBytes));
        return {};
      }
      case kLink:
        return read_link();
      case kOp:
        return read_op();
      case kValue:
        return read_value();
      case kMovable:
        return read_movable();
      case kInPlace:
        return read_in_place();
      case kControl:
        return read_control();
      default:
        return {};
    }
  }

  Status read_link() {
    Link link;
    LT_ASSIGN(link.bytes_per_second_out, scanner_.real("link speed out"));
    LT_ASSIGN(link.bytes_per_second_in, scanner_.real("link speed in"));
    LT_ASSIGN(link.latency_seconds, scanner_.real("link latency"));
    LT_ASSIGN(link.compute_seconds_per_byte, scanner_.real("link compute per byte"));
    if (!scanner_.at_line_end()) {
      LT_ASSIGN(link.bytes, scanner_.number("link room", kMaxBytes));
    }
    if (problem_.link)
      problem_.more_links.push_back(link);
    else
      problem_.link = link;
    return {};
  }

  Status read_op() {
    SchedOp op;
    LT_ASSIGN(op.seconds, scanner_.real("seconds"));
    LT_ASSIGN(op.workspace_bytes, scanner_.number("workspace", kMaxBytes));
    LT_ASSIGN(const int64_t may_rerun, scanner_.number("may-rerun flag", 1));
    op.may_rerun = may_rerun != 0;
    LT_ASSIGN(op.name, scanner_.quoted());
    problem_.ops.push_back(std::move(op));
    return {};
  }

  Status read_value() {
    SchedValue value;
    LT_ASSIGN(value.bytes, scanner_.number("bytes", kMaxBytes));
    LT_ASSIGN(value.producer, op_id("producer"));
    LT_ASSIGN(const int64_t is_output, scanner_.number("output flag", 1));
    value.is_output = is_output != 0;
    LT_ASSIGN(value.name, scanner_.quoted());
    LT_RETURN_IF_ERROR(read_uses(value.readers, value.writers, value.moved_parts));
    problem_.values.push_back(std::move(value));
    return {};
  }

  Status read_movable() {
    SchedResident resident;
    LT_ASSIGN(resident.bytes, scanner_.number("bytes", kMaxBytes));
    LT_ASSIGN(resident.name, scanner_.quoted());
    LT_RETURN_IF_ERROR(read_uses(resident.readers, resident.writers, resident.moved_parts));
    problem_.residents.push_back(std::move(resident));
    return {};
  }

  // reader_1 ... [writes writer_1 ...] [parts N], to the end of the line.
  Status read_uses(std::vector<SchedOpId>& readers, std::vector<SchedOpId>& writers,
                   int64_t& moved_parts) {
    bool writes = false;
    while (!scanner_.at_line_end()) {
      if (!writes && scanner_.skip_word(kWrites)) {
        writes = true;
        continue;
      }
      if (scanner_.skip_word(kParts)) {
        LT_ASSIGN(moved_parts, scanner_.number("moved parts", kMaxBytes));
        return {};
      }
      LT_ASSIGN(const SchedOpId user, op_id(writes ? "writer" : "reader"));
      (writes ? writers : readers).push_back(user);
    }
    return {};
  }

  Status read_in_place() {
    InPlacePair pair;
    LT_ASSIGN(pair.op, op_id("op"));
    LT_ASSIGN(pair.input, value_id("input"));
    LT_ASSIGN(pair.output, value_id("output"));
    problem_.in_place.push_back(pair);
    return {};
  }

  Status read_control() {
    LT_ASSIGN(const SchedOpId first, op_id("first op"));
    LT_ASSIGN(const SchedOpId second, op_id("second op"));
    problem_.control.emplace_back(first, second);
    return {};
  }

  Result<SchedOpId> op_id(std::string_view what) {
    LT_ASSIGN(const int64_t index, scanner_.number(what, kMostIndex));
    if (static_cast<size_t>(index) >= problem_.ops.size())
      return scanner_.bad(
          fmt::format("{} is op {}; there are {} ops", what, index, problem_.ops.size()));
    return SchedOpId(static_cast<size_t>(index));
  }

  Result<SchedValueId> value_id(std::string_view what) {
    LT_ASSIGN(const int64_t index, scanner_.number(what, kMostIndex));
    if (static_cast<size_t>(index) >= problem_.values.size())
      return scanner_.bad(
          fmt::format("{} is value {}; there are {} values", what, index, problem_.values.size()));
    return SchedValueId(static_cast<size_t>(index));
  }

  ScheduleScanner& scanner_;
  ScheduleProblem& problem_;
  size_t last_rank_ = kStart;
};

Result<ScheduleProblem> checked(ScheduleProblem problem, std::string_view origin) {
  if (const Status status = check(problem); !status)
    return error(status.error().code, fmt::format("{}: {}", origin, status.error().message));
  return problem;
}

}  // namespace

std::string print(const ScheduleProblem& problem) {
  std::string out = fmt::format("{}\nresident {}\n", kHeader, problem.resident_bytes);
  const auto put = std::back_inserter(out);
  if (problem.budget_bytes) fmt::format_to(put, "budget {}\n", *problem.budget_bytes);
  for (const Link& link : links_of(problem)) {
    fmt::format_to(put, "link {} {} {} {}", link.bytes_per_second_out, link.bytes_per_second_in,
                   link.latency_seconds, link.compute_seconds_per_byte);
    if (link.bytes != Link::kUnlimited) fmt::format_to(put, " {}", link.bytes);
    out += '\n';
  }
  for (const SchedOp& op : problem.ops) {
    fmt::format_to(put, "op {} {} {} ", op.seconds, op.workspace_bytes, op.may_rerun ? 1 : 0);
    append_quoted(out, op.name);
    out += '\n';
  }
  for (const SchedValue& value : problem.values) {
    fmt::format_to(put, "value {} {} {} ", value.bytes, value.producer.index(),
                   value.is_output ? 1 : 0);
    append_quoted(out, value.name);
    append_uses(out, value.readers, value.writers, value.moved_parts);
  }
  for (const SchedResident& resident : problem.residents) {
    fmt::format_to(put, "movable {} ", resident.bytes);
    append_quoted(out, resident.name);
    append_uses(out, resident.readers, resident.writers, resident.moved_parts);
  }
  for (const InPlacePair& pair : problem.in_place)
    fmt::format_to(put, "inplace {} {} {}\n", pair.op.index(), pair.input.index(),
                   pair.output.index());
  for (const auto& [first, second] : problem.control)
    fmt::format_to(put, "control {} {}\n", first.index(), second.index());
  return out += "end\n";
}

Result<ScheduleProblem> parse_schedule_problem(std::string_view text, std::string_view origin) {
  ScheduleScanner scanner(text, origin);
  if (!scanner.next_line() ||
      (scanner.whole_line() != kHeader && scanner.whole_line() != kOldHeader))
    return scanner.bad(fmt::format("the first line must be '{}'", kHeader));
  ScheduleProblem problem;
  StatementReader reader(scanner, problem);
  bool more = true;
  while (more) {
    if (!scanner.next_line()) return scanner.bad("the text stops before 'end'");
    LT_ASSIGN(more, reader.read());
  }
  if (scanner.next_line()) return scanner.bad("there is text after 'end'");
  return checked(std::move(problem), origin);
}

Result<ScheduleProblem> parse_order_file(std::string_view text, std::string_view origin) {
  ScheduleScanner scanner(text, origin);
  if (!scanner.next_line()) return scanner.bad("the first line must be 'ops values'");
  // An op has no line of its own, but a file in which most ops touch no value is no ordering
  // problem; and nothing may be allocated on the word of a number alone.
  const int64_t most = std::min<int64_t>(static_cast<int64_t>(text.size()), kMostIndex);
  LT_ASSIGN(const int64_t ops, scanner.number("number of ops", most));
  LT_ASSIGN(const int64_t values, scanner.number("number of values", most));
  LT_RETURN_IF_ERROR(scanner.end_line());
  ScheduleProblem problem;
  problem.ops.resize(static_cast<size_t>(ops));
  for (int64_t i = 0; i < values; ++i) {
    if (!scanner.next_line())
      return scanner.bad(fmt::format("{} values are announced, {} are there", values, i));
    LT_ASSIGN(SchedValue value, read_value_line(scanner, ops));
    problem.values.push_back(std::move(value));
  }
  if (scanner.next_line()) return scanner.bad("there is text after the last value");
  return checked(std::move(problem), origin);
}

}  // namespace lowtide::plan

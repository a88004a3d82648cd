#include "plan/schedule_text.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/bytes.h"

namespace lowtide::plan {
namespace {

constexpr std::string_view kHeader = "lowtide-schedule 1";

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

// The text line by line, word by word. Every error names the origin and the line.
class Scanner {
 public:
  Scanner(std::string_view text, std::string_view origin) : rest_(text), origin_(origin) {}

  // Goes to the next line that is not blank; false at the end of the text.
  bool next_line() {
    while (!rest_.empty()) {
      ++line_number_;
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      skip_blanks();
      if (!line_.empty()) return true;
    }
    line_ = {};
    return false;
  }

  tl::unexpected<Error> bad(std::string_view what) const {
    return error(ErrorCode::kInput, fmt::format("{}:{}: {}", origin_, line_number_, what));
  }

  bool at_line_end() const { return line_.empty(); }
  // The rest of the line without blanks at its end.
  std::string_view whole_line() const {
    std::string_view all = line_;
    while (!all.empty() && is_blank(all.back())) all.remove_suffix(1);
    return all;
  }

  std::string_view word() {
    size_t length = 0;
    while (length < line_.size() && !is_blank(line_[length])) ++length;
    const std::string_view result = line_.substr(0, length);
    line_.remove_prefix(length);
    skip_blanks();
    return result;
  }

  // A whole number from 0 to `most`.
  Result<int64_t> number(std::string_view what, int64_t most) {
    const std::string_view digits = word();
    int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size() || value < 0 || value > most)
      return bad(fmt::format("{} is '{}'; it must be a whole number from 0 to {}", what,
                             shown(digits), most));
    return value;
  }

  Result<double> real(std::string_view what) {
    const std::string_view digits = word();
    double value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
      return bad(fmt::format("{} is '{}'; it must be a finite number", what, shown(digits)));
    return value;
  }

  Result<std::string> quoted() {
    if (line_.empty() || line_[0] != '"') return bad("a name in double quotes is missing");
    std::string name;
    size_t at = 1;
    for (; at < line_.size() && line_[at] != '"'; ++at) {
      if (line_[at] != '\\') {
        name += line_[at];
        continue;
      }
      if (!append_escaped(name, at)) return bad("a name holds an unknown escape");
    }
    if (at >= line_.size()) return bad("a name has no closing quote");
    line_.remove_prefix(at + 1);
    skip_blanks();
    return name;
  }

  Status end_line() {
    if (!line_.empty())
      return bad(fmt::format("'{}' is more than the statement holds", shown(line_)));
    return {};
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  static std::string shown(std::string_view text) {
    std::string result;
    for (const char c : text.substr(0, 32)) result += c >= 0x20 && c < 0x7f ? c : '?';
    return result;
  }
  void skip_blanks() {
    while (!line_.empty() && is_blank(line_[0])) line_.remove_prefix(1);
  }

  // `at` is the backslash on entry and the last character of the escape on return.
  bool append_escaped(std::string& name, size_t& at) const {
    if (++at >= line_.size()) return false;
    switch (line_[at]) {
      case '"':
        name += '"';
        return true;
      case '\\':
        name += '\\';
        return true;
      case 'n':
        name += '\n';
        return true;
      case 't':
        name += '\t';
        return true;
      case 'r':
        name += '\r';
        return true;
      case 'x':
        break;
      default:
        return false;
    }
    if (at + 2 >= line_.size()) return false;
    unsigned value = 0;
    const char* digits = line_.data() + at + 1;
    const auto [end, code] = std::from_chars(digits, digits + 2, value, 16);
    if (code != std::errc() || end != digits + 2) return false;
    name += static_cast<char>(value);
    at += 2;
    return true;
  }

  std::string_view rest_, line_;
  std::string_view origin_;
  size_t line_number_ = 0;
};

constexpr int64_t kMostIndex = std::numeric_limits<uint32_t>::max() - 1;

// Reads one statement of the own form into the problem.
class StatementReader {
 public:
  StatementReader(Scanner& scanner, ScheduleProblem& problem)
      : scanner_(scanner), problem_(problem) {}

  // False at `end`.
  Result<bool> read() {
    const std::string_view keyword = scanner_.word();
    const size_t rank = rank_of(keyword);
    if (rank < last_rank_ || (rank == last_rank_ && rank < kFirstRepeated) || rank == kUnknown)
      return scanner_.bad(
          "a statement is unknown, repeated or out of order; the order is resident, budget, link, "
          "op, value, inplace, control, end");
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
    kInPlace,
    kControl,
    kEnd,
    kUnknown
  };
  static constexpr size_t kFirstRepeated = kOp;

  static size_t rank_of(std::string_view keyword) {
    constexpr std::string_view kWords[] = {"",      "resident", "budget",  "link", "op",
                                           "value", "inplace",  "control", "end"};
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
    while (!scanner_.at_line_end()) {
      LT_ASSIGN(const SchedOpId reader, op_id("reader"));
      value.readers.push_back(reader);
    }
    problem_.values.push_back(std::move(value));
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

  Scanner& scanner_;
  ScheduleProblem& problem_;
  size_t last_rank_ = kStart;
};

Result<ScheduleProblem> checked(ScheduleProblem problem, std::string_view origin) {
  if (const Status status = check(problem); !status)
    return error(status.error().code, fmt::format("{}: {}", origin, status.error().message));
  return problem;
}

// One `.order` line: bytes producer k reader_1 ... reader_k.
Result<SchedValue> read_order_line(Scanner& scanner, int64_t ops) {
  SchedValue value;
  LT_ASSIGN(value.bytes, scanner.number("bytes", kMaxBytes));
  LT_ASSIGN(const int64_t producer, scanner.number("producer", ops - 1));
  value.producer = SchedOpId(static_cast<size_t>(producer));
  LT_ASSIGN(const int64_t count, scanner.number("number of readers", kMostIndex));
  for (int64_t i = 0; i < count; ++i) {
    if (scanner.at_line_end())
      return scanner.bad(fmt::format("{} readers are announced, {} are there", count, i));
    LT_ASSIGN(const int64_t reader, scanner.number("reader", ops - 1));
    value.readers.push_back(SchedOpId(static_cast<size_t>(reader)));
  }
  LT_RETURN_IF_ERROR(scanner.end_line());
  std::sort(value.readers.begin(), value.readers.end());
  value.readers.erase(std::unique(value.readers.begin(), value.readers.end()), value.readers.end());
  return value;
}

}  // namespace

std::string print(const ScheduleProblem& problem) {
  std::string out = fmt::format("{}\nresident {}\n", kHeader, problem.resident_bytes);
  const auto put = std::back_inserter(out);
  if (problem.budget_bytes) fmt::format_to(put, "budget {}\n", *problem.budget_bytes);
  if (problem.link)
    fmt::format_to(put, "link {} {} {}\n", problem.link->bytes_per_second_out,
                   problem.link->bytes_per_second_in, problem.link->latency_seconds);
  for (const SchedOp& op : problem.ops) {
    fmt::format_to(put, "op {} {} {} ", op.seconds, op.workspace_bytes, op.may_rerun ? 1 : 0);
    append_quoted(out, op.name);
    out += '\n';
  }
  for (const SchedValue& value : problem.values) {
    fmt::format_to(put, "value {} {} {} ", value.bytes, value.producer.index(),
                   value.is_output ? 1 : 0);
    append_quoted(out, value.name);
    for (SchedOpId reader : value.readers) fmt::format_to(put, " {}", reader.index());
    out += '\n';
  }
  for (const InPlacePair& pair : problem.in_place)
    fmt::format_to(put, "inplace {} {} {}\n", pair.op.index(), pair.input.index(),
                   pair.output.index());
  for (const auto& [first, second] : problem.control)
    fmt::format_to(put, "control {} {}\n", first.index(), second.index());
  return out += "end\n";
}

Result<ScheduleProblem> parse_schedule_problem(std::string_view text, std::string_view origin) {
  Scanner scanner(text, origin);
  if (!scanner.next_line() || scanner.whole_line() != kHeader)
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
  Scanner scanner(text, origin);
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
    LT_ASSIGN(SchedValue value, read_order_line(scanner, ops));
    problem.values.push_back(std::move(value));
  }
  if (scanner.next_line()) return scanner.bad("there is text after the last value");
  return checked(std::move(problem), origin);
}

}  // namespace lowtide::plan

#include "plan/schedule_scanner.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/bytes.h"

namespace lowtide::plan {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

}  // namespace

void ScheduleScanner::skip_blanks() {
  while (!line_.empty() && is_blank(line_[0])) line_.remove_prefix(1);
}

std::string ScheduleScanner::shown(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 32)) result += c >= 0x20 && c < 0x7f ? c : '?';
  return result;
}

tl::unexpected<Error> ScheduleScanner::bad(std::string_view what) const {
  return error(ErrorCode::kInput, fmt::format("{}:{}: {}", origin_, line_number_, what));
}

bool ScheduleScanner::next_line() {
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

std::string_view ScheduleScanner::whole_line() const {
  std::string_view all = line_;
  while (!all.empty() && is_blank(all.back())) all.remove_suffix(1);
  return all;
}

Status ScheduleScanner::end_line() const {
  if (!line_.empty())
    return bad(fmt::format("'{}' is more than the statement holds", shown(line_)));
  return {};
}

std::string_view ScheduleScanner::word() {
  size_t length = 0;
  while (length < line_.size() && !is_blank(line_[length])) ++length;
  const std::string_view result = line_.substr(0, length);
  line_.remove_prefix(length);
  skip_blanks();
  return result;
}

bool ScheduleScanner::skip_word(std::string_view expected) {
  const std::string_view before = line_;
  if (word() == expected) return true;
  line_ = before;
  return false;
}

Result<int64_t> ScheduleScanner::number(std::string_view what, int64_t most) {
  const std::string_view digits = word();
  int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size() || value < 0 || value > most)
    return bad(fmt::format("{} is '{}'; it must be a whole number from 0 to {}", what,
                           shown(digits), most));
  return value;
}

Result<double> ScheduleScanner::real(std::string_view what) {
  const std::string_view digits = word();
  double value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
    return bad(fmt::format("{} is '{}'; it must be a finite number", what, shown(digits)));
  return value;
}

Result<std::string> ScheduleScanner::quoted() {
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

// `at` is the backslash on entry and the last character of the escape on return.
bool ScheduleScanner::append_escaped(std::string& name, size_t& at) const {
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

Result<SchedValue> read_value_line(ScheduleScanner& scanner, int64_t ops) {
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

}  // namespace lowtide::plan

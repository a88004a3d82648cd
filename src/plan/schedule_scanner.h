// Reads the text forms of problems: lines of words, numbers and quoted names. Every error names the
// origin and the line, in one line, and shows nothing unprintable.
//
// Tests: schedule_text_test.cc, remat_text_test.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

inline constexpr int64_t kMostIndex = std::numeric_limits<uint32_t>::max() - 1;

class ScheduleScanner {
 public:
  // Both must live as long as the scanner.
  ScheduleScanner(std::string_view text, std::string_view origin) : rest_(text), origin_(origin) {}

  // Goes to the next line that is not blank; false at the end of the text.
  bool next_line();
  bool at_line_end() const { return line_.empty(); }
  // The rest of the line without blanks at its end.
  std::string_view whole_line() const;
  // Error when there is more on the line.
  Status end_line() const;

  // Empty at the end of the line.
  std::string_view word();
  // True when the next word is this one; goes behind it then.
  bool skip_word(std::string_view expected);
  // A whole number from 0 to `most`.
  Result<int64_t> number(std::string_view what, int64_t most);
  Result<double> real(std::string_view what);
  // A name in double quotes, with the escapes of schedule_text.h.
  Result<std::string> quoted();

  // kInput: "origin:line: what".
  tl::unexpected<Error> bad(std::string_view what) const;
  // The beginning of what was found, for errors.
  static std::string shown(std::string_view text);

 private:
  void skip_blanks();
  bool append_escaped(std::string& name, size_t& at) const;

  std::string_view rest_, line_;
  std::string_view origin_;
  size_t line_number_ = 0;
};

// A line `bytes producer k reader_1 ... reader_k` of the .order and .remat forms. Repeated readers
// are merged. `ops` is their number.
Result<SchedValue> read_value_line(ScheduleScanner& scanner, int64_t ops);

}  // namespace lowtide::plan

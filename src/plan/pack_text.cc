// A record reader that knows quotes, a header that says which column is where, and one conversion
// per row. Every number is read by from_chars over the whole cell, so that "12x", "1e3" and
// overflow are errors and never a guess.
#include "plan/pack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lowtide::plan {
namespace {

enum Column : size_t { kId, kLower, kUpper, kSize, kAlignment, kOffset, kGroup, kAt, kColumns };
constexpr std::array<std::string_view, kColumns> kNames = {"id",        "lower",  "upper", "size",
                                                           "alignment", "offset", "group", "at"};
constexpr size_t kRequired = 4;  // the first four

std::string_view trimmed(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = s.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(kBlank) - begin + 1);
}

// What an error message shows of a cell: short and printable.
std::string shown(std::string_view cell) {
  constexpr size_t kMost = 40;
  std::string out;
  for (char c : cell.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return cell.size() > kMost ? out + "..." : out;
}

// Walks the records (lines; quoted cells may hold line ends) of a text.
class Records {
 public:
  Records(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  // The cells of the next record that is not blank; nothing at the end of the text.
  Result<std::optional<std::vector<std::string>>> next();
  int64_t line() const { return line_; }
  tl::unexpected<Error> fail(std::string_view what) const {
    return error(ErrorCode::kInput, fmt::format("{}:{}: {}", origin_, line_, what));
  }

 private:
  Status read_quoted(std::string& cell);

  std::string_view text_;
  std::string_view origin_;
  size_t at_ = 0;
  int64_t line_ = 0;       // of the current record's first character
  int64_t next_line_ = 1;  // of text_[at_]
};

// Reads from an opening quote to the closing one.
Status Records::read_quoted(std::string& cell) {
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\n') ++next_line_;
    if (text_[at_] != '"') {
      cell += text_[at_];
    } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
      cell += '"';
      ++at_;
    } else {
      ++at_;
      return {};
    }
  }
  return fail("a quote is not closed");
}

Result<std::optional<std::vector<std::string>>> Records::next() {
  while (at_ < text_.size()) {
    line_ = next_line_;
    std::vector<std::string> cells;
    bool blank = true;
    for (bool more = true; more;) {
      std::string cell;
      while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
      const bool quoted = at_ < text_.size() && text_[at_] == '"';
      if (quoted) LT_RETURN_IF_ERROR(read_quoted(cell));
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') ++at_;
      const std::string_view plain = trimmed(text_.substr(begin, at_ - begin));
      if (quoted && !plain.empty())
        return fail(fmt::format("'{}' follows a closing quote", shown(plain)));
      cell += plain;
      more = at_ < text_.size() && text_[at_] == ',';
      blank = blank && !quoted && !more && cell.empty() && cells.empty();
      if (at_ < text_.size()) ++at_;
      cells.push_back(std::move(cell));
    }
    ++next_line_;
    if (!blank) return cells;
  }
  return std::nullopt;
}

struct Header {
  std::array<std::optional<size_t>, kColumns> place;  // which cell holds a column
  size_t cells = 0;
};

Result<Header> read_header(const std::vector<std::string>& cells, const Records& records) {
  Header header;
  header.cells = cells.size();
  for (size_t k = 0; k < cells.size(); ++k) {
    const auto known = std::find(kNames.begin(), kNames.end(), cells[k]);
    if (known == kNames.end())
      return records.fail(fmt::format("unknown column '{}'; known are {}", shown(cells[k]),
                                      fmt::join(kNames, ", ")));
    auto& place = header.place[static_cast<size_t>(known - kNames.begin())];
    if (place) return records.fail(fmt::format("column '{}' comes twice", *known));
    place = k;
  }
  for (size_t c = 0; c < kRequired; ++c)
    if (!header.place[c]) return records.fail(fmt::format("column '{}' is missing", kNames[c]));
  return header;
}

Result<int64_t> read_number(std::string_view cell, Column column, const Records& records) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (problem == std::errc::result_out_of_range)
    return records.fail(
        fmt::format("{} '{}' does not fit into 64 bits", kNames[column], shown(cell)));
  if (problem != std::errc() || end != cell.data() + cell.size())
    return records.fail(fmt::format("{} '{}' is not a whole number", kNames[column], shown(cell)));
  return value;
}

// What plan::check asks of one buffer, said with the line.
Status check_row(const Buffer& b, const Records& records) {
  if (b.live.empty())
    return records.fail(
        fmt::format("upper {} must be greater than lower {}", b.live.end, b.live.begin));
  if (b.size_bytes < 0) return records.fail(fmt::format("size {} is negative", b.size_bytes));
  if (b.alignment_bytes <= 0)
    return records.fail(fmt::format("alignment {} is not positive", b.alignment_bytes));
  if (b.fixed_offset && (*b.fixed_offset < 0 || *b.fixed_offset % b.alignment_bytes != 0))
    return records.fail(fmt::format("offset {} is negative or not a multiple of alignment {}",
                                    *b.fixed_offset, b.alignment_bytes));
  return {};
}

Result<Buffer> read_row(const std::vector<std::string>& cells, const Header& header,
                        const Records& records) {
  if (cells.size() != header.cells)
    return records.fail(fmt::format("{} cells; the header has {}", cells.size(), header.cells));
  const auto cell = [&](Column column) -> std::string_view {
    return header.place[column] ? std::string_view(cells[*header.place[column]])
                                : std::string_view();
  };
  Buffer b;
  b.name = cell(kId);
  LT_ASSIGN(b.live.begin, read_number(cell(kLower), kLower, records));
  LT_ASSIGN(b.live.end, read_number(cell(kUpper), kUpper, records));
  LT_ASSIGN(b.size_bytes, read_number(cell(kSize), kSize, records));
  if (!cell(kAlignment).empty()) {
    LT_ASSIGN(b.alignment_bytes, read_number(cell(kAlignment), kAlignment, records));
  }
  if (!cell(kOffset).empty()) {
    LT_ASSIGN(b.fixed_offset, read_number(cell(kOffset), kOffset, records));
  }
  if (cell(kGroup).empty() != cell(kAt).empty())
    return records.fail("group and at stand together, one of them is empty");
  if (!cell(kGroup).empty()) {
    LT_ASSIGN(const int64_t group, read_number(cell(kGroup), kGroup, records));
    if (group < 0 || group > std::numeric_limits<int32_t>::max())
      return records.fail(fmt::format("group {} is not from 0 to 2^31 - 1", group));
    Tie tie{static_cast<int32_t>(group), 0};
    LT_ASSIGN(tie.at, read_number(cell(kAt), kAt, records));
    b.tie = tie;
  }
  LT_RETURN_IF_ERROR(check_row(b, records));
  return b;
}

// Names as a reader takes them: what repeats an earlier one gets "#2", "#3", ... behind it.
class UniqueNames {
 public:
  explicit UniqueNames(const PackProblem& problem) {
    for (const Buffer& b : problem.buffers) given_.insert(b.name);
  }
  std::string next(const std::string& name) {
    int64_t& count = count_[name];
    if (++count == 1) return name;
    std::string made = fmt::format("{}#{}", name, count);
    while (given_.contains(made)) made = fmt::format("{}#{}", name, ++count);
    return made;
  }

 private:
  std::unordered_set<std::string> given_;
  std::unordered_map<std::string, int64_t> count_;
};

std::string quoted_if_needed(const std::string& name) {
  const bool plain = name.find_first_of(",\"\n\r") == std::string::npos && trimmed(name) == name;
  if (plain) return name;
  std::string out = "\"";
  for (char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

Result<PackProblem> parse_pack_csv(std::string_view text, std::string_view origin) {
  Records records(text, origin);
  LT_ASSIGN(const auto first, records.next());
  if (!first)
    return error(ErrorCode::kInput,
                 fmt::format("{}: empty; expected a header such as id,lower,upper,size", origin));
  LT_ASSIGN(const Header header, read_header(*first, records));
  PackProblem problem;
  std::unordered_map<std::string, int64_t> line_of;
  while (true) {
    LT_ASSIGN(const auto cells, records.next());
    if (!cells) break;
    LT_ASSIGN(Buffer buffer, read_row(*cells, header, records));
    const auto [first_use, is_new] = line_of.emplace(buffer.name, records.line());
    if (!is_new)
      return records.fail(fmt::format("id '{}' is given already, in line {}", shown(buffer.name),
                                      first_use->second));
    problem.buffers.push_back(std::move(buffer));
  }
  if (Status ok = check(problem); !ok)  // what concerns all rows together: sums
    return error(ErrorCode::kInput, fmt::format("{}: {}", origin, ok.error().message));
  return problem;
}

std::string print_pack_csv(const PackProblem& problem, const IdVector<BufferId, int64_t>* offsets) {
  LT_CHECK(offsets == nullptr || offsets->size() == problem.buffers.size(),
           "one offset per buffer");
  bool alignments = false, fixed = false, ties = false;
  for (const Buffer& b : problem.buffers) {
    alignments = alignments || b.alignment_bytes != 1;
    fixed = fixed || b.fixed_offset.has_value();
    ties = ties || b.tie.has_value();
  }
  std::string out = "id,lower,upper,size";
  if (alignments) out += ",alignment";
  if (fixed || offsets != nullptr) out += ",offset";
  if (ties) out += ",group,at";
  out += '\n';
  UniqueNames names(problem);
  for (BufferId id : problem.buffers.ids()) {
    const Buffer& b = problem.buffers[id];
    fmt::format_to(std::back_inserter(out), "{},{},{},{}", quoted_if_needed(names.next(b.name)),
                   b.live.begin, b.live.end, b.size_bytes);
    if (alignments) fmt::format_to(std::back_inserter(out), ",{}", b.alignment_bytes);
    if (offsets != nullptr) {
      fmt::format_to(std::back_inserter(out), ",{}", (*offsets)[id]);
    } else if (fixed) {
      out += b.fixed_offset ? fmt::format(",{}", *b.fixed_offset) : ",";
    }
    if (ties) out += b.tie ? fmt::format(",{},{}", b.tie->group, b.tie->at) : ",,";
    out += '\n';
  }
  return out;
}

}  // namespace lowtide::plan

#include "solver/program_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace lowtide::solver {
namespace {

constexpr std::string_view kObjective = "obj";
constexpr size_t kLongestName = 60;  // readers take at least 100 characters, with what is appended
constexpr int kTermsOfLine = 5;

// Words of the LP format in any of its dialects, in lower case.
constexpr std::string_view kKeywords[] = {
    "bin",     "binaries", "binary",  "bound",    "bounds",   "free",     "gen",
    "general", "generals", "inf",     "infinity", "integer",  "integers", "int",
    "max",     "maximize", "maximum", "min",      "minimize", "minimum",  "nan",
    "s.t.",    "semi",     "semis",   "sin",      "sos",      "sos1",     "sos2",
    "st",      "st.",      "subject", "such",     "to"};

// Makes names legal, each once.
class Names {
 public:
  // `letter`: what names of this kind begin with where their own do not do.
  explicit Names(char letter) : letter_(letter) {}

  std::string take(const std::string& name, size_t index) {
    std::string legal = name.empty() ? fmt::format("{}{}", letter_, index) : made_legal(name);
    std::string result = legal;
    for (int i = 2; !taken_.insert(result).second; ++i) result = fmt::format("{}_{}", legal, i);
    return result;
  }

 private:
  std::string made_legal(const std::string& name) const {
    std::string legal, lower;
    for (const char c : name.substr(0, kLongestName)) {
      const auto u = static_cast<unsigned char>(c);
      const bool fits = u < 128 && (std::isalnum(u) || c == '_' || c == '.');
      legal += fits ? c : '_';
      lower += fits ? static_cast<char>(std::tolower(u)) : '_';
    }
    const bool keyword =
        std::find(std::begin(kKeywords), std::end(kKeywords), lower) != std::end(kKeywords);
    // A number may begin with a digit or a dot, and an exponent with e.
    const bool number = !std::isalpha(static_cast<unsigned char>(lower[0])) || lower[0] == 'e';
    return keyword || number ? fmt::format("{}_{}", letter_, legal) : legal;
  }

  char letter_;
  std::set<std::string, std::less<>> taken_{std::string(kObjective), "end"};
};

// A row with one side.
struct SidedRow {
  std::string name;
  char sense = 'E';  // or G, L
  double side = 0;
  const std::vector<Entry>* entries = nullptr;
};

struct Named {
  explicit Named(const Program& of) : program(of) {
    LT_CHECK(of.check());
    Names columns('x'), rows('r');
    for (size_t j = 0; j < of.columns.size(); ++j)
      names.push_back(columns.take(of.columns[j].name, j));
    one = columns.take("constant", 0);
    for (size_t r = 0; r < of.rows.size(); ++r) {
      const Row& row = of.rows[r];
      const auto add = [&](char sense, double side) {
        sided.push_back({rows.take(row.name, r), sense, side, &row.entries});
      };
      if (row.lower == row.upper) {
        add('E', row.lower);
        continue;
      }
      if (std::isfinite(row.lower)) add('G', row.lower);
      if (std::isfinite(row.upper)) add('L', row.upper);
    }
  }

  const Program& program;
  std::vector<std::string> names;  // of columns
  std::string one;                 // of the column that is always 1, if there is one
  bool has_one() const { return program.constant != 0 || names.empty(); }
  std::vector<SidedRow> sided;
};

// A sum in the LP format, begun by its row's name.
class Sum {
 public:
  explicit Sum(const std::string& name) : text_(fmt::format(" {}:", name)) {}

  void add(double value, const std::string& name) {
    if (count_ > 0 && count_ % kTermsOfLine == 0) text_ += "\n ";
    const bool minus = std::signbit(value);
    text_ += fmt::format(" {} {} {}", minus ? '-' : '+', std::abs(value), name);
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int count_ = 0;
};

// Nothing where it is what the format takes for granted.
std::string lp_bounds(const Column& column, const std::string& name) {
  const bool below = std::isfinite(column.lower), above = std::isfinite(column.upper);
  if (!below && !above) return fmt::format(" {} free\n", name);
  if (column.lower == column.upper) return fmt::format(" {} = {}\n", name, column.lower);
  if (!below) return fmt::format(" -inf <= {} <= {}\n", name, column.upper);
  if (above) return fmt::format(" {} <= {} <= {}\n", column.lower, name, column.upper);
  return column.lower == 0 ? "" : fmt::format(" {} >= {}\n", name, column.lower);
}

std::string lp_rows(const Named& named) {
  std::string text;
  for (const SidedRow& row : named.sided) {
    Sum sum(row.name);
    for (const Entry& e : *row.entries) sum.add(e.value, named.names[e.column]);
    if (sum.empty()) sum.add(0, named.names.empty() ? named.one : named.names[0]);
    const std::string_view sense = row.sense == 'E' ? "=" : row.sense == 'G' ? ">=" : "<=";
    text += fmt::format("{} {} {}\n", sum.text(), sense, row.side);
  }
  return text;
}

std::string mps_bounds(const Column& column, const std::string& name) {
  const auto line = [&](std::string_view kind, double value) {
    return fmt::format(" {} bnd {} {}\n", kind, name, value);
  };
  const bool below = std::isfinite(column.lower), above = std::isfinite(column.upper);
  if (!below && !above) return fmt::format(" FR bnd {}\n", name);
  if (column.lower == column.upper) return line("FX", column.lower);
  std::string text = below ? line("LO", column.lower) : fmt::format(" MI bnd {}\n", name);
  return text + (above ? line("UP", column.upper) : fmt::format(" PL bnd {}\n", name));
}

// Integer columns stand between markers.
std::string mps_columns(const Named& named) {
  std::vector<std::vector<std::pair<size_t, double>>> entries(named.names.size());
  for (size_t r = 0; r < named.sided.size(); ++r)
    for (const Entry& e : *named.sided[r].entries) entries[e.column].emplace_back(r, e.value);
  std::string text;
  bool integer = false;
  int markers = 0;
  const auto mark = [&](bool now) {
    if (now != integer)
      text += fmt::format(" marker{} 'MARKER' '{}'\n", markers++, now ? "INTORG" : "INTEND");
    integer = now;
  };
  for (size_t j = 0; j < entries.size(); ++j) {
    const Column& column = named.program.columns[j];
    mark(column.integer);
    text += fmt::format(" {} {} {}\n", named.names[j], kObjective, column.cost);
    for (const auto& [r, value] : entries[j])
      text += fmt::format(" {} {} {}\n", named.names[j], named.sided[r].name, value);
  }
  mark(false);
  return text;
}

}  // namespace

std::string write_lp(const Program& program) {
  const Named named(program);
  Sum objective{std::string(kObjective)};
  for (size_t j = 0; j < program.columns.size(); ++j)
    objective.add(program.columns[j].cost, named.names[j]);
  if (named.has_one()) objective.add(program.constant, named.one);
  std::string text = "Minimize\n" + objective.text();
  text += "\nSubject To\n" + lp_rows(named) + "Bounds\n";
  std::string integers;
  for (size_t j = 0; j < program.columns.size(); ++j) {
    text += lp_bounds(program.columns[j], named.names[j]);
    if (program.columns[j].integer) integers += fmt::format(" {}\n", named.names[j]);
  }
  if (named.has_one()) text += fmt::format(" {} = 1\n", named.one);
  if (!integers.empty()) text += "Generals\n" + integers;
  return text + "End\n";
}

std::string write_mps(const Program& program) {
  const Named named(program);
  std::string text = fmt::format("NAME lowtide FREE\nROWS\n N {}\n", kObjective);
  for (const SidedRow& row : named.sided) text += fmt::format(" {} {}\n", row.sense, row.name);
  text += "COLUMNS\n" + mps_columns(named) + "RHS\n";
  // The constant stands on the other side.
  if (program.constant != 0) text += fmt::format(" rhs {} {}\n", kObjective, -program.constant);
  for (const SidedRow& row : named.sided)
    if (row.side != 0) text += fmt::format(" rhs {} {}\n", row.name, row.side);
  text += "BOUNDS\n";
  for (size_t j = 0; j < program.columns.size(); ++j)
    text += mps_bounds(program.columns[j], named.names[j]);
  return text + "ENDATA\n";
}

}  // namespace lowtide::solver

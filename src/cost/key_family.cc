#include "cost/key_family.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace lowtide::cost {
namespace {

constexpr double kSameWork = 1e-9;  // relative

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Numbers between commas from `at` on become sizes; how many there are is of the family. Behind
// them.
size_t take_numbers(std::string_view key, size_t at, KeyFamily& made) {
  while (at < key.size() && (is_digit(key[at]) || key[at] == '-')) {
    int64_t number = 0;
    const auto parsed = std::from_chars(key.data() + at, key.data() + key.size(), number);
    if (parsed.ec != std::errc()) break;
    made.sizes.push_back(number);
    made.family += '#';
    at = static_cast<size_t>(parsed.ptr - key.data());
    if (at + 1 >= key.size() || key[at] != ',' || key[at + 1] == ' ') break;
    ++at;
  }
  return at;
}

// A layout ends where the operand does: before ", " or ")".
size_t layout_end(std::string_view key, size_t at) {
  while (at < key.size() && key[at] != ')' && key.substr(at, 2) != ", ") ++at;
  return at;
}

// "strided:1,2" and the bytes of "blocked:Acdb16a:4096" are sizes.
void take_layout(std::string_view layout, KeyFamily& made) {
  const size_t numbers = layout.starts_with("@strided:")   ? layout.find(':') + 1
                         : layout.starts_with("@blocked:") ? layout.rfind(':') + 1
                                                           : layout.size();
  made.family += layout.substr(0, numbers);
  const size_t behind = take_numbers(layout, numbers, made);
  made.family += layout.substr(behind);
}

struct Pool {
  double log_work, log_seconds, count;
};

// Ascending in both; of equal work the mean.
std::vector<Pool> isotonic(std::vector<SizedTime> measured) {
  std::sort(measured.begin(), measured.end(), [](const SizedTime& a, const SizedTime& b) {
    return a.work != b.work ? a.work < b.work : a.seconds < b.seconds;
  });
  std::vector<Pool> of_work;
  for (const SizedTime& sample : measured) {
    const double work = std::log(sample.work), seconds = std::log(sample.seconds);
    if (!of_work.empty() && work - of_work.back().log_work < kSameWork) {
      Pool& same = of_work.back();
      same.log_seconds = (same.log_seconds * same.count + seconds) / (same.count + 1);
      ++same.count;
    } else {
      of_work.push_back({work, seconds, 1});
    }
  }
  // Runs of sizes with one time, as how many they are and the sum of their weights.
  struct Run {
    double log_seconds, weight;
    size_t sizes;
  };
  std::vector<Run> runs;
  for (const Pool& pool : of_work) {
    runs.push_back({pool.log_seconds, pool.count, 1});
    while (runs.size() > 1 && runs[runs.size() - 2].log_seconds > runs.back().log_seconds) {
      const Run last = runs.back();
      runs.pop_back();
      Run& into = runs.back();
      into.log_seconds = (into.log_seconds * into.weight + last.log_seconds * last.weight) /
                         (into.weight + last.weight);
      into.weight += last.weight;
      into.sizes += last.sizes;
    }
  }
  size_t at = 0;
  for (const Run& run : runs)
    for (size_t i = 0; i < run.sizes; ++i) of_work[at++].log_seconds = run.log_seconds;
  return of_work;
}

}  // namespace

KeyFamily family_of(std::string_view key, bool with_layouts) {
  KeyFamily made;
  for (size_t at = 0; at < key.size();) {
    if (key[at] == '@') {
      const size_t end = layout_end(key, at);
      if (with_layouts) take_layout(key.substr(at, end - at), made);
      at = end;
      continue;
    }
    made.family += key[at];
    at = key[at] == '[' ? take_numbers(key, at + 1, made) : at + 1;
  }
  return made;
}

bool on_one_line(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return false;
  double over = 0, under = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] <= 0 || b[i] <= 0) return false;
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (under == 0)
      over = x, under = y;
    else if (x * under != y * over)
      return false;
  }
  return true;
}

double time_between(std::vector<SizedTime> measured, double work) {
  if (measured.empty() || !(work > 0)) return -1;
  const std::vector<Pool> known = isotonic(std::move(measured));
  const double at = std::log(work);
  size_t above = 0;
  while (above < known.size() && known[above].log_work < at - kSameWork) ++above;
  if (above == known.size()) return -1;
  if (known[above].log_work <= at + kSameWork) return std::exp(known[above].log_seconds);
  if (above == 0) return -1;
  const Pool &low = known[above - 1], &high = known[above];
  const double share = (at - low.log_work) / (high.log_work - low.log_work);
  return std::exp(low.log_seconds + share * (high.log_seconds - low.log_seconds));
}

}  // namespace lowtide::cost

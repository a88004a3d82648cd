#include "report/near_names.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace lowtide::report {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_names(std::string_view written, const std::vector<std::string>& names,
                                    size_t most) {
  constexpr size_t kLongest = 500;  // longer ones are compared by their beginnings
  const std::string_view asked = written.substr(0, kLongest);
  std::set<std::pair<size_t, std::string>> ranked;  // distance; 0: contains it
  for (const std::string& name : names) {
    const bool contains = !asked.empty() && name.find(asked) != std::string::npos;
    const size_t distance =
        contains ? 0 : edit_distance(asked, std::string_view(name).substr(0, kLongest));
    if (distance > 0 && distance > std::max<size_t>(2, asked.size() / 2)) continue;
    ranked.emplace(distance, name);
  }
  std::vector<std::string> near;
  for (const auto& [distance, name] : ranked)
    if (near.size() < most) near.push_back(name);
  return near;
}

}  // namespace lowtide::report

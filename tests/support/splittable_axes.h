// Row of the op table to the names of its axes that can be split, as tests/data/splittable_axes.txt
// says: what tests of parts hold the axes that they did split against.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/testing/test_data.h"

namespace lowtide {

using AxesOfRows = std::map<std::string, std::set<std::string>, std::less<>>;

inline std::filesystem::path splittable_axes_file() {
  return captured_steps() / "splittable_axes.txt";
}

// Its lines are "Kind: axis axis".
inline AxesOfRows splittable_axes() {
  const auto text = read_file(splittable_axes_file().string());
  EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().message);
  AxesOfRows axes;
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(line.find(':') + 1));
    auto& of_row = axes[line.substr(0, line.find(':'))];
    for (std::string word; words >> word;) of_row.insert(word);
  }
  return axes;
}

inline size_t count_axes(const AxesOfRows& axes) {
  size_t all = 0;
  for (const auto& [kind, of_row] : axes) all += of_row.size();
  return all;
}

}  // namespace lowtide

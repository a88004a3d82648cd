// Which neighbours labels have (label_neighbours.h): MAGIS's four mutations of an F-Tree (section
// 5.1), and more or fewer parts of the whole class. Each can be left out, to see what it is worth:
// --no-mutation NAME.
//
// Tests: label_neighbours_test.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide::pipeline {

struct LabelMutations {
  bool outer = true, enable = true, disable = true, lift = true, mutate = true;
  bool operator==(const LabelMutations&) const = default;
};

struct LabelMutation {
  std::string_view name;
  bool LabelMutations::*member;
};

std::span<const LabelMutation> label_mutations();

// All but those of these names. Error: kUsage, naming a name that is no mutation's.
Result<LabelMutations> mutations_without(const std::vector<std::string>& names);

}  // namespace lowtide::pipeline

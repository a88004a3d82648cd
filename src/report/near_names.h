// Names that somebody may have meant who wrote another one.
//
// Tests: explain_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide::report {

// At most `most` of the names: those that contain what was written first, then by edit distance
// (Levenshtein's: letters added, removed, changed), at most half of its length; ties by name. Each
// once. O(names * length^2).
std::vector<std::string> near_names(std::string_view written, const std::vector<std::string>& names,
                                    size_t most);

}  // namespace lowtide::report

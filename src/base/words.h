// A text as its words: the little languages of tables are lists of words.
//
// Tests: base_test.cc.
#pragma once

#include <string_view>
#include <vector>

namespace lowtide {

// What stands between blanks; views into `text`.
inline std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = text.find(' ') < text.size() ? text.find(' ') : text.size();
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(end < text.size() ? end + 1 : end);
  }
  return words;
}

}  // namespace lowtide

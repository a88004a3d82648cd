// Small sets as sorted arrays: what an index over a few ids is, canonical and quick to walk.
//
// Tests: src/plan/problem_edit_test.cc.
#pragma once

#include <algorithm>
#include <vector>

namespace lowtide {

// Nothing happens when it is there already.
template <class T>
void insert_sorted(std::vector<T>& sorted, const T& item) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), item);
  if (at == sorted.end() || item < *at) sorted.insert(at, item);
}

// Nothing happens when it is not there.
template <class T>
void erase_sorted(std::vector<T>& sorted, const T& item) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), item);
  if (at != sorted.end() && *at == item) sorted.erase(at);
}

// In or out.
template <class T>
void set_sorted(std::vector<T>& sorted, const T& item, bool in) {
  if (in)
    insert_sorted(sorted, item);
  else
    erase_sorted(sorted, item);
}

}  // namespace lowtide

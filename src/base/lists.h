// Adjacency lists in two arrays (compressed rows): for every key the items that belong to it. What
// graphs are flattened into once, where a search then reads them millions of times. Keys are ids.
//
// Tests: order_list_test.cc.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace lowtide {

template <class Key, class T>
class Lists {
 public:
  Lists() = default;
  // Items keep their relative order within a key.
  Lists(size_t keys, const std::vector<std::pair<Key, T>>& items) : begin_(keys + 1, 0) {
    for (const auto& [key, item] : items) ++begin_[key.index() + 1];
    for (size_t i = 0; i < keys; ++i) begin_[i + 1] += begin_[i];
    items_.resize(items.size());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [key, item] : items) items_[next[key.index()]++] = item;
  }
  std::span<const T> operator[](Key key) const {
    const size_t first = begin_[key.index()];
    return std::span<const T>(items_).subspan(first, begin_[key.index() + 1] - first);
  }

 private:
  std::vector<size_t> begin_;
  std::vector<T> items_;
};

}  // namespace lowtide

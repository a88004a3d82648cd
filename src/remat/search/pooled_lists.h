// Many short lists that are edited in the middle, in one array: where a search keeps a list for
// each of a thousand things, memory of its own for each would cost more than what is done with it.
//
// Each list has its row: where it begins, how long it is and for how many items there is room. One
// that outgrows its room goes to the end of the array, with twice as much; where it was stays
// unused. What operator[] gives ends with the next insertion into any list.
//
// Items are moved one by one, as lists are short: a few steps cost less than to ask for memory to
// be moved.
//
// Tests: pooled_lists_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/id.h"

namespace lowtide::remat {

template <class Key, class T>
class PooledLists {
 public:
  PooledLists() = default;
  // Empty lists, each with room for so many items.
  explicit PooledLists(const IdVector<Key, uint32_t>& room) {
    rows_.reserve(room.size());
    size_t begin = 0;
    for (const uint32_t items : room) {
      rows_.push_back({static_cast<uint32_t>(begin), 0, items});
      begin += items;
    }
    items_.resize(begin);
  }

  std::span<const T> operator[](Key key) const {
    const Row& row = rows_[key];
    return {items_.data() + row.begin, row.size};
  }

  // Before what is at `place` now.
  void insert(Key key, size_t place, T item) {
    Row& row = rows_[key];
    LT_DCHECK(place <= row.size, "a place in the list or at its end");
    if (row.size == row.room) move_to_end(row);
    T* items = items_.data() + row.begin;
    for (size_t i = place; i < row.size; ++i) std::swap(items[i], item);
    items[row.size++] = item;
  }
  void erase(Key key, size_t place) {
    Row& row = rows_[key];
    LT_DCHECK(place < row.size, "a place in the list");
    T* items = items_.data() + row.begin;
    T item = items[--row.size];
    for (size_t i = row.size; i > place; --i) std::swap(items[i - 1], item);
  }
  void push_back(Key key, T item) { insert(key, rows_[key].size, item); }

 private:
  struct Row {
    uint32_t begin = 0, size = 0, room = 0;
  };
  void move_to_end(Row& row) {
    const size_t begin = items_.size();
    row.room = std::max<uint32_t>(2, 2 * row.room);
    items_.resize(begin + row.room);
    std::copy_n(items_.begin() + row.begin, row.size,
                items_.begin() + static_cast<std::ptrdiff_t>(begin));
    row.begin = static_cast<uint32_t>(begin);
  }

  IdVector<Key, Row> rows_;
  std::vector<T> items_;
};

}  // namespace lowtide::remat

// Strong ids and the arrays they index. An Id<Tag> is a 32-bit index that cannot be mixed with
// another kind of id or used in arithmetic; IdVector<Id, T> is the array that accepts only its own
// kind. The absent id is Id::none(), never zero.
//
// Tests: base_test.cc.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lowtide {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(size_t index) : index_(static_cast<uint32_t>(index)) {}
  static constexpr Id none() { return Id(); }

  constexpr bool valid() const { return index_ != kNone; }
  constexpr uint32_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  uint32_t index_ = kNone;
};

// The ids 0..n-1, for range-for.
template <class IdType>
class IdRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = IdType;
    using difference_type = std::ptrdiff_t;
    using pointer = const IdType*;
    using reference = IdType;
    constexpr Iterator() = default;
    constexpr explicit Iterator(size_t i) : i_(i) {}
    constexpr IdType operator*() const { return IdType(i_); }
    constexpr Iterator& operator++() {
      ++i_;
      return *this;
    }
    constexpr Iterator operator++(int) {
      Iterator old = *this;
      ++i_;
      return old;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    size_t i_ = 0;
  };
  constexpr explicit IdRange(size_t n) : n_(n) {}
  constexpr Iterator begin() const { return Iterator(0); }
  constexpr Iterator end() const { return Iterator(n_); }

 private:
  size_t n_;
};

template <class IdType, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(size_t n) : items_(n) {}
  IdVector(size_t n, const T& value) : items_(n, value) {}

  typename std::vector<T>::reference operator[](IdType id) {
    LT_DCHECK(id.index() < items_.size(), "id out of range");
    return items_[id.index()];
  }
  typename std::vector<T>::const_reference operator[](IdType id) const {
    LT_DCHECK(id.index() < items_.size(), "id out of range");
    return items_[id.index()];
  }
  IdType push_back(T value) {
    items_.push_back(std::move(value));
    return IdType(items_.size() - 1);
  }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void resize(size_t n) { items_.resize(n); }
  void reserve(size_t n) { items_.reserve(n); }
  IdRange<IdType> ids() const { return IdRange<IdType>(items_.size()); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  const std::vector<T>& raw() const { return items_; }
  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace lowtide

template <class Tag>
struct std::hash<lowtide::Id<Tag>> {
  size_t operator()(lowtide::Id<Tag> id) const noexcept {
    return std::hash<uint32_t>()(id.index());
  }
};

// A set that only grows, which several threads ask and add to. What it contains it will contain
// later, too: whoever works ahead of a turn may leave out what is there by now.
//
// Tests: workers_test.cc.
#pragma once

#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>

namespace lowtide {

template <class T>
class SharedSet {
 public:
  bool contains(const T& one) const {
    const std::shared_lock lock(mutex_);
    return set_.contains(one);
  }
  // False: it was there.
  bool insert(T one) {
    const std::unique_lock lock(mutex_);
    return set_.insert(std::move(one)).second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::set<T> set_;
};

}  // namespace lowtide

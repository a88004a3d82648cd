// Memory of a session. An Arena is one range of pages, touched once when it is made, because the
// first touch of a fresh page costs more than many uses. A CachingPool is what eager frameworks do:
// every buffer is asked for and given back, and freed allocations are kept by size for the next
// request, so that a comparison with a plan measures memory and not page faults.
//
// Tests: session_test.cc, slow_tier_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/interval.h"
#include "base/result.h"

namespace lowtide::runtime {

class Arena {
 public:
  // Behind the arena `guard_bytes` more are mapped, which nobody may write. Of `holes` (sorted,
  // apart) the pages are never touched, so that the system gives no memory for them. Error:
  // kInternal, when the system has not that much memory.
  static Result<Arena> make(int64_t bytes, int64_t guard_bytes = 0,
                            const std::vector<Interval>& holes = {});
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // Writes a pattern over arena and guard, in which no two words next to each other are alike.
  void mark();
  // One past the last byte that no longer has the pattern; more than bytes() where somebody wrote
  // behind the arena.
  int64_t unmarked_bytes() const;

 private:
  int64_t mapped_bytes() const { return bytes_ + guard_bytes_; }

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t guard_bytes_ = 0;
};

class CachingPool {
 public:
  explicit CachingPool(int64_t alignment) : alignment_(alignment) {}
  CachingPool(CachingPool&&) = default;
  CachingPool& operator=(CachingPool&&) = default;
  ~CachingPool();

  // Null when the system has no memory. Bytes are rounded up to the alignment; 0 bytes are an
  // allocation too.
  std::byte* take(int64_t bytes);
  void give_back(std::byte* allocation, int64_t bytes);

  int64_t live_bytes() const { return live_bytes_; }
  int64_t high_water_bytes() const { return high_water_bytes_; }

 private:
  int64_t alignment_;
  std::map<int64_t, std::vector<std::byte*>> free_;  // by rounded size
  int64_t live_bytes_ = 0;
  int64_t high_water_bytes_ = 0;
};

}  // namespace lowtide::runtime

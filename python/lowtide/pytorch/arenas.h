// Arenas of planned steps, and what lies in each of them (planned_addresses.h). An arena lives as
// long as something lies in it: a traceback may hold a failed step's values. The library that
// includes it defines take_memory, give_memory and trim_memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace planned {

char* take_memory(size_t bytes);  // null: there is none
void give_memory(char* base, size_t bytes);
void trim_memory(char* base, size_t kept, size_t bytes);  // the contents behind `kept` may go

struct Arena {
  char* base = nullptr;
  size_t bytes = 0;
  // With `guard`: what lies in it now, by offset (begin, end); whether its owner has it still.
  std::vector<std::pair<int64_t, int64_t>> taken;
  bool owned = true;

  // Whether nothing lies there; then something does.
  bool take(int64_t begin, int64_t end) {
    const auto behind = std::upper_bound(taken.begin(), taken.end(), std::pair{begin, INT64_MAX});
    if (behind != taken.end() && behind->first < end) return false;
    if (behind != taken.begin() && std::prev(behind)->second > begin) return false;
    taken.insert(behind, {begin, end});
    return true;
  }

  void give_up(int64_t begin) {
    const auto found = std::lower_bound(taken.begin(), taken.end(), std::pair{begin, int64_t{0}});
    if (found != taken.end() && found->first == begin) taken.erase(found);
  }
};

std::mutex guard;  // of what lies in arenas, and of what is recorded
std::vector<Arena*> arenas;

// It goes when nothing lies in it any more and its owner has left it. With `guard`.
inline void leave(Arena* arena) {
  if (arena->owned || !arena->taken.empty()) return;
  arenas.erase(std::find(arenas.begin(), arenas.end(), arena));
  give_memory(arena->base, arena->bytes);
  delete arena;
}

}  // namespace planned

extern "C" {

// Null: no memory.
void* lt_arena_make(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes > 0 ? bytes : 1);
  char* base = planned::take_memory(size);
  if (base == nullptr) return nullptr;
  auto* arena = new planned::Arena;
  arena->base = base;
  arena->bytes = size;
  const std::lock_guard<std::mutex> lock(planned::guard);
  planned::arenas.push_back(arena);
  return arena;
}

// It goes when nothing lies in it any more: a traceback may still hold a failed step's values.
void lt_arena_free(void* handle) {
  const std::lock_guard<std::mutex> lock(planned::guard);
  static_cast<planned::Arena*>(handle)->owned = false;
  planned::leave(static_cast<planned::Arena*>(handle));
}

void* lt_arena_base(void* handle) {
  return static_cast<planned::Arena*>(handle)->base;
}

// The memory of the bytes from `kept` may be given to others; they stay addresses.
void lt_arena_trim(void* handle, int64_t kept) {
  const auto* arena = static_cast<planned::Arena*>(handle);
  planned::trim_memory(arena->base, static_cast<size_t>(kept), arena->bytes);
}

}  // extern "C"

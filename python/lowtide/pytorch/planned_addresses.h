// What the allocators of a planned step have in common: cpu_allocator.cpp and cuda_allocator.cpp
// put it between PyTorch and its own allocator. Built on the user's machine (addresses.py), called
// through plain C functions.
//
// Outside of steps, and in other threads than the one that runs the step, everything goes to the
// allocator that was there before. Inside, the program says which part of the step runs
// (lt_mark); each part has a list of (bytes, address) in the order in which its kernels allocate.
// An allocation that is not the next of the list goes to the allocator before and is counted, so a
// wrong list costs memory beside the arena and never a wrong result.
//
// Recording: the same thread's allocations and releases as a list of events, by which the lists are
// made. Addresses of the arena need no release.
//
// Included once by each library, which defines take_memory, give_memory, trim_memory (of arenas)
// and lt_install.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace planned {

char* take_memory(size_t bytes);  // null: there is none
void give_memory(char* base, size_t bytes);
void trim_memory(char* base, size_t kept, size_t bytes);  // the contents behind `kept` may go

struct Arena {
  char* base = nullptr;
  size_t bytes = 0;
  std::atomic<int64_t> live{0};  // allocations that lie in it; the owner counts as one
};

// Of one plan. Of part i: the allocations from begins[i] to begins[i + 1].
struct Lists {
  std::vector<int64_t> sizes, offsets, begins;
};

struct Counts {
  int64_t planned = 0;       // allocations at planned addresses
  int64_t beside = 0;        // others inside steps
  int64_t beside_bytes = 0;  // the largest of these
  int64_t top = 0;           // end of the highest planned address that was given
};

struct Event {
  int64_t id, bytes;  // bytes of an allocation; 0: it is released
};

thread_local Arena* current = nullptr;
thread_local const Lists* lists = nullptr;
thread_local int64_t cursor = 0, end = 0;
thread_local Counts counts;
thread_local bool recording = false;
thread_local std::vector<Event> events;

std::mutex guard;  // of what follows
std::unordered_map<void*, int64_t> recorded;
std::vector<Arena*> arenas;
int64_t next_id = 1;

// Whether an allocation of this thread goes straight to the allocator before.
inline bool idle() {
  return current == nullptr && !recording;
}

// The planned place of an allocation inside a step; null: it is not the next of the list.
inline void* place(size_t bytes) {
  if (cursor < end && lists->sizes[cursor] == static_cast<int64_t>(bytes)) {
    char* data = current->base + lists->offsets[cursor];
    const auto top = lists->offsets[cursor] + static_cast<int64_t>(bytes);
    if (top > counts.top) counts.top = top;
    ++counts.planned;
    ++current->live;
    ++cursor;
    return data;
  }
  ++counts.beside;
  if (static_cast<int64_t>(bytes) > counts.beside_bytes) counts.beside_bytes = bytes;
  return nullptr;
}

inline void record(void* data, size_t bytes) {
  const std::lock_guard<std::mutex> lock(guard);
  recorded[data] = next_id;
  events.push_back({next_id++, static_cast<int64_t>(bytes)});
}

// Of a thread that is not idle: at its planned place, recorded, or as the allocator before gives
// it.
inline c10::DataPtr allocate(c10::Allocator& before, size_t bytes, c10::DeleterFnPtr release,
                             c10::Device device) {
  void* data = recording ? nullptr : place(bytes);
  if (data == nullptr) {
    c10::DataPtr given = before.allocate(bytes);
    if (!recording) return given;
    data = given.release_context();
    record(data, bytes);
  }
  return {data, data, release, device};
}

// One less lies in the arena; the last takes it away. With `guard`.
inline void leave(Arena* arena) {
  if (--arena->live > 0) return;
  for (size_t i = 0; i < arenas.size(); ++i)
    if (arenas[i] == arena) arenas.erase(arenas.begin() + static_cast<std::ptrdiff_t>(i));
  give_memory(arena->base, arena->bytes);
  delete arena;
}

// True: it lay in an arena, and that was all. False: the allocator before is to release it.
inline bool released(void* data) {
  const std::lock_guard<std::mutex> lock(guard);
  for (Arena* arena : arenas) {
    if (data < arena->base || data >= arena->base + arena->bytes) continue;
    leave(arena);
    return true;
  }
  if (const auto found = recorded.find(data); found != recorded.end()) {
    if (recording) events.push_back({found->second, 0});
    recorded.erase(found);
  }
  return false;
}

}  // namespace planned

extern "C" {

void lt_record_begin() {
  planned::events.clear();
  planned::recording = true;
}

// How many events there are; of them at most `room` are written: pairs of id and bytes.
int64_t lt_record_end(int64_t* pairs, int64_t room) {
  const auto& events = planned::events;
  planned::recording = false;
  for (size_t i = 0; i < events.size() && static_cast<int64_t>(i) < room; ++i) {
    pairs[2 * i] = events[i].id;
    pairs[2 * i + 1] = events[i].bytes;
  }
  return static_cast<int64_t>(events.size());
}

// The address of a value that was recorded and lives: its id; 0: none.
int64_t lt_recorded_id(void* data) {
  const std::lock_guard<std::mutex> lock(planned::guard);
  const auto found = planned::recorded.find(data);
  return found == planned::recorded.end() ? 0 : found->second;
}

// Null: no memory.
void* lt_arena_make(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes > 0 ? bytes : 1);
  char* base = planned::take_memory(size);
  if (base == nullptr) return nullptr;
  auto* arena = new planned::Arena;
  arena->base = base;
  arena->bytes = size;
  arena->live = 1;
  const std::lock_guard<std::mutex> lock(planned::guard);
  planned::arenas.push_back(arena);
  return arena;
}

// It goes when nothing lies in it any more: a traceback may still hold a failed step's values.
void lt_arena_free(void* handle) {
  const std::lock_guard<std::mutex> lock(planned::guard);
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

// The allocations of a plan: `parts` lists, `count` in all.
void* lt_lists_make(const int64_t* sizes, const int64_t* offsets, int64_t count,
                    const int64_t* begins, int64_t parts) {
  auto* made = new planned::Lists;
  made->sizes.assign(sizes, sizes + count);
  made->offsets.assign(offsets, offsets + count);
  made->begins.assign(begins, begins + parts + 1);
  return made;
}

void lt_lists_free(void* handle) {
  delete static_cast<planned::Lists*>(handle);
}

// The arena is at least as large as the plan's allocations reach.
void lt_step_begin(void* arena, const void* of_plan) {
  planned::current = static_cast<planned::Arena*>(arena);
  planned::lists = static_cast<const planned::Lists*>(of_plan);
  planned::cursor = planned::end = 0;
  planned::counts = {};
}

void lt_mark(int64_t part) {
  planned::cursor = planned::lists->begins[static_cast<size_t>(part)];
  planned::end = planned::lists->begins[static_cast<size_t>(part) + 1];
}

// Four numbers, as Counts has them.
void lt_step_end(int64_t* numbers) {
  planned::current = nullptr;
  numbers[0] = planned::counts.planned;
  numbers[1] = planned::counts.beside;
  numbers[2] = planned::counts.beside_bytes;
  numbers[3] = planned::counts.top;
}

}  // extern "C"

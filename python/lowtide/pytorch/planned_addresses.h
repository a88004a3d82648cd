// What the allocators of a planned step have in common: cpu_allocator.cpp and cuda_allocator.cpp
// put it between PyTorch and its own allocator. Built on the user's machine (addresses.py), called
// through plain C functions.
//
// Outside of steps, and in other threads than the one that runs the step, everything goes to the
// allocator that was there before. Inside, the program says which part of the step runs
// (lt_mark); each part has a list of (bytes, address) in the order in which its kernels allocate.
// An address belongs to a call of the step's own, which is told by where Python stands (lt_mark,
// `is_own`): a signal handler, a hook of the garbage collector, a trace function that allocates
// runs in another frame. And it is given only while nothing lies there. So an allocation that is
// not the next of the list, or somebody else's, goes to the allocator before and is counted; a
// wrong list costs memory beside the arena and never a wrong result.
//
// Recording: the same thread's allocations and releases as a list of events, by which the lists are
// made; somebody else's are left out. Addresses of the arena need no release.
//
// Included once by each library, which defines take_memory, give_memory, trim_memory (of arenas)
// and lt_install.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python_frames.h"  // first: Python's header is to be

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

// The lists of one plan. Part i has the allocations from begins[i] to begins[i + 1]. `direct`:
// whether the part's own code calls the kernel, or a Python function that it calls does.
struct Lists {
  std::vector<int64_t> sizes, offsets, direct, begins;
};

struct Counts {
  int64_t planned = 0;       // allocations at planned addresses
  int64_t beside = 0;        // others inside steps
  int64_t beside_bytes = 0;  // the largest of these
  int64_t top = 0;           // end of the highest planned address that was given
};

struct Event {
  int64_t id, bytes, direct;  // bytes of an allocation; 0: it is released
};

// What this thread runs.
struct Running {
  Arena* arena = nullptr;  // of a step; null: there is none
  const Lists* lists = nullptr;
  int64_t cursor = 0, end = 0;
  bool watched = false;         // PyTorch hands kernels to somebody else's Python first
  const void* frame = nullptr;  // of the own code; null: it does not run now
  Counts counts;
};

thread_local Running now;
thread_local std::vector<Running> outer;  // steps in the middle of which this one was called
thread_local bool recording = false;
thread_local std::vector<Event> events;

std::mutex guard;  // of what follows, and of what lies in arenas
std::unordered_map<void*, int64_t> recorded;
std::vector<Arena*> arenas;
int64_t next_id = 1;

// Whether an allocation of this thread goes straight to the allocator before.
inline bool idle() {
  return now.arena == nullptr && !recording;
}

// Whether an allocation is of the code that runs, which calls the kernel itself (`direct`) or
// through Python functions. Signal handlers are put off meanwhile (entering.py).
inline bool is_own(bool direct) {
  if (now.frame == nullptr || collecting || is_tracing()) return false;
  return (frame_now() == now.frame) == direct && (direct || !now.watched);
}

// The planned place of an allocation inside a step; null: it is not the next of the list.
inline void* place(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (now.cursor < now.end && now.lists->sizes[now.cursor] == size &&
      is_own(now.lists->direct[now.cursor] != 0)) {
    const int64_t begin = now.lists->offsets[now.cursor++];
    const std::lock_guard<std::mutex> lock(guard);
    if (now.arena->take(begin, begin + size)) {
      now.counts.top = std::max(now.counts.top, begin + size);
      ++now.counts.planned;
      return now.arena->base + begin;
    }
  }
  ++now.counts.beside;
  now.counts.beside_bytes = std::max(now.counts.beside_bytes, size);
  return nullptr;
}

inline void record(void* data, size_t bytes) {
  const bool direct = frame_now() == now.frame;
  const std::lock_guard<std::mutex> lock(guard);
  recorded[data] = next_id;
  events.push_back({next_id++, static_cast<int64_t>(bytes), direct ? 1 : 0});
}

// Of a thread that is not idle: at its planned place, recorded, or as the allocator before gives
// it.
inline c10::DataPtr allocate(c10::Allocator& before, size_t bytes, c10::DeleterFnPtr release,
                             c10::Device device) {
  void* data = recording ? nullptr : place(bytes);
  if (data == nullptr) {
    c10::DataPtr given = before.allocate(bytes);
    if (!recording || !(is_own(true) || is_own(false))) return given;
    data = given.release_context();
    record(data, bytes);
  }
  return {data, data, release, device};
}

// It goes when nothing lies in it any more and its owner has left it. With `guard`.
inline void leave(Arena* arena) {
  if (arena->owned || !arena->taken.empty()) return;
  arenas.erase(std::find(arenas.begin(), arenas.end(), arena));
  give_memory(arena->base, arena->bytes);
  delete arena;
}

// True: it lay in an arena, and that was all. False: the allocator before is to release it.
inline bool released(void* data) {
  const std::lock_guard<std::mutex> lock(guard);
  for (Arena* arena : arenas) {
    if (data < arena->base || data >= arena->base + arena->bytes) continue;
    arena->give_up(static_cast<char*>(data) - arena->base);
    leave(arena);
    return true;
  }
  if (const auto found = recorded.find(data); found != recorded.end()) {
    if (recording) events.push_back({found->second, 0, 0});
    recorded.erase(found);
  }
  return false;
}

}  // namespace planned

extern "C" {

void lt_record_begin() {
  planned::find_python();
  planned::events.clear();
  planned::now.frame = nullptr;
  planned::recording = true;
}

// Called by the code that is recorded, when it begins (1) and when it ends (0).
void lt_own(int64_t begins) {
  if (!planned::recording) return;  // it is run for its result alone
  planned::now.frame = begins != 0 ? planned::frame_now() : nullptr;
}

// How many events there are; of them at most `room` are written: id, bytes, whether it is direct.
int64_t lt_record_end(int64_t* numbers, int64_t room) {
  const auto& events = planned::events;
  planned::recording = false;
  planned::now.frame = nullptr;
  for (size_t i = 0; i < events.size() && static_cast<int64_t>(i) < room; ++i) {
    numbers[3 * i] = events[i].id;
    numbers[3 * i + 1] = events[i].bytes;
    numbers[3 * i + 2] = events[i].direct;
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

// The allocations of a plan: `parts` lists, `count` in all.
void* lt_lists_make(const int64_t* sizes, const int64_t* offsets, const int64_t* direct,
                    int64_t count, const int64_t* begins, int64_t parts) {
  auto* made = new planned::Lists;
  made->sizes.assign(sizes, sizes + count);
  made->offsets.assign(offsets, offsets + count);
  made->direct.assign(direct, direct + count);
  made->begins.assign(begins, begins + parts + 1);
  return made;
}

void lt_lists_free(void* handle) {
  delete static_cast<planned::Lists*>(handle);
}

// The arena is at least as large as the plan's allocations reach. `watched`: a mode of PyTorch's
// dispatch is on. Not begun where something lies in the arena: how much; 0: begun.
int64_t lt_step_begin(void* arena, const void* of_plan, int64_t watched) {
  auto* mine = static_cast<planned::Arena*>(arena);
  {
    const std::lock_guard<std::mutex> lock(planned::guard);
    if (!mine->taken.empty()) return static_cast<int64_t>(mine->taken.size());
  }
  if (planned::now.arena != nullptr) planned::outer.push_back(planned::now);
  planned::find_python();
  planned::now = {};
  planned::now.arena = mine;
  planned::now.lists = static_cast<const planned::Lists*>(of_plan);
  planned::now.watched = watched != 0;
  return 0;
}

// Called by the code whose own allocations these are.
void lt_mark(int64_t part) {
  if (planned::now.arena == nullptr) return;
  planned::now.frame = planned::frame_now();
  planned::now.cursor = planned::now.lists->begins[static_cast<size_t>(part)];
  planned::now.end = planned::now.lists->begins[static_cast<size_t>(part) + 1];
}

// Four numbers, as Counts has them.
void lt_step_end(int64_t* numbers) {
  const planned::Counts& counts = planned::now.counts;
  numbers[0] = counts.planned;
  numbers[1] = counts.beside;
  numbers[2] = counts.beside_bytes;
  numbers[3] = counts.top;
  planned::now = {};
  if (planned::outer.empty()) return;
  planned::now = planned::outer.back();
  planned::outer.pop_back();
}

}  // extern "C"

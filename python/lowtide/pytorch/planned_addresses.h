// What the allocators of a planned step have in common: cpu_allocator.cpp and cuda_allocator.cpp
// put it between PyTorch and its own allocator. Built on the user's machine (addresses.py), called
// through plain C functions.
//
// Outside of steps, and in other threads than the one that runs the step, everything goes to the
// allocator that was there before. Inside, the program says which part of the step runs
// (lt_mark); each part has a list of (bytes, address) in the order in which its kernels allocate.
// An address belongs to a call of the step's own, which is told by where Python stands (lt_mark,
// `caller_now`): a signal handler, a hook of the garbage collector, a finalizer that allocates
// runs in another frame, or in functions of other names. And it is given only while nothing lies
// there. So an allocation that the list has not, or somebody else's, goes to the allocator before
// and is counted; a wrong list costs memory beside the arena and never a wrong result. Where an
// update reads numbers off tensors, it may leave out what it allocated when it was measured
// (Adafactor's, while a parameter is nearly zero): then another entry of the same size and
// functions is taken.
//
// Recording: the same thread's allocations and releases as a list of events, by which the lists are
// made; somebody else's are left out. Addresses of the arena need no release.
//
// Included once by each library, which defines what arenas.h asks for, and lt_install.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arenas.h"
#include "python_frames.h"

namespace planned {

// Who has a kernel run that allocates: the part's own code, or Python functions that it calls,
// known (functions_now: over 1) or not.
enum Caller : int64_t { UNKNOWN = 0, OWN = 1 };

// The lists of one plan. Part i has the allocations from begins[i] to begins[i + 1].
struct Lists {
  std::vector<int64_t> sizes, offsets, callers, begins;
};

struct Counts {
  int64_t planned = 0;       // allocations at planned addresses
  int64_t beside = 0;        // others inside steps
  int64_t beside_bytes = 0;  // the largest of these
  int64_t top = 0;           // end of the highest planned address that was given
};

struct Event {
  int64_t id, bytes, caller;  // bytes of an allocation; 0: it is released
};

// What this thread runs.
struct Running {
  Arena* arena = nullptr;  // of a step; null: there is none
  const Lists* lists = nullptr;
  int64_t begin = 0, cursor = 0, end = 0;  // of the part that runs
  bool watched = false;                    // PyTorch hands kernels to somebody else's Python first
  const void* frame = nullptr;             // of the own code; null: it does not run now
  Counts counts;
};

thread_local Running now;
thread_local std::vector<Running> outer;  // steps in the middle of which this one was called
thread_local bool recording = false;
thread_local std::vector<Event> events;

std::unordered_map<void*, int64_t> recorded;  // with `guard`, as what follows
int64_t next_id = 1;

// Whether an allocation of this thread goes straight to the allocator before.
inline bool idle() {
  return now.arena == nullptr && !recording;
}

// Whether an allocation may be of the code that runs or of functions that it calls. Signal handlers
// are put off meanwhile (entering.py).
inline bool may_be_own() {
  return now.frame != nullptr && !collecting && !is_tracing();
}

inline int64_t caller_now() {
  return frame_now() == now.frame ? OWN : functions_now(now.frame);
}

inline bool fits(int64_t entry, int64_t size, int64_t caller) {
  const int64_t wanted = now.lists->callers[entry];
  if (now.lists->sizes[entry] != size) return false;
  return wanted == caller ||
         (caller != OWN && (wanted == UNKNOWN || caller == UNKNOWN) && wanted != OWN);
}

// The place of an entry of the list; null: something lies there.
inline void* place_of(int64_t entry) {
  const int64_t begin = now.lists->offsets[entry], end = begin + now.lists->sizes[entry];
  const std::lock_guard<std::mutex> lock(guard);
  if (!now.arena->take(begin, end)) return nullptr;
  now.counts.top = std::max(now.counts.top, end);
  ++now.counts.planned;
  return now.arena->base + begin;
}

// Of an allocation that is not the next of the list, by known functions: the place of another entry
// of this size that they made, best behind the next.
inline void* other_place(int64_t size, int64_t caller) {
  const int64_t count = now.end - now.begin;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t entry = now.begin + (now.cursor - now.begin + i) % count;
    if (now.lists->sizes[entry] != size || now.lists->callers[entry] != caller) continue;
    if (void* found = place_of(entry); found != nullptr) {
      now.cursor = std::max(now.cursor, entry + 1);
      return found;
    }
  }
  return nullptr;
}

// The planned place of an allocation inside a step; null: it has none.
inline void* place(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  const bool own = may_be_own();
  const int64_t caller = own ? caller_now() : UNKNOWN;
  void* found = nullptr;
  if (own && (caller == OWN || !now.watched)) {
    if (now.cursor < now.end && fits(now.cursor, size, caller))
      found = place_of(now.cursor++);
    else if (caller > OWN)
      found = other_place(size, caller);
  }
  if (found != nullptr) return found;
  ++now.counts.beside;
  now.counts.beside_bytes = std::max(now.counts.beside_bytes, size);
  return nullptr;
}

inline void record(void* data, size_t bytes) {
  const int64_t caller = caller_now();
  const std::lock_guard<std::mutex> lock(guard);
  recorded[data] = next_id;
  events.push_back({next_id++, static_cast<int64_t>(bytes), caller});
}

// Of a thread that is not idle: at its planned place, recorded, or as the allocator before gives
// it.
inline c10::DataPtr allocate(c10::Allocator& before, size_t bytes, c10::DeleterFnPtr release,
                             c10::Device device) {
  void* data = recording ? nullptr : place(bytes);
  if (data == nullptr) {
    c10::DataPtr given = before.allocate(bytes);
    if (!recording || !may_be_own()) return given;
    data = given.release_context();
    record(data, bytes);
  }
  return {data, data, release, device};
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

// How many events there are; of them at most `room` are written: id, bytes, caller.
int64_t lt_record_end(int64_t* numbers, int64_t room) {
  const auto& events = planned::events;
  planned::recording = false;
  planned::now.frame = nullptr;
  for (size_t i = 0; i < events.size() && static_cast<int64_t>(i) < room; ++i) {
    numbers[3 * i] = events[i].id;
    numbers[3 * i + 1] = events[i].bytes;
    numbers[3 * i + 2] = events[i].caller;
  }
  return static_cast<int64_t>(events.size());
}

// The address of a value that was recorded and lives: its id; 0: none.
int64_t lt_recorded_id(void* data) {
  const std::lock_guard<std::mutex> lock(planned::guard);
  const auto found = planned::recorded.find(data);
  return found == planned::recorded.end() ? 0 : found->second;
}

// The allocations of a plan: `parts` lists, `count` in all.
void* lt_lists_make(const int64_t* sizes, const int64_t* offsets, const int64_t* callers,
                    int64_t count, const int64_t* begins, int64_t parts) {
  auto* made = new planned::Lists;
  made->sizes.assign(sizes, sizes + count);
  made->offsets.assign(offsets, offsets + count);
  made->callers.assign(callers, callers + count);
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
  planned::now.begin = planned::now.lists->begins[static_cast<size_t>(part)];
  planned::now.cursor = planned::now.begin;
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

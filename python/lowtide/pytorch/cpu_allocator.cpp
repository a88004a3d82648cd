// An allocator for PyTorch on the CPU that gives every allocation of a planned step its planned
// address. Built on the user's machine against the installed torch (addresses.py), as the layout of
// c10::Allocator belongs to one version of it; called through plain C functions.
//
// Outside of steps, and in other threads than the one that runs the step, everything goes to the
// allocator that was there before. Inside, the program says which part of the step runs
// (lt_mark); each part has a list of (bytes, address) in the order in which its kernels allocate.
// An allocation that is not the next of the list goes to the allocator before and is counted, so a
// wrong list costs memory beside the arena and never a wrong result.
//
// Recording: the same thread's allocations and releases as a list of events, by which the lists are
// made. Addresses of the arena need no release.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace {

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

c10::Allocator* before = nullptr;
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

// One less lies in the arena; the last takes it away. With `guard`.
void leave(Arena* arena) {
  if (--arena->live > 0) return;
  for (size_t i = 0; i < arenas.size(); ++i)
    if (arenas[i] == arena) arenas.erase(arenas.begin() + static_cast<std::ptrdiff_t>(i));
  munmap(arena->base, arena->bytes);
  delete arena;
}

bool left_some_arena(const void* data) {
  const std::lock_guard<std::mutex> lock(guard);
  for (Arena* arena : arenas) {
    if (data < arena->base || data >= arena->base + arena->bytes) continue;
    leave(arena);
    return true;
  }
  return false;
}

void release(void* data) {
  if (data == nullptr || left_some_arena(data)) return;
  {
    const std::lock_guard<std::mutex> lock(guard);
    if (const auto found = recorded.find(data); found != recorded.end()) {
      if (recording) events.push_back({found->second, 0});
      recorded.erase(found);
    }
  }
  before->raw_deleter()(data);
}

class PlannedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0 || (current == nullptr && !recording)) return before->allocate(bytes);
    if (recording) return record(bytes);
    if (cursor < end && lists->sizes[cursor] == static_cast<int64_t>(bytes)) {
      char* data = current->base + lists->offsets[cursor];
      const auto top = lists->offsets[cursor] + static_cast<int64_t>(bytes);
      if (top > counts.top) counts.top = top;
      ++counts.planned;
      ++current->live;
      ++cursor;
      return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    ++counts.beside;
    if (static_cast<int64_t>(bytes) > counts.beside_bytes) counts.beside_bytes = bytes;
    return before->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static c10::DataPtr record(size_t bytes) {
    c10::DataPtr given = before->allocate(bytes);
    void* data = given.release_context();
    const std::lock_guard<std::mutex> lock(guard);
    recorded[data] = next_id;
    events.push_back({next_id++, static_cast<int64_t>(bytes)});
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
};

PlannedAllocator planned;

}  // namespace

extern "C" {

// Puts the allocator in place. 0: the one that is there cannot be built upon.
int lt_install() {
  if (c10::GetCPUAllocator() == &planned) return 1;
  before = c10::GetCPUAllocator();
  if (before == nullptr || before->raw_deleter() == nullptr) return 0;
  c10::SetCPUAllocator(&planned, 1);
  return c10::GetCPUAllocator() == &planned ? 1 : 0;
}

void lt_record_begin() {
  events.clear();
  recording = true;
}

// How many events there are; of them at most `room` are written: pairs of id and bytes.
int64_t lt_record_end(int64_t* pairs, int64_t room) {
  recording = false;
  for (size_t i = 0; i < events.size() && static_cast<int64_t>(i) < room; ++i) {
    pairs[2 * i] = events[i].id;
    pairs[2 * i + 1] = events[i].bytes;
  }
  return static_cast<int64_t>(events.size());
}

// The address of a value that was recorded and lives: its id; 0: none.
int64_t lt_recorded_id(void* data) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = recorded.find(data);
  return found == recorded.end() ? 0 : found->second;
}

// Null: no memory.
void* lt_arena_make(int64_t bytes) {
  auto* arena = new Arena;
  arena->bytes = static_cast<size_t>(bytes > 0 ? bytes : 1);
  void* base = mmap(nullptr, arena->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    delete arena;
    return nullptr;
  }
  arena->base = static_cast<char*>(base);
  arena->live = 1;
  const std::lock_guard<std::mutex> lock(guard);
  arenas.push_back(arena);
  return arena;
}

// It goes when nothing lies in it any more: a traceback may still hold a failed step's values.
void lt_arena_free(void* handle) {
  const std::lock_guard<std::mutex> lock(guard);
  leave(static_cast<Arena*>(handle));
}

void* lt_arena_base(void* handle) {
  return static_cast<Arena*>(handle)->base;
}

// The system takes back the memory of the bytes from `kept`, of whole pages; they stay addresses.
void lt_arena_trim(void* handle, int64_t kept) {
  auto* arena = static_cast<Arena*>(handle);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t from = (static_cast<size_t>(kept) + page - 1) / page * page;
  if (from < arena->bytes) madvise(arena->base + from, arena->bytes - from, MADV_DONTNEED);
}

// The allocations of a plan: `parts` lists, `count` in all.
void* lt_lists_make(const int64_t* sizes, const int64_t* offsets, int64_t count,
                    const int64_t* begins, int64_t parts) {
  auto* made = new Lists;
  made->sizes.assign(sizes, sizes + count);
  made->offsets.assign(offsets, offsets + count);
  made->begins.assign(begins, begins + parts + 1);
  return made;
}

void lt_lists_free(void* handle) {
  delete static_cast<Lists*>(handle);
}

// The arena is at least as large as the plan's allocations reach.
void lt_step_begin(void* arena, const void* of_plan) {
  current = static_cast<Arena*>(arena);
  lists = static_cast<const Lists*>(of_plan);
  cursor = end = 0;
  counts = {};
}

void lt_mark(int64_t part) {
  cursor = lists->begins[static_cast<size_t>(part)];
  end = lists->begins[static_cast<size_t>(part) + 1];
}

// Four numbers, as Counts has them.
void lt_step_end(int64_t* numbers) {
  current = nullptr;
  numbers[0] = counts.planned;
  numbers[1] = counts.beside;
  numbers[2] = counts.beside_bytes;
  numbers[3] = counts.top;
}

}  // extern "C"

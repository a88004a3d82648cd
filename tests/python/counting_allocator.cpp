// Counts the bytes that live in PyTorch's CPU allocator, whoever serves them: the judge of what a
// step needs, built by tests/python/test_torch_addresses.py. Put on top of the allocator that is
// there; knows nothing of plans.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>

namespace {

c10::Allocator* below = nullptr;
std::mutex guard;
std::unordered_map<void*, size_t> sizes;
long long live = 0, peak = 0;
long long outside = 0, outside_peak = 0;  // of these what lies outside the range that is watched
char *begin = nullptr, *end = nullptr, *top = nullptr;  // of the range that is watched

bool is_inside(const char* data) {
  return data >= begin && data < end;
}

void release(void* data) {
  if (data == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(guard);
    if (const auto found = sizes.find(data); found != sizes.end()) {
      live -= static_cast<long long>(found->second);
      if (!is_inside(static_cast<char*>(data))) outside -= static_cast<long long>(found->second);
      sizes.erase(found);
    }
  }
  below->raw_deleter()(data);
}

struct Counting final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr given = below->allocate(bytes);
    if (bytes == 0) return given;
    char* data = static_cast<char*>(given.release_context());
    const std::lock_guard<std::mutex> lock(guard);
    sizes[data] = bytes;
    live += static_cast<long long>(bytes);
    if (live > peak) peak = live;
    if (!is_inside(data)) outside += static_cast<long long>(bytes);
    if (outside > outside_peak) outside_peak = outside;
    if (is_inside(data) && data + bytes > top) top = data + bytes;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

Counting counting;

}  // namespace

extern "C" {
// Watches how far allocations reach in the `bytes` from `from`.
void count_begin(char* from, long long bytes) {
  if (below == nullptr) {
    below = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&counting, 2);
  }
  const std::lock_guard<std::mutex> lock(guard);
  live = peak = outside = outside_peak = 0;
  sizes.clear();
  begin = top = from;
  end = from + bytes;
}
long long count_peak() {
  return peak;
}
long long count_live() {
  return live;
}
long long count_outside_peak() {
  return outside_peak;
}
long long count_reach() {
  return top - begin;
}
}

// An allocator for PyTorch on the CPU that gives every allocation of a planned step its planned
// address (planned_addresses.h). Built on the user's machine against the installed torch, as the
// layout of c10::Allocator belongs to one version of it.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include "planned_addresses.h"

namespace {

c10::Allocator* before = nullptr;

void release(void* data) {
  if (data == nullptr || planned::released(data)) return;
  before->raw_deleter()(data);
}

class PlannedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0 || planned::idle()) return before->allocate(bytes);
    return planned::allocate(*before, bytes, &release, c10::Device(c10::DeviceType::CPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

PlannedAllocator allocator;

}  // namespace

namespace planned {

char* take_memory(size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base == MAP_FAILED ? nullptr : static_cast<char*>(base);
}

void give_memory(char* base, size_t bytes) {
  munmap(base, bytes);
}

// Whole pages, which the system gives anew where they are written again.
void trim_memory(char* base, size_t kept, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t from = (kept + page - 1) / page * page;
  if (from < bytes) madvise(base + from, bytes - from, MADV_DONTNEED);
}

}  // namespace planned

// Puts the allocator in place. 0: the one that is there cannot be built upon.
extern "C" int lt_install() {
  if (c10::GetCPUAllocator() == &allocator) return 1;
  before = c10::GetCPUAllocator();
  if (before == nullptr || before->raw_deleter() == nullptr) return 0;
  c10::SetCPUAllocator(&allocator, 1);
  return c10::GetCPUAllocator() == &allocator ? 1 : 0;
}

// An allocator for PyTorch on CUDA that gives every allocation of a planned step its planned
// address (planned_addresses.h): results of kernels, and the temporary memory of cuBLAS, cuDNN and
// cub, which ask PyTorch for it. Built on the user's machine against the installed torch, as the
// layout of CUDAAllocator belongs to one version of it.
//
// It stands before PyTorch's own allocator and hands on whatever it does not plan. The arena is
// one allocation of that, so torch.cuda.memory_allocated() and its like count it. Nobody gives up an address
// of the arena to another stream: a step runs in one stream, whose order is the plan's.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planned_addresses.h"

namespace {

using namespace c10::cuda::CUDACachingAllocator;  // NOLINT: the names of the interface
using c10::DeviceIndex;
using Pool = c10::cuda::MempoolId_t;

CUDAAllocator* before = nullptr;

void release(void* data) {
  if (data == nullptr || planned::released(data)) return;
  before->raw_deleter()(data);
}

class PlannedAllocator final : public CUDAAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0 || planned::idle()) return before->allocate(bytes);
    return planned::allocate(*before, bytes, &release,
                             c10::Device(c10::DeviceType::CUDA, c10::cuda::current_device()));
  }
  // Of what is allocated now: PyTorch's graph trees compare it with the deleter that data have.
  c10::DeleterFnPtr raw_deleter() const override {
    return planned::idle() ? before->raw_deleter() : &release;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    before->copy_data(to, from, bytes);
  }
  void* raw_alloc(size_t bytes) override {
    return given_raw(bytes, [&] { return before->raw_alloc(bytes); });
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return given_raw(bytes, [&] { return before->raw_alloc_with_stream(bytes, stream); });
  }
  void raw_delete(void* data) override {
    if (data != nullptr && !planned::released(data)) before->raw_delete(data);
  }

  // What follows is PyTorch's own allocator's.
  void init(int devices) override { before->init(devices); }
  bool initialized() override { return before->initialized(); }
  double getMemoryFraction(DeviceIndex device) override {
    return before->getMemoryFraction(device);
  }
  void setMemoryFraction(double share, DeviceIndex device) override {
    before->setMemoryFraction(share, device);
  }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return before->getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { before->enable(value); }
  bool isEnabled() const override { return before->isEnabled(); }
  void emptyCache(Pool pool) override { before->emptyCache(pool); }
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    before->cacheInfo(device, largest);
  }
  void* getBaseAllocation(void* data, size_t* size) override {
    return before->getBaseAllocation(data, size);
  }
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    before->recordStream(data, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    return before->getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override { before->resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override { before->resetPeakStats(device); }
  SnapshotInfo snapshot(Pool pool, bool traces) override { return before->snapshot(pool, traces); }
  void beginAllocateToPool(DeviceIndex device, Pool pool,
                           std::function<bool(cudaStream_t)> filter) override {
    before->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, Pool pool) override {
    before->endAllocateToPool(device, pool);
  }
  void releasePool(DeviceIndex device, Pool pool) override { before->releasePool(device, pool); }
  int getPoolUseCount(DeviceIndex device, Pool pool) override {
    return before->getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(DeviceIndex device, Pool pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    before->createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, Pool pool, bool use) override {
    before->setUseOnOOM(device, pool, use);
  }
  void setNoSplit(DeviceIndex device, Pool pool) override { before->setNoSplit(device, pool); }
  bool checkPoolLiveAllocations(DeviceIndex device, Pool pool,
                                const std::unordered_set<void*>& expected) override {
    return before->checkPoolLiveAllocations(device, pool, expected);
  }
  ShareableHandle shareIpcHandle(void* data) override { return before->shareIpcHandle(data); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return before->getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return before->isHistoryEnabled(); }
  void recordHistory(bool enabled, CreateContextFn context, size_t most, RecordContext when,
                     bool clear, const std::vector<std::string>& skipped) override {
    before->recordHistory(enabled, context, most, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override {
    before->recordAnnotation(pairs);
  }
  void pushCompileContext(std::string& text) override { before->pushCompileContext(text); }
  void popCompileContext() override { before->popCompileContext(); }
  void setUserMetadata(const std::string& text) override { before->setUserMetadata(text); }
  std::string getUserMetadata() override { return before->getUserMetadata(); }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    before->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    before->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex from, DeviceIndex to) override {
    before->enablePeerAccess(from, to);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                          cudaStream_t stream, bool peers) override {
    return before->memcpyAsync(to, to_device, from, from_device, bytes, stream, peers);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, Pool pool) override {
    return before->getCheckpointState(device, pool);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                         std::shared_ptr<AllocatorState> state) override {
    return before->setCheckpointPoolState(device, std::move(state));
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    return before->getMemoryInfo(device);
  }
#if TORCH_VERSION_MINOR >= 12
  void attachOomRejectionObserver(OomRejectionObserver observer) override {
    before->attachOomRejectionObserver(std::move(observer));
  }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* data) override {
    return before->getContextForPointer(data);
  }
#endif
#if TORCH_VERSION_MINOR >= 13
  void markCaptureBegin(DeviceIndex device) override {
    before->markCaptureBegin(device);
  }
  void markCaptureEnd(DeviceIndex device) override {
    before->markCaptureEnd(device);
  }
  c10::DataPtr allocateWithAddress(size_t bytes, void* data) override {
    return before->allocateWithAddress(bytes, data);
  }
#endif
  std::string name() override {
    return before->name();
  }

 private:
  template <class Before>
  static void* given_raw(size_t bytes, Before take) {
    if (bytes == 0 || planned::idle()) return take();
    void* data = planned::recording ? nullptr : planned::place(bytes);
    if (data != nullptr) return data;
    data = take();
    if (planned::recording && (planned::is_own(true) || planned::is_own(false)))
      planned::record(data, bytes);
    return data;
  }
};

PlannedAllocator allocator_of_steps;

}  // namespace

namespace planned {

char* take_memory(size_t bytes) {
  try {
    return static_cast<char*>(before->raw_alloc(bytes));
  } catch (const std::exception&) {  // the device has no room; whoever asked says so
    return nullptr;
  }
}

void give_memory(char* base, size_t) {
  before->raw_delete(base);
}

void trim_memory(char*, size_t, size_t) {
}  // an arena that is in the way is freed whole (addresses.py)

}  // namespace planned

// Puts the allocator in place, after CUDA has been initialised. 0: there is none to build upon.
extern "C" int lt_install() {
  if (get() == &allocator_of_steps) return 1;
  before = get();
  if (before == nullptr || !before->initialized()) return 0;
  allocator.store(&allocator_of_steps);
  return 1;
}

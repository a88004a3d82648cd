// A running step allocates nothing for tensors or kernels: its memory is the arena, which is one
// mapping of exactly the plan's size, made when the session opens. The test program puts its own
// malloc, realloc, calloc, memalign family and mmap before the library's and counts what any thread
// asks for while a step runs. The same holds for a plan that moves its parameters and much else to
// slow memory and back: its copies come from records and buffers made at open.
//
// What is left is oneDNN's: each execution makes a map from argument number to memory object and
// drops it when the primitive returns, which costs a node per argument and a few bucket arrays.
// kBytesPerOp bounds that sum per op, and kLargest every single request: less than the smallest
// buffer that a kernel would want.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "api/state.h"
#include "exec/cpu/cpu.h"
#include "lowtide/api.h"
#include "runtime/session.h"
#include "support/long_checks.h"
#include "support/moving_plan.h"

namespace {

constexpr size_t kLargest = 1024;
constexpr int64_t kBytesPerOp = 512;

// Requests while `on`. Plain atomics, because the counters run inside malloc.
struct Meter {
  std::atomic<bool> on{false};
  std::atomic<int64_t> requests{0}, bytes{0}, large{0}, mappings{0};
  std::atomic<size_t> largest{0};
  std::atomic<size_t> watched_mapping{0};  // mappings of this length are counted
  std::atomic<int64_t> watched{0};

  void count(size_t n) {
    if (!on.load(std::memory_order_relaxed)) return;
    ++requests;
    bytes += static_cast<int64_t>(n);
    if (n >= kLargest) ++large;
    size_t seen = largest.load();
    while (n > seen && !largest.compare_exchange_weak(seen, n)) {
    }
  }
  void count_mapping(size_t n) {
    if (!on.load(std::memory_order_relaxed)) return;
    ++mappings;
    if (n == watched_mapping.load()) ++watched;
  }
  void start() {
    requests = bytes = large = mappings = watched = 0;
    largest = 0;
    on = true;
  }
  void stop() { on = false; }
};

Meter meter;

}  // namespace

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LT_INTERPOSES 1

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
  meter.count(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  meter.count(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) noexcept {
  meter.count(bytes);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  meter.count(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  meter.count(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  meter.count(bytes);
  void* made = __libc_memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *out = made;
  return 0;
}
void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  meter.count_mapping(bytes);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
}
#endif

namespace lowtide {
namespace {

struct Case {
  const char* model;
  std::map<std::string, int64_t, std::less<>> dims;
};

const Case kCases[] = {
    {"unet", {{"batch", 1}}}, {"resnet50", {{"batch", 1}}}, {"gpt2", {{"batch", 1}, {"seq", 16}}}};

class Allocation : public testing::TestWithParam<Case> {
 protected:
  static Result<Plan> make_plan() {
    const std::string path =
        std::string(LOWTIDE_SOURCE_DIR "/models/") + GetParam().model + ".onnx";
    auto model = Model::read(path, {.dims = GetParam().dims, .training = true});
    if (!model) return tl::unexpected<Error>(model.error());
    return Plan::make(*model, {.train = true});
  }
};

// An op whose kernel asked for kLargest bytes or more at once.
struct Guilty {
  plan::PlanOpId op;
  size_t largest;
};

TEST_P(Allocation, AStepStaysInTheArena) {
#ifndef LT_INTERPOSES
  GTEST_SKIP() << "the sanitizers' own malloc cannot be counted";
#endif
  const auto plan = make_plan();
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const plan::Plan& steps = plan->state().plan;
  const auto kernels = exec_cpu::make_cpu_kernels();

  meter.watched_mapping = static_cast<size_t>(steps.arena_bytes);
  meter.start();
  auto session = runtime::Session::open(steps, *kernels);
  meter.stop();
  ASSERT_TRUE(session.has_value()) << session.error().message;
  EXPECT_EQ(meter.watched, 1) << "the arena is one mapping of the plan's size";
  EXPECT_EQ(session->arena_bytes(), plan->arena_bytes());
  session->seed_inputs(0);
  ASSERT_TRUE(session->run());  // threads start, oneDNN makes what it keeps for each thread

  std::vector<Guilty> guilty;
  guilty.reserve(steps.ops.size());
  plan::PlanOpId last;
  const runtime::Observer note = [&](plan::PlanOpId op, plan::PlanValueId,
                                     std::span<const std::byte>) {
    if (op == last) return;
    last = op;
    if (meter.large > 0) guilty.push_back({op, meter.largest});
    meter.large = 0;
    meter.largest = 0;
  };
  meter.start();
  const Status observed = session->run(&note);
  meter.stop();
  ASSERT_TRUE(observed.has_value());
  for (const Guilty& g : guilty)
    ADD_FAILURE() << steps.ops[g.op].kind << " '" << steps.ops[g.op].name << "' asked for "
                  << g.largest << " bytes at once";

  meter.start();
  const Status ran = session->run();
  meter.stop();
  ASSERT_TRUE(ran.has_value());
  const int64_t ops = static_cast<int64_t>(steps.ops.size());
  std::printf("%s: %lld ops, %lld requests, %lld bytes in all, largest %zu\n", GetParam().model,
              static_cast<long long>(ops), static_cast<long long>(meter.requests.load()),
              static_cast<long long>(meter.bytes.load()), meter.largest.load());
  EXPECT_LT(meter.largest, kLargest);
  EXPECT_EQ(meter.mappings, 0);
  EXPECT_LE(meter.bytes, kBytesPerOp * ops);
}

TEST_P(Allocation, AStepThatMovesMuchAllocatesNoMore) {
#ifndef LT_INTERPOSES
  GTEST_SKIP() << "the sanitizers' own malloc cannot be counted";
#endif
  const auto plan = make_plan();
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const plan::Plan moving = MovingPlan(plan->state().plan, 8, 2).make();
  const auto kernels = exec_cpu::make_cpu_kernels();
  for (const std::string& folder : {std::string(), testing::TempDir()}) {
    runtime::SessionOptions options;
    options.slow_memory.folder = folder;
    auto session = runtime::Session::open(moving, *kernels, options);
    ASSERT_TRUE(session.has_value()) << session.error().message;
    session->seed_inputs(0);
    ASSERT_TRUE(session->run());
    meter.start();
    const Status ran = session->run();
    meter.stop();
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    const runtime::TransferTotals moved = session->transfers();
    std::printf("%s: %lld bytes out, %lld in, %.3f s of transfers, %.3f s exposed\n",
                GetParam().model, static_cast<long long>(moved.stored_bytes),
                static_cast<long long>(moved.loaded_bytes), moved.transfer_seconds,
                moved.exposed_seconds);
    EXPECT_GT(moved.stored_bytes, 0);
    EXPECT_GT(moved.loaded_bytes, 0);
    EXPECT_LT(meter.largest, kLargest);
    EXPECT_EQ(meter.mappings, 0);
    EXPECT_LE(meter.bytes, kBytesPerOp * static_cast<int64_t>(moving.ops.size()));
  }
}

// By default one model; all are a long check.
std::vector<Case> cases() {
  if (!long_checks()) return {kCases[1]};
  return {std::begin(kCases), std::end(kCases)};
}

INSTANTIATE_TEST_SUITE_P(Models, Allocation, testing::ValuesIn(cases()),
                         [](const auto& instance) { return std::string(instance.param.model); });

}  // namespace
}  // namespace lowtide

#include "measure/memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "cost/store.h"
#include "runtime/copy_engine.h"
#include "runtime/slow_tier.h"

namespace lowtide::measure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class Operation { kCopy, kRead, kWrite };

// One thread's share of a block. `sink` keeps reads from being optimised away.
void pass(Operation operation, uint64_t* from, uint64_t* to, size_t words, uint64_t& sink) {
  if (operation == Operation::kCopy) {
    std::memcpy(to, from, words * sizeof(uint64_t));
  } else if (operation == Operation::kWrite) {
    std::memset(to, static_cast<int>(sink & 0xFF), words * sizeof(uint64_t));
  } else {
    uint64_t sum = 0;
    for (size_t i = 0; i < words; ++i) sum += from[i];
    sink += sum;
  }
}

// Bytes per second of one thread on a block of its own.
double thread_rate(Operation operation, int64_t bytes, double seconds) {
  const size_t words = static_cast<size_t>(bytes) / sizeof(uint64_t);
  std::vector<uint64_t> from(words, 1), to(words, 2);
  volatile uint64_t kept = 0;
  uint64_t sink = 0;
  std::vector<double> times;
  const size_t passes = std::max<size_t>(1, (size_t{1} << 22) / static_cast<size_t>(bytes));
  for (const auto start = Clock::now(); times.size() < 3 || seconds_since(start) < seconds;) {
    const auto begun = Clock::now();
    for (size_t i = 0; i < passes; ++i) pass(operation, from.data(), to.data(), words, sink);
    times.push_back(seconds_since(begun) / static_cast<double>(passes));
  }
  kept = sink + to[words / 2];
  (void)kept;
  const double moved = static_cast<double>(bytes) * (operation == Operation::kCopy ? 2 : 1);
  return moved / std::max(1e-9, cost::median(std::move(times)));
}

struct Named {
  Operation operation;
  const char* name;
};

// A copy keeps one processor busy. Where the kernels use them all, they lose its share of the time.
double copying(double out_seconds, double in_seconds, double bytes, int threads) {
  if (threads < static_cast<int>(std::thread::hardware_concurrency())) return 0;
  return (out_seconds + in_seconds) / 2 / bytes / threads;
}

}  // namespace

std::vector<cost::MemoryRate> memory_rates(const std::vector<int64_t>& sizes, int threads,
                                           double seconds_each) {
  std::vector<cost::MemoryRate> rates;
  constexpr Named kOperations[] = {
      {Operation::kCopy, "copy"}, {Operation::kRead, "read"}, {Operation::kWrite, "write"}};
  for (const auto& [operation, name] : kOperations)
    for (int64_t bytes : sizes) {
      std::vector<double> by_thread(static_cast<size_t>(threads), 0.0);
      std::vector<std::thread> workers;
      for (double& rate : by_thread)
        workers.emplace_back([&rate, bytes, threads, op = operation, seconds_each] {
          rate = thread_rate(op, std::max<int64_t>(64, bytes / threads), seconds_each);
        });
      for (std::thread& worker : workers) worker.join();
      double sum = 0;
      for (double rate : by_thread) sum += rate;
      rates.push_back({.operation = name, .bytes = bytes, .bytes_per_second = sum});
    }
  return rates;
}

Result<cost::SlowTierRate> slow_tier_rate(const std::string& name, const std::string& folder,
                                          int64_t bytes, int repetitions, int threads) {
  constexpr int64_t kSmall = 64;
  LT_ASSIGN(const auto tier,
            runtime::open_slow_tier({.name = name, .bytes = bytes, .folder = folder}));
  LT_ASSIGN(const auto engine, runtime::CopyEngine::make(*tier, 1));
  std::vector<std::byte> memory(static_cast<size_t>(bytes), std::byte{1});
  const auto time = [&](runtime::CopyDirection direction, int64_t size) -> Result<double> {
    std::vector<double> times;
    for (int i = 0; i <= repetitions; ++i) {
      const auto start = Clock::now();
      const runtime::Transfer transfer{
          .memory = memory.data(), .slot = 0, .bytes = size, .storage = "block"};
      const auto id = direction == runtime::CopyDirection::kOut ? engine->begin_store(transfer)
                                                                : engine->begin_load(transfer);
      LT_RETURN_IF_ERROR(engine->wait(id));
      if (i > 0) times.push_back(seconds_since(start));  // the first touches the pages
      LT_RETURN_IF_ERROR(engine->wait_all());
      engine->restart();
    }
    return cost::median(std::move(times));
  };
  LT_ASSIGN(const double out, time(runtime::CopyDirection::kOut, bytes));
  LT_ASSIGN(const double in, time(runtime::CopyDirection::kIn, bytes));
  LT_ASSIGN(const double latency, time(runtime::CopyDirection::kOut, kSmall));
  const double moved = static_cast<double>(bytes);
  return cost::SlowTierRate{.name = name,
                            .out_bytes_per_second = moved / std::max(1e-9, out - latency),
                            .in_bytes_per_second = moved / std::max(1e-9, in - latency),
                            .latency_seconds = std::max(1e-9, latency),
                            .compute_seconds_per_byte = copying(out, in, moved, threads)};
}

}  // namespace lowtide::measure

#include "measure/memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "cost/store.h"

namespace lowtide::measure {
namespace {

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

}  // namespace lowtide::measure

#include "measure/slow_tier_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cost/store.h"
#include "runtime/copy_engine.h"
#include "runtime/slow_tier.h"

namespace lowtide::measure {
namespace {

using runtime::CopyDirection;

constexpr int64_t kSmall = 64;  // bytes whose move takes no time but the latency

// A tier with room for one block, and the block in memory.
class Mover {
 public:
  Mover(std::unique_ptr<runtime::SlowTier> tier, std::unique_ptr<runtime::CopyEngine> engine,
        int64_t bytes)
      : tier_(std::move(tier)),
        engine_(std::move(engine)),
        memory_(static_cast<size_t>(bytes), std::byte{1}) {}

  Status move(CopyDirection direction, int64_t bytes) {
    const runtime::Transfer transfer{
        .memory = memory_.data(), .slot = 0, .bytes = bytes, .storage = "block"};
    const auto id = direction == CopyDirection::kOut ? engine_->begin_store(transfer)
                                                     : engine_->begin_load(transfer);
    LT_RETURN_IF_ERROR(engine_->wait(id));
    LT_RETURN_IF_ERROR(engine_->wait_all());
    engine_->restart();
    return {};
  }

  // The median; the first move touches the pages and does not count.
  Result<double> time(CopyDirection direction, int64_t bytes, int repetitions) {
    std::vector<double> times;
    for (int i = 0; i <= repetitions; ++i) {
      const auto start = Clock::now();
      LT_RETURN_IF_ERROR(move(direction, bytes));
      if (i > 0) times.push_back(seconds_since(start));
    }
    return cost::median(std::move(times));
  }

  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  std::unique_ptr<runtime::SlowTier> tier_;
  std::unique_ptr<runtime::CopyEngine> engine_;  // ends before its tier
  std::vector<std::byte> memory_;
};

// Seconds of `load` and bytes moved meanwhile, out and in by turns.
Result<std::pair<double, double>> beside_copies(Mover& mover, const KernelLoad& load) {
  std::atomic<bool> stop{false};
  Status moved;
  double seconds = 0, bytes = 0;
  std::thread copies([&] {
    const auto start = Clock::now();
    for (bool out = true; moved && !stop; out = !out) {
      moved = mover.move(out ? CopyDirection::kOut : CopyDirection::kIn, mover.bytes());
      bytes += static_cast<double>(mover.bytes());
    }
    seconds = seconds_since(start);
  });
  const Result<double> took = load();
  stop = true;
  copies.join();
  LT_RETURN_IF_ERROR(moved);
  if (!took) return tl::unexpected<Error>(took.error());
  return std::pair(*took, bytes / seconds * *took);
}

// Seconds that kernels lose for each byte that is copied beside them.
Result<double> taken_from_kernels(Mover& mover, int repetitions, const KernelLoad& load) {
  std::vector<double> lost;
  for (int i = 0; i < repetitions; ++i) {
    LT_ASSIGN(const double alone, load());
    LT_ASSIGN(const auto beside, beside_copies(mover, load));
    lost.push_back(std::max(0.0, (beside.first - alone) / std::max(1.0, beside.second)));
  }
  return cost::median(std::move(lost));
}

}  // namespace

Result<cost::SlowTierRate> slow_tier_rate(const std::string& name, const std::string& folder,
                                          int64_t bytes, int repetitions, const KernelLoad& load) {
  LT_ASSIGN(auto tier, runtime::open_slow_tier({.name = name, .bytes = bytes, .folder = folder}));
  LT_ASSIGN(auto engine, runtime::CopyEngine::make(*tier, 1));
  Mover mover(std::move(tier), std::move(engine), bytes);
  LT_ASSIGN(const double out, mover.time(CopyDirection::kOut, bytes, repetitions));
  LT_ASSIGN(const double in, mover.time(CopyDirection::kIn, bytes, repetitions));
  LT_ASSIGN(const double latency, mover.time(CopyDirection::kOut, kSmall, repetitions));
  LT_ASSIGN(const double taken, taken_from_kernels(mover, repetitions, load));
  const double moved = static_cast<double>(bytes);
  return cost::SlowTierRate{.name = name,
                            .out_bytes_per_second = moved / std::max(1e-9, out - latency),
                            .in_bytes_per_second = moved / std::max(1e-9, in - latency),
                            .latency_seconds = std::max(1e-9, latency),
                            .compute_seconds_per_byte = std::min(1.0, taken)};
}

}  // namespace lowtide::measure

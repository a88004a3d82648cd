// Moves storages between the arena and one slow tier while kernels run: one thread per direction,
// each working through its queue in the order in which transfers were begun.
//
//     compute   begin_store a ........ wait a   begin_load a ..... wait a
//     out                  [== a ==]
//     in                                               [== a ==]
//
// Rules. A transfer never overtakes an earlier one of the other direction whose slot it shares: a
// load gets what was stored. The first failure ends the engine: what was not begun yet is left out,
// every wait() answers that failure, and slots that no failed store touched hold whole contents.
// Nothing is allocated between restart() and the next: all records are made with the engine.
//
// Copies are plain, in chunks of kChunkBytes, so that a throttle spreads them as a slow link would
// and closing does not wait for long. On a machine with few cores the two threads compete with the
// kernels' threads for cores and memory bandwidth: a copy that is hidden still costs that much.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "runtime/slow_tier.h"

namespace lowtide::runtime {

// Slows transfers down, to see what a plan does on a link slower than this machine's. Directions
// share nothing. Zero: no limit.
struct Throttle {
  double bytes_per_second = 0;
  double latency_seconds = 0;
  bool slows() const { return bytes_per_second > 0 || latency_seconds > 0; }
};

struct Transfer {
  std::byte* memory = nullptr;  // in the arena
  int64_t slot = 0;             // in the slow tier
  int64_t bytes = 0;
  std::string_view storage;  // its name; must outlive the engine
};

using CopyClock = std::chrono::steady_clock;

// Sums over the transfers since restart().
struct TransferTotals {
  int64_t stored_bytes = 0, loaded_bytes = 0;
  double transfer_seconds = 0;  // of both directions, from start to end
  double exposed_seconds = 0;   // while the computing side waited

  // Of the transfer time; 1 where nothing moved.
  double hidden_share() const {
    return exposed_seconds < transfer_seconds ? 1 - exposed_seconds / transfer_seconds
                                              : (transfer_seconds > 0 ? 0 : 1);
  }
};

class CopyEngine {
 public:
  static constexpr int64_t kChunkBytes = 1 << 20;
  using TransferId = uint32_t;

  // `capacity`: transfers between two restarts at most. `tier` must outlive the engine. Error:
  // kInternal (no threads).
  static Result<std::unique_ptr<CopyEngine>> make(SlowTier& tier, size_t capacity,
                                                  const Throttle& throttle = {});
  // Ends after the chunks under way; what is not moved by then stays so.
  ~CopyEngine();
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  // The calls below are for one thread. The memory of a store must not change, and that of a load
  // not be touched, until wait() or wait_all() came back.
  TransferId begin_store(const Transfer& transfer) { return begin(CopyDirection::kOut, transfer); }
  TransferId begin_load(const Transfer& transfer) { return begin(CopyDirection::kIn, transfer); }
  Status wait(TransferId id);
  // Until nothing is under way, also after a failure.
  Status wait_all();
  // Forgets the transfers so far, none of which may be under way.
  void restart();

  TransferTotals totals() const;  // valid while nothing is under way
  // The store that failed: its slot holds neither the old contents nor the new ones, its memory
  // still holds the new ones.
  std::optional<Transfer> torn_store() const { return torn_store_; }

 private:
  struct Record {
    Transfer transfer;
    size_t after = 0;  // so many transfers of the other direction must be over first
    bool over = false;
  };
  struct Timing {
    CopyDirection direction = CopyDirection::kOut;
    int64_t bytes = 0;
    CopyClock::time_point begun, started, ended;
    double blocked_seconds = 0;  // how long wait() had to wait for it
  };
  struct Queue {
    std::vector<TransferId> order;  // filled up to `size`, over up to `done`
    size_t size = 0, done = 0;
    CopyClock::time_point free_at{};  // with a throttle: when the link has moved what came before
    CopyClock::time_point ended{};    // of the last transfer
    std::thread worker;
  };

  CopyEngine(SlowTier& tier, size_t capacity, const Throttle& throttle);
  Queue& queue(CopyDirection direction) { return queues_[static_cast<size_t>(direction)]; }
  TransferId begin(CopyDirection direction, const Transfer& transfer);
  size_t transfers_to_await(CopyDirection direction, const Transfer& transfer);
  void work(CopyDirection direction);
  std::optional<Moved> copy(CopyDirection direction, const Transfer& transfer,
                            CopyClock::time_point begun);
  void fail(CopyDirection direction, const Transfer& transfer, const Moved& moved);
  bool pace(CopyClock::time_point due);

  SlowTier& tier_;
  const Throttle throttle_;
  std::mutex mutex_;  // guards everything below but the memory of transfers
  std::condition_variable changed_;
  std::vector<Record> records_;
  std::vector<Timing> timings_;
  size_t begun_ = 0;
  Queue queues_[2];
  std::optional<Error> failure_;
  std::optional<Transfer> torn_store_;
  bool stopping_ = false;
};

}  // namespace lowtide::runtime

#include "runtime/copy_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"

namespace lowtide::runtime {
namespace {

double seconds_between(CopyClock::time_point from, CopyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

CopyClock::time_point later(CopyClock::time_point from, double seconds) {
  return from +
         std::chrono::duration_cast<CopyClock::duration>(std::chrono::duration<double>(seconds));
}

CopyDirection other(CopyDirection direction) {
  return direction == CopyDirection::kOut ? CopyDirection::kIn : CopyDirection::kOut;
}

bool share_slot(const Transfer& a, const Transfer& b) {
  return a.slot < b.slot + b.bytes && b.slot < a.slot + a.bytes;
}

}  // namespace

CopyEngine::CopyEngine(SlowTier& tier, size_t capacity, const Throttle& throttle)
    : tier_(tier), throttle_(throttle), records_(capacity), timings_(capacity) {
  for (Queue& q : queues_) q.order.resize(capacity);
}

Result<std::unique_ptr<CopyEngine>> CopyEngine::make(SlowTier& tier, size_t capacity,
                                                     const Throttle& throttle) {
  std::unique_ptr<CopyEngine> engine(new CopyEngine(tier, capacity, throttle));
  try {
    for (const CopyDirection direction : {CopyDirection::kOut, CopyDirection::kIn})
      engine->queue(direction).worker =
          std::thread([raw = engine.get(), direction] { raw->work(direction); });
  } catch (const std::system_error& failure) {
    return error(ErrorCode::kInternal, fmt::format("{}: no thread for its transfers: {}",
                                                   tier.described(), failure.what()));
  }
  return engine;
}

CopyEngine::~CopyEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (Queue& q : queues_)
    if (q.worker.joinable()) q.worker.join();
}

// How many transfers of the other direction must be over before this one may start: up to the last
// one that shares its slot.
size_t CopyEngine::transfers_to_await(CopyDirection direction, const Transfer& transfer) {
  const Queue& opposite = queue(other(direction));
  for (size_t i = opposite.size; i > opposite.done; --i)
    if (share_slot(records_[opposite.order[i - 1]].transfer, transfer)) return i;
  return 0;
}

CopyEngine::TransferId CopyEngine::begin(CopyDirection direction, const Transfer& transfer) {
  TransferId id = 0;
  {
    const std::lock_guard lock(mutex_);
    LT_CHECK(begun_ < records_.size(), "more transfers in a step than the engine was made for");
    id = static_cast<TransferId>(begun_++);
    records_[id] = {.transfer = transfer, .after = transfers_to_await(direction, transfer)};
    timings_[id] = {.direction = direction,
                    .bytes = transfer.bytes,
                    .begun = CopyClock::now(),
                    .started = {},
                    .ended = {}};
    Queue& q = queue(direction);
    q.order[q.size++] = id;
  }
  changed_.notify_all();
  return id;
}

Status CopyEngine::wait(TransferId id) {
  std::unique_lock lock(mutex_);
  LT_CHECK(id < begun_, "a wait for a transfer that was not begun");
  if (!records_[id].over) {
    const auto from = CopyClock::now();
    changed_.wait(lock, [&] { return records_[id].over; });
    timings_[id].blocked_seconds += seconds_between(from, CopyClock::now());
  }
  if (failure_) return tl::unexpected<Error>(*failure_);
  return {};
}

Status CopyEngine::wait_all() {
  Status status;
  for (TransferId id = 0; id < begun_; ++id) status = wait(id);
  return status;
}

void CopyEngine::restart() {
  const std::lock_guard lock(mutex_);
  for (Queue& q : queues_) {
    LT_CHECK(q.done == q.size, "a restart while transfers are under way");
    q.size = q.done = 0;
  }
  begun_ = 0;
}

TransferTotals CopyEngine::totals() const {
  TransferTotals totals;
  for (TransferId id = 0; id < begun_; ++id) {
    const Timing& timing = timings_[id];
    (timing.direction == CopyDirection::kOut ? totals.stored_bytes : totals.loaded_bytes) +=
        timing.bytes;
    totals.transfer_seconds += seconds_between(timing.started, timing.ended);
    totals.exposed_seconds += timing.blocked_seconds;
  }
  return totals;
}

// The loop of one worker: the oldest transfer of its queue, once what it must not overtake is over.
void CopyEngine::work(CopyDirection direction) {
  Queue& mine = queue(direction);
  const Queue& opposite = queue(other(direction));
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || mine.done < mine.size; });
    if (stopping_) return;
    const TransferId id = mine.order[mine.done];
    Record& record = records_[id];
    changed_.wait(lock, [&] { return stopping_ || failure_ || opposite.done >= record.after; });
    if (stopping_) return;
    Timing& timing = timings_[id];
    // A throttled link was its own from when it was asked for, however late this thread woke up.
    const bool waited = record.after > 0 || !throttle_.slows();
    timing.started = waited ? CopyClock::now() : std::max(timing.begun, mine.ended);
    if (!failure_) {
      const auto begun = waited ? timing.started : timing.begun;
      lock.unlock();
      const std::optional<Moved> moved = copy(direction, record.transfer, begun);
      lock.lock();
      if (!moved) return;  // closing
      if (moved->bytes < record.transfer.bytes) fail(direction, record.transfer, *moved);
    }
    timing.ended = mine.ended = CopyClock::now();
    record.over = true;
    ++mine.done;
    changed_.notify_all();
  }
}

void CopyEngine::fail(CopyDirection direction, const Transfer& transfer, const Moved& moved) {
  if (direction == CopyDirection::kOut) torn_store_ = transfer;
  if (!failure_)
    failure_ = transfer_error(tier_, {direction, transfer.storage, transfer.bytes}, moved);
}

// Moves the chunks of a transfer, at the throttle's pace. Nothing when the engine closes.
std::optional<Moved> CopyEngine::copy(CopyDirection direction, const Transfer& transfer,
                                      CopyClock::time_point begun) {
  Queue& mine = queue(direction);  // free_at is this worker's alone
  const auto start = later(std::max(begun, mine.free_at), throttle_.latency_seconds);
  int64_t done = 0;
  while (done < transfer.bytes) {
    const size_t chunk = static_cast<size_t>(std::min(kChunkBytes, transfer.bytes - done));
    std::byte* memory = transfer.memory + done;
    Moved moved = direction == CopyDirection::kOut
                      ? tier_.write(transfer.slot + done, {memory, chunk})
                      : tier_.read(transfer.slot + done, {memory, chunk});
    done += moved.bytes;
    if (moved.bytes < static_cast<int64_t>(chunk))
      return Moved{.bytes = done, .error_number = moved.error_number};
    const double rate = throttle_.bytes_per_second;
    mine.free_at = rate > 0 ? later(start, static_cast<double>(done) / rate) : start;
    if (!pace(mine.free_at)) return std::nullopt;
  }
  return Moved{.bytes = done};
}

// Waits until `due`; false when the engine closes.
bool CopyEngine::pace(CopyClock::time_point due) {
  std::unique_lock lock(mutex_);
  if (due > CopyClock::now()) changed_.wait_until(lock, due, [&] { return stopping_; });
  return !stopping_;
}

}  // namespace lowtide::runtime

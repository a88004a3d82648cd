// A Session owns one arena, and the slow memory beside it, and runs the steps of one plan inside
// them. Small on purpose; links without the planner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"
#include "runtime/kernel.h"
#include "runtime/transfers.h"

namespace lowtide::runtime {

struct SessionOptions {
  // Of seeded parameters and random ops.
  uint64_t seed = 0;
  // Where external weight files lie. Empty: such weights are seeded.
  std::string model_folder = {};
  // One buffer per storage, allocated when made and freed after its last reader, ops in the given
  // order: the baseline that --compare runs. Same kernels.
  bool unplanned = false;
  // Fill what is free with NaN bytes, so that what is read there by mistake shows in the results.
  bool poison = false;
  // Fill the arena, and a guard area behind it, with a pattern before anything is put in, so that
  // touched_bytes() can say how far up it was written. Not with poison or unplanned.
  bool mark = false;
  // Where storages go that the plan moves out of the arena. Not with unplanned.
  SlowMemoryOptions slow_memory = {};
  // Values whose memory the caller lends (lending.h) before the first step. Not with mark or
  // unplanned.
  std::vector<std::string> lent = {};
};

// Called after a compute step with each of its outputs; the bytes are valid during the call only.
using Observer = std::function<void(plan::PlanOpId, plan::PlanValueId, std::span<const std::byte>)>;

class Session {
 public:
  // Allocates the arena (exactly plan.arena_bytes, aligned), opens slow memory, makes all kernels,
  // fills parameters, state and constants, each at its home. Error: kInput (no kernel for an op; a
  // weight file too short; no room for a slow tier), kInternal (no memory).
  static Result<Session> open(plan::Plan plan, const KernelFactory& kernels,
                              const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const plan::Plan& plan() const;
  // Row-major contents of a value without producer (data, labels, a parameter). Size must match.
  // Layouts are converted.
  Status set(std::string_view value, std::span<const std::byte> row_major);
  // Row-major copy of a value that is alive now: inputs, parameters, state, and after run() the
  // outputs.
  Result<std::vector<std::byte>> get(std::string_view value) const;
  // Fills every fed input that was never set with seeded values (floats in [-1,1), integers
  // below `integer_limit`; 0: below what the plan says).
  void seed_inputs(int64_t integer_limit);

  // The memory of a value of options.lent: its contents are there, row-major, and the steps change
  // them there. Again: it lies elsewhere from now on. Error: kUsage (lending.h).
  Status lend(std::string_view value, std::span<std::byte> memory);
  // What the updates of a parameter do from now on. Error: kUsage: no update changes it.
  Status set_update(std::string_view parameter, const UpdateSettings& settings);
  // Of random ops from now on, which draw as in a first step.
  void set_seed(uint64_t seed);

  // One step. No allocation happens inside for tensors or kernels. Error: a transfer failed (a full
  // disk, a short write). That step is the session's last: run() and set() then say so, get() still
  // gives what is there between steps, each value whole, as it was before that step or after. Or
  // kInput: a kernel refused the contents of an operand (a label that is no class). Where nothing
  // that is resident had changed and nothing moves to slow memory, the session is as before that
  // step, which has no results; else it was the last one, too.
  Status run(const Observer* observer = nullptr);
  // One step, or nothing: false where the value, a result of one number, is not finite. Whatever is
  // resident is then as before. What changes before the value is known (statistics of a batch norm)
  // is copied beforehand, outside of the arena. Error: as run; kUsage: no such value; a plan that
  // moves something to slow memory.
  Result<bool> run_if_finite(std::string_view value);
  // The seconds of one step that changes nothing that is resident: ops that would change it work
  // on copies, whose making is not counted. It leaves no results, and those of the step before are
  // gone. Error: as run_if_finite; nothing that is resident has changed then.
  Result<double> rehearse();
  int64_t steps_run() const;
  // What moved in the last step, and how long the ops waited for it.
  TransferTotals transfers() const;

  // Bytes of the arena; for an unplanned session the high-water mark of its allocations so far.
  int64_t arena_bytes() const;
  int64_t lent_bytes() const;  // of these, that lie in memory of the caller
  // With options.mark: one past the highest byte of the arena that was written, rounded up to the
  // plan's alignment; more than arena_bytes() where a kernel wrote behind the arena.
  int64_t touched_bytes() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lowtide::runtime

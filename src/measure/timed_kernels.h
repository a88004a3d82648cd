// Times kernels where they run: inside real steps, with the caches, pages and neighbours that they
// have there. A factory that hands out another factory's kernels with a clock around each, so that
// the session and its steps need not know. Kernels on one thread can be timed by their processor,
// which does not count the turns of others on a busy machine.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <vector>

#include "cost/store.h"
#include "plan/op_desc.h"
#include "runtime/kernel.h"

namespace lowtide::measure {

// What was timed: one entry for each kernel made.
class KernelTimes {
 public:
  struct Entry {
    plan::OpDesc op;
    std::vector<double> seconds;  // one per run while recording
  };

  explicit KernelTimes(bool processor_time = false) : processor_time_(processor_time) {}

  bool processor_time() const { return processor_time_; }
  // Off at first: the first steps touch pages and fill caches.
  void record(bool on) { recording_ = on; }
  bool recording() const { return recording_; }
  Entry& add(const plan::OpDesc& op);
  void add_run(Entry& entry, double seconds);
  // A recorded step is over and took so long by the same clock, waits for transfers not counted.
  void end_step(double step_seconds);

  // In the order in which the kernels were made.
  const std::deque<Entry>& entries() const { return entries_; }
  // Steps that were recorded.
  int64_t steps() const { return std::ssize(outside_kernels_); }

  // Of a step: sum over kernels of median times runs per step.
  double kernel_seconds() const;
  // Of a step: what passes outside of kernels, the median over the steps.
  double other_seconds() const;

  // The recorded steps as one measured run in a store of this device. Error: as cost::op_work.
  Result<cost::CostStore> summarize(const cost::DeviceIdentity& device) const;

 private:
  std::deque<Entry> entries_;  // references stay valid
  bool processor_time_ = false, recording_ = false;
  double in_kernels_ = 0;                // so far in the current step
  std::vector<double> outside_kernels_;  // of each step
};

// Kernels of `kernels` that report to `times`; both must outlive the factory and its kernels.
std::unique_ptr<runtime::KernelFactory> timed_kernels(const runtime::KernelFactory& kernels,
                                                      KernelTimes& times);

}  // namespace lowtide::measure

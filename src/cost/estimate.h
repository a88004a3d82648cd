// Seconds of one run of a kernel from what is known: its measured time where a store has it, else
// the roofline, corrected by how far the roofline was off for the store's nearest kernels.
//
// Nearest: of the same kind, else of the same class, else all; each weighs 1 / (0.05 + d^2), d the
// distance of (log2 flops, log2 bytes); the correction is the weighted geometric mean of
// measured / roofline. So one measured run of a model answers for other batch sizes too.
//
// Tests: store_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cost/device.h"
#include "cost/store.h"
#include "cost/work.h"
#include "plan/op_desc.h"

namespace lowtide::cost {

struct Estimate {
  double seconds = 0;
  bool measured = false;
};

// How much of a plan rests on measured times.
struct Coverage {
  int64_t ops = 0;  // that run a kernel
  int64_t measured_ops = 0;
  double seconds = 0;
  double measured_seconds = 0;
  void add(const Estimate& estimate);
};
// "812 of 825 ops, 99.1 % of the time".
std::string print(const Coverage& coverage);

class Estimator {
 public:
  // Both must outlive the estimator. No store: the roofline alone.
  explicit Estimator(const DeviceProfile& device, const CostStore* store = nullptr);

  // Views take no time. Error: as op_work.
  Result<Estimate> estimate(const plan::OpDesc& op) const;

 private:
  struct Sample {
    std::string_view kind;
    KernelClass kernel_class;
    double log_flops, log_bytes;
    double log_ratio;  // of measured to roofline
  };
  double correction(std::string_view kind, KernelClass kernel_class, const OpWork& work) const;

  const DeviceProfile& device_;
  const CostStore* store_;
  std::vector<Sample> samples_;
};

}  // namespace lowtide::cost

// Seconds of one run of a kernel from what is known: its measured time where a store has it; else
// between those of the same op at smaller and larger sizes, as parts of samples are (key_family.h);
// else the roofline, corrected by how far the roofline was off for the store's nearest kernels.
//
// Between sizes: of those that lie on one line with the op, by their roofline times as the measure
// of work; first in the op's own layouts, else in any (the planner prices parts before layouts are
// chosen), but movements only in their own, as they are about layouts. More work never takes less.
//
// Nearest: of the same kind, else of the same class, else all; each weighs 1 / (0.05 + d^2), d the
// distance of (log2 flops, log2 bytes); the correction is the weighted geometric mean of
// measured / roofline. So one measured run of a model answers for other batch sizes too.
//
// Tests: store_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cost/device.h"
#include "cost/key_family.h"
#include "cost/store.h"
#include "cost/work.h"
#include "plan/op_desc.h"

namespace lowtide::cost {

struct Estimate {
  double seconds = 0;
  bool measured = false;
  bool interpolated = false;  // between measured sizes of the same op
};

// How much of a plan rests on measured times.
struct Coverage {
  int64_t ops = 0;  // that run a kernel
  int64_t measured_ops = 0;
  double seconds = 0;
  double measured_seconds = 0;
  int64_t interpolated_ops = 0;  // beside the measured ones
  double interpolated_seconds = 0;
  void add(const Estimate& estimate);
};
// "812 of 825 ops, 99.1 % of the time"; with interpolated ones: "..., 8 more (0.7 %) between
// measured sizes".
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
    double log_ratio;          // of measured to roofline
    double roofline, seconds;  // of the model, measured
  };
  // Samples by family, with their sizes.
  struct Sized {
    size_t sample;
    std::vector<int64_t> sizes;
  };
  using Families = std::map<std::string, std::vector<Sized>, std::less<>>;
  double between(const Families& families, const KeyFamily& wanted, double roofline) const;
  double correction(std::string_view kind, KernelClass kernel_class, const OpWork& work) const;

  const DeviceProfile& device_;
  const CostStore* store_;
  std::vector<Sample> samples_;
  Families in_layouts_, in_any_;
};

}  // namespace lowtide::cost

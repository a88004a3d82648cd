// The seam between the runtime and the kernels of a device. A kernel is built once, when a plan is
// loaded, from an OpDesc; then it runs on raw pointers, allocates nothing and never fails. Contents
// that its op has no result for (a label that is no class) it refuses before it runs.
//
// Tests: session_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "plan/kernel_catalog.h"
#include "plan/op_desc.h"

namespace lowtide::runtime {

// What an optimizer's update does now, in place of the attributes that its op was planned with:
// they change neither memory nor time, so a schedule of them needs no new plan.
struct UpdateSettings {
  double learning_rate = 0;
  double weight_decay = 0;
  double momentum = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  int64_t step = 1;       // of this parameter, from 1
  bool nesterov = false;  // SGD with momentum
  bool coupled = false;   // AdamW: the decay is added to the gradient (Adam)
};

// What changes from step to step. Random ops key their Philox counters by (seed, step since it was
// set, stream attribute, element).
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 1;                        // counts from 1: AdamW's bias correction
  int64_t seed_set_after = 0;              // so many steps
  const UpdateSettings* update = nullptr;  // null: the op's attributes and `step`
};

struct KernelArgs {
  std::span<void* const> inputs;  // null where an optional input is absent
  // One may equal an input only where the op table lists the pair or the output updates it.
  std::span<void* const> outputs;
  void* workspace = nullptr;
  StepContext context;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Asked before each run; changes nothing. Error kInput: what is wrong with the contents of which
  // operand. run() stays within its operands with any contents.
  virtual Status accepts(const KernelArgs& /*args*/) const { return {}; }
  virtual void run(const KernelArgs& args) = 0;
};

// Makes kernels; also what the planner asks about them (one object, so that what was planned is
// what runs).
class KernelFactory : public plan::KernelCatalog {
 public:
  virtual Result<std::unique_ptr<Kernel>> make(const plan::OpDesc& op) const = 0;
};

}  // namespace lowtide::runtime

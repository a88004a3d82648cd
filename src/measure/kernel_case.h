// One kernel on operands of its own, run again and again: a case of a calibration.
//
// Tests: tests/python/test_costs.py.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost/work.h"
#include "ir/graph.h"
#include "runtime/kernel.h"

namespace lowtide::measure {

struct Operand {
  std::vector<int64_t> dims;
  DType dtype = DType::kF32;
};

struct CaseSpec {
  std::string_view kind;
  std::vector<Operand> inputs;  // empty dims and kBool: absent
  ir::Attrs attrs = {};
  bool channels_last = false;  // of four-dimensional operands, where the kernel has no wish
};

struct CaseTime {
  plan::OpDesc op;  // in the layouts that ran
  cost::OpWork work;
  double seconds = 0;  // median
};

struct Repetition {
  int least = 5;
  double seconds = 0.2;  // until both are reached
};

// Error: kInput, where the factory has no such kernel.
Result<CaseTime> time_case(const runtime::KernelFactory& kernels, const CaseSpec& spec,
                           const Repetition& repetition);

}  // namespace lowtide::measure

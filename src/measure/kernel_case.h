// One kernel on operands of its own, run again and again: a case of a calibration, or a kernel of a
// step in parts.
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
  double seconds = 0.2;  // until both are reached, with all that lies between runs
  // Between two runs so many other bytes are written, so that operands leave the caches.
  int64_t evicted_bytes = 0;
  // Of a kernel that runs on the calling thread alone: the time that its processor spent on it, so
  // that what else runs on the machine does not count. Else the time on the wall.
  bool processor_time = false;
};

// A kernel in the layouts of its description: what each run took, after one that does not count.
// What a step updates or adds to in place is here, too: a sum's output lies on its accumulator.
// Integers that are positions stay in range. Error: kInput, where the factory has no such kernel;
// kInternal, where there is no memory for its operands.
Result<std::vector<double>> time_op(const runtime::KernelFactory& kernels, const plan::OpDesc& op,
                                    const Repetition& repetition);

// Error: as time_op.
Result<CaseTime> time_case(const runtime::KernelFactory& kernels, const CaseSpec& spec,
                           const Repetition& repetition);

}  // namespace lowtide::measure

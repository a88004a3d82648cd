// Kernels that add their results into what is there, made of kernels that do not. Tests: those of
// every op (kernel_test.cc), whose drawn instances have accumulators.
//
// Tests: kernel_test.cc, every_type_test.cc.
#pragma once

#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

// Which of the op's operands are accumulators that its builder knows nothing of, by output: those
// behind the words of the entry, for the outputs of Entry::adds_into.
struct AddedInto {
  size_t input = 0, output = 0;
};
std::vector<AddedInto> added_into(const Entry& entry, const OpDesc& op);

// The op without these operands: what the builder is asked for.
OpDesc without(const OpDesc& op, const std::vector<AddedInto>& into);

// The kernel of the op, from that of the op without accumulators: results that are added go to
// scratch memory behind its own first, then the accumulator and they are added where the result
// goes. Error: kInput, when an accumulator lies otherwise in memory than the output.
Result<Built> add_results(const OpDesc& op, const std::vector<AddedInto>& into, Built inner);

}  // namespace lowtide::exec_cpu

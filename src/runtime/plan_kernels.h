// The kernels of a plan's ops, one for each, whose errors name the op.
//
// Tests: session_test.cc.
#pragma once

#include <memory>

#include "base/id.h"
#include "base/result.h"
#include "plan/plan.h"
#include "runtime/kernel.h"

namespace lowtide::runtime {

// Null: all outputs are views.
using PlanKernels = IdVector<plan::PlanOpId, std::unique_ptr<Kernel>>;

// Error kInput: no kernel for an op, or one that needs more workspace than the plan has for it.
Result<PlanKernels> make_kernels(const plan::Plan& plan, const KernelFactory& kernels);

// As Kernel::accepts.
Status check_contents(const plan::PlanOp& op, const Kernel& kernel, const KernelArgs& args);

}  // namespace lowtide::runtime

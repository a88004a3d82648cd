#include "runtime/plan_kernels.h"

#include <fmt/format.h>

#include <utility>

#include "plan/plan_check.h"

namespace lowtide::runtime {
namespace {

using plan::Plan;
using plan::PlanOp;
using plan::PlanOpId;

Result<std::unique_ptr<Kernel>> make_kernel(const Plan& plan, PlanOpId id,
                                            const KernelFactory& kernels) {
  const PlanOp& op = plan.ops[id];
  const plan::OpDesc desc = describe(plan, id);
  auto named = [&](const Error& e) {
    return error(e.code, fmt::format("op '{}': {}", op.name, e.message));
  };
  const Result<int64_t> workspace = kernels.workspace_bytes(desc);
  if (!workspace) return named(workspace.error());
  if (*workspace > op.workspace_bytes)
    return error(
        ErrorCode::kInput,
        fmt::format("op '{}' ({}): the kernel here needs {} bytes of workspace, the plan has {}",
                    op.name, op.kind, *workspace, op.workspace_bytes));
  Result<std::unique_ptr<Kernel>> kernel = kernels.make(desc);
  if (!kernel) return named(kernel.error());
  return kernel;
}

}  // namespace

Result<PlanKernels> make_kernels(const Plan& plan, const KernelFactory& kernels) {
  PlanKernels made(plan.ops.size());
  for (PlanOpId id : plan.ops.ids())
    if (!plan::only_views(plan, id)) {
      LT_ASSIGN(made[id], make_kernel(plan, id, kernels));
    }
  return made;
}

Status check_contents(const PlanOp& op, const Kernel& kernel, const KernelArgs& args) {
  Status accepted = kernel.accepts(args);
  if (accepted) return accepted;
  return error(accepted.error().code,
               fmt::format("op '{}' ({}): {}", op.name, op.kind, accepted.error().message));
}

}  // namespace lowtide::runtime

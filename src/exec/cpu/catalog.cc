// The factory: finds the entry of a kind, holds the op's element types and layouts against it and
// builds it. Every kernel sets the number of threads before it runs, because OpenMP keeps that per
// calling thread.
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <string>

#include "exec/cpu/accumulate.h"
#include "exec/cpu/build.h"
#include "exec/cpu/cpu.h"
#include "exec/cpu/destination.h"
#include "exec/cpu/dnnl_seam.h"
#include "exec/cpu/indexing.h"
#include "exec/cpu/recurrent.h"
#include "exec/cpu/simd.h"
#include "exec/cpu/waiting.h"

namespace lowtide::exec_cpu {
namespace {

class CpuKernel final : public runtime::Kernel {
 public:
  CpuKernel(Built built, int threads) : built_(std::move(built)), threads_(threads) {}
  Status accepts(const KernelArgs& args) const override {
    return built_.accepts ? built_.accepts(args) : Status();
  }
  void run(const KernelArgs& args) override {
    if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
    built_.run(args);
  }

 private:
  Built built_;
  int threads_;
};

// What OpenMP would use before any factory changed it: the processors that this process may run on,
// or OMP_NUM_THREADS.
int default_threads() {
  static const int threads = omp_get_max_threads();
  return threads;
}

// Libraries refuse tensors without elements; there is nothing to do for them.
bool makes_nothing(const OpDesc& op) {
  return !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [](const plan::TensorDesc& made) { return element_count(made) == 0; });
}

class CpuFactory final : public runtime::KernelFactory {
 public:
  explicit CpuFactory(int threads) : threads_(default_threads()) {
    if (threads > 0) threads_ = threads;
    wait_briefly(threads_);
    for (auto entries : {elementwise_kernels(),   product_kernels(),     convolution_kernels(),
                         normalization_kernels(), softmax_kernels(),     loss_kernels(),
                         pool_kernels(),          column_kernels(),      reduction_kernels(),
                         log_sum_exp_kernels(),   move_kernels(),        resampling_kernels(),
                         local_norm_kernels(),    grid_sample_kernels(), roi_align_kernels(),
                         gather_kernels(),        along_axis_kernels(),  indexing_kernels(),
                         lstm_kernels(),          gru_kernels(),         rnn_kernels(),
                         random_kernels(),        update_kernels()})
      for (const Entry& entry : entries) entries_.emplace(entry.kind, &entry);
  }

  Result<int64_t> workspace_bytes(const OpDesc& op) const override {
    LT_ASSIGN(const Built built, build(op));
    return built.workspace_bytes;
  }

  plan::LayoutWish wish(const OpDesc& op) const override {
    const auto entry = entries_.find(op.kind);
    if (entry == entries_.end() || entry->second->wish == nullptr) return {};
    if (op.attrs.contains("into")) return {};  // made when layouts are chosen already
    const std::vector<AddedInto> into = added_into(*entry->second, op);
    const OpDesc own = without(op, into);
    if (!check_types(*entry->second, own)) return {};
    omp_set_num_threads(threads_);
    plan::LayoutWish wish = entry->second->wish(own);
    if (wish.inputs.empty() || into.empty()) return wish;
    wish.inputs.resize(op.inputs.size());
    for (const AddedInto& each : into)
      if (each.output < wish.outputs.size()) wish.inputs[each.input] = wish.outputs[each.output];
    return wish;
  }

  Result<std::unique_ptr<runtime::Kernel>> make(const OpDesc& op) const override {
    LT_ASSIGN(Built built, build(op));
    return std::make_unique<CpuKernel>(std::move(built), threads_);
  }

  Result<Built> build(const OpDesc& op) const {
    const auto entry = entries_.find(op.kind);
    if (const std::string* foreign = plan::foreign_name(op.attrs))
      return unsupported(
          op, fmt::format("'{}' is an op of somebody else's, who has its kernel", *foreign));
    if (entry == entries_.end()) return unsupported(op, "no kernel of this kind");
    for (const plan::TensorDesc& output : op.outputs)
      if (output.layout.strided()) return unsupported(op, "an output is a strided view");
    if (!op.attrs.contains("into")) return build(*entry->second, op);
    LT_ASSIGN(const SlicePart part, slice_part(*entry->second, op));
    LT_ASSIGN(Built own, build(*entry->second, part.op));
    return into_slice(part, std::move(own));
  }

 private:
  Result<Built> build(const Entry& entry, const OpDesc& op) const {
    const std::vector<AddedInto> into = added_into(entry, op);
    const OpDesc own = without(op, into);
    LT_RETURN_IF_ERROR(check_types(entry, own));
    LT_RETURN_IF_ERROR(check_blocked(entry, op));
    LT_RETURN_IF_ERROR(check_strided(entry, op));
    if (makes_nothing(op)) return Built{.run = [](const KernelArgs&) {}, .workspace_bytes = 0};
    omp_set_num_threads(threads_);  // oneDNN sizes scratch and work by the team
    LT_ASSIGN(Built built, entry.build(own));
    return into.empty() ? std::move(built) : add_results(op, into, std::move(built));
  }

  int threads_;
  std::map<std::string_view, const Entry*> entries_;
};

}  // namespace

std::unique_ptr<runtime::KernelFactory> make_cpu_kernels(const CpuOptions& options) {
  return std::make_unique<CpuFactory>(options.threads);
}

std::string kernel_libraries() {
  return fmt::format("{}, {} loops", dnnl_version_text(), loops().name);
}

Result<std::string> implementation_name(const runtime::KernelFactory& factory, const OpDesc& op) {
  const auto* cpu = dynamic_cast<const CpuFactory*>(&factory);
  if (cpu == nullptr) return error(ErrorCode::kInternal, "not a CPU kernel factory");
  LT_ASSIGN(const Built built, cpu->build(op));
  return built.implementation;
}

}  // namespace lowtide::exec_cpu

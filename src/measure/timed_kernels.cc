#include "measure/timed_kernels.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/clock.h"
#include "cost/work.h"

namespace lowtide::measure {
namespace {

constexpr size_t kRunsReserved = 64;  // so that a timed kernel seldom allocates

class TimedKernel final : public runtime::Kernel {
 public:
  TimedKernel(std::unique_ptr<runtime::Kernel> kernel, KernelTimes& times,
              KernelTimes::Entry& entry)
      : kernel_(std::move(kernel)), times_(times), entry_(entry) {}

  Status accepts(const runtime::KernelArgs& args) const override { return kernel_->accepts(args); }
  void run(const runtime::KernelArgs& args) override {
    if (!times_.recording()) return kernel_->run(args);
    const double start = now_seconds(times_.processor_time());
    kernel_->run(args);
    times_.add_run(entry_, now_seconds(times_.processor_time()) - start);
  }

 private:
  std::unique_ptr<runtime::Kernel> kernel_;
  KernelTimes& times_;
  KernelTimes::Entry& entry_;
};

class TimedFactory final : public runtime::KernelFactory {
 public:
  TimedFactory(const runtime::KernelFactory& kernels, KernelTimes& times)
      : kernels_(kernels), times_(times) {}

  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    return kernels_.workspace_bytes(op);
  }
  plan::LayoutWish wish(const plan::OpDesc& op) const override { return kernels_.wish(op); }
  Result<std::unique_ptr<runtime::Kernel>> make(const plan::OpDesc& op) const override {
    LT_ASSIGN(std::unique_ptr<runtime::Kernel> kernel, kernels_.make(op));
    return std::make_unique<TimedKernel>(std::move(kernel), times_, times_.add(op));
  }

 private:
  const runtime::KernelFactory& kernels_;
  KernelTimes& times_;
};

}  // namespace

KernelTimes::Entry& KernelTimes::add(const plan::OpDesc& op) {
  entries_.push_back({op, {}});
  entries_.back().seconds.reserve(kRunsReserved);
  return entries_.back();
}

void KernelTimes::add_run(Entry& entry, double seconds) {
  entry.seconds.push_back(seconds);
  in_kernels_ += seconds;
}

void KernelTimes::end_step(double step_seconds) {
  outside_kernels_.push_back(std::max(0.0, step_seconds - in_kernels_));
  in_kernels_ = 0;
}

double KernelTimes::kernel_seconds() const {
  double sum = 0;
  for (const Entry& entry : entries_)
    sum += cost::median(entry.seconds) * static_cast<double>(entry.seconds.size());
  return outside_kernels_.empty() ? 0 : sum / static_cast<double>(outside_kernels_.size());
}

double KernelTimes::other_seconds() const {
  return cost::median(outside_kernels_);
}

Result<cost::CostStore> KernelTimes::summarize(const cost::DeviceIdentity& device) const {
  struct Sum {
    double seconds = 0;
    int64_t entries = 0;
    cost::MeasuredKernel kernel;
  };
  std::map<std::string, Sum> sums;
  double runs = 0;
  for (const Entry& entry : entries_) {
    if (entry.seconds.empty()) continue;
    Sum& sum = sums[cost::op_key(entry.op)];
    if (sum.entries == 0) {
      LT_ASSIGN(const cost::OpWork work, cost::op_work(entry.op));
      sum.kernel = {.kernel_class = cost::kernel_class(entry.op),
                    .flops = work.flops,
                    .bytes = work.bytes,
                    .count = 0,
                    .seconds = {}};
    }
    sum.seconds += cost::median(entry.seconds);
    sum.kernel.count += static_cast<int64_t>(entry.seconds.size());
    ++sum.entries;
    runs += static_cast<double>(entry.seconds.size());
  }
  cost::CostStore store(device);
  for (auto& [key, sum] : sums) {
    sum.kernel.seconds = {sum.seconds / static_cast<double>(sum.entries)};
    store.add(key, sum.kernel);
  }
  if (runs > 0)
    store.add_overhead(other_seconds() * static_cast<double>(outside_kernels_.size()) / runs);
  return store;
}

std::unique_ptr<runtime::KernelFactory> timed_kernels(const runtime::KernelFactory& kernels,
                                                      KernelTimes& times) {
  return std::make_unique<TimedFactory>(kernels, times);
}

}  // namespace lowtide::measure

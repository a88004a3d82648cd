#include "cost/estimate.h"

#include <fmt/format.h>

#include <cmath>

#include "cost/roofline.h"

namespace lowtide::cost {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct NeighbourTuning {
  double near = 0.05;  // squared distance at which a neighbour's weight has halved
};
constexpr NeighbourTuning kNeighbour;

}  // namespace

void Coverage::add(const Estimate& estimate) {
  ++ops;
  seconds += estimate.seconds;
  if (estimate.interpolated) {
    ++interpolated_ops;
    interpolated_seconds += estimate.seconds;
  }
  if (!estimate.measured) return;
  ++measured_ops;
  measured_seconds += estimate.seconds;
}

std::string print(const Coverage& coverage) {
  const auto percent = [&](double seconds) {
    return coverage.seconds > 0 ? 100 * seconds / coverage.seconds : 0.0;
  };
  std::string text = fmt::format("{} of {} ops, {:.1f} % of the time", coverage.measured_ops,
                                 coverage.ops, percent(coverage.measured_seconds));
  if (coverage.interpolated_ops > 0)
    text += fmt::format(", {} more ({:.1f} %) between measured sizes", coverage.interpolated_ops,
                        percent(coverage.interpolated_seconds));
  return text;
}

Estimator::Estimator(const DeviceProfile& device, const CostStore* store)
    : device_(device), store_(store) {
  if (store == nullptr) return;
  for (const auto& [key, kernel] : store->kernels()) {
    const OpWork work{.flops = kernel.flops, .bytes = kernel.bytes};
    const double predicted = roofline_seconds(kind_of(key), kernel.kernel_class, work, device);
    const double measured = median(kernel.seconds);
    if (measured <= 0) continue;
    const size_t sample = samples_.size();
    samples_.push_back({.kind = kind_of(key),
                        .kernel_class = kernel.kernel_class,
                        .log_flops = std::log2(1 + kernel.flops),
                        .log_bytes = std::log2(1 + kernel.bytes),
                        .log_ratio = std::log(measured / predicted),
                        .roofline = predicted,
                        .seconds = measured});
    KeyFamily with = family_of(key, true);
    in_layouts_[with.family].push_back({sample, std::move(with.sizes)});
    if (kernel.kernel_class == KernelClass::kMovement) continue;
    KeyFamily without = family_of(key, false);
    in_any_[without.family].push_back({sample, std::move(without.sizes)});
  }
}

double Estimator::between(const Families& families, const KeyFamily& wanted,
                          double roofline) const {
  const auto found = families.find(wanted.family);
  if (found == families.end()) return -1;
  std::vector<SizedTime> measured;
  for (const Sized& sized : found->second)
    if (on_one_line(sized.sizes, wanted.sizes))
      measured.push_back({samples_[sized.sample].roofline, samples_[sized.sample].seconds});
  return time_between(std::move(measured), roofline);
}

double Estimator::correction(std::string_view kind, KernelClass kernel_class,
                             const OpWork& work) const {
  const double log_flops = std::log2(1 + work.flops), log_bytes = std::log2(1 + work.bytes);
  const auto mean = [&](const auto& wanted) {
    double sum = 0, weights = 0;
    for (const Sample& sample : samples_) {
      if (!wanted(sample)) continue;
      const double df = sample.log_flops - log_flops, db = sample.log_bytes - log_bytes;
      const double weight = 1 / (kNeighbour.near + df * df + db * db);
      sum += weight * sample.log_ratio;
      weights += weight;
    }
    return std::pair(weights > 0, weights > 0 ? std::exp(sum / weights) : 1.0);
  };
  const auto [any_of_kind, by_kind] = mean([&](const Sample& s) { return s.kind == kind; });
  if (any_of_kind) return by_kind;
  const auto [any_of_class, by_class] =
      mean([&](const Sample& s) { return s.kernel_class == kernel_class; });
  if (any_of_class) return by_class;
  return mean([](const Sample&) { return true; }).second;
}

Result<Estimate> Estimator::estimate(const plan::OpDesc& op) const {
  LT_ASSIGN(const OpWork work, op_work(op));
  if (work.only_views) return Estimate{};
  if (store_ == nullptr) return Estimate{.seconds = model_seconds(op, work, device_)};
  const KernelClass of_op = kernel_class(op);
  const double roofline = roofline_seconds(op.kind, of_op, work, device_);
  const std::string key = op_key(op);
  const double overhead = store_->overhead_seconds();
  if (const MeasuredKernel* kernel = store_->find(key))
    return Estimate{.seconds = median(kernel->seconds) + overhead, .measured = true};
  double seconds = between(in_layouts_, family_of(key, true), roofline);
  if (seconds < 0 && of_op != KernelClass::kMovement)
    seconds = between(in_any_, family_of(key, false), roofline);
  if (seconds >= 0) return Estimate{.seconds = seconds + overhead, .interpolated = true};
  return Estimate{.seconds = roofline * correction(op.kind, of_op, work) + overhead};
}

}  // namespace lowtide::cost

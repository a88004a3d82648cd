#include "report/timeline.h"

#include <algorithm>

namespace lowtide::report {
namespace {

using plan::PlanStorageId;
using plan::Step;

class Clockwork {
 public:
  explicit Clockwork(const plan::Plan& plan)
      : plan_(plan),
        out_(plan.slow_tiers.size(), 0),
        in_(out_),
        under_way_(plan.storages.size(), kNothing) {}

  Timeline run() {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const double begin = now_;
      take(plan_.steps[i], i);
      line_.steps.push_back({begin, now_});
    }
    line_.end_seconds = now_;
    for (const Transfer& transfer : line_.transfers)
      line_.end_seconds = std::max(line_.end_seconds, transfer.when.end);
    return std::move(line_);
  }

 private:
  static constexpr size_t kNothing = SIZE_MAX;

  void take(const Step& step, size_t at) {
    switch (step.kind) {
      case Step::Kind::kCompute:
        now_ += plan_.ops[step.op].predicted_seconds;
        return;
      case Step::Kind::kStore:
      case Step::Kind::kLoad:
        if (plan_.storages[step.storage].slow_tier >= 0) begin(step, at);
        return;
      case Step::Kind::kWait:
        if (under_way_[step.storage] != kNothing) wait(step.storage, at);
        return;
      case Step::Kind::kFree:
        return;
    }
  }

  void begin(const Step& step, size_t at) {
    const plan::PlanStorage& storage = plan_.storages[step.storage];
    const auto index = static_cast<size_t>(storage.slow_tier);
    const plan::SlowTier& tier = plan_.slow_tiers[index];
    const auto bytes = static_cast<double>(storage.bytes);
    Transfer transfer{.storage = step.storage,
                      .out = step.kind == Step::Kind::kStore,
                      .begin_step = at,
                      .wait_step = plan_.steps.size()};
    const double speed = transfer.out ? tier.bytes_per_second_out : tier.bytes_per_second_in;
    transfer.seconds = tier.latency_seconds + bytes / speed;
    transfer.copying_seconds = tier.compute_seconds_per_byte * bytes;
    double& stream = (transfer.out ? out_ : in_)[index];
    transfer.when.begin = std::max(stream, now_);
    stream = transfer.when.end = transfer.when.begin + transfer.seconds;
    line_.copying_seconds += transfer.copying_seconds;
    under_way_[step.storage] = line_.transfers.size();
    line_.transfers.push_back(transfer);
  }

  void wait(PlanStorageId s, size_t at) {
    Transfer& transfer = line_.transfers[under_way_[s]];
    transfer.wait_step = at;
    transfer.waited_seconds = std::max(0.0, transfer.when.end - now_);
    now_ += transfer.waited_seconds;
    under_way_[s] = kNothing;
  }

  const plan::Plan& plan_;
  double now_ = 0;
  std::vector<double> out_, in_;               // when each stream of each tier is free
  IdVector<PlanStorageId, size_t> under_way_;  // into the transfers
  Timeline line_;
};

}  // namespace

Timeline timeline_of(const plan::Plan& plan) {
  return Clockwork(plan).run();
}

}  // namespace lowtide::report

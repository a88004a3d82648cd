#include "api/part_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/costs.h"
#include "api/planning.h"
#include "base/printable.h"
#include "cost/estimate.h"
#include "measure/kernel_case.h"
#include "pipeline/part_kernels.h"

namespace lowtide {
namespace {

constexpr int64_t kMostParts = 64;  // as many as the label search tries

struct Timed {
  plan::OpDesc op;
  cost::MeasuredKernel kernel;
};
using Kernels = std::map<std::string, Timed>;

// Which kernels each number of parts needs.
struct Needed {
  int64_t parts = 1;
  std::vector<pipeline::PartKernel> kernels;
};

Result<std::vector<Needed>> find_needed(const Model& model, const Planning& planning,
                                        std::vector<int64_t> numbers) {
  if (numbers.empty()) {
    LT_ASSIGN(numbers,
              pipeline::numbers_of_parts(model.state().graph, planning.options, kMostParts));
  }
  LT_ASSIGN(const std::vector<int64_t> all,
            pipeline::numbers_of_parts(model.state().graph, planning.options, INT64_MAX));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<Needed> needed;
  for (const int64_t parts : numbers) {
    if (parts < 1 || parts > all.back())
      return error(ErrorCode::kUsage,
                   fmt::format("--parts: {} is not from 1 to {}, the least extent of the largest "
                               "class of axes",
                               parts, all.back()));
    auto kernels = pipeline::kernels_in_parts(model.state().graph, planning.options, parts);
    if (!kernels) return planning_error(model, kernels.error());
    needed.push_back({parts, std::move(*kernels)});
  }
  return needed;
}

Status time_round(const Planning& planning, const PartTimesOptions& timing, Kernels& kernels) {
  for (auto& [key, timed] : kernels) {
    LT_ASSIGN(const std::vector<double> seconds,
              measure::time_op(*planning.kernels, timed.op,
                               {.least = timing.least_runs,
                                .seconds = timing.least_seconds,
                                .evicted_bytes = timing.evicted_bytes,
                                .processor_time = planning.threads == 1}));
    timed.kernel.seconds.push_back(*std::min_element(seconds.begin(), seconds.end()));
    timed.kernel.count += static_cast<int64_t>(seconds.size());
  }
  return {};
}

void add(KindSeconds& to, const pipeline::PartKernel& kernel, double predicted, double measured) {
  const auto runs = static_cast<double>(kernel.runs);
  to.runs += kernel.runs;
  to.predicted += runs * predicted;
  to.measured += runs * measured;
}

Result<PartsTimed> sum_up(const Needed& needed, const cost::Estimator& estimator,
                          const Kernels& timed) {
  PartsTimed result;
  result.parts = needed.parts;
  result.kernels = needed.kernels.size();
  std::map<std::string, KindSeconds> kinds;
  for (const pipeline::PartKernel& kernel : needed.kernels) {
    LT_ASSIGN(const cost::Estimate estimate, estimator.estimate(kernel.op));
    const double measured = cost::median(timed.at(cost::op_key(kernel.op)).kernel.seconds);
    if (kernel.runs == 0) continue;
    add(result.all, kernel, estimate.seconds, measured);
    KindSeconds& kind = kinds[kernel.op.kind];
    kind.kind = kernel.op.kind;
    add(kind, kernel, estimate.seconds, measured);
  }
  for (auto& [name, kind] : kinds) result.kinds.push_back(std::move(kind));
  std::stable_sort(
      result.kinds.begin(), result.kinds.end(),
      [](const KindSeconds& a, const KindSeconds& b) { return a.measured > b.measured; });
  return result;
}

const KindSeconds* find(const PartsTimed& timed, const std::string& kind) {
  for (const KindSeconds& seconds : timed.kinds)
    if (seconds.kind == kind) return &seconds;
  return nullptr;
}

nlohmann::ordered_json json_of(const KindSeconds& seconds) {
  return {{"runs", seconds.runs},
          {"predicted_seconds", seconds.predicted},
          {"measured_seconds", seconds.measured}};
}

}  // namespace

Result<PartTimes> time_parts(const Model& model, const PlanOptions& options,
                             const PartTimesOptions& timing) {
  LT_ASSIGN(const Planning planning, prepare_planning(model, options));
  const pipeline::OptimizeOptions& resolved = planning.options;
  if (planning.kernels == nullptr)
    return error(ErrorCode::kUsage,
                 fmt::format("--device: '{}' runs none of the kernels that could be timed here; it "
                             "needs a profile of this CPU",
                             resolved.device.name));
  LT_ASSIGN(const std::vector<Needed> needed, find_needed(model, planning, timing.parts));
  Kernels kernels;
  for (const Needed& one : needed)
    for (const pipeline::PartKernel& kernel : one.kernels) {
      Timed& timed = kernels[cost::op_key(kernel.op)];
      LT_ASSIGN(const cost::OpWork work, cost::op_work(kernel.op));
      timed.op = kernel.op;
      timed.kernel.kernel_class = cost::kernel_class(kernel.op);
      timed.kernel.flops = work.flops;
      timed.kernel.bytes = work.bytes;
    }
  for (int round = 0; round < timing.rounds; ++round)
    LT_RETURN_IF_ERROR(time_round(planning, timing, kernels));
  PartTimes times;
  times.model = model.name();
  times.costs = fmt::format("{} of {}",
                            resolved.costs ? "measured times and, beyond them, the roofline"
                                           : std::string(cost::name(resolved.device.cost_model)),
                            resolved.device.name);
  times.rounds = timing.rounds;
  times.threads = planning.threads;
  times.kernels = kernels.size();
  times.store = cost::CostStore(cpu_identity(planning.threads));
  for (const auto& [key, timed] : kernels) times.store.add(key, timed.kernel);
  const cost::Estimator estimator(resolved.device, resolved.costs ? &*resolved.costs : nullptr);
  for (const Needed& one : needed) {
    LT_ASSIGN(times.parts.emplace_back(), sum_up(one, estimator, kernels));
  }
  return times;
}

std::string print(const PartTimes& times) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "{}: {} kernels, each the least of a round's runs, the median of {} rounds; {}\n",
                 printable(times.model), times.kernels, times.rounds,
                 times.threads == 1 ? "processor time of one thread"
                                    : fmt::format("wall time of {} threads", times.threads));
  fmt::format_to(out, "predicted by the {}\n\n{:<22}", printable(times.costs), "ms of a step");
  for (const PartsTimed& timed : times.parts)
    fmt::format_to(out, "{:>22}", fmt::format("n={}: predicted", timed.parts)),
        fmt::format_to(out, "{:>10}", "measured");
  const auto row = [&](const std::string& name, const auto& of) {
    fmt::format_to(out, "\n{:<22}", name);
    for (const PartsTimed& timed : times.parts) {
      const KindSeconds* seconds = of(timed);
      if (seconds == nullptr)
        fmt::format_to(out, "{:>22}{:>10}", "", "");
      else
        fmt::format_to(out, "{:>22.2f}{:>10.2f}", 1e3 * seconds->predicted,
                       1e3 * seconds->measured);
    }
  };
  row("all", [](const PartsTimed& timed) { return &timed.all; });
  std::vector<std::string> kinds;
  for (const PartsTimed& timed : times.parts)
    for (const KindSeconds& seconds : timed.kinds)
      if (std::find(kinds.begin(), kinds.end(), seconds.kind) == kinds.end())
        kinds.push_back(seconds.kind);
  for (const std::string& kind : kinds)
    row(kind, [&](const PartsTimed& timed) { return find(timed, kind); });
  return text + "\n";
}

std::string print_json(const PartTimes& times) {
  nlohmann::ordered_json json;
  json["model"] = times.model;
  json["costs"] = times.costs;
  json["kernels"] = times.kernels;
  json["rounds"] = times.rounds;
  json["threads"] = times.threads;
  json["parts"] = nlohmann::ordered_json::array();
  for (const PartsTimed& timed : times.parts) {
    nlohmann::ordered_json one = {{"parts", timed.parts}, {"kernels", timed.kernels}};
    one.update(json_of(timed.all));
    for (const KindSeconds& seconds : timed.kinds) one["kinds"][seconds.kind] = json_of(seconds);
    json["parts"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lowtide

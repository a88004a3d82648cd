#include "api/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "api/costs.h"
#include "api/dump.h"
#include "api/kernel_times.h"
#include "api/running.h"
#include "api/whole_step.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/element.h"
#include "base/file.h"
#include "cost/store.h"
#include "exec/cpu/cpu.h"
#include "measure/timed_kernels.h"
#include "report/measured.h"
#include "runtime/contents.h"

namespace lowtide {
namespace {

using plan::PlanOpId;
using plan::PlanValueId;

double value_at(DType dtype, const std::byte* data, size_t i) {
  return read_real(dtype, data + i * static_cast<size_t>(size_bytes(dtype)));
}

class Comparison {
 public:
  Comparison(const plan::Plan& plan, RunReport& report) : plan_(plan), report_(report) {}

  // Keeps the results of the unplanned step, then holds the planned step's against them; at the end
  // what no op makes.
  Status run(runtime::Session& planned, runtime::Session& unplanned) {
    const runtime::Observer keep = [this](PlanOpId, PlanValueId value,
                                          std::span<const std::byte> bytes) {
      if (is_result(plan_, value))
        kept_.insert_or_assign(value, Kept{.bytes = {bytes.begin(), bytes.end()}});
    };
    const runtime::Observer hold = [this](PlanOpId, PlanValueId value,
                                          std::span<const std::byte> bytes) {
      if (is_result(plan_, value)) compare(value, bytes);
    };
    LT_RETURN_IF_ERROR(unplanned.run(&keep));
    report_.max_abs_difference = report_.max_abs_difference.value_or(0);
    LT_RETURN_IF_ERROR(planned.run(&hold));
    for (const auto& [value, kept] : kept_)
      LT_CHECK(kept.seen, "the planned step did not make every value of the unplanned one");
    kept_.clear();
    for (const PlanValueId value : given_outputs(plan_))
      LT_RETURN_IF_ERROR(compare_given(value, planned, unplanned));
    return compare_slow_homes(planned, unplanned);
  }

 private:
  struct Kept {
    std::vector<std::byte> bytes;
    bool seen = false, different = false;
  };

  // Every run of an op is held against the one unplanned run; a value counts once.
  void compare(PlanValueId id, std::span<const std::byte> bytes) {
    const auto found = kept_.find(id);
    LT_CHECK(found != kept_.end() && found->second.bytes.size() == bytes.size(),
             plan_.values[id].name);
    Kept& kept = found->second;
    count(id, !std::exchange(kept.seen, true), kept.bytes, bytes, kept.different);
  }

  void count(PlanValueId id, bool first, std::span<const std::byte> expected,
             std::span<const std::byte> bytes, bool& different) {
    if (first) ++report_.values_compared;
    if (std::memcmp(expected.data(), bytes.data(), bytes.size()) == 0) return;
    if (!std::exchange(different, true) && ++report_.values_different == 1)
      report_.first_different = plan_.values[id].name;
    report_.max_abs_difference =
        std::max(*report_.max_abs_difference,
                 largest_difference(plan_.values[id].type.dtype, expected, bytes));
  }

  Status compare_given(PlanValueId value, const runtime::Session& planned,
                       const runtime::Session& unplanned) {
    const std::string& name = plan_.values[value].name;
    LT_ASSIGN(const std::vector<std::byte> expected, unplanned.get(name));
    LT_ASSIGN(const std::vector<std::byte> bytes, planned.get(name));
    bool different = false;
    count(value, true, expected, bytes, different);
    return {};
  }

  // That what was updated also reached its home.
  Status compare_slow_homes(const runtime::Session& planned, const runtime::Session& unplanned) {
    for (const plan::PlanStorage& storage : plan_.storages) {
      const plan::PlanValue& root = plan_.values[storage.root];
      if (storage.home_slow && root.type.layout.blocked.empty())
        LT_RETURN_IF_ERROR(compare_given(storage.root, planned, unplanned));
    }
    return {};
  }

  const plan::Plan& plan_;
  RunReport& report_;
  std::map<PlanValueId, Kept> kept_;
};

// One step whose row-major results, and those that are strided views, are written to a folder.
Status dumped_step(runtime::Session& session, const std::string& folder) {
  const plan::Plan& plan = session.plan();
  Dump dump(plan, folder);
  LT_RETURN_IF_ERROR(dump.open());
  Status status;
  const runtime::Observer write = [&](PlanOpId, PlanValueId value,
                                      std::span<const std::byte> bytes) {
    if (!status || !is_result(plan, value)) return;
    const plan::TensorDesc& type = plan.values[value].type;
    if (type.layout.row_major()) status = dump.add(value, bytes);
    if (!type.layout.strided()) return;
    std::vector<std::byte> dense(static_cast<size_t>(plan::size_bytes(type)));
    status = runtime::load_row_major(plan.values[value], bytes.data(), dense);
    if (status) status = dump.add(value, dense);
  };
  LT_RETURN_IF_ERROR(session.run(&write));
  LT_RETURN_IF_ERROR(std::move(status));
  for (const PlanValueId value : given_outputs(plan)) {
    LT_ASSIGN(const std::vector<std::byte> bytes, session.get(plan.values[value].name));
    LT_RETURN_IF_ERROR(dump.add(value, bytes));
  }
  return dump.close();
}

// Of timed steps: on the wall, by the processor of the calling thread, and by those of all threads.
struct StepTimes {
  std::vector<double> seconds, thread_seconds, process_seconds;
};

Status time_step(runtime::Session& session, StepTimes& times) {
  const auto start = Clock::now();
  const double thread = thread_seconds(), process = process_seconds();
  LT_RETURN_IF_ERROR(session.run());
  times.process_seconds.push_back(process_seconds() - process);
  times.thread_seconds.push_back(thread_seconds() - thread);
  times.seconds.push_back(seconds_since(start));
  return {};
}

std::optional<double> loss_of(const runtime::Session& session) {
  const auto bytes = session.get("loss");
  if (!bytes) return std::nullopt;
  for (const plan::PlanValue& value : session.plan().values)
    if (value.name == "loss" && plan::element_count(value.type) == 1)
      return value_at(value.type.dtype, bytes->data(), 0);
  return std::nullopt;
}

// Opens the sessions of one run, all alike but for what differs between them.
class Opener {
 public:
  Opener(const plan::Plan& plan, const CompareOptions& options)
      : plan_(plan),
        options_(options),
        threads_(threads_for(plan, options.threads)),
        kernels_(exec_cpu::make_cpu_kernels({.threads = threads_})) {}

  int threads() const { return threads_; }

  // With its inputs drawn. `vary` may change the options; with `times` its kernels are timed.
  template <class Vary>
  Result<runtime::Session> open(const Vary& vary, measure::KernelTimes* times = nullptr) const {
    runtime::SessionOptions resolved;
    resolved.seed = options_.seed;
    resolved.model_folder = options_.model_folder;
    LT_ASSIGN(resolved.slow_memory,
              slow_memory(plan_, options_.slow_tier_folder, options_.link_bytes_per_second));
    vary(resolved);
    const auto timed = times == nullptr ? nullptr : measure::timed_kernels(*kernels_, *times);
    LT_ASSIGN(runtime::Session session,
              open_session(plan_, timed == nullptr ? *kernels_ : *timed, threads_,
                           options_.seed_missing_weights, resolved));
    session.seed_inputs(0);
    return session;
  }
  Result<runtime::Session> open_unplanned() const {
    return open([](runtime::SessionOptions& varied) { varied.unplanned = true; });
  }

 private:
  const plan::Plan& plan_;
  const CompareOptions& options_;
  int threads_;
  std::unique_ptr<runtime::KernelFactory> kernels_;
};

// What two steps really take, in a session of its own whose arena, and a guard area behind it, was
// marked with a pattern: the mapping that the session made, or more if anything was written behind
// it; and up to where it was written.
Status measure_arena(const Opener& opener, RunReport& report) {
  LT_ASSIGN(runtime::Session session,
            opener.open([](runtime::SessionOptions& options) { options.mark = true; }));
  for (int step = 0; step < 2; ++step) LT_RETURN_IF_ERROR(session.run());
  report.arena_touched_bytes = session.touched_bytes();
  report.arena_measured_bytes = std::max(session.arena_bytes(), report.arena_touched_bytes);
  return {};
}

void add(StepTransfers& sum, const runtime::TransferTotals& step) {
  sum.stored_bytes += step.stored_bytes;
  sum.loaded_bytes += step.loaded_bytes;
  sum.transfer_seconds += step.transfer_seconds;
  sum.exposed_seconds += step.exposed_seconds;
}

// From the sum over steps to their mean; every step moves the same bytes.
void divide(StepTransfers& sum, int64_t steps) {
  sum.stored_bytes /= steps;
  sum.loaded_bytes /= steps;
  sum.transfer_seconds /= static_cast<double>(steps);
  sum.exposed_seconds /= static_cast<double>(steps);
  const runtime::TransferTotals mean{.transfer_seconds = sum.transfer_seconds,
                                     .exposed_seconds = sum.exposed_seconds};
  sum.hidden_share = mean.hidden_share();
}

// The times of this plan's ops to a file.
Status write_profile(const plan::Plan& plan, const std::string& path, int threads,
                     IdVector<PlanOpId, report::MeasuredOp> ops, const RunReport& report) {
  report::MeasuredStep measured;
  measured.device = cost::print(cpu_identity(threads));
  measured.steps = report.steps;
  measured.step_seconds = report.step_seconds;
  measured.transfer_seconds = report.transfers.transfer_seconds;
  measured.exposed_seconds = report.transfers.exposed_seconds;
  measured.ops = std::move(ops);
  return write_file_atomically(path, report::print_measured(plan, measured));
}

// The times of the steps that were timed, to those who ask for them.
Status keep_times(const plan::Plan& plan, const CompareOptions& options, int threads,
                  const measure::KernelTimes& times, RunReport& report) {
  report.kernel_seconds = times.kernel_seconds();
  if (!options.measure_file.empty()) {
    LT_ASSIGN(const cost::CostStore store, times.summarize(cpu_identity(threads)));
    LT_RETURN_IF_ERROR(add_costs(options.measure_file, store));
  }
  IdVector<PlanOpId, report::MeasuredOp> ops = measured_ops(plan, times);
  if (options.profile) {
    report.profile = times_by_kind(plan, ops);
    report.kernels = times_by_kernel(plan, ops);
  }
  if (options.profile_file.empty()) return {};
  return write_profile(plan, options.profile_file, threads, std::move(ops), report);
}

void summarize(RunReport& report, const runtime::Session& planned,
               const std::optional<runtime::Session>& unplanned, StepTimes times,
               StepTimes unplanned_times, bool one_thread) {
  divide(report.transfers, std::ssize(times.seconds));
  report.step_seconds = cost::median(std::move(times.seconds));
  if (one_thread) report.processor_seconds = cost::median(std::move(times.process_seconds));
  report.loss_last = loss_of(planned);
  if (!unplanned) return;
  report.unplanned_step_seconds = cost::median(std::move(unplanned_times.seconds));
  if (one_thread)
    report.unplanned_processor_seconds = cost::median(std::move(unplanned_times.process_seconds));
  report.unplanned_bytes = unplanned->arena_bytes();
}

// One step of both, from the same contents.
Status compare_first(const plan::Plan& plan, const CompareOptions& options,
                     runtime::Session& planned, const Opener& opener_of_unplanned,
                     runtime::Session& unplanned, RunReport& report) {
  if (options.whole == nullptr) {
    LT_RETURN_IF_ERROR(Comparison(plan, report).run(planned, unplanned));
    report.same_ops = in_parts(plan);
    if (report.same_ops) report.model_file = model_file_of(plan);
    return {};
  }
  const auto again = [&] { return opener_of_unplanned.open_unplanned(); };
  LT_ASSIGN(report.whole, compare_with_whole(plan, planned, *options.whole, unplanned, again));
  return {};
}

}  // namespace

Result<RunReport> run_plan(const plan::Plan& plan, const CompareOptions& options) {
  const Opener opener(plan, options);
  const Opener opener_of_unplanned(options.whole == nullptr ? plan : *options.whole, options);
  RunReport report;
  report.steps = options.steps;
  report.arena_planned_bytes = plan.arena_bytes;
  report.predicted_step_seconds = plan.claims.predicted_seconds;
  report.seeded_weights = seeded_weights(plan);
  if (options.model_folder.empty()) report.seeded_weights += external_weights(plan);
  const auto as_planned = [&](runtime::SessionOptions& varied) { varied.poison = options.poison; };
  if (!options.dump_folder.empty()) {
    LT_ASSIGN(runtime::Session dumped, opener.open(as_planned));
    LT_RETURN_IF_ERROR(dumped_step(dumped, options.dump_folder));
  }
  const bool adding_costs = !options.measure_file.empty();
  const bool measuring = adding_costs || options.profile || !options.profile_file.empty();
  // A store of another device is refused before anything runs.
  if (adding_costs && std::filesystem::exists(options.measure_file))
    LT_RETURN_IF_ERROR(load_costs(options.measure_file, cpu_identity(opener.threads())));
  LT_RETURN_IF_ERROR(measure_arena(opener, report));
  const bool one_thread = opener.threads() == 1;
  measure::KernelTimes kernel_times(one_thread);
  LT_ASSIGN(runtime::Session planned, opener.open(as_planned, measuring ? &kernel_times : nullptr));
  std::optional<runtime::Session> unplanned;
  if (options.compare) {
    LT_ASSIGN(unplanned, opener_of_unplanned.open_unplanned());
    LT_RETURN_IF_ERROR(
        compare_first(plan, options, planned, opener_of_unplanned, *unplanned, report));
    report.loss_first = loss_of(planned);
  }
  if (measuring && !options.compare) {  // pages and caches are cold in the first step
    LT_RETURN_IF_ERROR(planned.run());
    report.loss_first = loss_of(planned);
  }
  StepTimes times, unplanned_times;
  kernel_times.record(true);
  for (int64_t step = 0; step < options.steps; ++step) {
    LT_RETURN_IF_ERROR(time_step(planned, times));
    add(report.transfers, planned.transfers());
    if (measuring)  // by the clock of the kernels, of which a wait for transfers takes nothing
      kernel_times.end_step(one_thread
                                ? times.thread_seconds.back()
                                : times.seconds.back() - planned.transfers().exposed_seconds);
    if (!report.loss_first) report.loss_first = loss_of(planned);
    if (unplanned) LT_RETURN_IF_ERROR(time_step(*unplanned, unplanned_times));
  }
  kernel_times.record(false);
  if (unplanned && options.whole == nullptr)
    LT_RETURN_IF_ERROR(Comparison(plan, report).run(planned, *unplanned));
  summarize(report, planned, unplanned, std::move(times), std::move(unplanned_times), one_thread);
  if (measuring)
    LT_RETURN_IF_ERROR(keep_times(plan, options, opener.threads(), kernel_times, report));
  return report;
}

}  // namespace lowtide

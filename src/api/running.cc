#include "api/running.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>
#include <thread>
#include <variant>

#include "base/printable.h"

namespace lowtide {
namespace {

// A positive number that is the whole text, or 0.
int positive(std::string_view text) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? std::max(number, 0)
                                                                             : 0;
}

std::string_view fact(const plan::Plan& plan, std::string_view name) {
  const auto found = plan.provenance.find(name);
  return found == plan.provenance.end() ? std::string_view() : found->second;
}

int64_t count_initial(const plan::Plan& plan, plan::PlanInitial::Kind kind) {
  return std::count_if(plan.values.begin(), plan.values.end(), [&](const plan::PlanValue& value) {
    return !value.producer.valid() && value.initial.kind == kind;
  });
}

// Where plan and machine differ in what kernels' workspace depends on; empty where they agree.
std::string difference(const plan::Plan& plan, int threads) {
  const std::string_view device = fact(plan, "device");
  // Only plans for kernels of this CPU have it.
  const int planned = positive(fact(plan, "threads"));
  if (!device.empty() && planned == 0)
    return fmt::format("; the plan was made for device '{}', not for kernels of this CPU", device);
  if (planned > 0 && planned != threads)
    return fmt::format("; the plan was made for {} threads and is run with {}", planned, threads);
  return {};
}

// The ops that no kernel of ours runs, the first by its name and, if there are others, all of them
// by what their owner calls them, with how often; empty: none, or one, which its kernel names.
std::string foreign_ops(const plan::Plan& plan) {
  std::map<std::string, int64_t> counts;
  std::string text;
  for (const plan::PlanOp& op : plan.ops) {
    const auto name = op.kind.starts_with("Opaque") ? op.attrs.find("op") : op.attrs.end();
    const auto* word = name == op.attrs.end() ? nullptr : std::get_if<std::string>(&name->second);
    if (word == nullptr) continue;
    if (text.empty())
      text =
          fmt::format("op '{}': '{}' is an op of somebody else's, who has its kernel; all such: ",
                      printable(op.name), printable(*word));
    ++counts[*word];
  }
  if (counts.size() < 2) return {};
  bool first = true;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}'{}' {}", first ? "" : ", ", printable(name), count);
    first = false;
  }
  return text;
}

}  // namespace

int resolve_threads(int threads) {
  if (threads > 0) return threads;
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && positive(wanted) > 0) return positive(wanted);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

int threads_for(const plan::Plan& plan, int threads) {
  return resolve_threads(threads > 0 ? threads : positive(fact(plan, "threads")));
}

int64_t external_weights(const plan::Plan& plan) {
  return count_initial(plan, plan::PlanInitial::Kind::kExternal);
}
int64_t seeded_weights(const plan::Plan& plan) {
  return count_initial(plan, plan::PlanInitial::Kind::kSeeded);
}

Result<runtime::SlowMemoryOptions> slow_memory(const plan::Plan& plan, const std::string& place,
                                               double bytes_per_second) {
  if (!std::isfinite(bytes_per_second) || bytes_per_second < 0)
    return error(ErrorCode::kUsage,
                 fmt::format("a link of {} bytes per second; it needs a number above 0, or 0 for "
                             "as fast as it goes",
                             bytes_per_second));
  runtime::SlowMemoryOptions options{.folder = place,
                                     .throttle = {.bytes_per_second = bytes_per_second}};
  for (const plan::SlowTier& tier : plan.slow_tiers)
    if (place.starts_with(tier.name + "=")) {
      options.tier = tier.name;
      options.folder = place.substr(tier.name.size() + 1);
    }
  return options;
}

Result<runtime::Session> open_session(const plan::Plan& plan, const runtime::KernelFactory& kernels,
                                      int threads, bool seed_missing_weights,
                                      const runtime::SessionOptions& options) {
  if (const std::string foreign = foreign_ops(plan); !foreign.empty())
    return error(ErrorCode::kInput, foreign);
  const int64_t external = external_weights(plan);
  if (external > 0 && options.model_folder.empty() && !seed_missing_weights) {
    const auto first =
        std::find_if(plan.values.begin(), plan.values.end(), [](const plan::PlanValue& value) {
          return !value.producer.valid() &&
                 value.initial.kind == plan::PlanInitial::Kind::kExternal;
        });
    return error(ErrorCode::kUsage,
                 fmt::format("{} weights lie in files beside the model, the first in '{}': give "
                             "their folder with --model-folder, or --seed-weights to draw them",
                             external, first->initial.file));
  }
  auto session = runtime::Session::open(plan, kernels, options);
  if (session || session.error().message.find("of workspace") == std::string::npos) return session;
  return error(session.error().code, session.error().message + difference(plan, threads));
}

}  // namespace lowtide

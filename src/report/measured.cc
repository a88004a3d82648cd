#include "report/measured.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/printable.h"
#include "plan/plan_fields.h"
#include "report/sizes.h"

namespace lowtide::report {
namespace {

using Parsed = nlohmann::json;
using plan::PlanOpId;

constexpr std::string_view kProfileFormat = "lowtide-profile";
constexpr int kProfileVersion = 2;
constexpr size_t kMostDepth = 8;  // a profile is three deep
constexpr const char* kAgain = "measure this plan again with `lowtide run PLAN --profile-out FILE`";

// How often each op's kernel runs in a step; 0: it makes views and has none.
IdVector<PlanOpId, int64_t> planned_runs(const plan::Plan& plan) {
  IdVector<PlanOpId, int64_t> runs(plan.ops.size(), 0);
  for (const plan::Step& step : plan.steps)
    if (step.kind == plan::Step::Kind::kCompute && !plan::only_views(plan, step.op))
      ++runs[step.op];
  return runs;
}

Parsed budget_of(const plan::Plan& plan) {
  return plan.claims.budget_bytes ? Parsed(*plan.claims.budget_bytes) : Parsed();
}

std::string spelled_bytes(const Parsed& bytes) {
  if (bytes.is_null()) return "none";
  const bool counts = bytes.is_number_integer() && bytes >= 0 && bytes <= 9e15;
  return counts ? fmt::format("{} ({} bytes)", format_bytes(bytes.get<int64_t>()), bytes.dump())
                : printable(bytes.dump());
}

class ProfileReader {
 public:
  ProfileReader(std::string origin, const plan::Plan& plan)
      : origin_(std::move(origin)), plan_(plan) {}

  Result<MeasuredStep> read(const Parsed& file) {
    if (!file.is_object() || file.value("format", Parsed()) != kProfileFormat ||
        file.value("version", Parsed()) != kProfileVersion)
      return fail(
          "not a measured profile of version 2; `lowtide run PLAN --profile-out FILE` "
          "writes one");
    if (file.value("model", Parsed()) != plan_.model)
      return fail(fmt::format("measured of model {}, the plan is of '{}'",
                              printable(file.value("model", Parsed()).dump()),
                              printable(plan_.model)));
    LT_RETURN_IF_ERROR(same_plan(file));
    MeasuredStep step;
    if (const Parsed device = file.value("device", Parsed()); device.is_string())
      step.device = device.get<std::string>();
    double steps = 0;
    LT_RETURN_IF_ERROR(number(file, "steps", steps));
    step.steps = static_cast<int64_t>(steps);
    LT_RETURN_IF_ERROR(number(file, "step_seconds", step.step_seconds));
    LT_RETURN_IF_ERROR(number(file, "transfer_seconds", step.transfer_seconds));
    LT_RETURN_IF_ERROR(number(file, "exposed_seconds", step.exposed_seconds));
    LT_RETURN_IF_ERROR(ops(file.value("ops", Parsed()), step));
    return step;
  }

 private:
  tl::unexpected<Error> fail(const std::string& what) const {
    return error(ErrorCode::kInput, origin_ + ": " + what);
  }

  // Plans of one model have the same ops: they differ in their sizes, budget and addresses.
  Status same_plan(const Parsed& file) const {
    if (file.value("dims", Parsed()) != Parsed(plan_.bindings))
      return fail(fmt::format("measured for{}, the plan is for{}: {}",
                              spelled(file.value("dims", Parsed())), spelled_sizes(plan_.bindings),
                              kAgain));
    const auto same = [&](const char* key, const char* what, const Parsed& planned) -> Status {
      if (file.contains(key) && file[key] == planned) return {};
      return fail(fmt::format("measured with {} {}, that of the plan is {}: {}", what,
                              file.contains(key) ? spelled_bytes(file[key]) : "unknown",
                              spelled_bytes(planned), kAgain));
    };
    LT_RETURN_IF_ERROR(same("budget_bytes", "budget", budget_of(plan_)));
    return same("arena_bytes", "an arena of", plan_.arena_bytes);
  }

  static std::string spelled(const Parsed& dims) {
    Sizes sizes;
    if (!dims.is_object()) return " " + printable(dims.dump());
    for (const auto& [symbol, size] : dims.items()) {
      if (!size.is_number_integer()) return " " + printable(dims.dump());
      sizes[symbol] = size.get<int64_t>();
    }
    return spelled_sizes(sizes);
  }

  // A number from 0 to what a double counts exactly.
  Status number(const Parsed& object, const char* key, double& out) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number())
      return fail(fmt::format("'{}' is missing or no number", key));
    out = found->get<double>();
    if (!(out >= 0 && out <= 9e15)) return fail(fmt::format("'{}' is {}", key, out));
    return {};
  }

  Status ops(const Parsed& list, MeasuredStep& step) const {
    if (!list.is_array() || list.size() != plan_.ops.size())
      return fail(fmt::format("has {} ops, the plan has {}: {}", list.is_array() ? list.size() : 0,
                              plan_.ops.size(), kAgain));
    const IdVector<PlanOpId, int64_t> planned = planned_runs(plan_);
    for (const Parsed& entry : list) {
      const PlanOpId op(step.ops.size());
      if (!entry.is_object() || entry.value("name", Parsed()) != plan_.ops[op].name)
        return fail(fmt::format("op {} is {}, that of the plan is '{}': {}", op.index(),
                                printable(entry.dump()), printable(plan_.ops[op].name), kAgain));
      double runs = 0;
      MeasuredOp measured;
      LT_RETURN_IF_ERROR(number(entry, "runs", runs));
      LT_RETURN_IF_ERROR(number(entry, "seconds", measured.seconds));
      measured.runs = static_cast<int64_t>(runs);
      if (runs != static_cast<double>(planned[op]))
        return fail(fmt::format("op '{}' ran {} times in a step, in the plan's {}: {}",
                                printable(plan_.ops[op].name), runs, planned[op], kAgain));
      step.ops.push_back(measured);
    }
    return {};
  }

  const std::string origin_;
  const plan::Plan& plan_;
};

}  // namespace

std::string print_measured(const plan::Plan& plan, const MeasuredStep& measured) {
  nlohmann::ordered_json file;
  file["format"] = kProfileFormat;
  file["version"] = kProfileVersion;
  file["model"] = plan.model;
  file["dims"] = plan.bindings;
  file["budget_bytes"] = budget_of(plan);
  file["arena_bytes"] = plan.arena_bytes;
  file["device"] = measured.device;
  file["steps"] = measured.steps;
  file["step_seconds"] = measured.step_seconds;
  file["transfer_seconds"] = measured.transfer_seconds;
  file["exposed_seconds"] = measured.exposed_seconds;
  std::string text = file.dump(1, ' ', false, Parsed::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}": the ops follow, one a line
  text += ",\n \"ops\": [";
  for (PlanOpId op : plan.ops.ids()) {
    nlohmann::ordered_json entry;
    entry["name"] = plan.ops[op].name;
    entry["runs"] = measured.ops[op].runs;
    entry["seconds"] = measured.ops[op].seconds;
    text += (op.index() == 0 ? "\n  " : ",\n  ");
    text += entry.dump(-1, ' ', false, Parsed::error_handler_t::replace);
  }
  return text + "\n ]\n}\n";
}

Result<MeasuredStep> read_measured(std::string_view text, const std::string& origin,
                                   const plan::Plan& plan) {
  const auto file = plan::parse_json(text, origin, {.depth = kMostDepth});
  if (!file)
    return error(ErrorCode::kInput, origin +
                                        ": not JSON; `lowtide run PLAN --profile-out FILE` "
                                        "writes measured profiles");
  return ProfileReader(origin, plan).read(*file);
}

}  // namespace lowtide::report

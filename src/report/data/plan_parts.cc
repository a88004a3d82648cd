#include "report/data/plan_parts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "report/actions.h"
#include "report/budget.h"
#include "report/parts.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;
using plan::PlanOpId;
using plan::PlanStorageId;

template <class T>
OrderedJson number_or_null(const std::optional<T>& number) {
  return number ? OrderedJson(*number) : OrderedJson();
}

constexpr size_t kNowhere = SIZE_MAX;

// The step of the plan at which its peak is first reached.
size_t peak_step(const PlanView& view) {
  if (view.planned.plan_steps.empty()) return kNowhere;
  return view.planned.plan_steps[view.planned.peak_step];
}

// A larger budget and what it buys.
OrderedJson next_budget(const plan::Plan& plan, const PlanningFacts* facts,
                        const SweptFront* front) {
  const plan::Claims& claims = plan.claims;
  const auto told = [&](int64_t budget, double seconds, double bound, const char* from) {
    return OrderedJson{{"budget_bytes", budget},
                       {"seconds", seconds},
                       {"bound_seconds", bound},
                       {"saved_seconds", claims.predicted_seconds - seconds},
                       {"from", from}};
  };
  if (facts != nullptr && facts->more_memory)
    return told(facts->more_memory->budget_bytes, facts->more_memory->seconds,
                facts->more_memory->lower_bound_seconds, "search");
  if (front == nullptr || !claims.budget_bytes) return {};
  const FrontPoint* next = nullptr;  // the smallest that is larger; budgets descend
  for (const FrontPoint& point : front->points)
    if (point.found && point.budget_bytes > *claims.budget_bytes) next = &point;
  if (next == nullptr) return {};
  return told(next->budget_bytes, next->seconds, next->lower_bound_seconds, "front");
}

OrderedJson group_data(const ModuleActions& actions) {
  OrderedJson group;
  group["kind"] = actions.kind == ActionKind::kMove ? "move" : "recompute";
  group["module"] = actions.module;
  group["count"] = actions.reruns + actions.stores + actions.loads;
  group["bytes"] = actions.benefit_bytes;
  group["freed_bytes"] = actions.freed_bytes;
  group["moved_bytes"] = actions.stored_bytes + actions.loaded_bytes;
  group["seconds"] = actions.paid_seconds();
  return group;
}

// What a plan without the ops in one part cannot know is null.
OrderedJson group_data(const ModuleParts& parts) {
  const auto when_priced = [&](auto number) {
    return parts.priced ? OrderedJson(number) : OrderedJson();
  };
  OrderedJson group;
  group["kind"] = "split";
  group["module"] = parts.module;
  group["count"] = parts.parts;
  group["bytes"] = when_priced(parts.benefit_bytes);
  group["freed_bytes"] = when_priced(parts.freed_bytes);
  group["moved_bytes"] = OrderedJson();
  group["seconds"] = when_priced(parts.seconds);
  return group;
}

// Bytes of that kind for each second; what is not known comes last. Where groups save nothing at
// the peak by themselves (it is as high without each of them), the bytes that they free order them.
double worth_of(const OrderedJson& group, const char* saved) {
  if (group[saved].is_null()) return -1;
  const auto bytes = group[saved].get<double>(), seconds = group["seconds"].get<double>();
  if (bytes <= 0) return 0;
  return seconds > 0 ? bytes / seconds : std::numeric_limits<double>::infinity();
}

}  // namespace

OrderedJson summary_data(const PlanView& view, const PlanningFacts* facts) {
  const plan::Claims& claims = view.plan.claims;
  const TimeVerdict time = time_verdict(view.plan);
  const size_t peak = peak_step(view);
  OrderedJson json;
  json["arena_bytes"] = view.plan.arena_bytes;
  json["peak_bytes"] = claims.peak_bytes;
  json["peak_before_bytes"] = claims.peak_before_bytes;
  json["budget_bytes"] = number_or_null(claims.budget_bytes);
  json["floor_bytes"] = number_or_null(claims.floor_bytes);
  json["lower_bound_bytes"] = claims.lower_bound_bytes;
  json["order_proven"] = claims.order_proven;
  json["once_seconds"] = claims.once_seconds;
  json["predicted_seconds"] = claims.predicted_seconds;
  json["exposed_seconds"] = claims.exposed_seconds;
  json["lower_bound_seconds"] = claims.lower_bound_seconds;
  json["extra_percent"] = time.extra_percent;
  json["bound_percent"] = time.bound_percent;
  json["gap_points"] = time.gap_points;
  json["bounds_are_of"] = in_which_parts(facts == nullptr ? facts_in_file(view.plan) : *facts);
  const std::optional<double> whole = seconds_in_one_part(view.plan);
  const auto over_whole = [&](double seconds) {
    return whole && *whole > 0 ? OrderedJson(100 * (seconds / *whole - 1)) : OrderedJson();
  };
  json["whole_once_seconds"] = number_or_null(whole);
  json["extra_over_whole_percent"] = over_whole(claims.predicted_seconds);
  json["bound_over_whole_percent"] = over_whole(claims.lower_bound_seconds);
  json["timeline_seconds"] = view.timeline.end_seconds;
  json["copying_seconds"] = view.timeline.copying_seconds;
  json["peak_step"] = peak == kNowhere ? int64_t{-1} : static_cast<int64_t>(peak);
  json["alignment_bytes"] = view.plan.alignment_bytes;
  json["costs"] = costs_of(view.plan);
  json["reruns"] = view.actions.all.reruns;
  json["stored_bytes"] = view.actions.all.stored_bytes;
  json["loaded_bytes"] = view.actions.all.loaded_bytes;
  json["ops_in_parts"] = parts_of(view.plan, view.stays).all.parts;
  return json;
}

OrderedJson verdict_lines(const plan::Plan& plan, const PlanningFacts* facts) {
  PlanningFacts known = facts == nullptr ? facts_in_file(plan) : *facts;
  known.planning_seconds = known.reading_seconds = 0;
  known.stages.clear();
  OrderedJson lines = OrderedJson::array();
  const std::string text = verdict_text(plan, known);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    lines.push_back(line);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return lines;
}

OrderedJson curve_data(const PlanView& view) {
  OrderedJson json;
  json["planned"] = OrderedJson::array();
  for (size_t c = 0; c < kCategories; ++c) {
    std::vector<int64_t> bytes;
    for (const CategoryBytes& at_step : view.planned.step_categories) bytes.push_back(at_step[c]);
    json["planned"].push_back(bytes);
  }
  json["steps"] = view.planned.plan_steps;
  json["given"] = view.given.step_bytes;
  json["given_op"] = OrderedJson::array();
  json["given_begin"] = OrderedJson::array();
  double now = 0;
  for (PlanOpId op : view.given.step_ops) {
    json["given_op"].push_back(op.index());
    json["given_begin"].push_back(now);
    now += view.plan.ops[op].predicted_seconds;
  }
  return json;
}

OrderedJson peak_data(const PlanView& view) {
  std::vector<std::pair<int64_t, int64_t>> there;  // bytes, tensor
  const size_t at = peak_step(view);
  for (const Stay& stay : view.stays) {
    const bool resident = at == kNowhere && stay.begin == 0;
    if (resident || (stay.begin <= at && at < stay.end))
      there.emplace_back(view.plan.storages[stay.storage].bytes, stay.storage.index());
  }
  if (at != kNowhere && view.plan.ops[view.plan.steps[at].op].workspace_bytes > 0)
    there.emplace_back(view.plan.ops[view.plan.steps[at].op].workspace_bytes, -1);
  std::stable_sort(there.begin(), there.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  OrderedJson json = OrderedJson::array();
  for (const auto& [bytes, tensor] : there) json.push_back({{"tensor", tensor}, {"bytes", bytes}});
  return json;
}

OrderedJson actions_data(const PlanView& view, const PlanningFacts* facts,
                         const SweptFront* front) {
  std::vector<OrderedJson> groups;
  for (const ModuleActions& actions : actions_by_kind(view.plan))
    groups.push_back(group_data(actions));
  const PartsTable split = parts_of(view.plan, view.stays);
  for (const ModuleParts& parts : split.modules) groups.push_back(group_data(parts));
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return std::pair(worth_of(a, "bytes"), worth_of(a, "freed_bytes")) >
           std::pair(worth_of(b, "bytes"), worth_of(b, "freed_bytes"));
  });
  OrderedJson all = actions_json(view.actions);
  all.erase("modules");
  OrderedJson json;
  json["groups"] = groups;
  json["all"] = std::move(all);
  json["split"] = split.all.parts > 0 ? group_data(split.all) : OrderedJson();
  json["next_budget"] = next_budget(view.plan, facts, front);
  return json;
}

namespace {

// Of what ran, by kind of op: how many ops, and the seconds of all their runs.
OrderedJson measured_by_kind(const plan::Plan& plan, const MeasuredStep& measured) {
  struct Sum {
    int64_t ops = 0;
    double predicted = 0, measured = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const plan::PlanOpId o : plan.ops.ids()) {
    const MeasuredOp& op = measured.ops[o];
    if (op.runs == 0) continue;
    const auto runs = static_cast<double>(op.runs);
    Sum& sum = sums[plan.ops[o].kind];
    sum.ops += 1;
    sum.predicted += runs * plan.ops[o].predicted_seconds;
    sum.measured += runs * op.seconds;
  }
  OrderedJson json = OrderedJson::array();
  for (const auto& [kind, sum] : sums)
    json.push_back({{"kind", kind},
                    {"ops", sum.ops},
                    {"predicted_seconds", sum.predicted},
                    {"measured_seconds", sum.measured}});
  return json;
}

}  // namespace

OrderedJson measured_data(const PlanView& view, const MeasuredStep& measured) {
  OrderedJson json;
  json["device"] = measured.device;
  json["steps"] = measured.steps;
  for (const char* column : {"op_seconds", "op_runs"}) json[column] = OrderedJson::array();
  for (const MeasuredOp& op : measured.ops) {
    json["op_seconds"].push_back(op.runs > 0 ? OrderedJson(op.seconds) : OrderedJson());
    json["op_runs"].push_back(op.runs);
  }
  json["by_kind"] = measured_by_kind(view.plan, measured);
  json["step_seconds"] = measured.step_seconds;
  json["predicted_seconds"] = view.plan.claims.predicted_seconds;
  json["transfer_seconds"] = measured.transfer_seconds;
  json["hidden_seconds"] = measured.hidden_seconds();
  json["exposed_seconds"] = measured.exposed_seconds;
  return json;
}

}  // namespace lowtide::report

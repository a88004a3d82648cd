#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/printable.h"
#include "base/words.h"
#include "report/actions.h"
#include "report/budget.h"
#include "report/parts.h"
#include "report/profile.h"

namespace lowtide::report {
namespace {

constexpr size_t kTensorsShown = 10;

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// How far above the proven bound the plan is, and how much of the arena no tensor ever needs.
int64_t gap_bytes(const plan::Plan& plan) {
  return plan.claims.peak_bytes - plan.claims.lower_bound_bytes;
}
int64_t fragmentation_bytes(const plan::Plan& plan) {
  return plan.arena_bytes - plan.claims.peak_bytes;
}

// "4,096"
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > (number < 0 ? 4u : 3u);) digits.insert(at -= 3, ",");
  return digits;
}

// What is left between the peak and the certified bound: a percentage hides a small rest.
std::string gap_text(const plan::Plan& plan) {
  const int64_t gap = gap_bytes(plan);
  const std::string share = fmt::format("{:.2f} %", percent(gap, plan.claims.lower_bound_bytes));
  return gap == 0 ? "gap 0" : fmt::format("gap {} bytes ({})", grouped(gap), share);
}

bool optimal_by_search_only(const plan::Plan& plan, const PlanningFacts& facts) {
  return !plan.claims.order_proven && facts.search_bound_bytes == plan.claims.peak_bytes;
}

std::string_view order_status(const plan::Plan& plan, const PlanningFacts& facts) {
  return optimal_by_search_only(plan, facts) ? "proven by exhaustive search"
                                             : plan::name(facts.order_status);
}

std::string proof_text(const plan::Plan& plan, const PlanningFacts& facts) {
  if (plan.claims.order_proven) return "order proven optimal";
  if (optimal_by_search_only(plan, facts)) return "order optimal, proven by exhaustive search";
  if (facts.search_bound_bytes > plan.claims.lower_bound_bytes)
    return fmt::format("order not proven optimal; bound by search {} bytes",
                       grouped(facts.search_bound_bytes));
  return "order not proven optimal";
}

// How far the plan is from the best order; of a plan with reruns or transfers, what only those made
// possible.
std::string bound_text(const plan::Plan& plan, const PlanningFacts& facts) {
  const std::string bound = format_bytes(plan.claims.lower_bound_bytes);
  if (plan::reruns_or_moves(plan))
    return fmt::format("once   {}: proven, no order {} that runs each op once needs less\n", bound,
                       in_which_parts(facts));
  return fmt::format("bound  {}  {}  ({})\n", bound, gap_text(plan), proof_text(plan, facts));
}

int64_t count_given(const plan::Plan& plan, plan::PlanInitial::Kind kind) {
  return std::count_if(plan.values.begin(), plan.values.end(), [&](const plan::PlanValue& value) {
    return !value.producer.valid() && value.initial.kind == kind;
  });
}

std::string sizes(const plan::Plan& plan) {
  std::string text;
  for (const auto& [symbol, size] : plan.bindings) text += fmt::format(" {}={}", symbol, size);
  return text;
}

void append_peak(std::string& text, const plan::Plan& plan, const char* when,
                 const MemoryProfile& profile) {
  auto out = std::back_inserter(text);
  if (!profile.peak_op.valid()) return;
  const plan::PlanOp& op = plan.ops[profile.peak_op];
  fmt::format_to(out, "peak {}: step {} of {}, op '{}' ({}){}\n", when, profile.peak_step + 1,
                 profile.step_bytes.size(), op.name, op.kind,
                 op.module.empty() ? "" : " in " + op.module);
  for (size_t i = 0; i < std::min(kTensorsShown, profile.tensors.size()); ++i) {
    const TensorAtPeak& tensor = profile.tensors[i];
    fmt::format_to(out, "  {:>11}  {:<15}  {}{}\n", format_bytes(tensor.bytes),
                   name(tensor.category), tensor.name,
                   tensor.module.empty() ? "" : "  [" + tensor.module + "]");
  }
}

nlohmann::ordered_json profile_json(const plan::Plan& plan, const MemoryProfile& profile) {
  nlohmann::ordered_json json;
  json["peak_bytes"] = profile.peak_bytes;
  json["step"] = profile.peak_step;
  json["op"] = profile.peak_op.valid() ? plan.ops[profile.peak_op].name : "";
  for (size_t c = 0; c < kCategories; ++c)
    json["by_category"][std::string(name(static_cast<Category>(c)))] = profile.by_category[c];
  json["tensors"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < std::min(kTensorsShown, profile.tensors.size()); ++i) {
    const TensorAtPeak& tensor = profile.tensors[i];
    json["tensors"].push_back({{"name", tensor.name},
                               {"module", tensor.module},
                               {"category", name(tensor.category)},
                               {"bytes", tensor.bytes}});
  }
  return json;
}

}  // namespace

// A split step is compared with the whole one; the lines after it speak of the split one.
std::string parts_text(const plan::Plan& plan, const PlanningFacts& facts) {
  std::string text;
  if (facts.query_blocks > 1)
    text = fmt::format("blocks {} of queries in each attention\n", facts.query_blocks);
  for (const std::string& cut : facts.cuts) text += fmt::format("cut    {}\n", cut);
  if (facts.split.empty()) return text;
  if (facts.whole_seconds <= 0)
    return text + fmt::format("parts  {}; bounds are those of the step in parts\n", facts.split);
  const double more = plan.claims.predicted_seconds / facts.whole_seconds - 1;
  return text + fmt::format(
                    "parts  {}{}: {:+.2f} % time over each op once and whole ({:.1f} ms); "
                    "bounds are those of the step in parts\n",
                    facts.split,
                    facts.ops_in_parts > 0 ? fmt::format(" of {} ops", facts.ops_in_parts) : "",
                    100 * more, facts.whole_seconds * 1e3);
}

std::string rewrites_text(const PlanningFacts& facts) {
  std::string text;
  for (const Rewritten& one : facts.rewrites)
    text +=
        fmt::format("{} changed {} op{}: peak in the given order {}{}, each op once {:+.3f} ms\n",
                    one.name, one.ops, one.ops == 1 ? "" : "s", one.peak_bytes < 0 ? "-" : "+",
                    format_bytes(std::abs(one.peak_bytes)), one.seconds * 1e3);
  return text;
}

// Where the seconds come from, as the plan itself says; nothing of a plan that does not.
std::string costs_of(const plan::Plan& plan) {
  const auto fact = [&](std::string_view key) {
    const auto found = plan.provenance.find(key);
    return found == plan.provenance.end() ? std::string() : found->second;
  };
  const std::string model = fact("cost_model");
  if (model.empty()) return {};
  const std::string measured = fact("costs");
  return fmt::format("{}{} of {}", measured.empty() ? "" : measured + "; the rest by the ", model,
                     fact("device"));
}

namespace {

// "BYTES SECONDS BOUND", of a budget above the plan's; what else a file may say is passed over.
std::optional<MoreMemory> more_memory_in(std::string_view text, const plan::Claims& claims) {
  const std::vector<std::string_view> words = words_of(text);
  MoreMemory more;
  const auto reads = [](std::string_view word, auto& number) {
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), number);
    return failed == std::errc() && end == word.data() + word.size();
  };
  if (words.size() != 3 || !reads(words[0], more.budget_bytes) || !reads(words[1], more.seconds) ||
      !reads(words[2], more.lower_bound_seconds))
    return {};
  const bool sane = claims.budget_bytes && more.budget_bytes > *claims.budget_bytes &&
                    std::isfinite(more.seconds) && more.lower_bound_seconds >= 0 &&
                    more.lower_bound_seconds <= more.seconds;
  return sane ? std::optional(more) : std::nullopt;
}

}  // namespace

PlanningFacts facts_in_file(const plan::Plan& plan) {
  const auto fact = [&](const char* key) -> std::string_view {
    const auto found = plan.provenance.find(key);
    return found == plan.provenance.end() ? std::string_view() : found->second;
  };
  PlanningFacts facts;
  facts.split = fact("split");
  facts.more_memory = more_memory_in(fact("more_memory"), plan.claims);
  facts.whole_seconds = seconds_in_one_part(plan).value_or(0);
  for (const std::string_view cut : words_of(fact("cuts"))) facts.cuts.emplace_back(cut);
  const std::string_view blocks = fact("query_blocks");
  std::from_chars(blocks.data(), blocks.data() + blocks.size(), facts.query_blocks);
  return facts;
}

// How long it took; nothing of a plan that was loaded.
std::string planning_text(const PlanningFacts& facts) {
  if (facts.planning_seconds <= 0) return {};
  std::string text = fmt::format("\nplanned in {:.3f} s (read {:.3f}", facts.planning_seconds,
                                 facts.reading_seconds);
  for (const auto& [stage, seconds] : facts.stages)
    text += fmt::format(", {} {:.3f}", stage, seconds);
  return text + ")\n";
}

std::string verdict_text(const plan::Plan& plan, const PlanningFacts& facts) {
  const plan::Claims& claims = plan.claims;
  const MemoryProfile before = profile_as_given(plan), after = profile_planned(plan);
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}:{}  {} ops, {} values\n", plan.model, sizes(plan), plan.ops.size(),
                 plan.values.size());
  fmt::format_to(out, "peak   {} -> {}  ({:+.1f} %)\n", format_bytes(claims.peak_before_bytes),
                 format_bytes(claims.peak_bytes),
                 percent(claims.peak_bytes - claims.peak_before_bytes, claims.peak_before_bytes));
  text += rewrites_text(facts);
  text += parts_text(plan, facts);
  text += bound_text(plan, facts);
  if (claims.budget_bytes) {
    text += budget_text(plan, facts);
    fmt::format_to(out, "packing leaves {:.2f} % of the arena unused\n",
                   percent(fragmentation_bytes(plan), plan.arena_bytes));
  } else {
    fmt::format_to(out, "arena  {} ({} bytes)  fragmentation {:.2f} %\n",
                   format_bytes(plan.arena_bytes), plan.arena_bytes,
                   percent(fragmentation_bytes(plan), plan.arena_bytes));
    fmt::format_to(out, "predicted step time {:.1f} ms\n", claims.predicted_seconds * 1e3);
  }
  if (const std::string costs = costs_of(plan); !costs.empty())
    fmt::format_to(out, "costs  {}\n", printable(costs, kMostCosts));
  if (facts.cut_short) text += "cut short: the search was stopped, this is the best it had found\n";
  text += "\n";
  fmt::format_to(out, "at the peak         before        after\n");
  for (size_t c = 0; c < kCategories; ++c)
    fmt::format_to(out, "{:<15} {:>11}  {:>11}\n", name(static_cast<Category>(c)),
                   format_bytes(before.by_category[c]), format_bytes(after.by_category[c]));
  text += "\n";
  append_peak(text, plan, "before", before);
  append_peak(text, plan, "after", after);
  const std::string actions = actions_text(actions_of(plan));
  if (!actions.empty()) text += "\n" + actions;
  text += planning_text(facts);
  for (const std::string& note : facts.notes) fmt::format_to(out, "note: {}\n", note);
  return text;
}

std::string verdict_json(const plan::Plan& plan, const PlanningFacts& facts) {
  const plan::Claims& claims = plan.claims;
  nlohmann::ordered_json json;
  json["parts"] = facts.parts;
  json["ops_in_parts"] = facts.ops_in_parts;
  if (!facts.split.empty()) json["split"] = facts.split;
  if (facts.query_blocks > 1) json["query_blocks"] = facts.query_blocks;
  if (!facts.cuts.empty()) json["cuts"] = facts.cuts;
  if (facts.whole_seconds > 0 && !facts.split.empty())
    json["whole_once_seconds"] = facts.whole_seconds;
  json["rewrites"] = nlohmann::ordered_json::object();
  for (const Rewritten& one : facts.rewrites)
    json["rewrites"][one.name] = {
        {"ops", one.ops}, {"peak_bytes", one.peak_bytes}, {"seconds", one.seconds}};
  json["model"] = plan.model;
  json["dims"] = plan.bindings;
  json["ops"] = plan.ops.size();
  json["values"] = plan.values.size();
  json["peak_before_bytes"] = claims.peak_before_bytes;
  json["peak_bytes"] = claims.peak_bytes;
  json["lower_bound_bytes"] = claims.lower_bound_bytes;
  json["gap"] = percent(gap_bytes(plan), claims.lower_bound_bytes) / 100;
  if (plan::reruns_or_moves(plan)) json["gap"] = nullptr;  // the bound is of other schedules
  json["order_proven"] = claims.order_proven;
  json["search_bound_bytes"] = facts.search_bound_bytes;
  json["order_status"] = order_status(plan, facts);
  json["pack_status"] = plan::name(facts.pack_status);
  json["arena_bytes"] = plan.arena_bytes;
  json["fragmentation_bytes"] = fragmentation_bytes(plan);
  json["alignment_bytes"] = plan.alignment_bytes;
  json["missing_weights"] = count_given(plan, plan::PlanInitial::Kind::kSeeded);
  json["external_weights"] = count_given(plan, plan::PlanInitial::Kind::kExternal);
  json["predicted_step_seconds"] = claims.predicted_seconds;
  json["costs"] = costs_of(plan);
  add_budget(json, plan, facts);
  json["cut_short"] = facts.cut_short;
  json["before"] = profile_json(plan, profile_as_given(plan));
  json["after"] = profile_json(plan, profile_planned(plan));
  json["actions"] = actions_json(actions_of(plan));
  json["order_work_units"] = facts.order_units;
  json["pack_work_units"] = facts.pack_units;
  json["schedule_work_units"] = facts.schedule_units;
  json["levers_not_used"] = facts.unused_levers;
  json["notes"] = facts.notes;
  json["reading_seconds"] = facts.reading_seconds;
  json["planning_seconds"] = facts.planning_seconds;
  for (const auto& [stage, seconds] : facts.stages) json["stage_seconds"][stage] = seconds;
  return json.dump(2) + "\n";
}

}  // namespace lowtide::report

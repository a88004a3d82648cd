// What `lowtide explain` says, for people and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/explain.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kNamesShown = 8;
constexpr size_t kRowsShown = 12;

// "'a', 'b' and 3 more", at most so many of them.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(names[i]));
  if (names.size() > kNamesShown) text += fmt::format(" and {} more", names.size() - kNamesShown);
  return text;
}

std::string in_module(const std::string& module) {
  return module.empty() ? "" : " in " + printable(module);
}

std::string source_text(const std::string& source) {
  return source.empty() ? "" : ", from " + printable(source);
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f} ms", seconds * 1e3);
}

const char* plural(int64_t count) {
  return count == 1 ? "" : "s";
}

std::string_view word(StayBegin why) {
  switch (why) {
    case StayBegin::kMade:
      return "made";
    case StayBegin::kMadeAgain:
      return "made again";
    case StayBegin::kLoaded:
      return "loaded";
    case StayBegin::kResident:
      return "there before the step";
  }
  return "";
}

// What it is worth that something runs again or moves.
std::string worth_text(const Worth& worth) {
  const int64_t more = worth.peak_without_bytes - worth.peak_bytes;
  if (more <= 0) return "without that the peak would not be higher: others set it\n";
  return fmt::format("without that the peak would be {} higher: {} in place of {}\n",
                     format_bytes(more), format_bytes(worth.peak_without_bytes),
                     format_bytes(worth.peak_bytes));
}

// Why it is kept although nothing uses it for a while.
std::string away_text(const TensorStory& story) {
  const Away& away = *story.away;
  const int64_t less = away.peak_bytes - away.peak_without_bytes;
  std::string text = fmt::format("made again at plan step {} it would cost {}", story.idle->end,
                                 milliseconds(away.seconds));
  if (!away.missing.empty())
    text += fmt::format(", and {} would have to come back for that", listed(away.missing));
  text += less > 0 ? fmt::format("; the peak would be {} lower", format_bytes(less))
                   : std::string("; the peak would be as high: others set it");
  if (!story.budget_bytes) return text + ". No budget asks for that\n";
  return text + fmt::format(". The plan keeps its budget of {} without that\n",
                            format_bytes(*story.budget_bytes));
}

// One line: what becomes of it, and why that is so.
std::string policy_text(const TensorStory& story) {
  if (!story.pieces.empty()) return fmt::format("lies in its pieces {}\n", listed(story.pieces));
  std::string text;
  if (story.reruns > 0)
    text += fmt::format("made again {} time{}", story.reruns, plural(story.reruns));
  if (story.stores + story.loads > 0)
    text += fmt::format("{}moved: {} out and {} in", text.empty() ? "" : ", ", story.stores,
                        story.loads);
  if (!text.empty()) {
    text += fmt::format(", which costs {}\n", milliseconds(story.paid_seconds));
    return story.worth ? text + worth_text(*story.worth) : text;
  }
  if (story.resident) return "kept: it is there before the step and stays\n";
  text = story.output ? "kept: a result of the step stays to its end\n"
                      : "kept from where it is made to its last use\n";
  return story.away ? text + away_text(story) : text;
}

std::string stay_line(const StayStory& told, int64_t bytes) {
  std::string text = fmt::format(
      "  plan steps {:>6} to {:>6}  {:>10.3f} to {:>10.3f} ms  at {} to {}  {}", told.stay.begin,
      told.stay.end == 0 ? 0 : told.stay.end - 1, told.when.begin * 1e3, told.when.end * 1e3,
      told.stay.address, told.stay.address + bytes, word(told.stay.why));
  if (!told.from.empty()) text += fmt::format(", in the place of '{}'", printable(told.from));
  if (!told.to.empty()) text += fmt::format(", then taken over by '{}'", printable(told.to));
  return text + "\n";
}

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson worth_json(const std::optional<Worth>& worth) {
  if (!worth) return {};
  return {{"peak_bytes", worth->peak_bytes}, {"peak_without_bytes", worth->peak_without_bytes}};
}

OrderedJson stay_json(const StayStory& told) {
  OrderedJson json;
  json["begin_step"] = told.stay.begin;
  json["end_step"] = told.stay.end;
  json["begin_seconds"] = told.when.begin;
  json["end_seconds"] = told.when.end;
  json["address"] = told.stay.address;
  json["why"] = word(told.stay.why);
  json["took_over"] = text_or_null(told.from);
  json["taken_over_by"] = text_or_null(told.to);
  return json;
}

}  // namespace

std::string print(const TensorStory& story) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "tensor '{}': {}, {} ({} bytes), {}{}\n", printable(story.name), story.shape,
                 format_bytes(story.bytes), story.bytes, story.category, in_module(story.module));
  if (story.asked != story.name)
    fmt::format_to(out, "'{}' is a view or an update of it\n", printable(story.asked));
  if (!story.whole.empty()) fmt::format_to(out, "a piece of '{}'\n", printable(story.whole));
  if (!story.made_by.empty())
    fmt::format_to(out, "made by op '{}' ({}) in {}{}\n", printable(story.made_by),
                   printable(story.made_by_kind), milliseconds(story.make_seconds),
                   source_text(story.source));
  if (story.read_by.empty())
    text += story.output ? "read by no op: a result of the step\n" : "read by no op\n";
  else
    fmt::format_to(out, "read by {}: {}\n",
                   story.read_by.size() == 1 ? "1 op" : fmt::format("{} ops", story.read_by.size()),
                   listed(story.read_by));
  text += policy_text(story);
  if (story.peak_step)
    fmt::format_to(out, "there at the peak, step {} of {} (plan step {})\n", story.peak_run,
                   story.step_runs, *story.peak_step);
  if (story.idle) {
    fmt::format_to(out, "longest unused from plan step {} to plan step {}: {}", story.idle->begin,
                   story.idle->end, milliseconds(story.idle->seconds));
    text += "\n";
  }
  for (size_t i = 0; i < std::min(story.stays.size(), kRowsShown); ++i)
    text += stay_line(story.stays[i], story.bytes);
  if (story.stays.size() > kRowsShown)
    fmt::format_to(out, "  ... and {} more stays (--json)\n", story.stays.size() - kRowsShown);
  return text;
}

std::string print(const OpStory& story) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "op '{}': {}, {}{}, {} a run", printable(story.name), printable(story.kind),
                 story.phase, in_module(story.module), milliseconds(story.seconds));
  if (story.workspace_bytes > 0)
    fmt::format_to(out, ", workspace {}", format_bytes(story.workspace_bytes));
  text += source_text(story.source) + "\n";
  if (story.only_views) text += "makes views only: it computes nothing\n";
  if (!story.inputs.empty()) fmt::format_to(out, "reads {}\n", listed(story.inputs));
  fmt::format_to(out, "makes {}\n", listed(story.outputs));
  if (!story.took_over.empty()) fmt::format_to(out, "in place: {}\n", listed(story.took_over));
  const auto runs = static_cast<int64_t>(story.runs.size());
  if (runs > 1 && !story.only_views)
    fmt::format_to(out, "runs {} times, so {} again, which costs {}\n", runs, runs - 1,
                   milliseconds(static_cast<double>(runs - 1) * story.seconds));
  if (story.worth) text += worth_text(*story.worth);
  for (size_t i = 0; i < std::min(story.runs.size(), kRowsShown); ++i) {
    const RunStory& run = story.runs[i];
    if (run.number > 0) fmt::format_to(out, "  step {:>6} of {}", run.number, story.step_runs);
    fmt::format_to(out, "  plan step {:>6}  {:>10.3f} to {:>10.3f} ms  {} on the device", run.step,
                   run.when.begin * 1e3, run.when.end * 1e3, format_bytes(run.bytes));
    if (story.workspace_bytes > 0) fmt::format_to(out, ", workspace at {}", run.workspace_address);
    text += "\n";
  }
  if (story.runs.size() > kRowsShown)
    fmt::format_to(out, "  ... and {} more runs (--json)\n", story.runs.size() - kRowsShown);
  return text;
}

std::string print(const ModuleStory& story) {
  std::string text;
  auto out = std::back_inserter(text);
  const std::string shown = story.name.empty() ? "all modules" : printable(story.name);
  fmt::format_to(out, "module {}: {} module{}, {} ops that take {} once, {} tensors of {}\n", shown,
                 story.modules, plural(story.modules), story.ops, milliseconds(story.seconds),
                 story.tensors, format_bytes(story.bytes));
  text += "what the step makes there is";
  for (size_t i = 0; i < story.policies.size(); ++i)
    fmt::format_to(out, "{} {}: {}", i == 0 ? "" : ",", name(story.policies[i].first),
                   story.policies[i].second);
  text += story.policies.empty() ? " nothing\n" : "\n";
  const ModuleActions& actions = story.actions;
  if (story.worth) {
    fmt::format_to(out, "{} rerun{}, {} moved out, {} moved in: {} paid\n", actions.reruns,
                   plural(actions.reruns), format_bytes(actions.stored_bytes),
                   format_bytes(actions.loaded_bytes), milliseconds(actions.paid_seconds()));
    text += worth_text(*story.worth);
  }
  fmt::format_to(out, "at the peak: {} in {} tensor{}\n", format_bytes(story.bytes_at_peak),
                 story.at_peak.size(), plural(static_cast<int64_t>(story.at_peak.size())));
  for (size_t i = 0; i < std::min(story.at_peak.size(), kRowsShown); ++i)
    fmt::format_to(out, "  {:>11}  {}\n", format_bytes(story.at_peak[i].second),
                   printable(story.at_peak[i].first));
  if (story.at_peak.size() > kRowsShown)
    fmt::format_to(out, "  ... and {} more (--json)\n", story.at_peak.size() - kRowsShown);
  return text;
}

OrderedJson to_json(const TensorStory& story) {
  OrderedJson json;
  json["tensor"] = story.name;
  json["asked"] = story.asked;
  json["shape"] = story.shape;
  json["module"] = story.module;
  json["category"] = story.category;
  json["bytes"] = story.bytes;
  json["made_by"] = text_or_null(story.made_by);
  json["source"] = text_or_null(story.source);
  json["read_by"] = story.read_by;
  json["pieces"] = story.pieces;
  json["whole"] = text_or_null(story.whole);
  json["output"] = story.output;
  json["resident"] = story.resident;
  json["policy"] = name(story.policy);
  json["reruns"] = story.reruns;
  json["stores"] = story.stores;
  json["loads"] = story.loads;
  json["paid_seconds"] = story.paid_seconds;
  json["make_seconds"] = story.make_seconds;
  json["peak_step"] = story.peak_step ? OrderedJson(*story.peak_step) : OrderedJson();
  json["peak_run"] = story.peak_step ? OrderedJson(story.peak_run) : OrderedJson();
  json["idle"] = OrderedJson();
  if (story.idle)
    json["idle"] = {{"begin_step", story.idle->begin},
                    {"end_step", story.idle->end},
                    {"seconds", story.idle->seconds}};
  json["away"] = OrderedJson();
  if (story.away)
    json["away"] = {{"peak_bytes", story.away->peak_bytes},
                    {"peak_without_bytes", story.away->peak_without_bytes},
                    {"seconds", story.away->seconds},
                    {"missing", story.away->missing}};
  json["worth"] = worth_json(story.worth);
  json["stays"] = OrderedJson::array();
  for (const StayStory& told : story.stays) json["stays"].push_back(stay_json(told));
  return json;
}

OrderedJson to_json(const OpStory& story) {
  OrderedJson json;
  json["op"] = story.name;
  json["kind"] = story.kind;
  json["module"] = story.module;
  json["source"] = text_or_null(story.source);
  json["phase"] = story.phase;
  json["seconds"] = story.seconds;
  json["workspace_bytes"] = story.workspace_bytes;
  json["only_views"] = story.only_views;
  json["inputs"] = story.inputs;
  json["outputs"] = story.outputs;
  json["took_over"] = story.took_over;
  json["worth"] = worth_json(story.worth);
  json["runs"] = OrderedJson::array();
  for (const RunStory& run : story.runs) {
    OrderedJson one = {{"step", run.step},
                       {"number", run.number},
                       {"begin_seconds", run.when.begin},
                       {"end_seconds", run.when.end},
                       {"bytes", run.bytes}};
    one["workspace_address"] =
        story.workspace_bytes > 0 ? OrderedJson(run.workspace_address) : OrderedJson();
    json["runs"].push_back(std::move(one));
  }
  return json;
}

OrderedJson to_json(const ModuleStory& story) {
  const ModuleActions& actions = story.actions;
  OrderedJson json;
  json["module"] = story.name;
  json["modules"] = story.modules;
  json["ops"] = story.ops;
  json["seconds"] = story.seconds;
  json["tensors"] = story.tensors;
  json["bytes"] = story.bytes;
  json["bytes_at_peak"] = story.bytes_at_peak;
  json["policies"] = OrderedJson::object();
  for (const auto& [policy, count] : story.policies) json["policies"][name(policy)] = count;
  json["reruns"] = actions.reruns;
  json["stored_bytes"] = actions.stored_bytes;
  json["loaded_bytes"] = actions.loaded_bytes;
  json["paid_seconds"] = actions.paid_seconds();
  json["worth"] = worth_json(story.worth);
  json["at_peak"] = OrderedJson::array();
  for (const auto& [tensor, bytes] : story.at_peak)
    json["at_peak"].push_back({{"tensor", tensor}, {"bytes", bytes}});
  return json;
}

}  // namespace lowtide::report

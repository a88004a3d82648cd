// The table of actions for people and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "report/actions.h"

namespace lowtide::report {
namespace {

constexpr size_t kModulesShown = 12;
constexpr size_t kNameShown = 36;  // of a module's name

bool acts(const ModuleActions& actions) {
  return actions.reruns + actions.stores + actions.loads > 0;
}

// What saves most bytes of the peak for each second first; what costs nothing before all others.
bool is_more_worthwhile(const ModuleActions* a, const ModuleActions* b) {
  const auto worth = [](const ModuleActions& actions) {
    const auto bytes = static_cast<double>(actions.benefit_bytes);
    if (bytes <= 0) return 0.0;
    const double seconds = actions.paid_seconds();
    return seconds > 0 ? bytes / seconds : std::numeric_limits<double>::infinity();
  };
  return worth(*a) > worth(*b);
}

// Bytes of the peak for each millisecond of the step: what the group is worth.
std::string worth(const ModuleActions& actions) {
  const double milliseconds = actions.paid_seconds() * 1e3;
  if (milliseconds <= 0) return "free";
  return format_bytes(
      static_cast<int64_t>(static_cast<double>(actions.benefit_bytes) / milliseconds));
}

std::string line(const std::string& name, const ModuleActions& actions) {
  std::string shown = name.empty() ? "(no module)" : name;
  if (shown.size() > kNameShown) shown = "..." + shown.substr(shown.size() - kNameShown + 3);
  return fmt::format(
      "{:<36} {:>6} {:>11} {:>11} {:>6} {:>9.2f} {:>11} {:>11}\n", shown, actions.reruns,
      format_bytes(actions.stored_bytes), format_bytes(actions.loaded_bytes), actions.moved_ops,
      actions.paid_seconds() * 1e3, format_bytes(actions.benefit_bytes), worth(actions));
}

nlohmann::ordered_json members(const ModuleActions& actions) {
  const double paid = actions.paid_seconds();
  nlohmann::ordered_json json;
  json["reruns"] = actions.reruns;
  json["rerun_seconds"] = actions.rerun_seconds;
  json["stores"] = actions.stores;
  json["loads"] = actions.loads;
  json["stored_bytes"] = actions.stored_bytes;
  json["loaded_bytes"] = actions.loaded_bytes;
  json["transfer_seconds"] = actions.transfer_seconds;
  json["waited_seconds"] = actions.waited_seconds;
  json["copying_seconds"] = actions.copying_seconds;
  json["moved_ops"] = actions.moved_ops;
  json["freed_bytes"] = actions.freed_bytes;
  json["benefit_bytes"] = actions.benefit_bytes;
  json["benefit_bytes_per_second"] = nullptr;
  if (paid > 0)
    json["benefit_bytes_per_second"] = static_cast<double>(actions.benefit_bytes) / paid;
  return json;
}

}  // namespace

std::string actions_text(const ActionTable& table) {
  if (!acts(table.all)) return "";
  std::string text =
      fmt::format("{:<36} {:>6} {:>11} {:>11} {:>6} {:>9} {:>11} {:>11}\n", "what made it fit",
                  "reruns", "moved out", "moved in", "moved", "cost", "saves", "saves");
  text += fmt::format("{:<36} {:>6} {:>11} {:>11} {:>6} {:>9} {:>11} {:>11}\n", "by module", "", "",
                      "", "ops", "ms", "at the peak", "per ms");
  std::vector<const ModuleActions*> modules;
  for (const ModuleActions& actions : table.modules)
    if (acts(actions)) modules.push_back(&actions);
  std::stable_sort(modules.begin(), modules.end(), is_more_worthwhile);
  const size_t shown = std::min(modules.size(), kModulesShown);
  for (size_t i = 0; i < shown; ++i) text += line(modules[i]->module, *modules[i]);
  if (modules.size() > shown) text += fmt::format("... and {} more\n", modules.size() - shown);
  return text + line(fmt::format("all {}", modules.size()), table.all);
}

nlohmann::ordered_json actions_json(const ActionTable& table) {
  nlohmann::ordered_json json = members(table.all);
  json["modules"] = nlohmann::ordered_json::array();
  for (const ModuleActions& actions : table.modules) {
    nlohmann::ordered_json one;
    one["module"] = actions.module;
    one.update(members(actions));
    json["modules"].push_back(std::move(one));
  }
  return json;
}

}  // namespace lowtide::report

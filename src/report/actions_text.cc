// The table of actions for people and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
  const auto count =
      static_cast<size_t>(std::count_if(table.modules.begin(), table.modules.end(), acts));
  size_t shown = 0;
  for (const ModuleActions& actions : table.modules)
    if (acts(actions) && shown < kModulesShown) {
      text += line(actions.module, actions);
      ++shown;
    }
  if (count > shown) text += fmt::format("... and {} more\n", count - shown);
  return text + line(fmt::format("all {}", count), table.all);
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

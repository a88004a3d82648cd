#include "report/data/beside.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/modules.h"
#include "report/uses.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;
using plan::PlanStorageId;

struct Treated {
  std::string module;
  int64_t bytes = 0;
  std::array<int, 2> policy = {-1, -1};  // in each plan; -1: not there
  std::array<double, 2> paid_seconds = {0, 0};
};

void take(const plan::Plan& plan, size_t index, std::map<std::string, Treated>& tensors) {
  const auto uses = uses_of(plan, timeline_of(plan));
  const auto modules = modules_of(plan);
  for (PlanStorageId s : plan.storages.ids()) {
    const plan::PlanStorage& storage = plan.storages[s];
    if (storage.bytes == 0) continue;  // a whole
    Treated& treated = tensors[plan.values[storage.root].name];
    treated.module = modules[s];
    treated.bytes = std::max(treated.bytes, storage.bytes);
    treated.policy[index] = static_cast<int>(uses[s].policy);
    treated.paid_seconds[index] = uses[s].paid_seconds;
  }
}

}  // namespace

OrderedJson beside_data(const plan::Plan& plan, const plan::Plan& other) {
  std::map<std::string, Treated> tensors;
  take(plan, 0, tensors);
  take(other, 1, tensors);
  std::vector<std::pair<std::string, Treated>> different;
  for (const auto& tensor : tensors)
    if (tensor.second.policy[0] != tensor.second.policy[1]) different.push_back(tensor);
  std::stable_sort(different.begin(), different.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  OrderedJson rows;
  for (const char* column : {"name", "module", "bytes"}) rows[column] = OrderedJson::array();
  for (const char* column : {"policy", "seconds"})
    rows[column] = {OrderedJson::array(), OrderedJson::array()};
  for (const auto& [name, treated] : different) {
    rows["name"].push_back(name);
    rows["module"].push_back(treated.module);
    rows["bytes"].push_back(treated.bytes);
    for (size_t i : {0, 1}) {
      rows["policy"][i].push_back(treated.policy[i]);
      rows["seconds"][i].push_back(treated.paid_seconds[i]);
    }
  }
  OrderedJson json;
  json["rows"] = std::move(rows);
  json["same"] = tensors.size() - different.size();
  return json;
}

}  // namespace lowtide::report

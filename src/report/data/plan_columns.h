// The long lists of a report: ops, tensors, steps, stays and transfers of one plan, as columns.
//
// Internal to src/report/data.
//
// Tests: report_data_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "report/actions.h"
#include "report/profile.h"
#include "report/stays.h"
#include "report/timeline.h"
#include "report/uses.h"

namespace lowtide::report {

// Words by number, in the order in which they are first asked for.
class WordList {
 public:
  int64_t number_of(const std::string& word);
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::string> words_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

// A plan with everything that is found out about it once. Borrows the plan.
struct PlanView {
  explicit PlanView(const plan::Plan& plan);

  const plan::Plan& plan;
  Timeline timeline;
  std::vector<Stay> stays;
  std::vector<int64_t> step_bytes;
  MemoryProfile planned, given;
  IdVector<plan::PlanStorageId, StorageUse> uses;
  ActionTable actions;
  WordList modules, kinds, sources;  // "" is module 0 and source 0; all of the plan's
  IdVector<plan::PlanStorageId, int64_t> module_of_storage;
  IdVector<plan::PlanOpId, int64_t> module_of_op;
};

// "categories", "modules", "kinds", "sources", "phases", "policies", "ops", "tensors", "steps",
// "stays", "transfers", "tiers".
void add_columns(nlohmann::ordered_json& json, const PlanView& view);

}  // namespace lowtide::report

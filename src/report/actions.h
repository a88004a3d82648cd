// What a plan does beyond running each op once in the given order, by module: ops that run again,
// buffers that move to the slow tier, ops that run at another time; what each group costs and what
// it is worth. Everything is read off the plan's steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

struct ModuleActions {
  std::string module;
  int64_t reruns = 0;
  double rerun_seconds = 0;
  int64_t stores = 0, loads = 0;
  int64_t stored_bytes = 0, loaded_bytes = 0;
  double transfer_seconds = 0;  // on the link, hidden or not
  int64_t moved_ops = 0;        // run out of the given order: not in the longest part that kept it
  int64_t freed_bytes = 0;      // largest sum of this group's buffers that are away at one time
  int64_t benefit_bytes = 0;    // by how much the peak would rise if they all stayed
};

struct ActionTable {
  std::vector<ModuleActions> modules;  // by benefit, then by what is freed, then by name
  ModuleActions all;                   // sums; freed and benefit of all together
};

ActionTable actions_of(const plan::Plan& plan);

}  // namespace lowtide::report

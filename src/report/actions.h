// What a plan does beyond running each op once in the given order, by module: ops that run again,
// buffers that move to the slow tier, ops that run at another time; what each group costs and what
// it is worth. Everything is read off the plan's steps.
//
// A group is worth by how much the peak would rise without it (report/what_if.h). Groups overlap:
// at a moment that is full each of them is needed, so their benefits do not add up, and `all` is
// replayed for itself. It costs the time of its reruns, the time in which ops wait for its
// transfers, and what the copies take from computing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

enum class ActionKind : uint8_t { kAny, kRecompute, kMove };

struct ModuleActions {
  std::string module;
  ActionKind kind = ActionKind::kAny;
  int64_t reruns = 0;  // of ops that compute something
  double rerun_seconds = 0;
  int64_t stores = 0, loads = 0;
  int64_t stored_bytes = 0, loaded_bytes = 0;
  double transfer_seconds = 0;  // on the link, hidden or not
  double waited_seconds = 0;    // ops waited that long for them
  double copying_seconds = 0;   // that copies kept the processor from computing
  int64_t moved_ops = 0;        // run out of the given order: not in the longest part that kept it
  int64_t freed_bytes = 0;      // most bytes that are away at one time
  int64_t benefit_bytes = 0;    // by how much the peak would rise without reruns and transfers

  double paid_seconds() const { return rerun_seconds + waited_seconds + copying_seconds; }
};

struct ActionTable {
  std::vector<ModuleActions> modules;  // by benefit, then by what is freed, then by name
  ModuleActions all;                   // sums; freed and benefit of all together
};

ActionTable actions_of(const plan::Plan& plan);

// Adds what adds up; freed and benefit bytes do not (they overlap).
void add(const ModuleActions& part, ModuleActions& sum);

// What is made again and what moves of a module as groups of their own, each weighed alone; what
// saves most bytes for its time first. Without ops that only run at another time.
std::vector<ModuleActions> actions_by_kind(const plan::Plan& plan);

// The groups that save most bytes for their time first, one line each; empty where nothing runs
// again or moves.
std::string actions_text(const ActionTable& table);
nlohmann::ordered_json actions_json(const ActionTable& table);

}  // namespace lowtide::report

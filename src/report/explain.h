// What a plan does with one tensor, one op or one module, and why: where it lies and when, who
// makes and reads it, whether it is kept, made again or moved, what that costs, and what the peak
// would be without (what_if.h). The answers of `lowtide explain`, as text and as JSON
// (docs/formats.md, "explain --json").
//
// Steps are positions in the plan's list of steps, which also has frees and transfers. The verdict
// and the report's page count those that compute something, from 1: the text says which it means.
//
// A tensor is named by any value that lies in it: its own, a view of it, an update. A module is all
// modules whose name begins with its path: "h.0" is "h.0.attn" too.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"
#include "report/actions.h"
#include "report/stays.h"
#include "report/timeline.h"
#include "report/uses.h"

namespace lowtide::report {

// A stay with its times and with whose buffer it took over, and who took over its own.
struct StayStory {
  Stay stay = {};
  Moment when = {};  // from the beginning of its first step to the end of its last one
  std::string from = {}, to = {};  // names; empty: nobody
};

// By how much the peak would rise if this were neither made again nor moved.
struct Worth {
  int64_t peak_bytes = 0, peak_without_bytes = 0;
};

// The longest stretch of one stay in which nothing makes, reads or moves it.
struct Idle {
  size_t begin = 0, end = 0;  // steps: the use before it and the one behind it
  double seconds = 0;         // between them
};

// What would be if a kept tensor were made again before it is used behind its longest idle stretch,
// and not there in between; the rest of the plan as it is.
struct Away {
  int64_t peak_bytes = 0, peak_without_bytes = 0;
  double seconds = 0;                     // of the op that makes it
  std::vector<std::string> missing = {};  // what that op reads and is not there: it comes on top
};

struct TensorStory {
  std::string name = {},
              asked = {};  // the storage's own value; what was asked for, which may be a view
  std::string shape = {}, module = {}, category = {};
  int64_t bytes = 0;
  std::string made_by = {}, made_by_kind = {};  // empty: there before the step
  std::string source = {};                      // of the op that makes it; may be empty
  std::vector<std::string> read_by = {};        // ops
  std::vector<std::string> pieces = {};         // of a whole
  std::string whole = {};                       // that it is a piece of; empty: none
  bool output = false, resident = false;
  Policy policy = Policy::kKept;
  int64_t reruns = 0, stores = 0, loads = 0;
  double paid_seconds = 0;
  double make_seconds = 0;  // of the op that makes it, once
  std::vector<StayStory> stays = {};
  std::optional<size_t> peak_step = {};  // it is there then
  size_t peak_run = 0, step_runs = 0;    // that step among those that compute something, from 1
  std::optional<Idle> idle = {};
  std::optional<Worth> worth = {};  // of its reruns and transfers, where there are any
  std::optional<Away> away = {};    // of what the step makes, keeps and does not use for a while
  std::optional<int64_t> budget_bytes = {};  // of the plan
};

struct RunStory {
  size_t step = 0;
  size_t number = 0;  // among the steps that compute something, from 1; 0: it makes views
  Moment when = {};
  int64_t bytes = 0;              // on the device while it runs
  int64_t workspace_address = 0;  // where it has workspace
};

struct OpStory {
  std::string name = {}, kind = {}, module = {}, source = {}, phase = {};
  double seconds = 0;  // of one run
  int64_t workspace_bytes = 0;
  bool only_views = false;
  std::vector<std::string> inputs = {}, outputs = {};
  std::vector<std::string> took_over = {};  // "y over x", once for each pair
  std::vector<RunStory> runs = {};
  size_t step_runs = 0;             // steps of the plan that compute something
  std::optional<Worth> worth = {};  // of its reruns, where there are any
};

struct ModuleStory {
  std::string name = {};
  int64_t modules = 0, ops = 0, tensors = 0;
  double seconds = 0;  // each op once
  int64_t bytes = 0, bytes_at_peak = 0;
  std::vector<std::pair<Policy, int64_t>> policies = {};      // of the tensors that the step makes
  ModuleActions actions = {};                                 // sums, but for freed and benefit
  std::vector<std::pair<std::string, int64_t>> at_peak = {};  // tensors there then, largest first
  std::optional<Worth> worth = {};
};

// Error: kUsage, for a name that is not there, with the nearest ones.
Result<TensorStory> tensor_story(const plan::Plan& plan, const std::string& name);
Result<OpStory> op_story(const plan::Plan& plan, const std::string& name);
Result<ModuleStory> module_story(const plan::Plan& plan, const std::string& name);

std::string print(const TensorStory& story);
std::string print(const OpStory& story);
std::string print(const ModuleStory& story);
nlohmann::ordered_json to_json(const TensorStory& story);
nlohmann::ordered_json to_json(const OpStory& story);
nlohmann::ordered_json to_json(const ModuleStory& story);

}  // namespace lowtide::report

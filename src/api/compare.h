// Runs a plan and, beside it, the same ops unplanned, and says whether every result is the same,
// bit for bit, and what each took; or, beside a plan in parts, the step in one part
// (compare_whole.h). The evidence that `lowtide run` prints.
//
// Tests: tests/python/test_cli.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/compare_whole.h"
#include "base/result.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace lowtide {

// Where the time of a step goes: one line per kind of op.
struct KindTime {
  std::string kind;
  int64_t ops = 0;
  double seconds = 0;            // measured, of one step
  double predicted_seconds = 0;  // by the device profile
};

struct RunReport {
  int64_t steps = 0;
  int64_t arena_planned_bytes = 0;
  int64_t arena_measured_bytes = 0;  // of the mapping; more if a step wrote behind it
  int64_t arena_touched_bytes = 0;   // up to the highest byte that two steps wrote
  int64_t seeded_weights = 0;        // parameters that no file had contents for
  double predicted_step_seconds = 0;
  double step_seconds = 0;  // median
  // Only with a measure_file: of a step, its kernels' medians.
  std::optional<double> kernel_seconds;
  std::optional<double> loss_first, loss_last;  // of a training step
  runtime::TransferTotals transfers;            // means of the timed steps
  // Only with compare:
  // Median of steps interleaved with the planned ones.
  std::optional<double> unplanned_step_seconds;
  std::optional<int64_t> unplanned_bytes;    // high-water mark of the unplanned steps
  std::optional<double> max_abs_difference;  // infinite where one is NaN and the other is not
  int64_t values_compared = 0;
  int64_t values_different = 0;          // bitwise
  std::string first_different;           // name of the first value that differs; empty if none
  std::optional<WholeComparison> whole;  // only with a whole step, in place of the four above
  bool same_ops = false;                 // in parts, and compared with the same ops only
  std::vector<KindTime> profile;         // only with profile; largest first
};

struct CompareOptions {
  int64_t steps = 3;
  bool compare = false;
  bool profile = false;
  uint64_t seed = 0;
  std::string model_folder;
  bool seed_missing_weights = false;  // see RunOptions
  int threads = 0;                    // 0: as many as the plan was made for
  std::string slow_tier_folder;       // see RunOptions
  double link_bytes_per_second = 0;   // see RunOptions
  // With compare: the unplanned step is that of this plan of the same model, which is in one part
  // (whole_step.h), and results are held against it within a tolerance. It is borrowed.
  const plan::Plan* whole = nullptr;
  // A cost store that the kernels' times are added to; made if absent.
  std::string measure_file = {};
  // Results of the first planned step go here (api/dump.h); empty: nowhere.
  std::string dump_folder;
};

// Compared in a first step before those that are timed and in a last one after them: every output,
// every gradient of a parameter, every updated parameter and state, each time it is made; and what
// lies in slow memory after the step. Error: as open_session (api/running.h) and
// runtime::Session::run.
Result<RunReport> run_plan(const plan::Plan& plan, const CompareOptions& options);

std::string print(const RunReport& report);
std::string print_json(const RunReport& report);

}  // namespace lowtide

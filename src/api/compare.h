// Runs a plan and, beside it, the same ops unplanned, and says whether every result is the same,
// bit for bit, and what each took; or, beside a plan in parts, the step in one part
// (compare_whole.h). The evidence that `lowtide run` prints (report/run_report.h).
//
// Tests: tests/python/test_cli.py, tests/poison_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/compare_whole.h"
#include "base/result.h"
#include "plan/plan.h"
#include "report/run_report.h"

namespace lowtide {

using report::RunReport;

struct CompareOptions {
  int64_t steps = 3;
  bool compare = false;
  bool profile = false;
  bool poison = false;  // the planned step's free memory is filled with NaN bytes
  uint64_t seed = 0;
  std::string model_folder = {};
  bool seed_missing_weights = false;  // see RunOptions
  int threads = 0;                    // 0: as many as the plan was made for
  std::string slow_tier_folder = {};  // see RunOptions
  double link_bytes_per_second = 0;   // see RunOptions
  // With compare: the unplanned step is that of this plan of the same model, which is in one part
  // (whole_step.h), and results are held against it within a tolerance. It is borrowed.
  const plan::Plan* whole = nullptr;
  // A cost store that the kernels' times are added to; made if absent.
  std::string measure_file = {};
  // The measured times of this plan's ops go here (report/measured.h); empty: nowhere.
  std::string profile_file = {};
  // Results of the first planned step go here (api/dump.h); empty: nowhere.
  std::string dump_folder = {};
};

// Compared in a first step before those that are timed and in a last one after them: every output,
// every gradient of a parameter, every updated parameter and state, each time it is made; and what
// lies in slow memory after the step. Error: as open_session (api/running.h) and
// runtime::Session::run.
Result<RunReport> run_plan(const plan::Plan& plan, const CompareOptions& options);

}  // namespace lowtide

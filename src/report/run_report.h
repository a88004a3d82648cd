// What `lowtide run` has found: how long a planned step takes and what it occupies, and whether its
// results are those of the same ops unplanned, or of the step in one part. As text and as JSON
// (docs/formats.md, "run --json").
//
// Tests: tests/python/test_cli.py, tests/python/test_compare_whole.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lowtide/api.h"

namespace lowtide::report {

// A step in parts beside the step in one part (api/compare_whole.h).
struct WholeComparison {
  int64_t values = 0;    // that both have
  int64_t beyond = 0;    // of them, differ by more than the tolerance
  int64_t rounded = 0;   // too, but no more than the rounding of the step itself explains
  int64_t apart = 0;     // results of the whole step that could not be held against anything
  double roundings = 0;  // of the rounded ones, at most so many times what the last bits make
  double largest = 0;    // relative difference of all held ones but Adam's parameters
  std::string largest_name;
  std::string first_apart, first_beyond;  // empty: none
  double parameters_apart = 0;  // largest difference of a parameter that Adam updated, in itself
};

// Of f32; of 16-bit types, and what an update of Adam may differ by, see compare_whole.cc.
inline constexpr double kWholeTolerance = 1e-3;

// Where the time of a step goes: of all ops of a kind.
struct KindTime {
  std::string kind;
  int64_t runs = 0;              // of kernels, in a step
  double seconds = 0;            // measured, of one step
  double predicted_seconds = 0;  // by the plan
};

// The same of all ops that do the same work in the same way.
struct KernelTime {
  std::string kernel;  // its key in cost stores
  int64_t runs = 0;
  double seconds = 0, predicted_seconds = 0;
};
inline constexpr size_t kKernelsTold = 12;  // in the text; JSON has all

struct RunReport {
  int64_t steps = 0;
  int64_t arena_planned_bytes = 0;
  int64_t arena_measured_bytes = 0;  // of the mapping; more if a step wrote behind it
  int64_t arena_touched_bytes = 0;   // up to the highest byte that two steps wrote
  int64_t seeded_weights = 0;        // parameters that no file had contents for
  double predicted_step_seconds = 0;
  double step_seconds = 0;  // median
  // Only with one thread: what processors spent on it, copies too; the median.
  std::optional<double> processor_seconds;
  // With a measure_file or a profile: of a step, its kernels' medians; with one thread in processor
  // time.
  std::optional<double> kernel_seconds;
  std::optional<double> loss_first, loss_last;  // of a training step
  StepTransfers transfers;                      // means of the timed steps
  // Only with compare:
  // Median of steps interleaved with the planned ones.
  std::optional<double> unplanned_step_seconds, unplanned_processor_seconds;
  std::optional<int64_t> unplanned_bytes;    // high-water mark of the unplanned steps
  std::optional<double> max_abs_difference;  // infinite where one is NaN and the other is not
  int64_t values_compared = 0;
  int64_t values_different = 0;          // bitwise
  std::string first_different;           // name of the first value that differs; empty if none
  std::optional<WholeComparison> whole;  // only with a whole step, in place of the four above
  bool same_ops = false;                 // in parts, and compared with the same ops only
  std::string model_file;                // of such a plan: of the step in one part, if it says so
  std::vector<KindTime> profile;         // only with profile; largest first
  std::vector<KernelTime> kernels;       // likewise; those furthest from their price first
};

std::string print(const RunReport& report);
std::string print_json(const RunReport& report);

}  // namespace lowtide::report

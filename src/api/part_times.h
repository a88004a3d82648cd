// Times the kernels of a step in parts, each on operands of its own, into a cost store: what
// `plan --split auto --costs` needs to know what parts really take. No plan is made and nothing of
// the step is held in memory but the operands of one kernel, so a step that does not fit can be
// measured.
//
// A kernel is timed in several rounds, over all kernels each; a round's time is the least of its
// runs, since whoever else uses the machine only adds to it, and the store's answer is the median
// of the rounds. Kernels on one thread are timed by their processor, which does not count others'
// turns: on a machine that is busy, only such times can be compared.
//
// Operands are cold: between two runs other memory is written, so that they leave the caches, as
// they have in a step by the time that they are used again. It matters to parts most of all, which
// do little with each weight and sum: with operands in the caches BERT's kernels in 8 parts took 10
// % less than in the step that ran them, for 3 % of its kernels in one part, so that parts looked 7
// points better than they are; cold, both take 3 to 4 % less.
//
// Tests: tests/part_times_test.cc, tests/python/test_costs.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cost/store.h"
#include "lowtide/api.h"

namespace lowtide {

struct PartTimesOptions {
  std::vector<int64_t> parts;  // empty: the numbers that a search may ask for (part_kernels.h)
  int rounds = 3;
  int least_runs = 5;           // of a kernel in a round
  double least_seconds = 0.02;  // likewise, evictions too; until both are reached
  // More than the caches that a core has for itself, and its share of the common one.
  int64_t evicted_bytes = int64_t{64} << 20;
};

// Of the ops of one kind in a step, each op once.
struct KindSeconds {
  std::string kind;
  int64_t runs = 0;
  double predicted = 0, measured = 0;
};

struct PartsTimed {
  int64_t parts = 1;
  size_t kernels = 0;  // that differ
  KindSeconds all;
  std::vector<KindSeconds> kinds;  // by measured time, most first
};

struct PartTimes {
  std::string model, costs;  // what predicted: the device's roofline, or a store
  int rounds = 0, threads = 0;
  size_t kernels = 0;  // timed: of all numbers of parts together
  std::vector<PartsTimed> parts;
  cost::CostStore store;
};

// The options' device must run this library's kernels. Predictions are those of the options' costs.
// Error: kUsage (a device without kernels here, parts that are none), kInput as of Plan::make.
Result<PartTimes> time_parts(const Model& model, const PlanOptions& options,
                             const PartTimesOptions& timing);

std::string print(const PartTimes& times);
std::string print_json(const PartTimes& times);

}  // namespace lowtide

// Levers by name: by what a step may be made to fit. `allow` names all that may be used, `forbid`
// those that may not, where the other options say the rest.
//
//   split      the step in parts (pipeline/split.h)
//   recompute  ops run again (src/remat)
//   swap       buffers move to slow memory (remat/transfers)
//   reorder    ops run in another order than the given one (src/order)
//   rewrite    ops are replaced by others (rewrite/rewrites.h)
//
// Options that say nothing of levers leave them open. Order, rewrites and recompute keep every bit
// of a step's results, so they come first; where they miss the budget, all levers that the device
// has are used. A slowdown asks for the least memory, which none of them can miss, so all levers
// but swap are used from the start.
//
// Internal to src/api. Tests: levers_test.cc, tests/python/test_levers.py.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cost/device.h"
#include "lowtide/api.h"
#include "pipeline/optimize.h"

namespace lowtide {

// Whether nothing speaks of levers: neither `allow` and `forbid` nor the options of single ones,
// and `more_levers` does not forbid it.
bool leaves_levers_open(const PlanOptions& options);

// "split,recompute,swap,reorder,rewrite", as `allow` takes them: those that the device has. Where a
// proof is asked for nothing moves, as proofs are of such steps.
std::string all_levers(const PlanOptions& options, const cost::DeviceProfile& device);

// The same options without `allow` and `forbid`: what they mean for the others. Of the levers that
// `allow` names and nothing else speaks of, split becomes "auto" and swap the device's first slow
// tier; split also where levers are open and there is a slowdown. Error: kUsage, naming a word that
// is no lever, both flags given, a flag that asks for what is not allowed, or a device without a
// slow tier.
Result<PlanOptions> with_levers(const PlanOptions& options, const cost::DeviceProfile& device);

// Those of all_levers() that a plan with these options cannot use; rewrites where one that runs by
// default is switched off.
std::vector<std::string> unused_levers(const PlanOptions& asked,
                                       const pipeline::OptimizeOptions& options);

// Of what was asked for by name, what this model has nothing for: blocks of queries, or so many of
// them, and rewrites; a line each, as a note.
std::vector<std::string> levers_without_effect(const PlanOptions& asked,
                                               const pipeline::Optimized& made);

// Of a budget that was not kept: what each lever that was not used would need at least (a bound, no
// promise) and, where that keeps the budget, what time it would take (at least; of even parts an
// estimate), as the end of a line; empty, where all that the device has were used. Rewrites are
// named where they would lower that. `options` are those without the levers.
std::string missing_levers(const ir::Graph& forward, const pipeline::OptimizeOptions& options,
                           int64_t budget_bytes);

}  // namespace lowtide

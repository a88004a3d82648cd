// What stands between a plan and a session that runs it on this CPU: how many threads, and whether
// the weights can be had.
//
// Tests: c_api_test.cc, tests/python/test_cli.py.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace lowtide {

// `threads` if positive; else OMP_NUM_THREADS; else the processors that this process may use.
int resolve_threads(int threads);

// `threads` if positive; else what the plan was made for; else as resolve_threads.
int threads_for(const plan::Plan& plan, int threads);

// Weights that the plan expects in files of the model's folder, and those that no file has.
int64_t external_weights(const plan::Plan& plan);
int64_t seeded_weights(const plan::Plan& plan);

// A place for slow memory (RunOptions::slow_tier_folder), and the speed of the way there, or 0.
// Error: kUsage, for a speed that is none.
Result<runtime::SlowMemoryOptions> slow_memory(const plan::Plan& plan, const std::string& place,
                                               double bytes_per_second);

// Error: as runtime::Session::open, with what the plan was made for where that is not what is here;
// kUsage where weights lie in files, no folder is given and seed_missing_weights is not set.
Result<runtime::Session> open_session(const plan::Plan& plan, const runtime::KernelFactory& kernels,
                                      int threads, bool seed_missing_weights,
                                      const runtime::SessionOptions& options);

}  // namespace lowtide

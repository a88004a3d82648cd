// A plan's step as Chrome trace events, for Perfetto and chrome://tracing ("Trace" in
// docs/formats.md): the ops on one thread, the transfers of each link on one of their own, with
// arrows to the ops that wait for them, and a memory counter by category. Times are the plan's
// predicted ones.
//
// Times are whole nanoseconds, rounded once: an event ends where the next one begins, so that no
// reader sees two slices overlap.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

// JSON, one event a line. Bytes of names that are not UTF-8 become U+FFFD.
// `findings` of a verifier are in the file's otherData, which then says that it is not verified.
std::string trace_of(const plan::Plan& plan, const std::vector<std::string>& findings = {});

}  // namespace lowtide::report

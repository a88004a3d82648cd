// What a step in parts does for less memory and what that costs, by module: ops that run in parts,
// weighed against the same steps with whole ops.
//
// The step in one part is not in the plan, but what each of its ops takes and makes is
// (PlanOp::unsplit). A group's time is what its ops take beyond that, what cuts and joins included.
// Its worth is by how much the peak would rise if each value that its parts make lay there in one
// piece: from where the first part makes its own to where the last one goes, in all rounds if parts
// run again; and if the whole op's workspace were there where its last part runs. The order stays,
// and so does what others do: a new plan might do better. Sums, whose parts add into one value,
// are there as a whole already.
//
// Tests: parts_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "report/stays.h"

namespace lowtide::report {

struct ModuleParts {
  std::string module = {};
  int64_t parts = 0;          // ops that are parts of one and compute something
  bool priced = false;        // the plan says what the ops are in one part
  int64_t benefit_bytes = 0;  // by how much the peak would rise
  int64_t freed_bytes = 0;    // the most that is not there at one time
  double seconds = 0;         // beyond the ops in one part, each once; may be below 0
};

// The op that this is a part of, or a part of a part, by its name, which ends in "/part" and a
// number (fission/expand.h); empty: it is none.
std::string_view whole_of_part(std::string_view op_name);

struct PartsTable {
  std::vector<ModuleParts> modules;  // in the order in which the plan's ops name them
  // All together: where none of them alone sets the peak, all may. Its time is the whole step's.
  ModuleParts all;
};

// Of the step in one part, each op once, by what the plan says of its ops; nothing where it does
// not.
std::optional<double> seconds_in_one_part(const plan::Plan& plan);

PartsTable parts_of(const plan::Plan& plan, const std::vector<Stay>& stays);

}  // namespace lowtide::report

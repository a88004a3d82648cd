// Text forms of ScheduleProblem: a bug report is a file.
//
//     lowtide-schedule 2
//     resident 4096
//     budget 65536                        (if there is one)
//     link 1.2e+10 1.1e+10 5e-06 0        (out, in, latency, compute per byte, and
//                                          room, if it is limited; one line per tier)
//     op 0.25 128 1 "conv1"               (seconds, workspace bytes, may rerun, name)
//     value 1024 0 0 "x" 1 4 7            (bytes, producer, is output, name, readers)
//     value 1024 0 0 "g" 2 5 writes 5     (who of the readers overwrites it; if anyone does)
//     value 1024 3 0 "p" 4 parts 8        (moves in so many parts, if in more than one;
//                                          a movable, too)
//     movable 512 "w" 1 6 writes 6        (a resident: bytes, name, readers, who overwrites it)
//     inplace 4 0 2                       (op, input, output)
//     control 1 4                         (first, second)
//     end
//
// One statement per line, in this order; ops and values are numbered as they come. Names are
// quoted, with \\ \" \n \t \r and \xHH for other bytes outside printable ASCII. Printing a problem
// with finite numbers and parsing it again gives it back. Version 1, without `writes` and
// `movable`, is read too.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

std::string print(const ScheduleProblem& problem);

// Errors: kInput, one line that begins with `origin` (a file name) and the line number. The result
// passes plan::check. Memory is proportional to the text, whatever numbers it claims.
Result<ScheduleProblem> parse_schedule_problem(std::string_view text, std::string_view origin);

// Reads the `.order` form: a line `n m`, then m lines `bytes producer k reader_1 ... reader_k`; ops
// are 0..n-1 in a valid order. Repeated readers are merged. Values of size 0 stay values. Errors as
// above.
Result<ScheduleProblem> parse_order_file(std::string_view text, std::string_view origin);

}  // namespace lowtide::plan

// Errors as values. A function that can fail for reasons outside this code base (a file, a flag, a
// model) returns Result<T>; its message is one line that names the file, op, tensor or flag, the
// numbers, and what would be right.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace lowtide {

// What went wrong, by who can mend it. Each kind has one exit code of the command line
// (docs/formats.md).
enum class ErrorCode {
  kInternal,      // a bug of ours that was noticed late; exit code 1
  kUsage,         // a flag or an argument that makes no sense; exit code 2
  kInfeasible,    // the request cannot be met, with proof; exit code 3
  kInput,         // a malformed or unsupported model, plan or problem file; exit code 4
  kLimit,         // a work or time limit ended before there was an answer; exit code 5
  kVerification,  // a plan that does not hold what it claims; exit code 6
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

}  // namespace lowtide

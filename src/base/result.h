// Errors as values. A function that can fail for reasons outside this code base (a file, a flag, a model) returns
// Result<T>; its message is one line that names the file, op, tensor or flag, the numbers, and what would be right.
// "Infeasible" and "limit reached" are answers of a solver (see plan/outcome.h), not errors.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace lowtide {

// What went wrong, by who can mend it. Each kind has one exit code of the command line (docs/formats.md).
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

// Makes the failed state of any Result: `return error(ErrorCode::kInput, "...")`.
inline tl::unexpected<Error> error(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// The exit code of the command line for an error.
int exit_code(ErrorCode code);

}  // namespace lowtide

// Returns the error of `expr` to the caller, or binds its value: LT_ASSIGN(auto graph, read(path));
#define LT_CONCAT_INNER(a, b) a##b
#define LT_CONCAT(a, b) LT_CONCAT_INNER(a, b)
#define LT_ASSIGN_IMPL(tmp, decl, ...)                           \
  auto tmp = (__VA_ARGS__);                                      \
  if (!tmp) return ::tl::unexpected<::lowtide::Error>(tmp.error()); \
  decl = std::move(*tmp)
#define LT_ASSIGN(decl, ...) LT_ASSIGN_IMPL(LT_CONCAT(lt_result_, __LINE__), decl, __VA_ARGS__)
#define LT_RETURN_IF_ERROR(...)                                                             \
  do {                                                                                      \
    if (auto lt_status = (__VA_ARGS__); !lt_status)                                         \
      return ::tl::unexpected<::lowtide::Error>(std::move(lt_status.error()));              \
  } while (false)

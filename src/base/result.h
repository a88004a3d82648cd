// The inside of include/lowtide/result.h: how errors are made and passed on. "Infeasible" and
// "limit reached" are answers of a solver (see plan/outcome.h), not errors.
//
// Tests: base_test.cc.
#pragma once

#include <string>
#include <utility>

#include "lowtide/result.h"

namespace lowtide {

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
#define LT_ASSIGN_IMPL(tmp, decl, ...)                              \
  auto tmp = (__VA_ARGS__);                                         \
  if (!tmp) return ::tl::unexpected<::lowtide::Error>(tmp.error()); \
  decl = std::move(*tmp)
#define LT_ASSIGN(decl, ...) LT_ASSIGN_IMPL(LT_CONCAT(lt_result_, __LINE__), decl, __VA_ARGS__)
#define LT_RETURN_IF_ERROR(...)                                                \
  do {                                                                         \
    if (auto lt_status = (__VA_ARGS__); !lt_status)                            \
      return ::tl::unexpected<::lowtide::Error>(std::move(lt_status.error())); \
  } while (false)

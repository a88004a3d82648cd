// LT_CHECK(condition, "message"): for broken invariants of our own, never for input. Always on;
// prints and aborts. LT_DCHECK is the same for costly conditions and is compiled out of release
// builds.
//
// Tests: base_test.cc.
#pragma once

#include <string_view>

namespace lowtide {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);

}  // namespace lowtide

#define LT_CHECK(condition, ...)                                                              \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::lowtide::check_failed(__FILE__, __LINE__, #condition, std::string_view(__VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define LT_DCHECK(condition, ...) \
  do {                            \
  } while (false && (condition))
#else
#define LT_DCHECK(condition, ...) LT_CHECK(condition, __VA_ARGS__)
#endif

#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lowtide {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "lowtide: internal error at %s:%d: %s does not hold%s%.*s\n", file, line,
               condition, message.empty() ? "" : ": ", static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace lowtide

#include "plan/pack_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace lowtide::plan {

Status check(const PackProblem& problem) {
  int64_t total = 0;
  for (BufferId id : problem.buffers.ids()) {
    const Buffer& b = problem.buffers[id];
    const auto bad = [&](std::string what) {
      return error(ErrorCode::kInput,
                   fmt::format("buffer {} ('{}'): {}", id.index(), b.name, what));
    };
    if (b.live.empty())
      return bad(fmt::format("lives from {} to {}; the upper end must be greater", b.live.begin,
                             b.live.end));
    if (b.size_bytes < 0) return bad(fmt::format("size {} is negative", b.size_bytes));
    if (b.alignment_bytes <= 0)
      return bad(fmt::format("alignment {} is not positive", b.alignment_bytes));
    if (b.fixed_offset && (*b.fixed_offset < 0 || *b.fixed_offset % b.alignment_bytes != 0))
      return bad(fmt::format("fixed offset {} is negative or not a multiple of {}", *b.fixed_offset,
                             b.alignment_bytes));
    if (b.fixed_offset && *b.fixed_offset > kMaxBytes - b.size_bytes)
      return bad("fixed offset is beyond 2^62 bytes");
    const auto padded = checked_add(b.size_bytes, b.alignment_bytes);
    const auto sum = padded ? checked_add(total, *padded) : std::nullopt;
    if (!sum || *sum > kMaxBytes) return bad("all sizes together exceed 2^62 bytes");
    total = *sum;
  }
  return {};
}

}  // namespace lowtide::plan

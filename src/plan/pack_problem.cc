#include "plan/pack_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace lowtide::plan {
namespace {

// Each group by itself: distances that keep the alignments, and no two of its buffers in one place.
Status check_ties(const PackProblem& problem) {
  std::map<int32_t, std::vector<BufferId>> groups;
  for (BufferId id : problem.buffers.ids()) {
    const Buffer& b = problem.buffers[id];
    if (!b.tie) continue;
    const auto bad = [&](std::string what) {
      return error(ErrorCode::kInput,
                   fmt::format("buffer {} ('{}'): {}", id.index(), b.name, what));
    };
    if (b.fixed_offset) return bad("is tied and has a fixed offset");
    if (b.size_bytes == 0) return bad("is tied and has no bytes");
    if (b.tie->group < 0) return bad(fmt::format("group {} is negative", b.tie->group));
    if (b.tie->at < 0 || b.tie->at > kMaxBytes - b.size_bytes || b.tie->at % b.alignment_bytes != 0)
      return bad(
          fmt::format("lies at {} in group {}: negative, beyond 2^62 bytes or no multiple of {}",
                      b.tie->at, b.tie->group, b.alignment_bytes));
    std::vector<BufferId>& members = groups[b.tie->group];
    if (!members.empty() && problem.buffers[members[0]].alignment_bytes != b.alignment_bytes)
      return bad(fmt::format("has alignment {} in group {}, another member {}", b.alignment_bytes,
                             b.tie->group, problem.buffers[members[0]].alignment_bytes));
    for (BufferId other : members) {
      const Buffer& o = problem.buffers[other];
      const Interval mine{b.tie->at, b.tie->at + b.size_bytes};
      const Interval theirs{o.tie->at, o.tie->at + o.size_bytes};
      if (b.live.overlaps(o.live) && mine.overlaps(theirs))
        return bad(fmt::format("overlaps buffer {} ('{}') in group {}", other.index(), o.name,
                               b.tie->group));
    }
    members.push_back(id);
  }
  return {};
}

}  // namespace

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
  return check_ties(problem);
}

}  // namespace lowtide::plan

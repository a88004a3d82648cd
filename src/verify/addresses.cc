// Do buffers lie where they may, and apart? In order of when they begin, each is held against the
// neighbours in address of those that live then, which lie apart as long as nothing was found (a
// sweep, O(n log n)). Where something was, every pair of buffers that share a moment is compared:
// in order of when they begin, each with those that begin before it ends. A storage and its heir
// meet at the step of the heir's op: the life of one ends where that of the other begins.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "base/interval.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

struct Placed {
  Interval live, range;
  std::string_view name;
  bool is_workspace = false;
};

std::vector<Placed> placed_buffers(const Facts& facts, const Lives& lives) {
  const plan::Plan& plan = facts.plan;
  std::vector<Placed> buffers;
  for (const Lives::Stay& stay : lives.stays) {
    const plan::PlanStorage& storage = plan.storages[stay.storage];
    buffers.push_back({{stay.begin, stay.end},
                       {stay.address, stay.address + storage.bytes},
                       facts.storage_name(stay.storage)});
    // What is resident is there even when nothing runs.
    if (!facts.maker[stay.storage].valid() && !storage.home_slow)
      buffers.back().live = {-1, static_cast<int64_t>(plan.steps.size()) + 1};
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const plan::Step& step = plan.steps[i];
    if (step.kind != plan::Step::Kind::kCompute || plan.ops[step.op].workspace_bytes == 0) continue;
    const auto now = static_cast<int64_t>(i);
    buffers.push_back(
        {{now, now + 1},
         {step.workspace_address, step.workspace_address + plan.ops[step.op].workspace_bytes},
         plan.ops[step.op].name,
         true});
  }
  return buffers;
}

// Of buffers by begin, none of which is empty.
bool lie_apart(const std::vector<Placed>& buffers) {
  std::map<int64_t, int64_t> taken;             // ranges of those that live now: begin, end
  using Leaving = std::pair<int64_t, int64_t>;  // when, and from where
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving;
  for (const Placed& buffer : buffers) {
    for (; !leaving.empty() && leaving.top().first <= buffer.live.begin; leaving.pop())
      taken.erase(leaving.top().second);
    const auto above = taken.lower_bound(buffer.range.begin);
    if (above != taken.end() && above->first < buffer.range.end) return false;
    if (above != taken.begin() && std::prev(above)->second > buffer.range.begin) return false;
    taken.emplace_hint(above, buffer.range.begin, buffer.range.end);
    leaving.emplace(buffer.live.end, buffer.range.begin);
  }
  return true;
}

std::string describe(const Placed& buffer) {
  return fmt::format("{}'{}' at [{}, {})", buffer.is_workspace ? "the workspace of " : "",
                     buffer.name, buffer.range.begin, buffer.range.end);
}

}  // namespace

void check_addresses(const Facts& facts, const Lives& lives, Report& report, Findings& findings) {
  std::vector<Placed> buffers = placed_buffers(facts, lives);
  for (const Placed& buffer : buffers) {
    if (buffer.range.begin % facts.plan.alignment_bytes != 0)
      findings.add(Violation::kMisaligned, fmt::format("{} is not aligned to {}", describe(buffer),
                                                       facts.plan.alignment_bytes));
    if (buffer.range.end > facts.plan.arena_bytes)
      findings.add(Violation::kOutsideArena, fmt::format("{} ends behind the arena of {} bytes",
                                                         describe(buffer), facts.plan.arena_bytes));
    report.arena_high_water_bytes = std::max(report.arena_high_water_bytes, buffer.range.end);
  }
  std::erase_if(buffers,
                [](const Placed& buffer) { return buffer.range.empty() || buffer.live.empty(); });
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const Placed& a, const Placed& b) { return a.live.begin < b.live.begin; });
  if (lie_apart(buffers)) return;
  for (size_t i = 0; i < buffers.size(); ++i)
    for (size_t j = i + 1; j < buffers.size() && buffers[j].live.begin < buffers[i].live.end; ++j)
      if (buffers[i].live.overlaps(buffers[j].live) && buffers[i].range.overlaps(buffers[j].range))
        findings.add(Violation::kOverlap,
                     fmt::format("{} and {} overlap in steps [{}, {})", describe(buffers[i]),
                                 describe(buffers[j]),
                                 std::max(buffers[i].live.begin, buffers[j].live.begin),
                                 std::min(buffers[i].live.end, buffers[j].live.end)));
}

}  // namespace lowtide::verify

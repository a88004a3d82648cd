// Whether every schedule that moves nothing needs so many bytes, shown backwards from a run of one
// op. What it reads is there when it begins. Before that, some run was the last to make a part of
// what is needed: the rest was there beside it, and what it reads itself. So each schedule passes,
// going back in time, through sets of storages that are needed, from what the op reads to none. All
// sets that runs with less than the claimed bytes present lead to are walked, depth first. If the
// empty one is among them the claim is not shown; if not, every schedule has a run with at least
// so much.
//
// Storages below a size that the certificate names are left out of the sets: without them less is
// needed, so what is shown holds all the more.
#include <algorithm>
#include <set>
#include <vector>

#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

using Needed = std::vector<PlanStorageId>;  // ascending

class Ways {
 public:
  Ways(const Precedence& precedence, int64_t least_bytes, int64_t bytes, size_t most_sets)
      : precedence_(precedence),
        facts_(precedence.facts),
        least_bytes_(least_bytes),
        bytes_(bytes),
        most_sets_(most_sets) {}

  // Is there none that stays below?
  bool none_from(PlanOpId op) {
    if (present_bytes(op, {}) >= bytes_) return true;
    go_back(op, {});
    while (!open_.empty()) {
      const Needed needed = open_.back();
      open_.pop_back();
      if (needed.empty() || seen_.size() > most_sets_) return false;
      std::set<PlanOpId> makers;
      for (PlanStorageId s : needed) makers.insert(facts_.maker[s]);
      for (PlanOpId maker : makers)
        if (present_bytes(maker, needed) < bytes_) go_back(maker, needed);
    }
    return true;
  }

 private:
  // While the op runs and `needed` is needed afterwards.
  int64_t present_bytes(PlanOpId op, const Needed& needed) const {
    std::set<PlanStorageId> present(needed.begin(), needed.end());
    for (PlanStorageId s : facts_.makes[op]) present.insert(s);
    for (PlanStorageId s : precedence_.inputs[op])
      if (facts_.maker[s].valid()) present.insert(s);
    int64_t bytes = facts_.resident_bytes + facts_.plan.ops[op].workspace_bytes;
    for (PlanStorageId s : present) bytes += facts_.plan.storages[s].bytes;
    auto pairs = facts_.pairs[op];
    std::erase_if(pairs, [&](const auto& pair) {
      return std::binary_search(needed.begin(), needed.end(), pair.first);
    });
    return bytes - most_reused_bytes(facts_, pairs);
  }

  void go_back(PlanOpId op, const Needed& needed) {
    Needed before;
    for (PlanStorageId s : needed)
      if (facts_.maker[s] != op) before.push_back(s);
    for (PlanStorageId s : precedence_.inputs[op])
      if (facts_.maker[s].valid() && facts_.plan.storages[s].bytes >= least_bytes_)
        before.push_back(s);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    if (seen_.insert(before).second) open_.push_back(std::move(before));
  }

  const Precedence& precedence_;
  const Facts& facts_;
  const int64_t least_bytes_, bytes_;
  const size_t most_sets_;
  std::set<Needed> seen_;
  std::vector<Needed> open_;
};

}  // namespace

bool needs_backwards(const Precedence& precedence, const plan::BackwardWay& way, int64_t bytes,
                     size_t most_sets) {
  const Facts& facts = precedence.facts;
  return facts.plan.slow_tiers.empty() && !facts.is_view_op[way.op] &&
         Ways(precedence, way.least_bytes, bytes, most_sets).none_from(way.op);
}

}  // namespace lowtide::verify

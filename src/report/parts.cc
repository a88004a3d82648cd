#include "report/parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/part_name.h"

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::Step;

class PartsWeigher {
 public:
  PartsWeigher(const plan::Plan& plan, const std::vector<Stay>& stays)
      : plan_(plan),
        bytes_(bytes_of(plan, stays)),
        stays_(plan.storages.size()),
        runs_(plan.ops.size()) {
    for (const Stay& stay : stays) stays_[stay.storage].emplace_back(stay.begin, stay.end);
    for (size_t i = 0; i < plan.steps.size(); ++i)
      if (plan.steps[i].kind == Step::Kind::kCompute) runs_[plan.steps[i].op].push_back(i);
  }

  PartsTable run() {
    for (PlanOpId id : plan_.ops.ids()) {
      const plan::PlanOp& op = plan_.ops[id];
      const std::string_view whole = whole_of_part(op.name);
      if (whole.empty()) continue;
      const auto [found, is_new] = group_of_.emplace(op.module, groups_.size());
      if (is_new) groups_.push_back({.module = op.module});
      if (!plan::only_views(plan_, id)) ++groups_[found->second].parts;
      ops_[{found->second, whole}].push_back(id);
    }
    for (const plan::PlanOp& op : plan_.ops) {
      const auto found = group_of_.find(op.module);
      if (!op.unsplit) continue;
      const double seconds = op.predicted_seconds - op.unsplit->seconds;
      all_.seconds += seconds;
      if (found == group_of_.end()) continue;
      all_.priced = groups_[found->second].priced = true;
      groups_[found->second].seconds += seconds;
    }
    const std::vector<int64_t> nothing(plan_.steps.size() + 1, 0);
    std::vector<std::vector<int64_t>> change(groups_.size(), nothing);
    for (const auto& [key, parts] : ops_) join(parts, change[key.first]);
    std::vector<int64_t> together = nothing;
    for (size_t g = 0; g < groups_.size(); ++g) {
      weigh(change[g], groups_[g]);
      all_.parts += groups_[g].parts;
      for (size_t i = 0; i < together.size(); ++i) together[i] += change[g][i];
    }
    weigh(together, all_);
    return {std::move(groups_), std::move(all_)};
  }

 private:
  using Range = std::pair<size_t, size_t>;  // of steps

  // The parts of an op become one: of its values that they make pieces of, and of its workspace.
  void join(const std::vector<PlanOpId>& parts, std::vector<int64_t>& change) const {
    const auto first = std::find_if(parts.begin(), parts.end(), [this](PlanOpId part) {
      const plan::PlanOp& op = plan_.ops[part];
      return op.unsplit && !op.unsplit->output_bytes.empty();
    });
    if (first == parts.end()) return;
    const plan::PlanUnsplit& unsplit = *plan_.ops[*first].unsplit;
    for (size_t o = 0; o < unsplit.output_bytes.size(); ++o)
      join_output(parts, o, unsplit.output_bytes[o], change);
    std::vector<size_t> last;  // step of the last part, by round
    for (PlanOpId part : parts) {
      last.resize(std::max(last.size(), runs_[part].size()), 0);
      for (size_t j = 0; j < runs_[part].size(); ++j) last[j] = std::max(last[j], runs_[part][j]);
    }
    for (size_t at : last) {
      const int64_t there = plan_.ops[plan_.steps[at].op].workspace_bytes;
      const int64_t more = std::max<int64_t>(unsplit.workspace_bytes - there, 0);
      change[at] += more;
      change[at + 1] -= more;
    }
  }

  void join_output(const std::vector<PlanOpId>& parts, size_t o, int64_t whole,
                   std::vector<int64_t>& change) const {
    std::vector<PlanStorageId> pieces;
    int64_t bytes = 0;
    for (PlanOpId part : parts) {
      if (o >= plan_.ops[part].outputs.size()) return;
      const plan::PlanValue& value = plan_.values[plan_.ops[part].outputs[o]];
      if (value.alias != plan::PlanAlias::kOwn) return;
      pieces.push_back(value.storage);
      bytes += plan_.storages[value.storage].bytes;
    }
    const auto rounding = static_cast<int64_t>(parts.size()) * plan_.alignment_bytes;
    if (bytes > whole + rounding) return;  // contributions to a sum, or slices that overlap
    for (const auto& [begin, end] : joined_stays(pieces)) {
      change[begin] += whole;
      change[end] -= whole;
    }
    for (PlanStorageId piece : pieces)
      for (const auto& [begin, end] : stays_[piece]) {
        change[begin] -= plan_.storages[piece].bytes;
        change[end] += plan_.storages[piece].bytes;
      }
  }

  // Where the pieces would be one value: for each round of stays from the first to the last of it.
  std::vector<Range> joined_stays(const std::vector<PlanStorageId>& pieces) const {
    std::vector<Range> rounds;
    for (PlanStorageId piece : pieces) {
      rounds.resize(std::max(rounds.size(), stays_[piece].size()), Range(SIZE_MAX, 0));
      for (size_t j = 0; j < stays_[piece].size(); ++j) {
        rounds[j].first = std::min(rounds[j].first, stays_[piece][j].first);
        rounds[j].second = std::max(rounds[j].second, stays_[piece][j].second);
      }
    }
    std::sort(rounds.begin(), rounds.end());
    std::vector<Range> apart;
    for (const Range& round : rounds) {
      if (!apart.empty() && round.first <= apart.back().second)
        apart.back().second = std::max(apart.back().second, round.second);
      else
        apart.push_back(round);
    }
    return apart;
  }

  void weigh(const std::vector<int64_t>& change, ModuleParts& group) const {
    int64_t more = 0, peak = 0, without = 0;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      more += change[i];
      group.freed_bytes = std::max(group.freed_bytes, more);
      peak = std::max(peak, bytes_[i]);
      without = std::max(without, bytes_[i] + more);
    }
    group.benefit_bytes = without - peak;
  }

  const plan::Plan& plan_;
  const std::vector<int64_t> bytes_;
  IdVector<PlanStorageId, std::vector<Range>> stays_;
  IdVector<PlanOpId, std::vector<size_t>> runs_;
  std::vector<ModuleParts> groups_;
  ModuleParts all_;
  std::map<std::string_view, size_t> group_of_;  // by module
  // By group and the name of the op in one part.
  std::map<std::pair<size_t, std::string_view>, std::vector<PlanOpId>> ops_;
};

}  // namespace

std::string_view whole_of_part(std::string_view op_name) {
  std::string_view whole;
  auto part = plan::part_name(op_name);
  for (int axis = 0; part && axis < 2; ++axis) {  // an op is cut along two at most
    whole = part->op;
    part = plan::part_name(whole);
  }
  return whole;
}

std::optional<double> seconds_in_one_part(const plan::Plan& plan) {
  bool known = false;
  double more = 0;
  for (const plan::PlanOp& op : plan.ops) {
    if (!op.unsplit) continue;
    known = true;
    more += op.predicted_seconds - op.unsplit->seconds;
  }
  return known ? std::optional(plan.claims.once_seconds - more) : std::nullopt;
}

PartsTable parts_of(const plan::Plan& plan, const std::vector<Stay>& stays) {
  return PartsWeigher(plan, stays).run();
}

}  // namespace lowtide::report

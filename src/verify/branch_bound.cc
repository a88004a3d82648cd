// Weak duality in each leaf of a branch-and-bound tree. The certificate names ops t_1, ..., t_K,
// each a descendant of the one before; their first runs cut every schedule into segments, k from
// t_k's first run up to t_{k+1}'s. For each op the segment of its first run is known up to an
// interval [first, latest]; after `last` it can run no more. In whole numbers, with
//     R[k,o] = "o runs in segment k"       S[k,s] = "s stays in memory at t_k, past its start"
//     Y[k,o] = "o runs once t_k has begun"
// every schedule within the budget satisfies these rows:
//
//     capacity    sum of floor(bytes of s / d) * S[k,s] <= floor(capacity at t_k / d)
//     need        S[k,s] + R[k, maker of s] >= R[k,o]       o != t_k reads s
//     keep        S[k-1,s] + R[k-1, maker of s] >= S[k,s]   (1 for what t_k reads)
//     once        sum of R[k,o] over first .. latest >= 1
//     later_need  S[k,s] + Y[k, maker of s] >= Y[k,o]       o != t_k reads s
//     later_run   sum of R[j,o] over j >= k >= Y[k,o]
//     later_first Y[k,o] + sum of R[j,o] over j < k >= 1
//
// Without an op, "need" and "later_need" are for an output at the end of the step. The nodes of the
// certificate split the schedules into cases, in each of which some variables are fixed; the two
// children of a node fix the same variable to 0 and to 1, so the leaves leave out no schedule. In a
// leaf, for any multipliers m >= 0 of rows a x >= b,
//
//     time >= m b + sum over the variables of the least of (time of x - m a) x
//
// This is arithmetic on whole numbers of any size that can come up; there is no search in it.
#include "verify/branch_bound.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "plan/tick_scale.h"
#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

constexpr size_t kMostCuts = 64;
constexpr int64_t kOne = plan::kTickParts;
constexpr int64_t kMostBound = int64_t{1} << 60;
constexpr size_t kDeepest = 1000;
constexpr int64_t kMostTerms = 200'000'000;  // looked at in all leaves
constexpr size_t kMostDivisors = 64;         // of one cut
// A multiplier is at most 2^31 units of at most 2^16 ticks (plan/plan_check.cc), so a term of a row
// is less than 2^92, counted in parts (2^31 * 2^16 * 2^20 * kMostParts) or in bytes (2^31 * 2^16 *
// kMostBytes), and those of all rows and variables together, kMostTerms, less than 2^120.
constexpr int64_t kMostParts = int64_t{1} << 20, kMostBytes = int64_t{1} << 44;

using plan::ProofMultiplier;
using plan::ProofNode;
using plan::ProofRow;
using plan::ProofVariable;

using Key = uint64_t;  // of a variable
Key key_of(ProofVariable kind, size_t k, size_t id) {
  return static_cast<uint64_t>(kind) << 62 | static_cast<uint64_t>(k) << 32 | id;
}

// A variable, or what it must be.
struct Literal {
  Key key = 0;
  int constant = -1;
};

// sum of coefficient * variable >= least
struct Row {
  __int128 least = 0;
  std::vector<std::pair<Key, int64_t>> terms;
  bool valid = true;

  void add(int64_t coefficient, Literal x) {
    if (x.constant < 0) {
      terms.emplace_back(x.key, coefficient);
    } else {
      least -= coefficient * x.constant;
    }
  }
};

class BranchBound {
 public:
  BranchBound(const Facts& facts, const plan::Cases& certificate, int64_t budget)
      : facts_(facts),
        plan_(facts.plan),
        certificate_(certificate),
        budget_(budget),
        cuts_(certificate.cuts.size()),
        precedence_(facts) {
    for (const PlanOpId cut : certificate.cuts) moments_.emplace_back(precedence_, cut);
    segments_.emplace(precedence_, moments_);
    for (const Moment& moment : moments_) {
      auto& bytes = stay_bytes_.emplace_back(plan_.storages.size(), 0);
      for (PlanStorageId s : plan_.storages.ids())
        if (facts.maker[s].valid()) bytes[s] = moment.stay_bytes(s);
    }
    divisors_.assign(cuts_ + 1, 0);
    const plan::TickScale scale(plan_);
    for (const plan::PlanOp& op : plan_.ops) ticks_.push_back(scale.down(op.predicted_seconds));
  }

  Result<int64_t> run() {
    if (const std::string wrong = wrong_cut(); !wrong.empty())
      return error(ErrorCode::kInput, wrong);
    const size_t nodes = certificate_.nodes.size();
    children_.assign(nodes, {});
    std::vector<size_t> depth(nodes, 0);
    for (size_t i = 1; i < nodes; ++i) {
      const auto parent = static_cast<size_t>(certificate_.nodes[i].parent);
      children_[parent].push_back(i);
      depth[i] = depth[parent] + 1;
      if (depth[i] > kDeepest)
        return error(ErrorCode::kInput, fmt::format("its cases are nested {} deep", depth[i]));
    }
    for (size_t i = 0; i < nodes; ++i)
      if (const std::string wrong = wrong_split(i); !wrong.empty())
        return error(ErrorCode::kInput, wrong);
    LT_RETURN_IF_ERROR(visit(0));
    const __int128 ticks = std::max<__int128>(*least_, 0) / kOne;
    return static_cast<int64_t>(std::min<__int128>(ticks, kMostBound));
  }

 private:
  using RowKey = std::tuple<ProofRow, int32_t, PlanOpId, PlanStorageId, int64_t>;

  std::string wrong_cut() const {
    if (certificate_.nodes.empty()) return "it has no cases";
    if (!plan_.slow_tiers.empty()) return "it knows no slow tier";
    for (size_t k = 0; k < cuts_; ++k) {
      const PlanOpId op = certificate_.cuts[k];
      if (facts_.is_view_op[op])
        return fmt::format("its op '{}' only makes views", plan_.ops[op].name);
      if (k > 0 && !moments_[k - 1].after[op])
        return fmt::format("its op '{}' does not follow '{}'", plan_.ops[op].name,
                           plan_.ops[certificate_.cuts[k - 1]].name);
    }
    return "";
  }

  // No children, or two that are opposites.
  std::string wrong_split(size_t node) const {
    const auto& children = children_[node];
    if (children.empty()) return "";
    if (children.size() != 2) return fmt::format("node {} has {} cases", node, children.size());
    const ProofNode& a = certificate_.nodes[children[0]];
    const ProofNode& b = certificate_.nodes[children[1]];
    if (a.variable != b.variable || a.cut != b.cut || a.id != b.id || a.value == b.value)
      return fmt::format("the cases of node {} do not cover it", node);
    if (literal(a).constant >= 0) return fmt::format("the cases of node {} are none", node);
    return "";
  }
  Literal literal(const ProofNode& node) const {
    const auto k = static_cast<size_t>(node.cut), id = static_cast<size_t>(node.id);
    if (node.variable == ProofVariable::kStay) return stay(k, PlanStorageId(id));
    if (facts_.is_view_op[PlanOpId(id)]) return {0, 0};
    return node.variable == ProofVariable::kRun ? run(k, PlanOpId(id)) : again(k, PlanOpId(id));
  }

  Literal run(size_t k, PlanOpId o) const {
    if (segments_->first[o] == k && segments_->latest[o] == k) return {0, 1};
    if (k < segments_->first[o] || k > segments_->last[o]) return {0, 0};
    return {key_of(ProofVariable::kRun, k, o.index()), -1};
  }
  Literal stay(size_t k, PlanStorageId s) const {
    const PlanOpId maker = facts_.maker[s];
    if (k == 0 || !maker.valid() || segments_->first[maker] >= k) return {0, 0};
    return {key_of(ProofVariable::kStay, k, s.index()), -1};
  }
  Literal again(size_t k, PlanOpId o) const {
    if (segments_->first[o] >= k) return {0, 1};
    if (segments_->last[o] < k) return {0, 0};
    return {key_of(ProofVariable::kAgain, k, o.index()), -1};
  }

  bool may_read(const ProofMultiplier& m) const {
    const auto k = static_cast<size_t>(m.cut);
    if (!facts_.maker[m.storage].valid()) return false;
    if (!m.op.valid())
      return facts_.is_output[m.storage] && (m.row == ProofRow::kAgainNeed || k == cuts_);
    return (k == 0 || m.op != certificate_.cuts[k - 1]) && precedence_.reads(m.op, m.storage);
  }

  Row make_row(const ProofMultiplier& m) const {
    const auto k = static_cast<size_t>(m.cut);
    const bool of_op =
        m.row == ProofRow::kOnce || m.row == ProofRow::kAgainRuns || m.row == ProofRow::kAgainLate;
    const bool of_storage = m.row == ProofRow::kNeed || m.row == ProofRow::kAgainNeed;
    Row row;
    row.valid = (k > 0 || m.row == ProofRow::kNeed || m.row == ProofRow::kOnce) &&
                (!of_op || (m.op.valid() && !facts_.is_view_op[m.op])) &&
                (!of_storage || (m.storage.valid() && may_read(m)));
    if (!row.valid) return row;
    switch (m.row) {
      case ProofRow::kCapacity:
        fill_capacity(row, k, m.divisor);
        break;
      case ProofRow::kNeed:
        row.add(1, stay(k, m.storage)), row.add(1, run(k, facts_.maker[m.storage]));
        row.add(-1, m.op.valid() ? run(k, m.op) : Literal{0, 1});
        break;
      case ProofRow::kStay:
        fill_keep(row, k, m.storage);
        break;
      case ProofRow::kOnce:
        row.least = 1;
        for (size_t j = segments_->first[m.op]; j <= segments_->latest[m.op]; ++j)
          row.add(1, run(j, m.op));
        break;
      case ProofRow::kAgainNeed:
        row.add(1, stay(k, m.storage)), row.add(1, again(k, facts_.maker[m.storage]));
        row.add(-1, m.op.valid() ? again(k, m.op) : Literal{0, 1});
        break;
      case ProofRow::kAgainRuns:
        for (size_t j = k; j <= cuts_; ++j) row.add(1, run(j, m.op));
        row.add(-1, again(k, m.op));
        break;
      case ProofRow::kAgainLate:
        row.least = 1;
        row.add(1, again(k, m.op));
        for (size_t j = 0; j < k; ++j) row.add(1, run(j, m.op));
        break;
    }
    return row;
  }

  void fill_capacity(Row& row, size_t k, int64_t divisor) const {
    const int64_t capacity = budget_ - moments_[k - 1].present_bytes;
    const int64_t most = divisor == 1 ? kMostBytes : kMostParts;
    row.valid =
        divisor >= 1 && (divisor == 1 || capacity >= 0) && std::abs(capacity / divisor) <= most;
    if (!row.valid) return;
    row.least = -(capacity / divisor);
    for (PlanStorageId s : plan_.storages.ids()) {
      if (!facts_.maker[s].valid()) continue;
      const int64_t parts = stay_bytes_[k - 1][s] / divisor;
      row.valid &= parts <= most;
      row.add(-parts, stay(k, s));
    }
  }
  void fill_keep(Row& row, size_t k, PlanStorageId s) const {
    row.valid = s.valid() && facts_.maker[s].valid() && segments_->first[facts_.maker[s]] < k;
    if (!row.valid) return;
    row.add(1, stay(k - 1, s)), row.add(1, run(k - 1, facts_.maker[s]));
    row.add(-1, moments_[k - 1].is_input[s] ? Literal{0, 1} : stay(k, s));
  }

  // Looks at all leaves below. What a node says holds while its children are looked at.
  // NOLINTNEXTLINE(misc-no-recursion): kDeepest at most
  Status visit(size_t node) {
    const ProofNode& n = certificate_.nodes[node];
    const Key variable = node > 0 ? literal(n).key : 0;
    std::optional<bool> outer;
    if (node > 0) {
      if (const auto known = fixed_.find(variable); known != fixed_.end()) outer = known->second;
      fixed_[variable] = n.value;
    }
    std::vector<std::pair<RowKey, int64_t>> before;
    for (const ProofMultiplier& m : n.multipliers) {
      const RowKey row{m.row, m.cut, m.op, m.storage, m.divisor};
      LT_RETURN_IF_ERROR(check_row(node, m, row));
      const auto known = multipliers_.find(row);
      before.emplace_back(row, known == multipliers_.end() ? 0 : known->second);
      set(row, m.value);
    }
    for (const size_t child : children_[node]) LT_RETURN_IF_ERROR(visit(child));
    if (children_[node].empty()) {
      const __int128 here = leaf();
      least_ = least_ ? std::min(*least_, here) : here;
      if (terms_ > kMostTerms)
        return error(ErrorCode::kInput, fmt::format("it has more than {} terms", kMostTerms));
    }
    for (size_t i = before.size(); i-- > 0;) set(before[i].first, before[i].second);
    if (outer) {
      fixed_[variable] = *outer;
    } else if (node > 0) {
      fixed_.erase(variable);
    }
    return {};
  }
  void set(const RowKey& row, int64_t value) {
    if (value > 0) {
      multipliers_[row] = value;
    } else {
      multipliers_.erase(row);
    }
  }

  Status check_row(size_t node, const ProofMultiplier& m, const RowKey& key) {
    if (!rows_.contains(key)) {
      if (m.row == ProofRow::kCapacity && ++divisors_[static_cast<size_t>(m.cut)] > kMostDivisors)
        return error(ErrorCode::kInput,
                     fmt::format("it has more than {} divisors at cut {}", kMostDivisors, m.cut));
      rows_[key] = make_row(m);
    }
    if (rows_.at(key).valid) return {};
    return error(ErrorCode::kInput,
                 fmt::format("node {} has a row of kind {} at cut {} that does not hold", node,
                             static_cast<int>(m.row), m.cut));
  }

  // In 2^-20 ticks.
  __int128 leaf() {
    __int128 total = 0;
    for (PlanOpId o : plan_.ops.ids())
      if (!facts_.is_view_op[o] && segments_->first[o] == segments_->latest[o])
        total += static_cast<__int128>(ticks_[o]) * kOne;
    std::unordered_map<Key, __int128> reduced;  // time, less what the multipliers take of it
    const auto of = [&](Key key) -> __int128& {
      const auto [at, is_new] = reduced.try_emplace(key, 0);
      if (is_new && key >> 62 == static_cast<uint64_t>(ProofVariable::kRun))
        at->second = static_cast<__int128>(ticks_[PlanOpId(key & 0xffffffffu)]) * kOne;
      return at->second;
    };
    for (const auto& [key, value] : fixed_) of(key);
    for (const auto& [key, value] : multipliers_) {
      const Row& row = rows_.at(key);
      const int64_t scale = std::get<4>(key) == 1 ? 1 : kOne;
      const __int128 weight = static_cast<__int128>(value) * certificate_.unit_ticks * scale;
      total += weight * row.least;
      for (const auto& [variable, coefficient] : row.terms) of(variable) -= weight * coefficient;
      terms_ += static_cast<int64_t>(row.terms.size()) + 1;
    }
    for (const auto& [key, value] : reduced) {
      const auto fixed = fixed_.find(key);
      const bool one = fixed == fixed_.end() ? value < 0 : fixed->second;
      if (one) total += value;
    }
    terms_ += static_cast<int64_t>(plan_.ops.size());
    return total;
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  const plan::Cases& certificate_;
  const int64_t budget_;
  const size_t cuts_;
  const Precedence precedence_;
  std::vector<Moment> moments_;       // by cut, from 0
  std::optional<Segments> segments_;  // set once the moments are
  std::vector<std::vector<size_t>> children_;
  IdVector<PlanOpId, int64_t> ticks_;                         // of one run
  std::vector<IdVector<PlanStorageId, int64_t>> stay_bytes_;  // by cut, from 0
  std::map<RowKey, Row> rows_;
  std::vector<size_t> divisors_;  // by cut: rows of its capacity
  // Of the node that is looked at, and those above it.
  std::map<RowKey, int64_t> multipliers_;
  std::map<Key, bool> fixed_;
  std::optional<__int128> least_;  // of the leaves so far
  int64_t terms_ = 0;
};

}  // namespace

Result<int64_t> branch_bound_ticks(const Facts& facts, const plan::Cases& certificate,
                                   int64_t budget) {
  const size_t cuts = certificate.cuts.size();
  if (cuts == 0 || cuts > kMostCuts)
    return error(ErrorCode::kInput,
                 fmt::format("it has {} cuts, at most {} are read", cuts, kMostCuts));
  return BranchBound(facts, certificate, budget).run();
}

}  // namespace lowtide::verify

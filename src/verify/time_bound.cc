// The evidence for the bound on the time: no schedule within the budget is faster, whatever it runs
// again or moves.
//
// The certificate names ops t_1, t_2, ..., each a descendant of the one before. Their first runs
// cut every schedule into segments 0 .. K. For each op the segment of its first run is known up to
// an interval [first, latest]; after `last` it can run no more. With R[k,o] = "o runs in segment k"
// and S[k,s] = "storage s stays in memory at t_k":
//
//     R[k,q] <= S[k,u] + R[k, maker of u]      for each u that q reads             (a)
//     S[k+1,s] <= S[k,s] + R[k, maker of s]    what stays was there or is made     (b)
//     sum of R[k,o] over first .. latest >= 1                                       (c)
//     bytes of S[k,.] <= budget - what is present with t_k anyway                   (d)
//     time of the step >= sum of R[k,o] * seconds of o
//
// A price for each byte of (d), and multipliers for (b) and (c), move these into the cost. What is
// left falls apart into a minimum cut per segment, whose value bounds the time from below for any
// prices and multipliers >= 0. Without multipliers (b) is worth nothing, and (c) what the op costs.
//
// With a slow tier (one cut only) the time before t_1 is bounded by the ops or by the stores of
// what is not in memory at t_1, the time after t_1 by the ops or by its loads; two shares mix the
// two, and a storage can also leave memory at the price of its transfers. Residents that the op
// does not need may be elsewhere, too.
//
// Times are whole ticks, rounded so that the bound only gets weaker.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "verify/branch_bound.h"
#include "verify/min_cut.h"
#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

constexpr double kTolerance = 1e-9;  // of the claimed bound
constexpr size_t kMostCuts = 64;
constexpr int64_t kOne = int64_t{1} << 20;
constexpr int64_t kMost = int64_t{1} << 61;

int64_t scaled(int64_t x, int64_t y, bool up = false) {
  const __int128 product = static_cast<__int128>(x) * y + (up ? kOne - 1 : 0);
  return static_cast<int64_t>(std::min<__int128>(product / kOne, kMost));
}

class TimeBound {
 public:
  TimeBound(const Facts& facts, int64_t budget)
      : facts_(facts),
        plan_(facts.plan),
        certificate_(*facts.plan.claims.time_certificate),
        budget_(budget),
        cuts_(certificate_.cuts.size()),
        linked_(!plan_.slow_tiers.empty()),
        precedence_(facts) {
    for (const plan::CutPrice& cut : certificate_.cuts) moments_.emplace_back(precedence_, cut.op);
    find_ticks();
    find_segments();
    find_multipliers();
  }

  // Nothing when the cuts are what they must be.
  std::string problem() const {
    for (size_t k = 1; k < cuts_; ++k)
      if (!moments_[k - 1].after[certificate_.cuts[k].op])
        return fmt::format("its op '{}' does not follow '{}'", name_of(k + 1), name_of(k));
    if (linked_ && cuts_ > 1) return "with a slow tier it has more than one cut";
    for (size_t k = 1; k <= cuts_; ++k)
      if (facts_.is_view_op[certificate_.cuts[k - 1].op])
        return fmt::format("its op '{}' only makes views", name_of(k));
    return "";
  }

  // The seconds that every schedule takes.
  double seconds() {
    __int128 ticks = 0;
    for (size_t k = 0; k <= cuts_; ++k) ticks += segment(k);
    for (PlanOpId o : plan_.ops.ids())
      if (undecided(o)) ticks += credit_[o];
    return static_cast<double>(std::max<__int128>(ticks, 0)) / ticks_per_second_;
  }

 private:
  using Mark = IdVector<PlanOpId, char>;
  template <class T>
  using PerOp = IdVector<PlanOpId, T>;

  const std::string& name_of(size_t k) const { return plan_.ops[certificate_.cuts[k - 1].op].name; }

  void find_ticks() {
    double once = 0;
    for (const plan::PlanOp& op : plan_.ops) once += op.predicted_seconds;
    for (ticks_per_second_ = 1e12; once * ticks_per_second_ > 0x1p40;) ticks_per_second_ /= 2;
    for (const plan::PlanOp& op : plan_.ops)
      ticks_.push_back(static_cast<int64_t>(op.predicted_seconds * ticks_per_second_));
    before_share_ = to_fixed(1 - certificate_.store_share, kOne);
    after_share_ = to_fixed(1 - certificate_.load_share, kOne);
    if (!linked_ || cuts_ > 1) before_share_ = after_share_ = kOne;
  }
  static int64_t to_fixed(double value, int64_t most) {
    return static_cast<int64_t>(
        std::clamp(std::round(value * static_cast<double>(kOne)), 0.0, static_cast<double>(most)));
  }

  void find_segments() {
    const size_t n = plan_.ops.size();
    first_ = PerOp<size_t>(n, 0), latest_ = PerOp<size_t>(n, cuts_), last_ = latest_;
    Mark is_cut(n, 0);
    for (size_t k = cuts_; k-- > 0;) {
      const Moment& moment = moments_[k];
      for (PlanOpId o : plan_.ops.ids()) {
        if (moment.before[o]) latest_[o] = k;
        if (moment.after[o] || o == moment.op) first_[o] = std::max(first_[o], k + 1);
      }
      is_cut[moment.op] = 1;
      latest_[moment.op] = k + 1;
    }
    for (PlanOpId o : plan_.ops.ids()) {
      last_[o] = precedence_.may_rerun[o] ? cuts_ : latest_[o];
      for (PlanOpId next : precedence_.followers[o])
        last_[o] = std::min(last_[o], is_cut[next] ? latest_[next] - 1 : latest_[next]);
    }
  }

  bool undecided(PlanOpId o) const { return !facts_.is_view_op[o] && first_[o] < latest_[o]; }
  bool forced(PlanOpId o, size_t k) const { return first_[o] == k && latest_[o] == k; }
  bool may_run(PlanOpId o, size_t k) const { return first_[o] <= k && k <= last_[o]; }
  int64_t cost(PlanOpId o, size_t k) const {
    if (cuts_ == 1 && o == certificate_.cuts[0].op) return ticks_[o];
    return scaled(ticks_[o], k == 0 ? before_share_ : after_share_);
  }

  void find_multipliers() {
    credit_ = PerOp<int64_t>(plan_.ops.size(), 0);
    const auto ticks = [&](double seconds) {
      return static_cast<int64_t>(
          std::round(std::min(seconds * ticks_per_second_, static_cast<double>(kOne << 24))));
    };
    for (PlanOpId o : plan_.ops.ids()) credit_[o] = std::min(cost(o, 0), cost(o, cuts_));
    for (const plan::Multiplier& m : certificate_.rerun_multipliers)
      credit_[PlanOpId(static_cast<size_t>(m.id))] = ticks(m.value);
    worth_.assign(cuts_ + 1, IdVector<PlanStorageId, int64_t>(plan_.storages.size(), 0));
    for (const plan::Multiplier& m : certificate_.store_multipliers) {
      const PlanStorageId s(static_cast<size_t>(m.id));
      const PlanOpId maker = facts_.maker[s];
      if (maker.valid() && first_[maker] <= static_cast<size_t>(m.cut))
        worth_[static_cast<size_t>(m.cut)][s] = ticks(m.value);
    }
  }

  // The price of staying, or of moving out before the cut and in after it: a share of the link's
  // time, and the compute time that the copies take.
  int64_t stay_ticks(int64_t bytes, size_t k, bool out) const {
    const int64_t stay = scaled(bytes, price(k));
    if (!linked_) return stay;
    double per_second_out = 0, per_second_in = 0;
    double copy = 1;
    for (const plan::SlowTier& tier : plan_.slow_tiers) {
      per_second_out += tier.bytes_per_second_out, per_second_in += tier.bytes_per_second_in;
      copy = std::min(copy, tier.compute_seconds_per_byte);
    }
    const auto ticks = [&](double per_second, int64_t share) {
      const double all = static_cast<double>(bytes) / per_second * ticks_per_second_;
      const double copied = static_cast<double>(bytes) * copy * ticks_per_second_;
      return scaled(static_cast<int64_t>(std::min(all, 1e18)), kOne - share) +
             static_cast<int64_t>(std::min(copied, 1e18));
    };
    return std::min(stay, ticks(per_second_in, after_share_) +
                              (out ? ticks(per_second_out, before_share_) : 0));
  }
  int64_t price(size_t k) const {
    const double price = certificate_.cuts[k - 1].price * ticks_per_second_;
    return static_cast<int64_t>(std::min(std::round(price * static_cast<double>(kOne)), 0x1p60));
  }

  // Of residents that the op does not need and a later one does.
  int64_t residents_ticks(size_t k) const {
    const Moment& moment = moments_[k - 1];
    IdVector<PlanStorageId, char> changed(plan_.storages.size(), 0);
    for (PlanOpId o : plan_.ops.ids())
      for (PlanValueId v : plan_.ops[o].outputs)
        if (plan_.values[v].alias == plan::PlanAlias::kUpdate && moment.before[o])
          changed[plan_.values[v].storage] = 1;
    int64_t ticks = 0;
    for (PlanStorageId s : plan_.storages.ids()) {
      if (!precedence_.may_move(s) || precedence_.reads(moment.op, s)) continue;
      const auto& readers = facts_.readers[s];
      if (std::any_of(readers.begin(), readers.end(),
                      [&](PlanOpId r) { return moment.after[r] != 0; }))
        ticks = std::min(kMost, ticks + stay_ticks(plan_.storages[s].bytes, k, changed[s] != 0));
    }
    return ticks;
  }

  // The least cost of segment k, less the price of its capacity.
  __int128 segment(size_t k) {
    __int128 constant = 0;
    if (k > 0) {
      const int64_t room = budget_ - moments_[k - 1].present_bytes;
      if (room < 0) return 0;  // nothing fits at all; any bound would do
      constant -= scaled(room, price(k), true);
      if (linked_) constant += residents_ticks(k);
    }
    const size_t source = plan_.ops.size() + plan_.storages.size(), sink = source + 1;
    MinCut cut(sink + 1);
    for (PlanOpId o : plan_.ops.ids()) add_op(cut, o, k, constant);
    for (PlanStorageId s : plan_.storages.ids())
      if (facts_.maker[s].valid()) add_storage(cut, s, k, constant);
    return constant + cut.run(source, sink);
  }

  void add_op(MinCut& cut, PlanOpId o, size_t k, __int128& constant) const {
    if (facts_.is_view_op[o]) return;
    const size_t source = plan_.ops.size() + plan_.storages.size(), sink = source + 1;
    int64_t ticks = cost(o, k);
    if (undecided(o) && first_[o] <= k && k <= latest_[o]) ticks -= credit_[o];
    for (PlanStorageId s : facts_.makes[o]) ticks -= worth_[k][s];
    if (forced(o, k)) constant += ticks;
    if (forced(o, k) || !may_run(o, k)) return;
    if (ticks > 0) cut.add_arc(o.index(), sink, capacity(ticks));
    if (ticks < 0) {
      cut.add_arc(source, o.index(), capacity(-ticks));
      constant += ticks;
    }
    for (PlanOpId next : precedence_.followers[o])
      if (latest_[next] == k && may_run(next, k) && !forced(next, k))
        cut.add_arc(o.index(), next.index(), MinCut::kUnlimited);
  }

  // So small that all of them can be summed; less than it is worth only weakens the bound.
  int64_t capacity(int64_t ticks) const {
    return std::min(ticks, kMost / (std::ssize(plan_.ops) + std::ssize(plan_.storages)));
  }

  void add_storage(MinCut& cut, PlanStorageId s, size_t k, __int128& constant) const {
    const size_t source = plan_.ops.size() + plan_.storages.size(), sink = source + 1;
    const PlanOpId maker = facts_.maker[s];
    const bool old = first_[maker] < k;
    int64_t ticks = 0;
    if (old) {
      ticks = stay_ticks(moments_[k - 1].stay_bytes(s), k, true) - worth_[k][s];
      if (moments_[k - 1].is_input[s]) {
        constant += worth_[k - 1][s];
      } else {
        ticks += worth_[k - 1][s];
      }
      if (ticks < 0) constant += ticks;
      if (ticks <= 0) return;  // it stays
    }
    if (!old && forced(maker, k)) return;
    const size_t node = plan_.ops.size() + s.index();
    bool wanted = k == cuts_ && facts_.is_output[s];
    for (PlanOpId reader : facts_.readers[s]) {
      if (k > 0 && reader == certificate_.cuts[k - 1].op) continue;
      if (forced(reader, k)) {
        wanted = true;
      } else if (may_run(reader, k)) {
        cut.add_arc(reader.index(), node, MinCut::kUnlimited);
      }
    }
    if (wanted) cut.add_arc(source, node, MinCut::kUnlimited);
    cut.add_arc(node, may_run(maker, k) ? maker.index() : sink,
                old ? capacity(ticks) : MinCut::kUnlimited);
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  const plan::TimeCertificate& certificate_;
  const int64_t budget_;
  const size_t cuts_;
  const bool linked_;
  const Precedence precedence_;
  std::vector<Moment> moments_;  // by cut, from 0
  double ticks_per_second_ = 1;
  int64_t before_share_ = kOne, after_share_ = kOne;
  PerOp<int64_t> ticks_;                                 // of one run
  PerOp<int64_t> credit_;                                // multiplier of (c)
  std::vector<IdVector<PlanStorageId, int64_t>> worth_;  // multipliers of (b), by segment
  PerOp<size_t> first_, latest_, last_;                  // segments
};

}  // namespace

void check_time_certificate(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  report.time_bound_seconds = report.once_seconds;
  if (!claims.time_certificate) return;
  const auto refuse = [&](std::string message) {
    findings.add(Violation::kTimeCertificate, std::move(message));
  };
  if (claims.time_certificate->cuts.size() > kMostCuts)
    return refuse(fmt::format("the certificate of the time has more than {} cuts", kMostCuts));
  if (claims.budget_bytes) {
    TimeBound bound(facts, *claims.budget_bytes);
    if (const std::string problem = bound.problem(); !problem.empty())
      return refuse(fmt::format("the certificate of the time: {}", problem));
    report.time_bound_seconds = std::max(report.once_seconds, bound.seconds());
    if (claims.branch_certificate) {
      const auto cases =
          branch_bound_seconds(facts, *claims.branch_certificate, *claims.budget_bytes);
      if (!cases) return refuse(fmt::format("the proof by cases: {}", cases.error().message));
      report.time_bound_seconds = std::max(report.time_bound_seconds, *cases);
    }
  }
  if (claims.lower_bound_seconds > report.time_bound_seconds * (1 + kTolerance))
    refuse(fmt::format("a bound of {} seconds claimed, {} shown", claims.lower_bound_seconds,
                       report.time_bound_seconds));
}

}  // namespace lowtide::verify

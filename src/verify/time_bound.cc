// The evidence for the bound on the time, checked as Lagrangian relaxation (a minimum cut per
// segment): no schedule within the budget is faster, whatever it runs again or moves.
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
// With a slow tier a storage can also leave memory and come back (passage.h): what it is worth to
// be there at a cut, or to have a copy in slow memory, joins the segments in place of (b). Each
// segment's time is at least any mixture of its ops', stores' and loads', and the copies take
// compute time in any case. Residents may be elsewhere, too; as no op makes them, their cheapest
// way through all segments adds to the bound.
//
// Times are whole ticks (plan/tick_scale.h), rounded so that the bound only gets weaker. What is
// claimed is a number of them, too, so it is compared as it stands.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "plan/tick_scale.h"
#include "verify/branch_bound.h"
#include "verify/min_cut.h"
#include "verify/passage.h"
#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

constexpr size_t kMostTimeCuts = 64;

class TimeBound {
 public:
  TimeBound(const Facts& facts, int64_t budget)
      : facts_(facts),
        plan_(facts.plan),
        certificate_(*facts.plan.claims.certificate.time),
        budget_(budget),
        cuts_(certificate_.cuts.size()),
        linked_(!plan_.slow_tiers.empty()),
        scale_(facts.plan),
        precedence_(facts) {
    for (const plan::PlanOp& op : plan_.ops) ticks_.push_back(scale_.down(op.predicted_seconds));
    for (const plan::CutPrice& cut : certificate_.cuts) moments_.emplace_back(precedence_, cut.op);
    segments_.emplace(precedence_, moments_);
    find_weights();
    find_transfers();
    find_multipliers();
  }

  // Nothing when the cuts are what they must be.
  std::string problem() const {
    for (size_t k = 1; k < cuts_; ++k)
      if (!moments_[k - 1].after[certificate_.cuts[k].op])
        return fmt::format("its op '{}' does not follow '{}'", name_of(k + 1), name_of(k));
    for (size_t k = 1; k <= cuts_; ++k)
      if (facts_.is_view_op[certificate_.cuts[k - 1].op])
        return fmt::format("its op '{}' only makes views", name_of(k));
    return "";
  }

  // That every schedule takes.
  int64_t ticks() {
    __int128 ticks = 0;
    for (size_t k = 0; k <= cuts_; ++k) ticks += segment(k);
    for (PlanOpId o : plan_.ops.ids())
      if (undecided(o)) ticks += credit_[o];
    if (linked_ && cuts_ > 0) ticks += residents();
    return static_cast<int64_t>(std::clamp<__int128>(ticks, 0, kNever));
  }

 private:
  using Mark = IdVector<PlanOpId, char>;
  template <class T>
  using PerOp = IdVector<PlanOpId, T>;

  const std::string& name_of(size_t k) const { return plan_.ops[certificate_.cuts[k - 1].op].name; }

  void find_weights() {
    weights_.store.assign(cuts_ + 1, 0), weights_.load = weights_.store;
    if (!linked_) return;
    for (size_t k = 0; k < std::min(cuts_ + 1, certificate_.shares.size()); ++k) {
      weights_.store[k] = certificate_.shares[k].store;
      weights_.load[k] = certificate_.shares[k].load;
    }
  }

  bool undecided(PlanOpId o) const {
    return !facts_.is_view_op[o] && segments_->first[o] < segments_->latest[o];
  }
  int64_t cost(PlanOpId o, size_t k) const {
    const bool cut_op = k > 0 && o == certificate_.cuts[k - 1].op;
    return times(ticks_[o], cut_op ? weights_.of_cut_op(k) : weights_.of_ops(k));
  }

  Transfer transfer_of(int64_t bytes) const {
    double out = 0, in = 0, copying = 1;
    for (const plan::SlowTier& tier : plan_.slow_tiers) {
      out += tier.bytes_per_second_out, in += tier.bytes_per_second_in;
      copying = std::min(copying, tier.compute_seconds_per_byte);
    }
    const auto all = static_cast<double>(bytes);
    return {scale_.down(all / out), scale_.down(all / in), scale_.down(all * copying)};
  }

  // What each storage costs at each cut, and to move.
  void find_transfers() {
    stay_.assign(cuts_ + 1, IdVector<PlanStorageId, int64_t>(plan_.storages.size(), 0));
    for (PlanStorageId s : plan_.storages.ids()) {
      transfer_.push_back(linked_ ? transfer_of(plan_.storages[s].bytes) : Transfer{});
      for (size_t k = 1; k <= cuts_; ++k) stay_[k][s] = staying(moments_[k - 1].stay_bytes(s), k);
    }
  }
  int64_t staying(int64_t bytes, size_t k) const {
    return std::min(plan::kMostTicks, times(bytes, price(k)));
  }

  void find_multipliers() {
    credit_ = PerOp<int64_t>(plan_.ops.size(), 0);
    for (PlanOpId o : plan_.ops.ids()) {
      credit_[o] = cost(o, segments_->first[o]);
      for (size_t k = segments_->first[o]; k <= segments_->latest[o]; ++k)
        credit_[o] = std::min(credit_[o], cost(o, k));
    }
    for (const plan::Multiplier& m : certificate_.rerun_multipliers)
      credit_[PlanOpId(static_cast<size_t>(m.id))] = m.value;
    worth_.assign(cuts_ + 2, IdVector<PlanStorageId, ByPlace>(plan_.storages.size(), ByPlace{}));
    for (size_t k = 1; k <= cuts_; ++k)
      for (PlanStorageId s : plan_.storages.ids())
        if (linked_ && made_before(s, k)) worth_[k][s][kAway] = store_ticks(s, k - 1);
    for (const plan::Multiplier& m : certificate_.copy_multipliers)
      if (linked_ && made_before(storage(m), cut(m))) worth_[cut(m)][storage(m)][kAway] += m.value;
    for (const plan::Multiplier& m : certificate_.store_multipliers)
      if (made_before(storage(m), cut(m))) worth_[cut(m)][storage(m)][kPresent] = m.value;
    for (auto& at_cut : worth_)
      for (ByPlace& worth : at_cut) worth[kKept] = std::max(worth[kPresent], worth[kAway]);
  }
  static PlanStorageId storage(const plan::Multiplier& m) {
    return PlanStorageId(static_cast<size_t>(m.id));
  }
  static size_t cut(const plan::Multiplier& m) { return static_cast<size_t>(m.cut) + 1; }
  bool made_before(PlanStorageId s, size_t k) const {
    return facts_.maker[s].valid() && segments_->first[facts_.maker[s]] < k;
  }
  int64_t store_ticks(PlanStorageId s, size_t k) const {
    return transfer_[s].store(weights_, segments_->first[facts_.maker[s]], k);
  }

  int64_t price(size_t k) const { return certificate_.cuts[k - 1].price; }

  // What residents that may be elsewhere cost in all segments.
  __int128 residents() const {
    IdVector<PlanStorageId, std::vector<PlanOpId>> writers(plan_.storages.size());
    for (PlanOpId o : plan_.ops.ids())
      for (PlanValueId v : plan_.ops[o].outputs)
        if (plan_.values[v].alias == plan::PlanAlias::kUpdate)
          writers[plan_.values[v].storage].push_back(o);
    __int128 ticks = 0;
    for (PlanStorageId s : plan_.storages.ids())
      if (precedence_.may_move(s)) ticks += resident(s, writers[s]).least(weights_);
    return ticks;
  }

  ResidentPassage resident(PlanStorageId s, const std::vector<PlanOpId>& writers) const {
    ResidentPassage passage;
    passage.transfer = transfer_[s];
    passage.at_cut.assign(cuts_ + 1, 0);
    for (size_t k = 1; k <= cuts_; ++k)
      passage.at_cut[k] = precedence_.reads(certificate_.cuts[k - 1].op, s)
                              ? kNever
                              : staying(plan_.storages[s].bytes, k);
    passage.needed.assign(cuts_ + 1, 0);
    for (PlanOpId o : facts_.readers[s]) {
      const bool at_cut =
          segments_->latest[o] > 0 && certificate_.cuts[segments_->latest[o] - 1].op == o;
      if (segments_->first[o] == segments_->latest[o] && !at_cut)
        passage.needed[segments_->latest[o]] = 1;
    }
    passage.written = !writers.empty();
    passage.written_after = passage.written_before = cuts_;
    for (PlanOpId o : writers) {
      passage.written_after = std::min(passage.written_after, segments_->first[o]);
      passage.written_before = std::min(passage.written_before, segments_->latest[o]);
    }
    return passage;
  }

  // The least cost of segment k, less the price of its capacity.
  __int128 segment(size_t k) {
    __int128 constant = 0;
    if (k > 0) {
      const int64_t room = budget_ - moments_[k - 1].present_bytes;
      if (room < 0) return 0;  // nothing fits at all; any bound would do
      constant -= times(room, price(k), true);
    }
    const size_t source = plan_.ops.size() + plan_.storages.size(), sink = source + 1;
    MinCut cut(sink + 1);
    PerOp<int64_t> gains(plan_.ops.size(), 0);  // for their storages, by running
    for (PlanStorageId s : plan_.storages.ids())
      if (facts_.maker[s].valid()) add_storage(cut, s, k, gains, constant);
    for (PlanOpId o : plan_.ops.ids()) add_op(cut, o, k, gains[o], constant);
    return constant + cut.run(source, sink);
  }

  void add_op(MinCut& cut, PlanOpId o, size_t k, int64_t gain, __int128& constant) const {
    if (facts_.is_view_op[o]) return;
    const size_t source = plan_.ops.size() + plan_.storages.size(), sink = source + 1;
    int64_t ticks = cost(o, k);
    if (undecided(o) && segments_->first[o] <= k && k <= segments_->latest[o]) ticks -= credit_[o];
    if (segments_->forced(o, k)) constant += ticks;
    if (segments_->forced(o, k) || !segments_->may_run(o, k)) return;
    ticks -= gain;
    if (ticks > 0) cut.add_arc(o.index(), sink, capacity(ticks));
    if (ticks < 0) {
      cut.add_arc(source, o.index(), capacity(-ticks));
      constant += ticks;
    }
    for (PlanOpId next : precedence_.followers[o])
      if (segments_->latest[next] == k && segments_->may_run(next, k) &&
          !segments_->forced(next, k))
        cut.add_arc(o.index(), next.index(), MinCut::kUnlimited);
  }

  // So small that all of them can be summed; less than it is worth only weakens the bound.
  static int64_t capacity(int64_t ticks) { return std::min(ticks, plan::kMostArcTicks); }

  Passage passage(PlanStorageId s, size_t k) const {
    const size_t made = segments_->first[facts_.maker[s]];
    Passage passage;
    passage.begin = {0, kNever, kNever, kNever};
    if (made > k) return passage;
    if (k < cuts_) passage.end = worth_[k + 1][s];
    if (linked_) passage.store = store_ticks(s, k);
    if (made == k) return passage;
    const ByPlace& worth = worth_[k][s];
    const int64_t stay = stay_[k][s];
    passage.begin[kPresent] = worth[kPresent] + stay;
    if (moments_[k - 1].is_input[s]) passage.begin[kGone] = worth[kPresent];
    if (!linked_) return passage;
    passage.begin[kKept] = worth[kKept] + stay;
    passage.begin[kAway] = worth[moments_[k - 1].is_input[s] ? kKept : kAway];
    std::vector<int64_t> at_cut(cuts_ + 1, 0);
    for (size_t i = 1; i <= k; ++i) at_cut[i] = moments_[i - 1].is_input[s] ? kNever : stay_[i][s];
    passage.load = transfer_[s].load(weights_, at_cut, made, k);
    return passage;
  }

  // Adds its arcs, what it costs when nothing runs that need not (to the constant), and what it
  // costs less when its maker does.
  void add_storage(MinCut& cut, PlanStorageId s, size_t k, PerOp<int64_t>& gains,
                   __int128& constant) const {
    const size_t source = plan_.ops.size() + plan_.storages.size(), sink = source + 1;
    const PlanOpId maker = facts_.maker[s];
    const Passage ways = passage(s, k);
    const int64_t idle = ways.least(segments_->forced(maker, k), false);
    constant += idle;
    if (segments_->forced(maker, k)) return;
    if (segments_->may_run(maker, k)) gains[maker] += idle - ways.least(true, false);
    const int64_t needed = ways.least(false, true);
    if (needed == idle) return;
    const size_t node = plan_.ops.size() + s.index();
    bool wanted = k == cuts_ && facts_.is_output[s];
    for (PlanOpId reader : facts_.readers[s]) {
      if (k > 0 && reader == certificate_.cuts[k - 1].op) continue;
      if (segments_->forced(reader, k)) {
        wanted = true;
      } else if (segments_->may_run(reader, k)) {
        cut.add_arc(reader.index(), node, MinCut::kUnlimited);
      }
    }
    if (wanted) cut.add_arc(source, node, MinCut::kUnlimited);
    cut.add_arc(node, segments_->may_run(maker, k) ? maker.index() : sink,
                needed < kNever ? capacity(needed - idle) : MinCut::kUnlimited);
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  const plan::TimeCuts& certificate_;
  const int64_t budget_;
  const size_t cuts_;
  const bool linked_;
  const plan::TickScale scale_;
  const Precedence precedence_;
  std::vector<Moment> moments_;       // by cut, from 0
  std::optional<Segments> segments_;  // set once the moments are
  Weights weights_;
  IdVector<PlanStorageId, Transfer> transfer_;
  std::vector<IdVector<PlanStorageId, int64_t>> stay_;   // by cut, from 1: what staying costs
  PerOp<int64_t> ticks_;                                 // of one run
  PerOp<int64_t> credit_;                                // multiplier of (c)
  std::vector<IdVector<PlanStorageId, ByPlace>> worth_;  // multipliers of (b), by cut, from 1
};

// What the certificates show.
Status find_bound(const Facts& facts, Report& report) {
  const plan::Claims& claims = facts.plan.claims;
  if (claims.certificate.time->cuts.size() > kMostTimeCuts)
    return error(ErrorCode::kInput,
                 fmt::format("the certificate of the time has more than {} cuts", kMostTimeCuts));
  if (facts.plan.ops.size() + facts.plan.storages.size() > plan::kMostTickNodes)
    return error(ErrorCode::kInput,
                 fmt::format("bounds on the time are of at most {} ops and storages together",
                             plan::kMostTickNodes));
  TimeBound bound(facts, *claims.budget_bytes);
  if (const std::string problem = bound.problem(); !problem.empty())
    return error(ErrorCode::kInput, fmt::format("the certificate of the time: {}", problem));
  report.time_bound_ticks = std::max(report.time_bound_ticks, bound.ticks());
  if (!claims.certificate.cases) return {};
  const auto cases = branch_bound_ticks(facts, *claims.certificate.cases, *claims.budget_bytes);
  if (!cases)
    return error(ErrorCode::kInput, fmt::format("the proof by cases: {}", cases.error().message));
  report.time_bound_ticks = std::max(report.time_bound_ticks, *cases);
  return {};
}

}  // namespace

void check_time_certificate(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  const plan::TickScale scale(facts.plan);
  report.time_bound_ticks = scale.once();
  if (claims.certificate.time && claims.budget_bytes)
    if (const Status shown = find_bound(facts, report); !shown)
      return findings.add(Violation::kTimeCertificate, shown.error().message);
  const auto in_seconds = [&](int64_t ticks) {
    return scale.bound_seconds(ticks, claims.once_seconds, !facts.plan.slow_tiers.empty());
  };
  report.time_bound_seconds = in_seconds(report.time_bound_ticks);
  if (!claims.certificate.time && claims.lower_bound_ticks != scale.once())
    findings.add(Violation::kTimeBoundUncertified,
                 fmt::format("bound on the time, each op once: {} ticks claimed, {} found",
                             claims.lower_bound_ticks, scale.once()));
  if (claims.lower_bound_ticks > report.time_bound_ticks)
    findings.add(Violation::kTimeCertificate,
                 fmt::format("a bound of {} ticks claimed, {} shown", claims.lower_bound_ticks,
                             report.time_bound_ticks));
  const double seconds = std::min(in_seconds(claims.lower_bound_ticks), claims.predicted_seconds);
  if (claims.lower_bound_seconds != seconds)
    findings.add(Violation::kTimeBoundSeconds,
                 fmt::format("a bound of {} seconds claimed, {} ticks of it are {}",
                             claims.lower_bound_seconds, claims.lower_bound_ticks, seconds));
}

}  // namespace lowtide::verify

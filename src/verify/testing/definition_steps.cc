// The steps by definition: questions about a moment, each answered by looking back (or ahead) at
// the steps that touch a storage. Nothing is carried along. A moment t is the beginning of step t;
// the end is moment n.
#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/tick_scale.h"
#include "verify/testing/definition_parts.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::Step;
using Kind = plan::Step::Kind;

constexpr int64_t kBefore = -1;

struct Shown {
  PlanValueId version;
  int64_t since = kBefore;  // the step that computed it
};

class Story {
 public:
  explicit Story(const Plan& p)
      : p_(p),
        end_(std::ssize(p.steps)),
        touched_(p.storages.size()),
        runs_(p.ops.size()),
        after_(p.ops.size()) {
    for (int64_t t = 0; t < end_; ++t) {
      const Step& step = at(t);
      if (step.kind != Kind::kCompute) {
        touched_[step.storage].push_back(t);
        continue;
      }
      runs_[step.op].push_back(t);
      for (const plan::Placement& made : step.makes) {
        touched_[made.storage].push_back(t);
        if (made.reuses.valid()) touched_[made.reuses].push_back(t);
      }
      for (PlanValueId v : p.ops[step.op].outputs)
        if (p.values[v].alias == PlanAlias::kUpdate) touched_[p.values[v].storage].push_back(t);
    }
    for (PlanOpId o : p.ops.ids())
      for (PlanOpId before : p.ops[o].control) after_[before].push_back(o);
  }

  const char* wrong(int64_t& peak) const {
    for (int64_t t = 0; t < end_; ++t)
      if (!step_is_right(t)) return at(t).kind == Kind::kCompute ? "runs" : "frees and moves";
    if (!end_is_right()) return "the end";
    if (!slots_are_right()) return "slots";
    return space_is_right(peak) ? nullptr : "addresses";
  }

 private:
  const Step& at(int64_t t) const { return p_.steps[static_cast<size_t>(t)]; }
  bool stays_in_arena(PlanStorageId s) const {
    return p_.storages[s].resident && !p_.storages[s].home_slow;
  }

  // ---- what happened

  const plan::Placement* made_at(PlanStorageId s, int64_t t) const {
    for (const plan::Placement& made : at(t).makes)
      if (made.storage == s) return &made;
    return nullptr;
  }
  bool moves(PlanStorageId s, int64_t t, Kind kind) const {
    return at(t).kind == kind && at(t).storage == s;
  }
  bool begins(PlanStorageId s, int64_t t) const {
    return moves(s, t, Kind::kLoad) || made_at(s, t) != nullptr;
  }
  bool ends(PlanStorageId s, int64_t t) const {
    const std::vector<plan::Placement>& makes = at(t).makes;
    return moves(s, t, Kind::kFree) ||
           std::any_of(makes.begin(), makes.end(), [&](const auto& m) { return m.reuses == s; });
  }

  // The last step before t with a property, or the first after it.
  template <class Is>
  std::optional<int64_t> last(PlanStorageId s, int64_t before, Is is) const {
    for (size_t i = touched_[s].size(); i-- > 0;)
      if (touched_[s][i] < before && is(touched_[s][i])) return touched_[s][i];
    return std::nullopt;
  }
  int64_t end_of_stay(PlanStorageId s, int64_t begin) const {
    for (int64_t t : touched_[s])
      if (t > begin && ends(s, t)) return t;
    return end_;
  }
  bool there(PlanStorageId s, int64_t t) const {
    const auto begin = last(s, t, [&](int64_t u) { return begins(s, u); });
    if (!begin && !stays_in_arena(s)) return false;
    const int64_t end = end_of_stay(s, begin.value_or(kBefore));
    return end >= t;
  }
  std::optional<Kind> under_way(PlanStorageId s, int64_t t) const {
    const auto found = last(s, t, [&](int64_t u) {
      return moves(s, u, Kind::kStore) || moves(s, u, Kind::kLoad) || moves(s, u, Kind::kWait);
    });
    if (!found || at(*found).kind == Kind::kWait) return std::nullopt;
    return at(*found).kind;
  }

  PlanValueId update_at(PlanStorageId s, int64_t t) const {
    PlanValueId result;
    if (at(t).kind != Kind::kCompute) return result;
    for (PlanValueId v : p_.ops[at(t).op].outputs)
      if (p_.values[v].alias == PlanAlias::kUpdate && p_.values[v].storage == s) result = v;
    return result;
  }
  // NOLINTNEXTLINE(misc-no-recursion): once per store of the storage
  std::optional<Shown> shown(PlanStorageId s, int64_t t) const {
    const auto since =
        last(s, t, [&](int64_t u) { return begins(s, u) || update_at(s, u).valid(); });
    if (!since)
      return stays_in_arena(s) ? std::optional(Shown{p_.storages[s].root, kBefore}) : std::nullopt;
    if (moves(s, *since, Kind::kLoad)) return in_slot(s, *since);
    const PlanValueId update = update_at(s, *since);
    return Shown{update.valid() ? update : p_.storages[s].root, *since};
  }
  // NOLINTNEXTLINE(misc-no-recursion): see shown
  std::optional<Shown> in_slot(PlanStorageId s, int64_t t) const {
    const auto stored = last(s, t, [&](int64_t u) { return moves(s, u, Kind::kStore); });
    if (stored) return shown(s, *stored);
    if (p_.storages[s].home_slow) return Shown{p_.storages[s].root, kBefore};
    return std::nullopt;
  }
  std::optional<int64_t> last_run(PlanOpId o, int64_t before) const {
    std::optional<int64_t> found;
    for (int64_t t : runs_[o])
      if (t < before) found = t;
    return found;
  }

  // ---- what should happen

  bool step_is_right(int64_t t) const {
    const Step& step = at(t);
    if (step.kind == Kind::kCompute) return run_is_right(t);
    const PlanStorageId s = step.storage;
    const bool idle = !under_way(s, t);
    switch (step.kind) {
      case Kind::kFree:
        return there(s, t) && idle && !stays_in_arena(s);
      case Kind::kStore:
        return there(s, t) && idle;
      case Kind::kLoad:
        return !there(s, t) && in_slot(s, t).has_value();
      default:
        return !idle;
    }
  }

  bool run_is_right(int64_t t) const {
    const PlanOpId o = at(t).op;
    const plan::PlanOp& op = p_.ops[o];
    for (PlanOpId before : op.control)
      if (!last_run(before, t)) return false;
    if (last_run(o, t) && !only_views(p_, o)) {
      const ops::Traits& traits = ops::traits(*ops::find(op.kind));
      if (!traits.recomputable || traits.has_effect) return false;
      for (PlanOpId after : after_[o])
        if (last_run(after, t)) return false;
    }
    for (PlanValueId v : op.inputs)
      if (v.valid() && !can_read(v, t)) return false;
    for (PlanValueId v : op.outputs)
      if (p_.values[v].alias == PlanAlias::kPieces && !together(p_.values[v].storage, t))
        return false;
    for (PlanValueId v : op.outputs)
      if (p_.values[v].alias == PlanAlias::kUpdate && under_way(p_.values[v].storage, t))
        return false;
    const std::vector<plan::Placement>& makes = at(t).makes;
    for (size_t i = 0; i < makes.size(); ++i) {
      if (there(makes[i].storage, t)) return false;
      if (makes[i].reuses.valid() && !takes_over(makes[i], t)) return false;
      for (size_t j = 0; j < i; ++j)
        if (makes[i].reuses.valid() && makes[i].reuses == makes[j].reuses) return false;
    }
    return true;
  }

  bool can_read(PlanValueId v, int64_t t) const {
    const plan::PlanValue& value = p_.values[v];
    for (const auto& [s, offset] : lies_in(p_, value.storage)) {
      if (!there(s, t) || under_way(s, t) == Kind::kLoad) return false;
      const std::optional<Shown> now = shown(s, t);
      if (!now || now->version != version_in(v, s)) return false;
      if (!value.producer.valid()) continue;
      const auto made = last_run(value.producer, t);
      if (!made || *made < now->since) return false;
    }
    return together(value.storage, t);
  }

  // What a storage that the value lies in has to show: of a piece there is one version.
  PlanValueId version_in(PlanValueId v, PlanStorageId s) const {
    return s == p_.values[v].storage ? shown_version(p_, v) : p_.storages[s].root;
  }

  // Pieces lie at their distances.
  bool together(PlanStorageId s, int64_t t) const {
    const auto pieces = lies_in(p_, s);
    return std::all_of(pieces.begin(), pieces.end(), [&](const auto& piece) {
      return address(piece.first, t) - piece.second == address(pieces[0].first, t);
    });
  }

  bool takes_over(const plan::Placement& heir, int64_t t) const {
    const PlanStorageId from = heir.reuses;
    return may_take_over(p_, from, heir.storage) && there(from, t) && !under_way(from, t) &&
           address(from, t) == heir.address;
  }

  int64_t address(PlanStorageId s, int64_t t) const {
    const auto begin = last(s, t, [&](int64_t u) { return begins(s, u); });
    if (!begin) return p_.storages[s].address;
    const plan::Placement* made = made_at(s, *begin);
    return made != nullptr ? made->address : at(*begin).address;
  }

  bool end_is_right() const {
    for (PlanOpId o : p_.ops.ids())
      if (runs_[o].empty()) return false;
    for (PlanStorageId s : p_.storages.ids()) {
      if (is_whole(p_, s)) continue;
      if (under_way(s, end_)) return false;
      const bool stays = p_.storages[s].resident ? stays_in_arena(s) : holds_output(p_, s);
      if (there(s, end_) != stays) return false;
      if (!p_.storages[s].home_slow) continue;
      PlanValueId newest = p_.storages[s].root;
      for (const plan::PlanOp& op : p_.ops)
        for (PlanValueId v : op.outputs)
          if (p_.values[v].alias == PlanAlias::kUpdate && p_.values[v].storage == s) newest = v;
      const std::optional<Shown> kept = in_slot(s, end_);
      if (!kept || kept->version != newest) return false;
    }
    for (PlanValueId v : p_.values.ids()) {
      if (!p_.values[v].is_output) continue;
      for (const auto& [s, offset] : lies_in(p_, p_.values[v].storage)) {
        const std::optional<Shown> kept =
            p_.storages[s].home_slow ? in_slot(s, end_) : shown(s, end_);
        if (!kept || kept->version != version_in(v, s)) return false;
        const bool piece = s != p_.values[v].storage;
        if (piece && *last_run(p_.values[v].producer, end_) < kept->since) return false;
      }
      if (is_whole(p_, p_.values[v].storage) && !together(p_.values[v].storage, end_)) return false;
    }
    return true;
  }

  // ---- space

  // First and last step in which the slot is in use; home: always.
  std::pair<int64_t, int64_t> slot_use(PlanStorageId s) const {
    if (p_.storages[s].home_slow) return {kBefore, end_};
    std::pair<int64_t, int64_t> use{end_, kBefore};
    for (int64_t t : touched_[s]) {
      if (moves(s, t, Kind::kStore)) use.first = std::min(use.first, t);
      if (moves(s, t, Kind::kStore) || moves(s, t, Kind::kLoad) || moves(s, t, Kind::kWait))
        use.second = t;
    }
    return use;
  }
  bool slots_are_right() const {
    for (PlanStorageId a : p_.storages.ids()) {
      const plan::PlanStorage& one = p_.storages[a];
      if (one.slow_tier < 0) continue;
      if (one.slow_address % p_.alignment_bytes != 0 ||
          one.slow_address + one.bytes > p_.slow_tiers[static_cast<size_t>(one.slow_tier)].bytes)
        return false;
      const auto [first, last_use] = slot_use(a);
      for (PlanStorageId b : p_.storages.ids()) {
        const plan::PlanStorage& other = p_.storages[b];
        if (b == a || other.slow_tier != one.slow_tier || one.bytes == 0 || other.bytes == 0)
          continue;
        const auto [other_first, other_last] = slot_use(b);
        if (first > last_use || other_first > other_last) continue;
        if (first <= other_last && other_first <= last_use &&
            one.slow_address < other.slow_address + other.bytes &&
            other.slow_address < one.slow_address + one.bytes)
          return false;
      }
    }
    return true;
  }

  struct Stay {
    int64_t begin, end, address, bytes;
  };
  std::vector<Stay> stays() const {
    std::vector<Stay> result;
    for (PlanStorageId s : p_.storages.ids()) {
      const int64_t bytes = p_.storages[s].bytes;
      if (stays_in_arena(s)) result.push_back({kBefore, end_ + 1, p_.storages[s].address, bytes});
      for (int64_t t : touched_[s])
        if (begins(s, t)) {
          const int64_t end = end_of_stay(s, t);
          result.push_back({t, end, address(s, t + 1), bytes});
        }
    }
    return result;
  }
  bool space_is_right(int64_t& peak) const {
    const std::vector<Stay> all = stays();
    peak = 0;
    for (const Stay& stay : all) {
      if (stay.address % p_.alignment_bytes != 0 || stay.address + stay.bytes > p_.arena_bytes)
        return false;
      if (stay.begin == kBefore) peak += stay.bytes;
    }
    for (int64_t t = kBefore; t < end_; ++t) {
      if (t != kBefore && at(t).kind != Kind::kCompute && at(t).kind != Kind::kLoad) continue;
      int64_t present = 0;
      if (!apart_at(all, t, present)) return false;
      peak = std::max(peak, present);
    }
    return true;
  }
  // Everything that is present during step t lies apart; `present` gets its bytes.
  bool apart_at(const std::vector<Stay>& all, int64_t t, int64_t& present) const {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const Stay& stay : all) {
      if (stay.begin > t || stay.end <= t) continue;
      present += stay.bytes;
      if (stay.bytes > 0) ranges.emplace_back(stay.address, stay.address + stay.bytes);
    }
    if (t != kBefore && at(t).kind == Kind::kCompute && p_.ops[at(t).op].workspace_bytes > 0) {
      const int64_t bytes = p_.ops[at(t).op].workspace_bytes, from = at(t).workspace_address;
      present += bytes;
      ranges.emplace_back(from, from + bytes);
      if (from % p_.alignment_bytes != 0) return false;
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i].second > p_.arena_bytes || (i > 0 && ranges[i].first < ranges[i - 1].second))
        return false;
    return true;
  }

  const Plan& p_;
  const int64_t end_;
  IdVector<PlanStorageId, std::vector<int64_t>> touched_;  // steps, ascending
  IdVector<PlanOpId, std::vector<int64_t>> runs_;
  IdVector<PlanOpId, std::vector<PlanOpId>> after_;
};

// When each step begins, with the time of all streams' ends behind the last.
double step_seconds(const Plan& p) {
  const size_t n = p.steps.size();
  std::vector<double> begins(n + 1, 0), done(n, 0);
  double end = 0, copying = 0;
  const auto moves = [](const Step& s) { return s.kind == Kind::kStore || s.kind == Kind::kLoad; };
  for (size_t t = 0; t < n; ++t) {
    const Step& step = p.steps[t];
    begins[t + 1] = begins[t];
    if (step.kind == Kind::kCompute) begins[t + 1] += p.ops[step.op].predicted_seconds;
    if (moves(step)) {
      const plan::PlanStorage& storage = p.storages[step.storage];
      const plan::SlowTier& tier = p.slow_tiers[static_cast<size_t>(storage.slow_tier)];
      const double speed =
          step.kind == Kind::kStore ? tier.bytes_per_second_out : tier.bytes_per_second_in;
      double from = begins[t];
      for (size_t u = 0; u < t; ++u)
        if (p.steps[u].kind == step.kind &&
            p.storages[p.steps[u].storage].slow_tier == storage.slow_tier)
          from = std::max(from, done[u]);
      copying += tier.compute_seconds_per_byte * static_cast<double>(storage.bytes);
      done[t] = from + tier.latency_seconds + static_cast<double>(storage.bytes) / speed;
    }
    if (step.kind == Kind::kWait)
      for (size_t u = 0; u < t; ++u)
        if (moves(p.steps[u]) && p.steps[u].storage == step.storage)
          begins[t + 1] = std::max(begins[t + 1], done[u]);
    end = std::max({end, begins[t + 1], done[t]});
  }
  return end + copying;
}

}  // namespace

const char* wrong_with_steps(const Plan& p, int64_t& peak) {
  return Story(p).wrong(peak);
}

const char* wrong_with_times(const Plan& p) {
  const plan::Claims& claims = p.claims;
  if (claims.budget_bytes && *claims.budget_bytes < p.arena_bytes) return "budget";
  if (!floor_is_right(p)) return "floor";
  if (!parts_floor_is_right(p)) return "floor in any parts";
  double once = 0, runs = 0;
  for (const plan::PlanOp& op : p.ops) once += op.predicted_seconds;
  for (const Step& step : p.steps)
    if (step.kind == Kind::kCompute) runs += p.ops[step.op].predicted_seconds;
  const double seconds = step_seconds(p);
  if (!std::isfinite(seconds)) return "seconds";
  const auto near = [](double a, double b, double of) { return std::abs(a - b) <= 1e-9 * of; };
  if (!near(claims.once_seconds, once, once)) return "seconds once";
  if (!near(claims.predicted_seconds, seconds, seconds)) return "seconds";
  if (!near(claims.exposed_seconds, seconds - runs, seconds)) return "seconds exposed";
  const plan::TickScale scale(p);
  if (!claims.certificate.time && claims.lower_bound_ticks != scale.once()) return "bound on time";
  const double bound =
      scale.bound_seconds(claims.lower_bound_ticks, claims.once_seconds, !p.slow_tiers.empty());
  if (claims.lower_bound_seconds != std::min(bound, claims.predicted_seconds))
    return "bound on time";
  return nullptr;
}

}  // namespace lowtide::verify

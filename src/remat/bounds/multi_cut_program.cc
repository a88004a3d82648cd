#include "remat/bounds/multi_cut_program.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/check.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct CutProgramTuning {
  int64_t units_of_step = int64_t{1} << 26;  // of the time of each op once: what multipliers count
  size_t main_sizes = 5;                     // of values, to which capacities are rounded
};
constexpr CutProgramTuning kCutProgram;

// A variable, or what it must be.
struct Literal {
  uint32_t variable = 0;
  int8_t constant = kFree;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const CutSegments& segments, int64_t small_bytes, MultiCutProgram& out)
      : at_(segments), graph_(*segments.graph), out_(out) {
    const plan::ScheduleProblem& problem = *graph_.problem;
    counts_ = IdVector<SchedValueId, char>(problem.values.size(), 0);
    for (SchedValueId v : problem.values.ids()) counts_[v] = problem.values[v].bytes > small_bytes;
    useful_ = IdVector<SchedOpId, char>(graph_.size(), 0);
    for (SchedOpId op : useful_.ids()) {
      useful_[op] = at_.undecided(op);
      for (SchedValueId v : graph_.makes[op]) useful_[op] |= counts_[v];
    }
    for (auto* of : {&run_, &again_})
      of->assign(at_.size() + 1, std::vector<uint32_t>(graph_.size(), kNone));
    stay_.assign(at_.size() + 1, std::vector<uint32_t>(problem.values.size(), kNone));
  }

  void build() {
    out_.unit_ticks = std::max<int64_t>(1, graph_.once_ticks / kCutProgram.units_of_step);
    out_.once_ticks = graph_.once_ticks;
    out_.forced_ticks = -graph_.once_ticks;
    for (SchedOpId op : useful_.ids()) {
      if (!at_.undecided(op)) out_.forced_ticks += graph_.ticks[op];
      if (at_.undecided(op)) add_once(op);
    }
    for (size_t k = 0; k <= at_.size(); ++k) {
      add_needs(k);
      if (k == 0) continue;
      add_capacity(k, 1);
      for (const int64_t size : main_sizes()) add_capacity(k, size);
      add_stays(k);
      add_again(k);
    }
  }

 private:
  // The sizes of which there are most bytes.
  std::vector<int64_t> main_sizes() const {
    std::map<int64_t, int64_t> bytes;
    for (SchedValueId v : counts_.ids())
      if (counts_[v]) bytes[graph_.problem->values[v].bytes] += graph_.problem->values[v].bytes;
    std::vector<std::pair<int64_t, int64_t>> most;
    for (const auto& [size, total] : bytes) most.emplace_back(-total, size);
    std::sort(most.begin(), most.end());
    std::vector<int64_t> sizes;
    for (const auto& [total, size] : most)
      if (sizes.size() < kCutProgram.main_sizes) sizes.push_back(size);
    return sizes;
  }

  static constexpr uint32_t kNone = ~uint32_t{0};
  using Index = std::vector<std::vector<uint32_t>>;  // by cut and id

  Literal variable(Index& index, CutVariableKind kind, size_t k, size_t id, int64_t ticks) {
    uint32_t& slot = index[k][id];
    if (slot == kNone) {
      slot = static_cast<uint32_t>(out_.variables.size());
      out_.variables.push_back({kind, k, id});
      out_.ticks.push_back(ticks);
    }
    return {slot, kFree};
  }
  Literal run(size_t k, SchedOpId op) {
    if (at_.forced(op, k)) return {0, 1};
    if (!at_.may_run(op, k)) return {0, 0};
    return variable(run_, CutVariableKind::kRun, k, op.index(), graph_.ticks[op]);
  }
  Literal stay(size_t k, SchedValueId v) {
    if (k == 0 || at_.first[graph_.problem->values[v].producer] >= k) return {0, 0};
    return variable(stay_, CutVariableKind::kStay, k, v.index(), 0);
  }
  Literal again(size_t k, SchedOpId op) {
    if (at_.first[op] >= k) return {0, 1};
    if (at_.last[op] < k) return {0, 0};
    return variable(again_, CutVariableKind::kAgain, k, op.index(), 0);
  }

  void begin(CutRowKind kind, size_t k, SchedOpId op, SchedValueId value, int64_t least) {
    row_ = {{kind, k, op, value}, least, {}};
  }
  void add(int64_t coefficient, Literal x) {
    if (x.constant == kFree) {
      row_.terms.push_back({x.variable, coefficient});
    } else {
      row_.least -= coefficient * x.constant;
    }
  }
  // Rows that always hold say nothing.
  void end() {
    int64_t worst = 0;
    for (const CutTerm& term : row_.terms) worst += std::min<int64_t>(0, term.coefficient);
    if (worst < row_.least) out_.rows.push_back(row_);
  }

  // Would a run of the op in segment k be worth a look?
  bool looked_at(size_t k, SchedOpId op) const {
    return at_.forced(op, k) || (at_.may_run(op, k) && useful_[op]);
  }
  bool is_cut(size_t k, SchedOpId op) const { return k > 0 && at_.cuts[k - 1] == op; }

  void add_once(SchedOpId op) {
    begin(CutRowKind::kOnce, 0, op, SchedValueId::none(), 1);
    for (size_t k = at_.first[op]; k <= at_.latest[op]; ++k) add(1, run(k, op));
    end();
  }

  void add_needs(size_t k) {
    const plan::ScheduleProblem& problem = *graph_.problem;
    for (SchedValueId v : problem.values.ids()) {
      if (!counts_[v]) continue;
      const SchedOpId maker = problem.values[v].producer;
      const auto need = [&](SchedOpId reader, Literal by) {
        begin(CutRowKind::kNeed, k, reader, v, 0);
        add(1, stay(k, v)), add(1, run(k, maker)), add(-1, by);
        end();
      };
      if (at_.forced(maker, k)) continue;
      for (SchedOpId reader : problem.values[v].readers)
        if (!is_cut(k, reader) && looked_at(k, reader)) need(reader, run(k, reader));
      if (k == at_.size() && problem.values[v].is_output) need(SchedOpId::none(), {0, 1});
    }
  }

  void add_capacity(size_t k, int64_t divisor) {
    if (at_.capacity[k - 1] < 0 && divisor > 1) return;
    begin(CutRowKind::kCapacity, k, SchedOpId::none(), SchedValueId::none(),
          -(at_.capacity[k - 1] / divisor));
    row_.name.divisor = divisor;
    for (SchedValueId v : counts_.ids()) {
      const int64_t parts = counts_[v] ? at_.stay_bytes[k - 1][v] / divisor : 0;
      if (parts > 0) add(-parts, stay(k, v));
    }
    end();
  }

  void add_stays(size_t k) {
    for (SchedValueId v : counts_.ids()) {
      const SchedOpId maker = graph_.problem->values[v].producer;
      if (!counts_[v] || at_.first[maker] >= k) continue;
      begin(CutRowKind::kStay, k, SchedOpId::none(), v, 0);
      add(1, stay(k - 1, v)), add(1, run(k - 1, maker));
      add(-1, at_.is_input[k - 1][v] ? Literal{0, 1} : stay(k, v));
      end();
    }
  }

  void add_again(size_t k) {
    const plan::ScheduleProblem& problem = *graph_.problem;
    for (SchedValueId v : problem.values.ids()) {
      if (!counts_[v]) continue;
      const SchedOpId maker = problem.values[v].producer;
      if (at_.first[maker] >= k) continue;
      const auto need = [&](SchedOpId reader, Literal by) {
        begin(CutRowKind::kAgainNeed, k, reader, v, 0);
        add(1, stay(k, v)), add(1, again(k, maker)), add(-1, by);
        end();
      };
      for (SchedOpId reader : problem.values[v].readers)
        if (!is_cut(k, reader) && (at_.first[reader] >= k || useful_[reader]))
          need(reader, again(k, reader));
      if (problem.values[v].is_output) need(SchedOpId::none(), {0, 1});
    }
    for (SchedOpId op : useful_.ids()) {
      if (!useful_[op] || again(k, op).constant != kFree) continue;
      begin(CutRowKind::kAgainRuns, k, op, SchedValueId::none(), 0);
      for (size_t j = k; j <= at_.size(); ++j) add(1, run(j, op));
      add(-1, again(k, op));
      end();
      if (at_.latest[op] < k) continue;
      begin(CutRowKind::kAgainLate, k, op, SchedValueId::none(), 1);
      add(1, again(k, op));
      for (size_t j = at_.first[op]; j < k; ++j) add(1, run(j, op));
      end();
    }
  }

  const CutSegments& at_;
  const StepGraph& graph_;
  MultiCutProgram& out_;
  IdVector<SchedValueId, char> counts_;  // large enough to be in it
  IdVector<SchedOpId, char> useful_;     // makes such a value, or its first run is undecided
  Index run_, stay_, again_;
  CutRow row_;
};

}  // namespace

MultiCutProgram::MultiCutProgram(const CutSegments& segments, int64_t small_bytes) {
  ProgramBuilder(segments, small_bytes, *this).build();
}

// In 2^-20 ticks, so that bytes and 2^20-ths of a unit row go together.
int64_t MultiCutProgram::bound(std::span<const CutMultiplier> multipliers,
                               std::span<const int8_t> fixed) const {
  __int128 total = static_cast<__int128>(forced_ticks) * kOne;
  std::vector<__int128> reduced(variables.size());
  for (size_t j = 0; j < reduced.size(); ++j) reduced[j] = static_cast<__int128>(ticks[j]) * kOne;
  for (const CutMultiplier& m : multipliers) {
    LT_CHECK(m.value >= 0);
    const CutRow& row = rows[m.row];
    const int64_t scale = counts_bytes(row.name) ? 1 : kOne;
    const __int128 weight = static_cast<__int128>(m.value) * unit_ticks * scale;
    total += weight * row.least;
    for (const CutTerm& term : row.terms) reduced[term.variable] -= weight * term.coefficient;
  }
  for (size_t j = 0; j < reduced.size(); ++j)
    if (fixed[j] == 1 || (fixed[j] == kFree && reduced[j] < 0)) total += reduced[j];
  const __int128 whole = total >= 0 ? total / kOne : (total - kOne + 1) / kOne;
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max() / 2;
  return static_cast<int64_t>(std::clamp(whole, -kMost, kMost));
}

}  // namespace lowtide::remat

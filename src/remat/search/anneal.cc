#include "remat/search/anneal.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct AnnealTuning {
  double strict = 0.3;           // mu at the end
  double lenient = 0.3;          // share of the run during which mu follows its schedule
  double step = 0.02;            // by which mu changes at a look
  double most_pressure = 1e4;    // of mu over its schedule
  double most_cost = 1e17;       // in ticks: far above any, far below what overflows
  int64_t look = 64;             // proposals between looks at progress, clock and cancel
  int64_t work_of_proposal = 4;  // units: those that come to nothing cost a little, too
};
constexpr AnnealTuning kAnneal;

class Anneal {
 public:
  Anneal(SequenceState& state, const AnnealOptions& options, Rng& rng)
      : state_(state),
        options_(options),
        rng_(rng),
        proposals_(state, options.proposals, rng),
        cost_share_(1 / std::max(1.0, static_cast<double>(state.table().once_cost()))),
        overflow_share_(1 / std::max(1.0, state.table().capacity())) {}

  AnnealResult run(const AnnealWatch& watch) {
    const int64_t start = state_.work(), edits = state_.edits();
    note_best();
    int64_t work = 0;
    for (int64_t tried = 0;; ++tried) {
      if (tried % kAnneal.look == 0) {
        work = state_.work() - start + tried * kAnneal.work_of_proposal;
        if (work >= options_.units || watch.stopped(work)) break;
        set_progress(static_cast<double>(work) / static_cast<double>(options_.units));
      }
      step();
    }
    keep_pending();
    return {std::move(best_), state_.edits() - edits, work};
  }

 private:
  void set_progress(double share) {
    temperature_ = options_.hot * std::pow(options_.cold / options_.hot, share);
    // Where the schedule of mu leaves a state that does not fit, more is asked, until it does.
    if (share > kAnneal.lenient) {
      pressure_ *= state_.overflow() > 0 ? 1 + kAnneal.step : 1 - kAnneal.step;
      pressure_ = std::clamp(pressure_, 1.0, kAnneal.most_pressure);
    }
    mu_ = (options_.loose + (kAnneal.strict - options_.loose) * share) * pressure_;
  }

  // What may be accepted is decided by the dice first: changes that cost more than that, even if
  // they ended all overflow, are then not even made.
  void step() {
    const int64_t cost = state_.extra_cost();
    const double overflow = state_.overflow();
    const size_t mark = state_.mark();
    const double allowed = -temperature_ * std::log(1 - rng_.uniform());
    const double most = (allowed + mu_ * overflow * overflow_share_) / cost_share_;
    const bool made =
        proposals_.make(cost + static_cast<int64_t>(std::min(most, kAnneal.most_cost)));
    const double change = static_cast<double>(state_.extra_cost() - cost) * cost_share_ +
                          mu_ * (state_.overflow() - overflow) * overflow_share_;
    const bool taken = made && state_.mark() > mark && change <= allowed;
    if (!taken) {
      state_.undo_to(mark);
      return;
    }
    if (pending_ && (state_.overflow() > 0 || state_.extra_cost() > cost)) {
      // The best would be left: copy it first. The step itself is lost, which costs nothing.
      state_.undo_to(mark);
      keep_pending();
      return;
    }
    state_.forget_log();
    note_best();
  }

  void note_best() {
    if (state_.overflow() > 0 || state_.extra_cost() >= best_cost_) return;
    best_cost_ = state_.extra_cost();
    pending_ = true;
  }
  void keep_pending() {
    if (!pending_) return;
    best_ = Found{state_.sequence(), state_.extra_cost()};
    pending_ = false;
  }
  SequenceState& state_;
  const AnnealOptions& options_;
  Rng& rng_;
  Proposals proposals_;
  double cost_share_, overflow_share_;
  double temperature_ = 0, mu_ = 0, pressure_ = 1;
  int64_t best_cost_ = std::numeric_limits<int64_t>::max();
  bool pending_ = false;  // the state is the best so far and not copied yet
  std::optional<Found> best_;
};

}  // namespace

AnnealResult anneal(SequenceState& state, const AnnealOptions& options, Rng& rng,
                    const AnnealWatch& watch) {
  return Anneal(state, options, rng).run(watch);
}

}  // namespace lowtide::remat

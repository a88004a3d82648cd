// Which labels (fission/labels.h) are worth a plan: best-first search over the numbers of parts of
// the levels of the largest axis class (MAGIS, sections 5.1 and 6.2), and over rewrites, blocks of
// queries and cuts along a second axis that go with them. Each state is judged by the scaled
// problem of one part (label_problem.h): by the order of the state that it comes from, scheduled
// anew around its peak (order/waist.h), where that misses the budget by the closure cut's bound,
// and where the bound promises more than the best so far by a short search for reruns and, with a
// link, transfers (label_schedule.h).
//
// A state's neighbours change one level (label_neighbours.h). They wait in the queue by what the
// prices of that state's cut forecast of them (label_forecast.h) and are judged when their turn
// comes; most never are. What takes no less time than the best, each op once, is dominated. Equal
// cuts of equal graphs are one state, whatever labels name them.
//
// Then rewrites and blocks join the queue (step_moves.h): from the best labels without them, each
// step with one more of them is posed anew, and its labels are states beside all others. Then cuts
// along a second axis do, from the best of all these, where the first axis is nearly used up. Each
// has states of its own, so what is found without it is never lost. The order of work depends on
// counted work only.
//
// States are taken one after another, and each changes what is known of the best for those behind
// it. But what is found out about one (label_judge.h) hangs on little of that, so with more threads
// workers (base/workers.h) do it for the next ones of the queue before their turn: bounds,
// forecasts, steps with rewrites, and searches for schedules, which are done again where the best
// has changed meanwhile. So the outcome is the same with any number of threads.
//
// Tests: tests/label_oracle_test.cc, tests/label_moves_test.cc, tests/label_threads_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fission/labels.h"
#include "fission/rules.h"
#include "ir/graph.h"
#include "pipeline/label_problem.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LabelSearchTuning {
  int levels = 8;  // of candidate regions (MAGIS: 4): they are cheap
  // The parts of a level that a state may have, as factors of those around it.
  int64_t factors[6] = {2, 3, 4, 6, 8, 16};
  int most_states = 400;             // that are judged: about 1 s at 1,000 ops
  int64_t forecast_per_state = 10;   // and so many times more that are forecast
  int64_t most_state_ops = 800'000;  // of all states' ops: of very many ops fewer states
  // Rewrites and blocks, and after them cuts, go on from so many of the best labels, each with this
  // part of the states (and of closer looks), and a step of its own for each so many.
  size_t moved_from = 4, moved_share = 3, states_of_variant = 25;
  int64_t most_parts = 64;  // kernels of less are too small
  size_t most_starts = 8;   // those that may be planned
  // Of the first so many, that recompute, a start for less memory by this part, too: arenas of
  // GPT-Neo's 36,000 buffers were 1.7 % above the peak.
  size_t tight_starts = 4;
  int64_t tight_share = 32;
  double gap_share = 0.5;    // of what the tightest bound was too low by
  double worth = 0.002;      // of the best time: what a search must promise
  int late_searches = 16;    // of what is left when there are so many states; in all with moves
  size_t closer_looks = 12;  // states with the best bounds, with so many units
  int64_t closer_units = 4'000'000;
  int searches_without = 4;  // schedules of other states to start from
  // With a link: at most so many searches for schedules before moves join. Bounds say
  // little there, so nearly every state would get one.
  int most_moving_searches = 64;
  // Where the best is so far above a state's bound, a closer look has more, and starts of its own
  // beside those: what is known of others leads only so far.
  double far = 0.01;
  int64_t far_units = 20'000'000;
  // With workers: so many entries of the queue for each thread are known before their turn.
  size_t ahead = 4;
  int most_threads = 8;  // each more is for guesses further ahead
  // Of a state. Its cut is of few ops: which one binds changes little from state to state, and each
  // op that is looked at costs a network.
  int64_t cut_patience = 4;
  double cut_tolerance = 0.01;
  int64_t cut_units = 2'000'000, order_units = 320'000, remat_units = 1'000'000;
};

struct Candidate {
  fission::Labels labels = {};
  int64_t query_blocks = 0;                 // 0: as the options say
  std::vector<fission::CutRule> cuts = {};  // beside the options'
  std::vector<std::string> rewrites = {};   // likewise
  bool fits = false;                        // within the budget, by the estimate
  double seconds = 0;      // of the step within the budget; without `fits` each op once
  int64_t peak_bytes = 0;  // of the best order, each op once
  // The schedule behind the estimate, of the step in parts, as names of its ops (named_runs.h), and
  // one that needs less. Of those at the front that fit.
  std::vector<std::vector<std::string>> starts = {};

  bool cuts_anything() const { return !labels.whole() || query_blocks > 0 || !cuts.empty(); }
  // Whether anything is done to the step beside labels.
  bool has_moves() const { return query_blocks > 0 || !cuts.empty() || !rewrites.empty(); }
  // Each kind has places of its own among what is tried: labels alone, blocks and rewrites, cuts.
  static constexpr size_t kKinds = 3;
  size_t kind() const { return !cuts.empty() ? 2 : has_moves() ? 1 : 0; }
  bool is_better_than(const Candidate& other) const {
    if (fits != other.fits) return fits;
    return fits ? std::pair(seconds, peak_bytes) < std::pair(other.seconds, other.peak_bytes)
                : std::pair(peak_bytes, seconds) < std::pair(other.peak_bytes, other.seconds);
  }
  bool cuts_as(const Candidate& other) const {
    return labels == other.labels && query_blocks == other.query_blocks && cuts == other.cuts &&
           rewrites == other.rewrites;
  }
};

// A step with moves.
struct MovedStep {
  ir::Graph graph;
  LabelledStep how = {};  // which labels there are of it
};

// Steps that the same search looks at beside the given one: with rewrites, attention in blocks, or
// ops in parts along another axis, which lie within those of the labels.
struct StepMoves {
  // Each a rewrite, a number of blocks or a cut; nothing else, but what frees the axis of a cut.
  std::vector<Candidate> moves = {};
  std::function<Result<MovedStep>(const Candidate& moves)> step = {};  // with those of a candidate
};

// States of a search.
struct LabelSearchCounts {
  int64_t forecast = 0;  // by the prices of labels that differ in one level
  int64_t judged = 0;    // by a schedule and a bound of their own
  int64_t evaluated() const { return forecast + judged; }
};

inline constexpr double kAnyTime = std::numeric_limits<double>::infinity();

// Best first: what fits by time, then the rest by peak, then what takes no less than the best with
// each op once. `step` is the graph to be run, and `options` have a budget. What takes no less than
// `below_seconds` is not searched. Empty where no axis class has two ops.
Result<std::vector<Candidate>> label_candidates(const ir::Graph& step,
                                                const OptimizeOptions& options,
                                                const LabelSearchTuning& tuning = {},
                                                double below_seconds = kAnyTime,
                                                const StepMoves& moves = {},
                                                LabelSearchCounts* counts = nullptr);

// The whole step, and behind it even parts that are estimated to keep the budget with some room and
// each op once: from the fewest on, at most so many of them. No search, and no state of the one
// above: it takes what posing the problem takes, and milliseconds for each number.
Result<std::vector<Candidate>> even_candidates(const ir::Graph& step,
                                               const OptimizeOptions& options, size_t most,
                                               const LabelSearchTuning& tuning = {});

// What keeps the budget with reruns by a short search, the fastest first: the whole step, and of
// even parts that promise to be faster the first that does, in the order of their bounds. Where
// neither does (a vocabulary's loss that needs more parts than the rest), the first labels with
// levels that do, of as many states as a search without moves has.
Result<std::vector<Candidate>> rough_within(const ir::Graph& step, const OptimizeOptions& options,
                                            const LabelSearchTuning& tuning = {});
// The same of the whole step alone; empty where the search finds none.
Result<std::vector<Candidate>> whole_within(const ir::Graph& step, const OptimizeOptions& options,
                                            const LabelSearchTuning& tuning = {});

// Even parts that no bound on one part of everything makes slower than that, the least bound first:
// 2, 3, 4, 6, 8, 12 and so on, and as many as there can be. Their seconds are the bounds.
Result<std::vector<Candidate>> even_below(const ir::Graph& step, const OptimizeOptions& options,
                                          double below_seconds,
                                          const LabelSearchTuning& tuning = {});

// Whether some labels, with moves or without, are estimated to keep the budget in less time than
// that: the same search, as far as it is needed for an answer.
Result<bool> any_labels_fit(const ir::Graph& step, const OptimizeOptions& options,
                            double below_seconds, const StepMoves& moves = {},
                            const LabelSearchTuning& tuning = {});

}  // namespace lowtide::pipeline

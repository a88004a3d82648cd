// The steps that the label search (label_search.h) has states of: the given one, and what rewrites
// and blocks of queries make of it (its moves), one by one or together.
//
// A variant is made when the first state of it is judged, since making and posing a step takes
// longer than judging labels of it. One that is the same graph as another is known by its hash, and
// dropped. A move that changes nothing of the given step is not tried on others.
//
// Tests: step_variants_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "fission/labels.h"
#include "ir/graph.h"
#include "pipeline/label_neighbours.h"
#include "pipeline/label_problem.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

class StepVariants {
 public:
  // Both must stay.
  StepVariants(const OptimizeOptions& options, const LabelSearchTuning& tuning)
      : options_(options), tuning_(tuning) {}

  // The given step is variant 0. False: it has no axis class.
  Result<bool> begin(const ir::Graph& step);
  // What else may be done to it, in `most` variants in all.
  void allow(StepMoves moves, size_t most);
  bool has_moves() const { return !moves_.moves.empty(); }

  // Those with one move more that are not known to be of no use. They may not be made yet.
  std::vector<size_t> next_to(size_t variant);
  // Makes it, unless it is there. False: it is of no use, or there are enough of them. What is
  // wrong with a step that cannot be made or posed, a plan of it would say.
  bool make(size_t variant);

  // Of one that is made.
  LabelProblem& problem(size_t variant) const { return *all_[variant].problem; }
  uint64_t hash(size_t variant) const { return all_[variant].hash; }
  int64_t most_parts(size_t variant) const;
  Result<std::vector<fission::Labels>> neighbours(size_t variant, const fission::Labels& labels);
  // Blocks and rewrites, beside the options'.
  const Candidate& moves(size_t variant) const { return all_[variant].moves; }

 private:
  struct Variant {
    Candidate moves = {};
    uint64_t hash = 0;  // of the graph's text: ops, what they read, names
    std::unique_ptr<LabelProblem> problem = {};
    std::optional<LabelNeighbours> neighbours = {};
    bool is_dead = false;  // it cannot be made, or is a step that is there already
  };

  std::optional<size_t> with(size_t variant, const Candidate& move);

  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  StepMoves moves_ = {};
  size_t most_ = 1;
  std::vector<Variant> all_;
};

}  // namespace lowtide::pipeline

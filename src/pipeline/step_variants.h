// The steps that the label search (label_search.h) has states of: the given one, and what rewrites,
// blocks of queries and cuts along other axes make of it (its moves), one by one or together.
//
// A variant is made when the first state of it is judged, since making and posing a step takes
// longer than judging labels of it. One that is the same graph as another is known by its hash, and
// dropped. A move that changes nothing of the given step is not tried on others. Workers may make
// one ahead of its turn; whether it is taken is decided in its turn.
//
// Tests: step_variants_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/shared_set.h"
#include "base/workers.h"
#include "fission/labels.h"
#include "ir/graph.h"
#include "pipeline/label_neighbours.h"
#include "pipeline/label_problem.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// A step that is made and posed. Several threads may ask at once.
class PosedVariant {
 public:
  // All must stay.
  PosedVariant(std::unique_ptr<LabelProblem> problem, uint64_t hash, const OptimizeOptions& options,
               const LabelSearchTuning& tuning)
      : hash_(hash), problem_(std::move(problem)), options_(options), tuning_(tuning) {}

  const LabelProblem& problem() const { return *problem_; }
  uint64_t hash() const { return hash_; }  // of the graph's text: ops, what they read, names
  int64_t most_parts() const;
  Result<std::vector<fission::Labels>> neighbours(const fission::Labels& labels) const;

 private:
  Result<LabelNeighbours> find_neighbours() const;

  const uint64_t hash_;
  const std::unique_ptr<LabelProblem> problem_;
  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  mutable std::once_flag has_neighbours_;
  mutable std::optional<Result<LabelNeighbours>> neighbours_ = {};
};

class StepVariants {
 public:
  // Both must stay.
  StepVariants(const OptimizeOptions& options, const LabelSearchTuning& tuning)
      : options_(options), tuning_(tuning) {}

  // The given step is variant 0. False: it has no axis class.
  Result<bool> begin(const ir::Graph& step);
  // What else may be done to it, in `most` variants without cuts, and as many with them.
  void allow(StepMoves moves, size_t most);
  bool has_moves() const { return !moves_.moves.empty(); }
  // Of ops along a second axis; 0: no move cuts.
  int64_t most_cut_parts() const;

  // Those with one move more that are not known to be of no use. They may not be made yet.
  std::vector<size_t> next_to(size_t variant);
  // Makes it, unless it is there. False: it is of no use, or there are enough of them. What is
  // wrong with a step that cannot be made or posed, a plan of it would say.
  bool make(size_t variant, Workers& workers);
  // What a worker can do of that. Null: nothing.
  std::shared_ptr<Workers::Piece> making(size_t variant);

  // Of one that is made.
  bool is_made(size_t variant) const { return all_[variant].posed != nullptr; }
  const PosedVariant& posed(size_t variant) const { return *all_[variant].posed; }
  const LabelProblem& problem(size_t variant) const { return posed(variant).problem(); }
  uint64_t hash(size_t variant) const { return posed(variant).hash(); }
  // Blocks, cuts and rewrites, beside the options'.
  const Candidate& moves(size_t variant) const { return all_[variant].moves; }

 private:
  struct Variant {
    Candidate moves = {};
    std::unique_ptr<PosedVariant> posed = {};
    Ahead<std::unique_ptr<PosedVariant>> making = {};  // comes to none that is of no use
    bool is_dead = false;  // it cannot be made, or is a step that is there already
  };

  std::optional<size_t> with(size_t variant, const Candidate& move);
  bool may_make(const Variant& variant) const;
  std::unique_ptr<PosedVariant> made_of(const Candidate& moves) const;
  std::unique_ptr<PosedVariant> posed_of(Result<std::unique_ptr<LabelProblem>> problem,
                                         uint64_t hash) const;

  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  StepMoves moves_ = {};
  size_t most_ = 1;
  SharedSet<uint64_t> hashes_;  // of those that are made
  std::vector<Variant> all_;
};

}  // namespace lowtide::pipeline

#include "pipeline/step_variants.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>

#include "fission/regions.h"
#include "ir/graph_text.h"

namespace lowtide::pipeline {
namespace {

uint64_t hash_of_text(const ir::Graph& step) {
  const std::string text = ir::print(step);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

int64_t PosedVariant::most_parts() const {
  return std::min(problem_->axis_class().least_extent, tuning_.most_parts);
}

Result<LabelNeighbours> PosedVariant::find_neighbours() const {
  LT_ASSIGN(std::vector<fission::Region> regions,
            fission::find_regions(problem_->step(), problem_->axis_class(), problem_->view(),
                                  problem_->given(), tuning_.levels));
  // In a plan, whose inner parts come last, a level is named by an op that no cut has made.
  std::erase_if(regions, [&](const fission::Region& region) {
    return problem_->made(region.head) != LabelledStep::Made::kWhole;
  });
  return LabelNeighbours(problem_->step(), regions, most_parts(), tuning_.most_parts,
                         tuning_.factors);
}

Result<std::vector<fission::Labels>> PosedVariant::neighbours(const fission::Labels& labels) const {
  std::call_once(has_neighbours_, [&] { neighbours_ = find_neighbours(); });
  if (!*neighbours_) return tl::unexpected(neighbours_->error());
  return (*neighbours_)->of(labels, options_.mutations);
}

Result<bool> StepVariants::begin(const ir::Graph& step) {
  LT_ASSIGN(std::unique_ptr<LabelProblem> problem,
            LabelProblem::make(step, options_, tuning_.order_units));
  if (!problem) return false;
  Variant& given = all_.emplace_back();
  given.posed = posed_of(std::move(problem), hash_of_text(step));
  hashes_.insert(given.posed->hash());
  return true;
}

void StepVariants::allow(StepMoves moves, size_t most) {
  moves_ = std::move(moves);
  most_ = most;
}

std::vector<size_t> StepVariants::next_to(size_t variant) {
  std::vector<size_t> next;
  for (const Candidate& move : moves_.moves) {
    const std::optional<size_t> alone = with(0, move);
    if (!alone || all_[*alone].is_dead) continue;  // it changes nothing
    const std::optional<size_t> made = with(variant, move);
    if (made && !all_[*made].is_dead) next.push_back(*made);
  }
  return next;
}

// None: the variant has that move.
std::optional<size_t> StepVariants::with(size_t variant, const Candidate& move) {
  Candidate moves = all_[variant].moves;
  if (move.query_blocks > 0 && std::exchange(moves.query_blocks, move.query_blocks) > 0)
    return std::nullopt;
  if (!move.cuts.empty() && !std::exchange(moves.cuts, move.cuts).empty()) return std::nullopt;
  for (const std::string& name : move.rewrites) {
    const auto at = std::lower_bound(moves.rewrites.begin(), moves.rewrites.end(), name);
    if (at != moves.rewrites.end() && *at == name) return std::nullopt;
    moves.rewrites.insert(at, name);
  }
  const auto known = std::find_if(all_.begin(), all_.end(),
                                  [&](const Variant& one) { return one.moves.cuts_as(moves); });
  if (known != all_.end()) return static_cast<size_t>(known - all_.begin());
  all_.push_back({.moves = std::move(moves)});
  return all_.size() - 1;
}

int64_t StepVariants::most_cut_parts() const {
  int64_t most = 0;
  for (const Candidate& move : moves_.moves)
    for (const fission::CutRule& rule : move.cuts) most = std::max(most, rule.parts);
  return most;
}

// There are not enough of its kind, as far as is known.
bool StepVariants::may_make(const Variant& variant) const {
  const auto there = std::count_if(all_.begin(), all_.end(), [&](const Variant& one) {
    return one.posed != nullptr && one.moves.cuts.empty() == variant.moves.cuts.empty();
  });
  return !variant.posed && !variant.is_dead && static_cast<size_t>(there) < most_;
}

std::shared_ptr<Workers::Piece> StepVariants::making(size_t variant) {
  Variant& made = all_[variant];
  if (!may_make(made)) return nullptr;
  if (!made.making)
    made.making =
        Ahead<std::unique_ptr<PosedVariant>>([this, moves = made.moves] { return made_of(moves); });
  return made.making.piece();
}

bool StepVariants::make(size_t variant, Workers& workers) {
  Variant& made = all_[variant];
  if (made.posed) return true;
  if (!making(variant)) return false;
  std::unique_ptr<PosedVariant> posed = made.making.take(workers);
  made.is_dead = !posed || !hashes_.insert(posed->hash());
  if (!made.is_dead) made.posed = std::move(posed);
  return !made.is_dead;
}

// By any thread.
std::unique_ptr<PosedVariant> StepVariants::made_of(const Candidate& moves) const {
  Result<MovedStep> step = moves_.step(moves);
  if (!step) return nullptr;
  const uint64_t hash = hash_of_text(step->graph);
  if (hashes_.contains(hash)) return nullptr;
  return posed_of(LabelProblem::make(std::move(step->graph), options_, tuning_.order_units,
                                     std::move(step->how)),
                  hash);
}

std::unique_ptr<PosedVariant> StepVariants::posed_of(Result<std::unique_ptr<LabelProblem>> problem,
                                                     uint64_t hash) const {
  if (!problem || !*problem) return nullptr;
  return std::make_unique<PosedVariant>(*std::move(problem), hash, options_, tuning_);
}

}  // namespace lowtide::pipeline

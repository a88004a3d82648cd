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

Result<bool> StepVariants::begin(const ir::Graph& step) {
  LT_ASSIGN(std::unique_ptr<LabelProblem> problem,
            LabelProblem::make(step, options_, tuning_.order_units));
  if (!problem) return false;
  all_.push_back({.hash = hash_of_text(step), .problem = std::move(problem)});
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

bool StepVariants::make(size_t variant) {
  Variant& made = all_[variant];
  if (made.problem) return true;
  const auto there = std::count_if(all_.begin(), all_.end(),
                                   [](const Variant& one) { return one.problem != nullptr; });
  if (made.is_dead || static_cast<size_t>(there) >= most_) return false;
  made.is_dead = true;
  Result<ir::Graph> step = moves_.step(made.moves);
  if (!step) return false;
  made.hash = hash_of_text(*step);
  const bool is_known = std::any_of(all_.begin(), all_.end(), [&](const Variant& one) {
    return one.problem && one.hash == made.hash;
  });
  if (is_known) return false;
  auto problem = LabelProblem::make(*std::move(step), options_, tuning_.order_units);
  if (!problem || !*problem) return false;
  made.problem = *std::move(problem);
  made.is_dead = false;
  return true;
}

int64_t StepVariants::most_parts(size_t variant) const {
  return std::min(problem(variant).axis_class().least_extent, tuning_.most_parts);
}

Result<std::vector<fission::Labels>> StepVariants::neighbours(size_t variant,
                                                              const fission::Labels& labels) {
  std::optional<LabelNeighbours>& known = all_[variant].neighbours;
  if (!known) {
    const LabelProblem& of = problem(variant);
    LT_ASSIGN(
        const std::vector<fission::Region> regions,
        fission::find_regions(of.step(), of.axis_class(), of.view(), of.given(), tuning_.levels));
    known.emplace(of.step(), regions, most_parts(variant), tuning_.most_parts, tuning_.factors);
  }
  return known->of(labels, options_.mutations);
}

}  // namespace lowtide::pipeline

#include "api/largest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/planning.h"
#include "api/state.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "pipeline/prepare.h"
#include "pipeline/sequence_blocks.h"
#include "pipeline/trials.h"

namespace lowtide {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LargestTuning {
  double probe_share = 8;   // of the effort: that part of it goes into each size on the way
  int most_extensions = 3;  // sizes above the best that get the whole effort
};
constexpr LargestTuning kLargest;

// Counts sizes in steps.
class Search {
 public:
  Search(const ReadAtSize& read, const PlanOptions& options, Sizes sizes)
      : read_(read), options_(options), step_(sizes.step), most_(sizes.most / sizes.step) {
    found_.step = step_;
  }

  Result<LargestSize> run() {
    LT_ASSIGN(parts_are_open_, are_parts_open());
    if (!parts_are_open_) LT_RETURN_IF_ERROR(find_proven());
    const int64_t end = found_.proven ? *found_.proven / step_ : most_ + 1;
    if (end > 1) LT_RETURN_IF_ERROR(find_fitting(end));
    if (steps_ > 0) {
      LT_RETURN_IF_ERROR(finish(end));
    } else {  // the whole effort, or else the whole message
      LT_ASSIGN(const Model model, read_(step_));
      LT_ASSIGN(const Planning planning, planning_for(model, 1, true));
      LT_ASSIGN(found_.plan, planned(model, planning,
                                     pipeline::optimize(model.state().graph, planning.options)));
      steps_ = 1;
    }
    if (parts_are_open_) LT_RETURN_IF_ERROR(find_proven());
    found_.size = steps_ * step_;
    found_.cut_short |= stopped();
    return std::move(found_);
  }

 private:
  bool stopped() const {
    return (options_.cancel != nullptr && options_.cancel->load()) || seconds_left() <= 0;
  }
  double seconds_left() const { return options_.time_limit_seconds - seconds_since(start_); }

  Result<bool> are_parts_open() const {
    LT_ASSIGN(const Model model, read_(step_));
    LT_ASSIGN(const Planning planning, prepare_planning(model, options_));
    return planning.options.split.chosen();
  }

  Result<bool> is_proven(int64_t steps) {
    LT_ASSIGN(const Model model, read_(steps * step_));
    LT_ASSIGN(const Planning planning, prepare_planning(model, options_));
    const auto least = pipeline::least_bytes(model.state().graph, planning.options);
    if (!least) return planning_error(model, least.error());
    ++found_.floors;
    if (*least <= *options_.budget_bytes) return false;
    found_.proven = steps * step_;
    found_.proven_bytes = *least;
    return true;
  }

  // Above what has a plan: doubles until the floor is above the budget, then halves.
  Status find_proven() {
    if (steps_ >= most_ || (steps_ > 0 && stopped())) return {};
    int64_t below = steps_, above = std::clamp<int64_t>(2 * steps_, 1, most_);
    for (;; below = above, above = std::min(most_, 2 * above)) {
      LT_ASSIGN(const bool proven, is_proven(above));
      if (proven) break;
      if (above == most_ || stopped()) return {};
    }
    while (below + 1 < above && !stopped()) {
      const int64_t middle = below + (above - below) / 2;
      LT_ASSIGN(const bool proven, is_proven(middle));
      (proven ? above : below) = middle;
    }
    return {};
  }

  Result<Planning> planning_for(const Model& model, double share, bool whole_answer) {
    PlanOptions options = options_;
    options.effort = options_.effort / share;
    options.time_limit_seconds = std::max(1e-3, seconds_left());
    LT_ASSIGN(Planning planning, prepare_planning(model, options));
    planning.options.find_smallest = whole_answer;
    planning.options.look_further = whole_answer;
    ++found_.planned;
    return planning;
  }

  static Result<Plan> planned(const Model& model, const Planning& planning,
                              Result<pipeline::Optimized> made) {
    if (!made) return planning_error(model, made.error());
    return PlanAccess::wrap(finish_plan(std::move(*made), planning, model));
  }

  // Error: no plan was found, or what has nothing to do with the budget.
  Result<pipeline::Optimized> optimize_at(const Model& model, int64_t steps,
                                          const pipeline::OptimizeOptions& options,
                                          bool whole_answer) {
    const ir::Graph& graph = model.state().graph;
    if (!parts_are_open_) return pipeline::optimize(graph, options);
    const auto start = Clock::now();
    if (in_blocks_ && steps == steps_) return improved(graph, options, std::move(*in_blocks_));
    LT_ASSIGN(pipeline::InBlocks found, pipeline::plan_in_blocks(graph, options, blocks_));
    if (!found.made && found.is_sequence)
      return error(ErrorCode::kLimit, "no number of blocks of queries was found to fit");
    in_blocks_.reset();
    const pipeline::OptimizeOptions rest = pipeline::after(options, seconds_since(start));
    if (!found.made || (whole_answer && !found.is_sequence)) return pipeline::optimize(graph, rest);
    blocks_ = found.made->query_blocks;
    if (whole_answer) return improved(graph, rest, std::move(*found.made));
    if (found.is_sequence) in_blocks_ = found.made;
    return std::move(*found.made);
  }

  // The plan in its blocks and parts with all of the work, where that makes it faster. Error: what
  // has nothing to do with the budget.
  static Result<pipeline::Optimized> improved(const ir::Graph& graph,
                                              pipeline::OptimizeOptions options,
                                              pipeline::Optimized made) {
    options = pipeline::cut_as(std::move(options), made);
    options.starts = {pipeline::runs_of(made.plan)};
    auto better = pipeline::optimize(graph, options);
    if (!better && !pipeline::is_about_budget(better.error()))
      return tl::unexpected(better.error());
    const double seconds = made.plan.claims.predicted_seconds;
    if (!better || better->plan.claims.predicted_seconds > seconds) return made;
    return std::move(*better);
  }

  Result<Plan> plan_at(int64_t steps, double share, bool whole_answer) {
    LT_ASSIGN(const Model model, read_(steps * step_));
    LT_ASSIGN(const Planning planning, planning_for(model, share, whole_answer));
    return planned(model, planning, optimize_at(model, steps, planning.options, whole_answer));
  }

  // Whether a plan was found; it is kept.
  Result<bool> fits(int64_t steps, double share, bool whole_answer = false) {
    Result<Plan> plan = plan_at(steps, share, whole_answer);
    if (!plan && !pipeline::is_about_budget(plan.error())) return tl::unexpected(plan.error());
    if (!plan) {
      found_.missed = std::min(steps * step_, found_.missed.value_or(steps * step_));
      return false;
    }
    steps_ = steps;
    if (found_.missed && *found_.missed <= steps * step_) found_.missed.reset();
    found_.plan = std::move(*plan);
    return true;
  }

  // Halves between what fits and `end`, which does not or is not to be looked at. Where parts are
  // open, floors are far above what fits, and more parts take longer to plan: it doubles first.
  Status find_fitting(int64_t end) {
    int64_t above = end;
    for (int64_t steps = 1; parts_are_open_ && steps < above && !stopped(); steps *= 2) {
      LT_ASSIGN(const bool fit, fits(steps, kLargest.probe_share));
      if (!fit) above = steps;
    }
    while (steps_ + 1 < above && !stopped()) {
      const int64_t middle = steps_ + (above - steps_) / 2;
      LT_ASSIGN(const bool fit, fits(middle, kLargest.probe_share));
      if (!fit) above = middle;
    }
    return {};
  }

  // The next sizes and the best itself with the whole effort.
  Status finish(int64_t end) {
    bool extended = false;
    for (int i = 0; i < kLargest.most_extensions && steps_ + 1 < end && !stopped(); ++i) {
      LT_ASSIGN(const bool fit, fits(steps_ + 1, 1, true));
      if (!fit) break;
      extended = true;
    }
    if (extended || stopped()) return {};
    LT_RETURN_IF_ERROR(fits(steps_, 1, true));
    return {};
  }

  const ReadAtSize& read_;
  const PlanOptions& options_;
  const int64_t step_, most_;
  const Clock::time_point start_ = Clock::now();
  bool parts_are_open_ = false;
  int64_t steps_ = 0;   // of the largest size with a plan
  int64_t blocks_ = 1;  // of queries, of the last plan: a larger size needs no fewer
  std::optional<pipeline::Optimized> in_blocks_;  // the last plan, if blocks were found so
  LargestSize found_;
};

}  // namespace

Result<LargestSize> plan_largest(const ReadAtSize& read, const PlanOptions& options, Sizes sizes) {
  return Search(read, options, sizes).run();
}

std::string print(const LargestSize& largest, const std::string& dim) {
  std::string text = fmt::format("largest {} with a plan: {}; ", dim, largest.size);
  const bool is_next = largest.proven == largest.size + largest.step;
  if (largest.missed && !is_next) text += fmt::format("none was found for {}; ", *largest.missed);
  if (largest.proven)
    text += fmt::format("{} is proven not to fit, as every schedule needs at least {}",
                        *largest.proven, format_bytes(largest.proven_bytes));
  else
    text += "no size is proven not to fit";
  return text + (largest.cut_short ? "; cut short\n" : "\n");
}

std::string print_json(const LargestSize& largest, const std::string& dim) {
  auto json = nlohmann::ordered_json::parse(largest.plan->json());
  nlohmann::ordered_json& max = json["max"];
  max["dim"] = dim;
  max["size"] = largest.size;
  max["step"] = largest.step;
  max["none_found_for"] = nullptr;
  if (largest.missed) max["none_found_for"] = *largest.missed;
  max["proven_too_large"] = nullptr;
  max["proven_too_large_floor_bytes"] = nullptr;
  if (largest.proven) {
    max["proven_too_large"] = *largest.proven;
    max["proven_too_large_floor_bytes"] = largest.proven_bytes;
  }
  max["next_is_infeasible"] = largest.proven == largest.size + largest.step;
  max["sizes_planned"] = largest.planned;
  max["floors_computed"] = largest.floors;
  max["cut_short"] = largest.cut_short;
  return json.dump(2) + "\n";
}

}  // namespace lowtide

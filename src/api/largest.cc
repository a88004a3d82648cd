#include "api/largest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/planning.h"
#include "api/state.h"
#include "base/bytes.h"
#include "base/clock.h"

namespace lowtide {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct LargestTuning {
  double probe_share = 8;   // of the effort: that part of it goes into each size on the way
  int most_extensions = 3;  // sizes above the best that get the whole effort
};
constexpr LargestTuning kLargest;

class Search {
 public:
  Search(const ReadAtSize& read, const PlanOptions& options, int64_t most)
      : read_(read), options_(options), most_(most) {}

  Result<LargestSize> run() {
    LT_RETURN_IF_ERROR(find_proven());
    const int64_t end = found_.proven.value_or(most_ + 1);
    if (end > 1) LT_RETURN_IF_ERROR(find_fitting(end));
    if (found_.size > 0) {
      LT_RETURN_IF_ERROR(finish(end));
    } else {  // the whole effort, or else the whole message
      LT_ASSIGN(found_.plan, plan_at(1, 1, true));
      found_.size = 1;
    }
    found_.cut_short |= stopped();
    return std::move(found_);
  }

 private:
  bool stopped() const {
    return (options_.cancel != nullptr && options_.cancel->load()) || seconds_left() <= 0;
  }
  double seconds_left() const { return options_.time_limit_seconds - seconds_since(start_); }

  Result<bool> is_proven(int64_t size) {
    LT_ASSIGN(const Model model, read_(size));
    LT_ASSIGN(const Planning planning, prepare_planning(model, options_));
    const auto least = pipeline::least_bytes(model.state().graph, planning.options);
    if (!least) return planning_error(model, least.error());
    ++found_.floors;
    if (*least <= *options_.budget_bytes) return false;
    found_.proven = size;
    found_.proven_bytes = *least;
    return true;
  }

  // Doubles until the floor is above the budget, then halves.
  Status find_proven() {
    int64_t below = 0, above = 1;
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

  Result<Plan> plan_at(int64_t size, double share, bool whole_answer) {
    LT_ASSIGN(const Model model, read_(size));
    PlanOptions options = options_;
    options.effort = options_.effort / share;
    options.time_limit_seconds = std::max(1e-3, seconds_left());
    LT_ASSIGN(Planning planning, prepare_planning(model, options));
    planning.options.find_smallest = whole_answer;
    planning.options.look_further = whole_answer;
    ++found_.planned;
    auto optimized = pipeline::optimize(model.state().graph, planning.options);
    if (!optimized) return planning_error(model, optimized.error());
    return PlanAccess::wrap(finish_plan(std::move(*optimized), planning, model));
  }

  // Whether a plan was found; it is kept.
  Result<bool> fits(int64_t size, double share, bool whole_answer = false) {
    Result<Plan> plan = plan_at(size, share, whole_answer);
    if (!plan && !pipeline::is_about_budget(plan.error())) return tl::unexpected(plan.error());
    if (!plan) return false;
    found_.size = size;
    found_.plan = std::move(*plan);
    return true;
  }

  // Halves between what fits and `end`, which does not or is not to be looked at.
  Status find_fitting(int64_t end) {
    int64_t above = end;
    while (found_.size + 1 < above && !stopped()) {
      const int64_t middle = found_.size + (above - found_.size) / 2;
      LT_ASSIGN(const bool fit, fits(middle, kLargest.probe_share));
      if (!fit) above = middle;
    }
    return {};
  }

  // The next sizes and the best itself with the whole effort.
  Status finish(int64_t end) {
    bool extended = false;
    for (int i = 0; i < kLargest.most_extensions && found_.size + 1 < end && !stopped(); ++i) {
      LT_ASSIGN(const bool fit, fits(found_.size + 1, 1, true));
      if (!fit) break;
      extended = true;
    }
    if (extended || stopped()) return {};
    LT_RETURN_IF_ERROR(fits(found_.size, 1, true));
    return {};
  }

  const ReadAtSize& read_;
  const PlanOptions& options_;
  const int64_t most_;
  const Clock::time_point start_ = Clock::now();
  LargestSize found_;
};

}  // namespace

Result<LargestSize> plan_largest(const ReadAtSize& read, const PlanOptions& options, int64_t most) {
  return Search(read, options, most).run();
}

std::string print(const LargestSize& largest, const std::string& dim) {
  std::string text = fmt::format("largest {} with a plan: {}; ", dim, largest.size);
  if (!largest.proven)
    text += "no size is proven not to fit";
  else if (*largest.proven == largest.size + 1)
    text += fmt::format("{} is proven not to fit, as every schedule needs at least {}",
                        *largest.proven, format_bytes(largest.proven_bytes));
  else
    text += fmt::format(
        "none was found for {}; {} is proven not to fit, as every schedule needs "
        "at least {}",
        largest.size + 1, *largest.proven, format_bytes(largest.proven_bytes));
  return text + (largest.cut_short ? "; cut short\n" : "\n");
}

std::string print_json(const LargestSize& largest, const std::string& dim) {
  auto json = nlohmann::ordered_json::parse(largest.plan->json());
  nlohmann::ordered_json& max = json["max"];
  max["dim"] = dim;
  max["size"] = largest.size;
  max["proven_too_large"] = nullptr;
  max["proven_too_large_floor_bytes"] = nullptr;
  if (largest.proven) {
    max["proven_too_large"] = *largest.proven;
    max["proven_too_large_floor_bytes"] = largest.proven_bytes;
  }
  max["next_is_infeasible"] = largest.proven == largest.size + 1;
  max["sizes_planned"] = largest.planned;
  max["floors_computed"] = largest.floors;
  max["cut_short"] = largest.cut_short;
  return json.dump(2) + "\n";
}

}  // namespace lowtide

#include "pipeline/label_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/describe.h"
#include "analysis/schedule_view.h"
#include "cost/estimate.h"
#include "fission/part_seconds.h"
#include "fission/regions.h"
#include "fission/scale.h"
#include "fission/unfold.h"
#include "remat/bounds/closure_cut.h"
#include "remat/remat.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;
using ir::OpId;
using plan::SchedOpId;

bool is_better(const Candidate& a, const Candidate& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? std::pair(a.seconds, a.peak_bytes) < std::pair(b.seconds, b.peak_bytes)
                : std::pair(a.peak_bytes, a.seconds) < std::pair(b.peak_bytes, b.seconds);
}

// The parts of a level that a state may have, as factors of those around it.
constexpr int64_t kFactors[] = {2, 3, 4, 6, 8, 16};

class Search {
 public:
  Search(const ir::Graph& step, const OptimizeOptions& options, const LabelSearchTuning& tuning)
      : step_(step),
        options_(options),
        tuning_(tuning),
        estimator_(options.device, options.costs ? &*options.costs : nullptr) {}

  Result<std::vector<Candidate>> run() {
    LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step_));
    if (classes.empty()) return std::vector<Candidate>{};
    axis_class_ = classes.front();
    LT_RETURN_IF_ERROR(pose());
    LT_RETURN_IF_ERROR(look_at({}));
    while (!open_.empty() && all_.size() < static_cast<size_t>(tuning_.most_states) && !stopped()) {
      const size_t at = open_.top().second;
      open_.pop();
      for (const Labels& labels : neighbours(all_[at].labels))
        if (all_.size() < static_cast<size_t>(tuning_.most_states))
          LT_RETURN_IF_ERROR(look_at(labels));
    }
    return ranked();
  }

 private:
  bool stopped() const { return options_.schedule.remat.limits.cancelled(); }

  // The whole step's problem, prices, and the regions that may be levels.
  Status pose() {
    const auto price = [this](const plan::OpDesc& op) -> Result<double> {
      LT_ASSIGN(const cost::Estimate estimate, estimator_.estimate(op));
      return estimate.seconds;
    };
    LT_ASSIGN(auto seconds, fission::PartSeconds::make(step_, price));
    seconds_.emplace(std::move(seconds));
    analysis::OpCosts costs;
    costs.workspace_bytes = workspaces();
    LT_ASSIGN(costs.seconds, all_seconds(fission::Cuts(step_.op_count())));
    const int64_t alignment = options_.device.alignment_bytes;
    LT_ASSIGN(auto view, analysis::make_schedule_view(step_, costs, alignment));
    view_.emplace(std::move(view));
    LT_ASSIGN(auto scale, fission::Scale::make(step_, *view_, axis_class_, alignment));
    scale_.emplace(std::move(scale));
    const plan::ScheduleOutcome order = best_order(view_->problem);
    LT_ASSIGN(regions_,
              fission::find_regions(step_, axis_class_, *view_, order.sequence, tuning_.levels));
    return {};
  }

  // As the operands lie in the step, before layouts are chosen: an estimate. Of ops that no kernel
  // takes so, none.
  IdVector<OpId, int64_t> workspaces() const {
    IdVector<OpId, int64_t> bytes(step_.op_count(), 0);
    if (options_.kernels == nullptr) return bytes;
    for (const OpId id : step_.ops()) {
      const auto desc = analysis::describe(step_, id);
      const auto needed = desc ? options_.kernels->workspace_bytes(*desc) : Result<int64_t>(0);
      bytes[id] = needed.value_or(0);
    }
    return bytes;
  }

  Result<IdVector<OpId, double>> all_seconds(const fission::Cuts& cuts) {
    IdVector<OpId, double> seconds(step_.op_count(), 0);
    for (const OpId id : step_.ops()) {
      LT_ASSIGN(seconds[id], seconds_->of(id, cuts[id] ? &*cuts[id] : nullptr));
    }
    return seconds;
  }

  plan::ScheduleOutcome best_order(const plan::ScheduleProblem& problem) const {
    order::OrderOptions quick = options_.order;
    quick.exact_search = quick.beam = quick.cut_bound = false;
    quick.random_restarts = 0;
    quick.limits.max_units = tuning_.order_units;
    return order::solve(problem, quick);
  }

  // Best first. The first of all and the first without levels get their starts.
  Result<std::vector<Candidate>> ranked() {
    std::vector<size_t> order(all_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return is_better(all_[a], all_[b]); });
    std::vector<Candidate> ranked;
    bool has_even = false;
    for (const size_t at : order) {
      Candidate& made = ranked.emplace_back(all_[at]);
      const bool is_even = made.labels.nests.empty();
      if (!made.fits || (ranked.size() > tuning_.most_starts && (has_even || !is_even))) continue;
      has_even |= is_even;
      LT_ASSIGN(const auto levels, fission::levels_of(step_, axis_class_, made.labels));
      made.start = unfolded(levels, runs_[at]);
    }
    return ranked;
  }

  // A schedule of one part of everything, as names of the parts' ops.
  std::vector<std::string> unfolded(const fission::Levels& levels,
                                    const std::vector<SchedOpId>& runs) const {
    const fission::Cuts cuts = fission::cuts_of(step_, axis_class_, levels);
    const auto level_of = fission::levels_as_cut(levels, cuts);
    IdVector<SchedOpId, int> of_run(view_->op.size());
    for (const SchedOpId op : view_->op.ids()) of_run[op] = level_of[view_->op[op]];
    std::vector<std::string> names;
    for (const fission::PartRun& run : fission::unfold(view_->problem, levels, of_run, runs)) {
      const OpId op = view_->op[run.op];
      const std::string& name = step_.op(op).name;
      names.push_back(cuts[op] ? fission::part_name(name, static_cast<size_t>(run.part)) : name);
    }
    return names;
  }

  // ---- states

  Status look_at(const Labels& labels) {
    if (!seen_.insert(fission::print(labels)).second) return {};
    const auto levels = fission::levels_of(step_, axis_class_, labels);
    if (!levels) return {};
    const fission::Cuts cuts = fission::cuts_of(step_, axis_class_, *levels);
    if (has_idle_level(*levels, fission::levels_as_cut(*levels, cuts))) return {};
    Candidate& made = all_.emplace_back();
    made.labels = labels;
    runs_.emplace_back();
    LT_ASSIGN(const auto seconds, all_seconds(cuts));
    made.seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    if (made.seconds < best_seconds_)
      judge(scale_->problem(*levels, cuts, seconds), made);
    else
      made.peak_bytes = std::numeric_limits<int64_t>::max();  // dominated: never expanded
    if (made.fits) best_seconds_ = std::min(best_seconds_, made.seconds);
    if (made.peak_bytes < std::numeric_limits<int64_t>::max()) open_.push({made, all_.size() - 1});
    return {};
  }

  // One in whose parts no op runs, or with no more than those around: the same labels are there
  // without it.
  static bool has_idle_level(const fission::Levels& levels, const IdVector<OpId, int>& as_cut) {
    std::vector<char> is_used(levels.levels.size(), 0);
    for (const int level : as_cut)
      if (level != fission::Levels::kOutside) is_used[static_cast<size_t>(level)] = 1;
    for (size_t level = 1; level < levels.levels.size(); ++level) {
      const auto parent = static_cast<size_t>(levels.levels[level].parent);
      if (!is_used[level] || levels.levels[level].parts == levels.levels[parent].parts) return true;
    }
    return false;
  }

  void judge(const fission::Scaled& scaled, Candidate& made) {
    plan::ScheduleProblem problem = scaled.problem;
    problem.budget_bytes = options_.budget_bytes;
    if (!options_.schedule.transfers) plan::forbid_transfers(problem);
    const plan::ScheduleOutcome order = best_order(problem);
    made.peak_bytes = order.peak_bytes;
    made.fits = order.peak_bytes <= *options_.budget_bytes;
    const auto keep = [&](SchedOpId op) {
      if (scaled.op[op].valid()) runs_.back().push_back(scaled.op[op]);
    };
    for (const SchedOpId op : order.sequence) keep(op);
    if (made.fits || !options_.schedule.recompute) return;
    const remat::CutBoundResult bound = remat::closure_cut(problem);
    if (!bound.feasible || bound.lower_bound_seconds >= best_seconds_) return;
    remat::RematOptions short_search;
    short_search.limits = options_.schedule.remat.limits.with_units(tuning_.remat_units);
    short_search.cut_bound = short_search.exact_small = false;
    const remat::RematOutcome outcome = remat::solve(problem, short_search);
    if (outcome.sequence.empty()) return;
    made.fits = true;
    made.seconds = outcome.seconds;
    made.peak_bytes = outcome.peak_bytes;
    runs_.back().clear();
    for (const plan::SchedAction& action : outcome.sequence) keep(action.op);
  }

  // ---- neighbours

  // With these parts of the whole class; what is deeper has the next multiple of them.
  std::optional<Labels> with_parts(Labels labels, int64_t parts) const {
    if (parts < 1 || parts > std::min(axis_class_.least_extent, tuning_.most_parts))
      return std::nullopt;
    labels.parts = parts;
    for (fission::Nest& nest : labels.nests) nest.parts = (nest.parts + parts - 1) / parts * parts;
    std::erase_if(labels.nests, [&](const fission::Nest& nest) { return nest.parts == parts; });
    return labels;
  }

  std::vector<Labels> neighbours(const Labels& labels) const {
    std::vector<Labels> made;
    const auto add = [&](const std::optional<Labels>& next) {
      if (next) made.push_back(*next);
    };
    for (const int64_t parts : {labels.parts - 1, labels.parts + 1, labels.parts * 2,
                                labels.parts * 3 / 2, labels.parts / 2})
      if (parts != labels.parts) add(with_parts(labels, parts));
    for (const fission::Region& region : regions_) {
      const std::string& head = step_.op(region.head).name;
      Labels without = labels;
      std::erase_if(without.nests, [&](const fission::Nest& nest) { return nest.head == head; });
      if (without != labels) made.push_back(without);
      for (const int64_t factor : kFactors) {
        Labels with = without;
        with.nests.push_back({head, labels.parts * factor});
        std::sort(with.nests.begin(), with.nests.end(), [](const auto& a, const auto& b) {
          return std::tie(a.parts, a.head) < std::tie(b.parts, b.head);
        });
        if (with.nests.back().parts <= tuning_.most_parts) made.push_back(std::move(with));
      }
    }
    return made;
  }

  struct Worse {
    bool operator()(const std::pair<Candidate, size_t>& a,
                    const std::pair<Candidate, size_t>& b) const {
      return is_better(b.first, a.first) || (!is_better(a.first, b.first) && a.second > b.second);
    }
  };

  const ir::Graph& step_;
  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  const cost::Estimator estimator_;
  fission::AxisClass axis_class_;
  std::optional<fission::PartSeconds> seconds_;
  std::optional<analysis::ScheduleView> view_;
  std::optional<fission::Scale> scale_;
  std::vector<fission::Region> regions_;
  std::vector<Candidate> all_;
  std::vector<std::vector<SchedOpId>> runs_;  // of each, behind its estimate
  std::set<std::string> seen_;
  std::priority_queue<std::pair<Candidate, size_t>, std::vector<std::pair<Candidate, size_t>>,
                      Worse>
      open_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Result<std::vector<Candidate>> label_candidates(const ir::Graph& step,
                                                const OptimizeOptions& options,
                                                const LabelSearchTuning& tuning) {
  return Search(step, options, tuning).run();
}

}  // namespace lowtide::pipeline

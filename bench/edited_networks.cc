#include "edited_networks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <utility>

#include "analysis/view_edit.h"
#include "autodiff/training.h"
#include "edit_region.h"
#include "io/onnx_reader.h"
#include "order/order.h"
#include "order/waist.h"
#include "plan/schedule_simulator.h"

namespace lowtide::bench {
namespace {

using plan::SchedOpId;

constexpr int kRegions = 10, kRuns = 9;
constexpr const char *kAgain = "that run again", *kLarger = "whose values are twice as large";

ir::Graph training_step(const std::string& path) {
  io::OnnxOptions options;
  options.training = true;
  options.bindings["batch"] = 8;
  const auto read = io::read_onnx(path, options);
  LT_CHECK(read.has_value(), read ? std::string() : read.error().message);
  autodiff::TrainingOptions training;
  training.loss.kind = autodiff::LossKind::kMeanSquaredError;
  training.optimizer.kind = autodiff::OptimizerKind::kSgd;
  auto made = autodiff::make_training_graph(*read, training);
  LT_CHECK(made.has_value(), made ? std::string() : made.error().message);
  return std::move(*made);
}

size_t forward_ops(const ir::Graph& graph) {
  for (const ir::OpId id : graph.ops())
    if (graph.op(id).phase == Phase::kBackward) return id.index();
  return graph.op_count();
}

// Of regions evenly over the forward pass.
size_t first_of(const ir::Graph& graph, size_t region) {
  return region * (forward_ops(graph) - kRegion) / kRegions;
}

// How much faster the view of each region's change follows than one is made from nothing: medians
// of a few runs.
std::vector<double> view_ratios(const ir::Graph& graph) {
  const analysis::OpCosts costs{IdVector<ir::OpId, double>(graph.op_count(), 1e-3),
                                IdVector<ir::OpId, int64_t>(graph.op_count(), 0)};
  ir::GraphEdit edit(graph);
  auto view = analysis::ViewEdit::make(edit, no_cost, 64).value();
  const auto before = view.mark();
  std::vector<double> ratios;
  for (size_t region = 0; region < kRegions; ++region) {
    std::vector<double> anew, followed;
    for (int run = 0; run < kRuns; ++run) {
      recompute_region(edit, first_of(graph, region));
      double start = cpu_seconds();
      LT_CHECK(view.update().has_value(), "the changed step has a view");
      followed.push_back(cpu_seconds() - start);
      view.rollback(before);
      start = cpu_seconds();
      const auto made = analysis::make_schedule_view(graph, costs, 64);
      anew.push_back(cpu_seconds() - start);
      LT_CHECK(made.has_value(), "the step has a view");
    }
    ratios.push_back(median(anew) / median(followed));
  }
  return ratios;
}

// A changed problem with the order that it inherits, and the ops that the change is of.
struct Changed {
  const char* what = nullptr;
  plan::ScheduleProblem problem;
  std::vector<SchedOpId> inherited, touched;
};

// An order that keeps what the problem asks for: of the ops that may come next, always the one of
// the lowest rank, of equal ranks the one that the problem lists first.
std::vector<SchedOpId> ordered_by(const plan::ScheduleProblem& problem,
                                  const IdVector<SchedOpId, double>& rank) {
  const plan::ProblemIndex index(problem);
  IdVector<SchedOpId, size_t> open(problem.ops.size(), 0);
  const auto for_each_after = [&](SchedOpId op, const auto& visit) {
    for (const plan::SchedValueId value : index.makes[op])
      for (const SchedOpId reader : problem.values[value].readers) visit(reader);
    for (const SchedOpId later : index.waits_after[op])
      if (index.is_op(later)) visit(later);
  };
  for (const SchedOpId op : problem.ops.ids())
    for_each_after(op, [&](SchedOpId later) { ++open[later]; });
  using Next = std::pair<double, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (const SchedOpId op : problem.ops.ids())
    if (open[op] == 0) next.emplace(rank[op], op.index());
  std::vector<SchedOpId> sequence;
  while (!next.empty()) {
    const SchedOpId op(next.top().second);
    next.pop();
    sequence.push_back(op);
    for_each_after(op, [&](SchedOpId later) {
      if (--open[later] == 0) next.emplace(rank[later], later.index());
    });
  }
  return sequence;
}

// The step as it is, with its best order.
class OrderedStep {
 public:
  explicit OrderedStep(const ir::Graph& graph)
      : graph_(graph),
        edit_(graph),
        view_(analysis::ViewEdit::make(edit_, no_cost, 64).value()),
        whole_(view_.problem().compact()),
        sequence_(order::solve(whole_.problem).sequence) {}

  // A region of the forward pass runs again.
  Changed recomputed(size_t region) {
    const auto before = view_.mark();
    recompute_region(edit_, first_of(graph_, region));
    LT_CHECK(view_.update().has_value(), "the changed step has a view");
    const plan::CompactedProblem now = view_.problem().compact();
    view_.rollback(before);
    // By where it stood; what is new, right before its first reader.
    IdVector<SchedOpId, double> rank(now.problem.ops.size(), kNew);
    IdVector<SchedOpId, double> stood(whole_.problem.ops.size(), 0);
    for (size_t at = 0; at < sequence_.size(); ++at) stood[sequence_[at]] = static_cast<double>(at);
    for (const SchedOpId id : whole_.op.ids())
      if (whole_.op[id].valid() && now.op[id].valid()) rank[now.op[id]] = stood[whole_.op[id]];
    Changed changed{kAgain, now.problem, {}, {}};
    std::set<SchedOpId> touched;
    for (size_t i = now.problem.ops.size(); i-- > 0;) {
      const SchedOpId op(i);
      if (rank[op] < kNew) continue;
      touched.insert(op);
      for (const plan::SchedValue& value : now.problem.values) {
        const bool is_reader = std::count(value.readers.begin(), value.readers.end(), op) > 0;
        if (is_reader) touched.insert(value.producer);
        if (value.producer != op) continue;
        touched.insert(value.readers.begin(), value.readers.end());
        for (const SchedOpId reader : value.readers) rank[op] = std::min(rank[op], rank[reader]);
      }
      rank[op] -= kJustBefore;
    }
    changed.inherited = ordered_by(changed.problem, rank);
    changed.touched.assign(touched.begin(), touched.end());
    return changed;
  }

  // What ops make is twice as large: those from so many tenths of the order on.
  Changed resized(size_t tenth) const {
    Changed changed{kLarger, whole_.problem, sequence_, {}};
    const size_t first = tenth * (sequence_.size() - kRegion) / kRegions;
    for (size_t at = first; at < first + kRegion; ++at) changed.touched.push_back(sequence_[at]);
    std::set<SchedOpId> region(changed.touched.begin(), changed.touched.end());
    for (plan::SchedValue& value : changed.problem.values) {
      if (region.count(value.producer) == 0) continue;
      value.bytes *= 2;
      changed.touched.insert(changed.touched.end(), value.readers.begin(), value.readers.end());
    }
    // What is taken over in place has as many bytes.
    std::erase_if(changed.problem.in_place, [&](const plan::InPlacePair& pair) {
      const auto& values = changed.problem.values;
      return values[pair.input].bytes != values[pair.output].bytes;
    });
    return changed;
  }

 private:
  static constexpr double kNew = 1e9, kJustBefore = 1e-3;

  const ir::Graph& graph_;
  ir::GraphEdit edit_;
  analysis::ViewEdit view_;
  plan::CompactedProblem whole_;
  std::vector<SchedOpId> sequence_;
};

// One change, scheduled both ways.
struct Scheduled {
  const char* what = nullptr;
  double incremental_seconds = 0, full_seconds = 0;
  int64_t inherited_bytes = 0, incremental_bytes = 0, full_bytes = 0, bound_bytes = 0;

  double speedup() const { return full_seconds / incremental_seconds; }
  double peak_ratio() const {
    return static_cast<double>(incremental_bytes) / static_cast<double>(full_bytes);
  }
};

Scheduled schedule(const Changed& changed) {
  Scheduled found{.what = changed.what};
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    const double start = cpu_seconds();
    const plan::ProblemIndex index(changed.problem);
    auto profile = plan::simulate(changed.problem, index, changed.inherited);
    LT_CHECK(profile.has_value(), profile ? std::string() : profile.error().message);
    found.inherited_bytes = profile->peak_bytes;
    const order::WaistOutcome mended = order::reschedule(
        changed.problem, index, {changed.inherited, *std::move(profile)}, changed.touched);
    seconds.push_back(cpu_seconds() - start);
    found.incremental_bytes = mended.order.profile.peak_bytes;
  }
  found.incremental_seconds = median(seconds);
  const double start = cpu_seconds();
  const plan::ScheduleOutcome full = order::solve(changed.problem);
  found.full_seconds = cpu_seconds() - start;
  found.full_bytes = full.peak_bytes;
  found.bound_bytes = full.lower_bound_bytes;
  return found;
}

std::vector<Scheduled> schedule_all(const ir::Graph& graph) {
  OrderedStep step(graph);
  std::vector<Scheduled> found;
  for (size_t region = 0; region < kRegions; ++region) {
    found.push_back(schedule(step.recomputed(region)));
    found.push_back(schedule(step.resized(region)));
  }
  return found;
}

double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

// Least, quarters and most.
std::string quarters(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::string text;
  for (size_t k = 0; k <= 4; ++k)
    text += fmt::format("{}{:.1f}", k > 0 ? ", " : "", values[k * (values.size() - 1) / 4]);
  return text;
}

// Of all changes of one kind, in how many something holds.
template <class Holds>
size_t count(const std::vector<Scheduled>& all, const Holds& holds) {
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), holds));
}

void print_schedules(const char* what, const std::vector<Scheduled>& all) {
  std::vector<double> speedups;
  double worst = 1;
  for (const Scheduled& one : all) {
    speedups.push_back(one.speedup());
    worst = std::max(worst, one.peak_ratio());
  }
  fmt::print("{} regions {}\n", all.size(), what);
  fmt::print(
      "  scheduled between waists {:.0f} times faster than all ops are, in geometric mean (least, "
      "quarters, most: {})\n",
      geometric_mean(speedups), quarters(speedups));
  const auto same = [](const Scheduled& one) { return one.incremental_bytes == one.full_bytes; };
  const auto lower = [](const Scheduled& one) { return one.incremental_bytes < one.full_bytes; };
  const auto least = [](const Scheduled& one) { return one.incremental_bytes == one.bound_bytes; };
  const auto is_full_least = [](const Scheduled& one) { return one.full_bytes == one.bound_bytes; };
  fmt::print(
      "  the same peak in {}, a lower one in {}, at most {:.2f} % above; proven to be least in {}, "
      "that of all ops in {}\n",
      count(all, same), count(all, lower), 100 * (worst - 1), count(all, least),
      count(all, is_full_least));
  fmt::print(
      "  the inherited order is as low as that of all ops in {}, and was lowered in {}\n",
      count(all, [](const auto& one) { return one.inherited_bytes <= one.full_bytes; }),
      count(all, [](const auto& one) { return one.incremental_bytes < one.inherited_bytes; }));
}

nlohmann::json json_of(const Scheduled& one) {
  return {{"what", one.what},
          {"incremental_seconds", one.incremental_seconds},
          {"full_seconds", one.full_seconds},
          {"inherited_bytes", one.inherited_bytes},
          {"incremental_bytes", one.incremental_bytes},
          {"full_bytes", one.full_bytes},
          {"bound_bytes", one.bound_bytes}};
}

bool write(const std::string& path, const std::vector<double>& views,
           const std::vector<Scheduled>& schedules) {
  nlohmann::json list = nlohmann::json::array();
  for (const Scheduled& one : schedules) list.push_back(json_of(one));
  std::ofstream file(path);
  file << nlohmann::json{{"benchmark", "edits"}, {"views", views}, {"schedules", list}}.dump(1)
       << '\n';
  return static_cast<bool>(file.flush());
}

}  // namespace

int measure_networks(const std::vector<std::string>& arguments) {
  const auto json = std::find(arguments.begin(), arguments.end(), "--json");
  std::vector<double> views;
  std::vector<Scheduled> schedules;
  for (auto path = arguments.begin(); path != json; ++path) {
    const ir::Graph graph = training_step(*path);
    std::vector<double> ratios = view_ratios(graph);
    std::sort(ratios.begin(), ratios.end());
    const std::vector<Scheduled> found = schedule_all(graph);
    double incremental = 0, full = 0;
    for (const Scheduled& one : found)
      incremental += one.incremental_seconds, full += one.full_seconds;
    fmt::print(
        "{}: {} ops: views {:.1f} to {:.1f} times faster; {} orders between waists in {:.1f} ms, "
        "of all ops in {:.1f} ms\n",
        path->substr(path->rfind('/') + 1), graph.op_count(), ratios.front(), ratios.back(),
        found.size(), 1e3 * incremental, 1e3 * full);
    views.insert(views.end(), ratios.begin(), ratios.end());
    schedules.insert(schedules.end(), found.begin(), found.end());
  }
  if (views.empty()) return 0;
  fmt::print("{} changes of {} ops: views {:.1f} times faster in geometric mean\n", views.size(),
             kRegion, geometric_mean(views));
  for (const char* what : {kAgain, kLarger}) {
    std::vector<Scheduled> some;
    for (const Scheduled& one : schedules)
      if (one.what == what) some.push_back(one);
    print_schedules(what, some);
  }
  if (json == arguments.end() || json + 1 == arguments.end() ||
      write(*(json + 1), views, schedules))
    return 0;
  fmt::print(stderr, "bench_edits: {} cannot be written\n", *(json + 1));
  return 1;
}

}  // namespace lowtide::bench

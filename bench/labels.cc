// How fast the search for labels judges, and how well: states per second of one core, and
// Spearman's rank correlation between what it says of states and what plans of them then take.
//
//   bench_labels [MODEL.onnx [--loss mse] [--dim batch=8]...] [--ratio 0.4] [--plans 12]
//                [--even 6] [--effort 1] [--levels 8] [--threads 1] [--naive-schedule] [--swap]
//                [--stages] [--mutations] [--ideas] [--kinds] [--json FILE]
//
// Training steps with SGD on an RTX 3090 by its roofline, dropout off, as bench/magis.py has them.
// A state is a labelling that was judged: by its time alone where that is above the best found, by
// a schedule of one part of everything otherwise. The plans are of states drawn evenly from the
// ranking of those that fit, without rewrites, blocks or cuts, and of --even numbers of parts that
// fit each op once, which the search leaves out as soon as it knows something faster; behind each
// stands what its ops take once, as estimated and as planned: what is left of the difference are
// reruns. --kinds says which kinds of ops that difference is of. --levels: how many levels of
// regions are candidates. --naive-schedule: states keep the order that they inherit and what they
// can take over of other schedules, and none is searched; plans start from nothing. --swap: with
// transfers to the host, too. --stages: beside the whole search one without retention searches; the
// difference is what they take. --mutations: what is found without each of the mutations that lead
// from a state to the next; --ideas: likewise of the ideas of `lowtide plan --without`. --threads:
// that judge states, whatever their number the same ones. --json: what bench/targets.py wants to
// know. Nothing is asserted here: the machine decides the speed.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/check.h"
#include "base/clock.h"
#include "cost/device.h"
#include "cost/estimate.h"
#include "fission/classes.h"
#include "fission/part_seconds.h"
#include "fission/rules.h"
#include "io/onnx_reader.h"
#include "pipeline/label_search.h"
#include "pipeline/level_ends.h"
#include "pipeline/optimize.h"
#include "pipeline/step_moves.h"
#include "pipeline/take_rewrites.h"

namespace {

using namespace lowtide;

template <class T>
T value_or_exit(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "bench_labels: {}\n", result.error().message);
  std::exit(1);
}

// Ranks from 0; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (size_t i = 0, end = 0; i < order.size(); i = end) {
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) rank[order[k]] = 0.5 * static_cast<double>(i + end - 1);
  }
  return rank;
}

// Pearson's correlation of the ranks.
double spearman(const std::vector<double>& one, const std::vector<double>& other) {
  const std::vector<double> a = ranks(one), b = ranks(other);
  const double mean = 0.5 * static_cast<double>(a.size() - 1);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

struct Flags {
  std::string model, loss = "mse";
  std::vector<std::string> dims;
  double ratio = 0.4;
  size_t plans = 12, even = 6;
  double effort = 1;
  int levels = pipeline::LabelSearchTuning().levels, threads = 1;
  bool swap = false, stages = false, mutations = false, ideas = false, kinds = false,
       naive_schedule = false;
  std::string json;  // the file
};

// Without a model: two of models/, with their vocabularies.
std::vector<Flags> parse(int argc, char** argv) {
  Flags flags;
  CLI::App app("How fast and how well labels are judged");
  app.add_option("model", flags.model, "ONNX file; default: GPT-2 and BERT of models/");
  app.add_option("--loss", flags.loss)->check(CLI::IsMember({"mse", "cross-entropy"}));
  app.add_option("--dim", flags.dims);
  app.add_option("--ratio", flags.ratio,
                 "the budget, as a share of the peak in the given order, nothing in place");
  app.add_option("--plans", flags.plans);
  app.add_option("--even", flags.even, "numbers of parts, at most, beside what was judged");
  app.add_option("--effort", flags.effort, "of each plan");
  app.add_option("--levels", flags.levels, "of regions that are candidates");
  app.add_option("--threads", flags.threads, "that judge states: what is found stays the same");
  app.add_flag("--naive-schedule", flags.naive_schedule,
               "states are judged without a schedule of their own");
  app.add_flag("--swap", flags.swap, "values and residents may move to the host");
  app.add_flag("--stages", flags.stages, "what each stage of the search takes");
  app.add_flag("--mutations", flags.mutations, "what is found without each mutation");
  app.add_flag("--ideas", flags.ideas, "what is found without each idea of plan --without");
  app.add_flag("--kinds", flags.kinds, "of which kinds of ops estimates and plans differ");
  app.add_option("--json", flags.json, "all figures, to a file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    std::exit(app.exit(wrong));
  }
  if (!flags.model.empty()) return {flags};
  Flags gpt2 = flags, bert = flags;
  gpt2.model = "models/gpt2.onnx", bert.model = "models/bert.onnx";
  gpt2.loss = bert.loss = "cross-entropy";
  gpt2.dims = {"batch=8", "seq=512"}, bert.dims = {"batch=32", "seq=128"};
  return {gpt2, bert};
}

ir::Graph forward_of(const Flags& flags) {
  io::OnnxOptions options;
  options.training = true;
  options.dropout = false;
  for (const std::string& dim : flags.dims) {
    const size_t equals = std::min(dim.find('='), dim.size() - 1);
    options.bindings[dim.substr(0, equals)] = std::stoll(dim.substr(equals + 1));
  }
  return value_or_exit(io::read_onnx(flags.model, options));
}

pipeline::OptimizeOptions options_of(const Flags& flags) {
  pipeline::OptimizeOptions options;
  options.device = value_or_exit(cost::find_device("rtx3090"));
  options.find_smallest = false;
  if (flags.swap) {
    const cost::SlowTierRate& rate = options.device.slow_tiers.front();
    options.slow_tiers.push_back({rate.name,
                                  {.bytes_per_second_out = rate.out_bytes_per_second,
                                   .bytes_per_second_in = rate.in_bytes_per_second,
                                   .latency_seconds = rate.latency_seconds,
                                   .compute_seconds_per_byte = rate.compute_seconds_per_byte}});
  }
  options.schedule.remat.limits.max_units = units_in(flags.effort);
  options.pack.limits.max_units = units_in(flags.effort);
  options.schedule.remat.several_cuts = false;
  options.schedule.remat.threads = flags.threads;
  autodiff::TrainingOptions training;
  training.loss.kind = flags.loss == "mse" ? autodiff::LossKind::kMeanSquaredError
                                           : autodiff::LossKind::kCrossEntropy;
  training.optimizer.kind = autodiff::OptimizerKind::kSgd;
  training.optimizer.momentum = training.optimizer.weight_decay = 0;
  options.training = training;
  return options;
}

// The search with some of its stages alone.
struct Measured {
  pipeline::LabelSearchCounts states = {};
  // Of all cores, of the calling thread, and until it was done.
  double seconds = 0, thread_seconds = 0, wall_seconds = 0;
};

// Of what goes on from here on.
class Watch {
 public:
  Measured stopped(const pipeline::LabelSearchCounts& states) const {
    return {states, process_seconds() - process_, thread_seconds() - thread_, seconds_since(wall_)};
  }

 private:
  const double process_ = process_seconds(), thread_ = thread_seconds();
  const Clock::time_point wall_ = Clock::now();
};

std::string print(const Measured& measured) {
  const auto [forecast, judged] = measured.states;
  return fmt::format(
      "{} states judged and {} forecast in {:.2f} s of cores, {:.2f} s of the calling thread, "
      "{:.2f} s on the wall: {:.0f} and {:.0f} a second of a core",
      judged, forecast, measured.seconds, measured.thread_seconds, measured.wall_seconds,
      static_cast<double>(judged) / measured.seconds,
      static_cast<double>(forecast) / measured.seconds);
}

// Labels, and what else is done to the step.
std::string print(const pipeline::Candidate& candidate) {
  std::string text = fission::print(candidate.labels);
  if (candidate.query_blocks > 0) text += fmt::format(" in {} blocks", candidate.query_blocks);
  for (const fission::CutRule& cut : candidate.cuts) text += " + " + fission::print(cut);
  for (const std::string& name : candidate.rewrites) text += " + " + name;
  return text;
}

Measured search_with(const ir::Graph& step, const pipeline::OptimizeOptions& options,
                     const pipeline::LabelSearchTuning& tuning) {
  const Watch watch;
  pipeline::LabelSearchCounts states;
  value_or_exit(pipeline::label_candidates(step, options, tuning, pipeline::kAnyTime, {}, &states));
  return watch.stopped(states);
}

void print_stages(const ir::Graph& step, const pipeline::OptimizeOptions& options,
                  pipeline::LabelSearchTuning tuning) {
  const Measured all = search_with(step, options, tuning);
  tuning.remat_units = 1, tuning.closer_looks = 0;
  const Measured without_search = search_with(step, options, tuning);
  const auto line = [](const char* stage, const Measured& m) {
    fmt::print("  {:<42} {}\n", stage, print(m));
  };
  line("scaled problems, their orders and cuts", without_search);
  line("and retention searches: the whole search", all);
}

void print_without(std::string_view name, const ir::Graph& forward, const ir::Graph& step,
                   const pipeline::OptimizeOptions& options,
                   const pipeline::LabelSearchTuning& tuning) {
  const auto moves = value_or_exit(pipeline::step_moves(forward, step, options));
  const auto found =
      value_or_exit(pipeline::label_candidates(step, options, tuning, pipeline::kAnyTime, moves));
  fmt::print("  without {:<8} {} states; ", name, found.size());
  if (!found.empty() && found.front().fits)
    fmt::print("best {:.4f} ms: {}\n", 1e3 * found[0].seconds, print(found[0]));
  else
    fmt::print("none fits\n");
}

void print_mutations(const ir::Graph& forward, const ir::Graph& step,
                     const pipeline::OptimizeOptions& options,
                     const pipeline::LabelSearchTuning& tuning) {
  for (const auto& [name, member] : pipeline::label_mutations()) {
    pipeline::OptimizeOptions without = options;
    without.mutations.*member = false;
    print_without(name, forward, step, without, tuning);
  }
}

void print_ideas(const ir::Graph& forward, const ir::Graph& step,
                 const pipeline::OptimizeOptions& options,
                 const pipeline::LabelSearchTuning& tuning) {
  for (const pipeline::SearchIdea& idea : pipeline::search_ideas()) {
    pipeline::OptimizeOptions without = options;
    idea.of(without) = false;
    print_without(idea.name, forward, step, without, tuning);
  }
}

// Seconds by kind of op, each op once: as the estimate prices parts, and as the plan has them.
struct Kind {
  double estimated = 0, planned = 0;
};
using Kinds = std::map<std::string, Kind>;

Kinds kinds_of(const ir::Graph& step, const fission::Labels& labels, const plan::Plan& plan,
               const cost::DeviceProfile& device) {
  const auto classes = value_or_exit(fission::axis_classes(step));
  const auto levels = value_or_exit(fission::levels_of(step, classes.front(), labels));
  const fission::Cuts cuts = fission::cuts_of(step, classes.front(), levels);
  const cost::Estimator estimator(device);
  const auto price = [&](const plan::OpDesc& op) -> Result<double> {
    return value_or_exit(estimator.estimate(op)).seconds;
  };
  auto seconds = value_or_exit(fission::PartSeconds::make(step, price));
  Kinds kinds;
  for (const ir::OpId id : step.ops()) {
    const fission::Cut* cut = cuts[id] ? &*cuts[id] : nullptr;
    kinds[step.op(id).kind].estimated += value_or_exit(seconds.of(id, cut));
  }
  const auto ends = value_or_exit(pipeline::LevelEnds::make(
      step, classes.front(), price, {.alignment_bytes = device.alignment_bytes}));
  IdVector<ir::OpId, double> copies(step.op_count(), 0);
  LT_CHECK(ends.add_copies(cuts, copies).has_value(), "prices exit where there is none");
  for (const double read : copies) kinds["Concat"].estimated += read;
  for (const plan::PlanOp& op : plan.ops) kinds[op.kind].planned += op.predicted_seconds;
  return kinds;
}

void print_kinds(const Kinds& kinds) {
  constexpr double kLeast = 5e-6;  // of a difference
  for (const auto& [name, kind] : kinds)
    if (std::abs(kind.planned - kind.estimated) >= kLeast)
      fmt::print("      {:<20} {:.4f} ms estimated, {:.4f} ms planned\n", name,
                 1e3 * kind.estimated, 1e3 * kind.planned);
}

// What the ops take once, and what is run again.
void print_once(const Kinds& kinds, double estimated_seconds, double planned_seconds) {
  Kind once;
  for (const auto& [name, kind] : kinds)
    once.estimated += kind.estimated, once.planned += kind.planned;
  fmt::print("    each op once {:.4f} ms estimated, {:.4f} planned; reruns {:.4f}, {:.4f}\n",
             1e3 * once.estimated, 1e3 * once.planned, 1e3 * (estimated_seconds - once.estimated),
             1e3 * (planned_seconds - once.planned));
}

// A state that is planned.
struct Drawn {
  pipeline::Candidate state;
  bool is_beside = false;  // a number of parts that the search did not judge
};

// Evenly from the ranking by time of those that fit.
std::vector<Drawn> drawn(const Flags& flags, const ir::Graph& step,
                         const pipeline::OptimizeOptions& options,
                         const std::vector<pipeline::Candidate>& candidates) {
  std::vector<Drawn> all;
  for (const pipeline::Candidate& candidate : candidates)
    if (candidate.fits && !candidate.has_moves()) all.push_back({candidate});
  if (flags.even > 0) {
    const auto even = value_or_exit(pipeline::even_candidates(step, options, flags.even));
    for (const pipeline::Candidate& candidate : even) {
      const bool is_known = std::any_of(all.begin(), all.end(), [&](const Drawn& other) {
        return other.state.cuts_as(candidate);
      });
      if (!is_known && !candidate.labels.whole()) all.push_back({candidate, true});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Drawn& a, const Drawn& b) {
    return a.state.seconds < b.state.seconds;
  });
  const size_t plans = std::min(flags.plans, all.size());
  std::vector<Drawn> some;
  for (size_t k = 0; k < plans; ++k) some.push_back(all[k * all.size() / plans]);
  return some;
}

// None of fewer than three.
std::optional<double> print_correlation(const char* whose, const std::vector<double>& estimated,
                                        const std::vector<double>& planned) {
  if (estimated.size() <= 2) return std::nullopt;
  const double found = spearman(estimated, planned);
  fmt::print("rank correlation of {} {}: {:.3f}\n", estimated.size(), whose, found);
  return found;
}

struct Correlations {
  std::optional<double> all = {}, of_search = {};
  std::vector<double> planned = {};  // seconds
};

// Plans of these, beside what was said of them.
Correlations plan_all(const Flags& flags, const ir::Graph& forward, const ir::Graph& step,
                      const pipeline::OptimizeOptions& options, const std::vector<Drawn>& states) {
  std::vector<double> estimated, planned, estimated_by_search, planned_by_search;
  for (const auto& [state, is_beside] : states) {
    pipeline::OptimizeOptions made = options;
    made.split = state.labels;
    if (!flags.naive_schedule) made.starts = state.starts;
    const auto plan = pipeline::optimize(forward, made);
    const std::string labels = fission::print(state.labels);
    if (!plan) {
      fmt::print("  {:.4f} ms estimated, no plan: {}: {}\n", 1e3 * state.seconds, labels,
                 plan.error().message.substr(0, 160));
      continue;
    }
    const double seconds = plan->plan.claims.predicted_seconds;
    estimated.push_back(state.seconds), planned.push_back(seconds);
    if (!is_beside)
      estimated_by_search.push_back(state.seconds), planned_by_search.push_back(seconds);
    fmt::print("  {:.4f} ms estimated, {:.4f} ms planned: {}{}\n", 1e3 * state.seconds,
               1e3 * seconds, labels, is_beside ? " (beside the search)" : "");
    const Kinds kinds = kinds_of(step, state.labels, plan->plan, options.device);
    print_once(kinds, state.seconds, seconds);
    if (flags.kinds) print_kinds(kinds);
  }
  Correlations found;
  found.all = print_correlation("plans", estimated, planned);
  found.of_search =
      print_correlation("that the search judged", estimated_by_search, planned_by_search);
  found.planned = std::move(planned);
  return found;
}

nlohmann::json json_of(const std::optional<double>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

// What states are judged by. With --naive-schedule the order of a state is the one that it
// inherits, and none is searched for a schedule.
pipeline::OptimizeOptions judged_by(const Flags& flags, pipeline::OptimizeOptions options,
                                    pipeline::LabelSearchTuning& tuning) {
  tuning.levels = flags.levels;
  if (!flags.naive_schedule) return options;
  options.schedule.remat.reorder = false;
  tuning.remat_units = 1, tuning.closer_looks = 0;
  return options;
}

nlohmann::json measure(const Flags& flags) {
  const ir::Graph forward = forward_of(flags);
  pipeline::OptimizeOptions options = options_of(flags);
  pipeline::OptimizeOptions alone = options;
  alone.slow_tiers.clear();
  const plan::Claims once = value_or_exit(pipeline::optimize(forward, alone)).plan.claims;
  const ir::Graph step = value_or_exit(pipeline::step_to_cut(forward, options));
  options.budget_bytes =
      static_cast<int64_t>(flags.ratio * static_cast<double>(once.peak_before_bytes));
  fmt::print("{}, {} MiB, {} of its memory, each op once {:.4f} ms: ", flags.model,
             *options.budget_bytes >> 20, flags.ratio, 1e3 * once.predicted_seconds);
  pipeline::LabelSearchTuning tuning;
  const pipeline::OptimizeOptions judging = judged_by(flags, options, tuning);
  const auto moves = value_or_exit(pipeline::step_moves(forward, step, judging));
  const Watch watch;
  pipeline::LabelSearchCounts states;
  const auto candidates = value_or_exit(
      pipeline::label_candidates(step, judging, tuning, pipeline::kAnyTime, moves, &states));
  const Measured measured = watch.stopped(states);
  const auto fits = [](const pipeline::Candidate& c) { return c.fits; };
  const auto fitting =
      static_cast<size_t>(std::count_if(candidates.begin(), candidates.end(), fits));
  fmt::print("{}; {} fit", print(measured), fitting);
  if (fitting > 0)
    fmt::print("; best {:.4f} ms: {}", 1e3 * candidates[0].seconds, print(candidates[0]));
  fmt::print("\n");
  if (flags.stages) print_stages(step, options, tuning);
  if (flags.mutations) print_mutations(forward, step, options, tuning);
  if (flags.ideas) print_ideas(forward, step, options, tuning);
  Correlations found;
  if (flags.plans > 0)
    found = plan_all(flags, forward, step, options, drawn(flags, step, options, candidates));
  return {{"model", flags.model},
          {"ratio", flags.ratio},
          {"once_seconds", once.predicted_seconds},
          {"judged", measured.states.judged},
          {"forecast", measured.states.forecast},
          {"seconds", measured.seconds},
          {"thread_seconds", measured.thread_seconds},
          {"wall_seconds", measured.wall_seconds},
          {"fit", fitting},
          {"correlation", json_of(found.all)},
          {"correlation_of_search", json_of(found.of_search)},
          {"planned_seconds", found.planned}};
}

void write(const std::string& path, const nlohmann::json& models) {
  std::ofstream file(path);
  file << nlohmann::json{{"benchmark", "labels"}, {"models", models}}.dump(1) << '\n';
  if (file.flush()) return;
  fmt::print(stderr, "bench_labels: {} cannot be written\n", path);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Flags> asked = parse(argc, argv);
  nlohmann::json models = nlohmann::json::array();
  for (const Flags& flags : asked) models.push_back(measure(flags));
  if (!asked.front().json.empty()) write(asked.front().json, models);
  return 0;
}

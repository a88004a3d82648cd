// What a change of a training step costs a search: a region of 20 ops in a step of about 2,000 is
// recomputed for its later readers, the schedule view follows, and all of it is taken back. Beside
// it the view made from nothing, and what one op costs to infer, cut and weigh. The ratio is one of
// medians of CPU time. Beside those, what it takes to judge and to mend the order that a changed
// problem inherits, where sizes around its peak have changed, and to order all of it anew.
//
//   bench_edits                        fails unless following is 20 times faster than anew
//   bench_edits --benchmark_filter=op  only the costs of one op
//   bench_edits --networks FILE.onnx... [--json FILE]  other networks, in place of that
//                                                      (bench/edited_networks.h)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "analysis/view_edit.h"
#include "autodiff/training.h"
#include "edit_region.h"
#include "edited_networks.h"
#include "ops/op_table.h"
#include "order/order.h"
#include "order/waist.h"
#include "plan/schedule_simulator.h"

namespace {

using namespace lowtide;
using bench::cpu_seconds;
using bench::kRegion;
using bench::median;
using bench::no_cost;
using bench::recompute_region;
using ir::OpId;
using ir::ValueId;

constexpr double kWantedRatio = 20;

class Network {
 public:
  ir::Graph graph;
  ValueId leaf(const std::string& name, ir::Dims dims, Category category = Category::kParameter) {
    ir::Value value;
    value.name = name;
    value.dims = std::move(dims);
    value.category = category;
    return graph.add_value(std::move(value));
  }
  std::vector<ValueId> ops(std::string_view kind, std::vector<ValueId> inputs,
                           ir::Attrs attrs = {}) {
    const auto made = ops::append(graph, kind, std::move(inputs), std::move(attrs));
    LT_CHECK(made.has_value(), made ? std::string() : made.error().message);
    return graph.op(*made).outputs;
  }
  ValueId op(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return ops(kind, std::move(inputs), std::move(attrs))[0];
  }
};

// A block of a transformer over [batch * tokens, width] with two heads.
ValueId block(Network& net, ValueId x, const std::string& n) {
  const ir::Attrs norm{{"axis", int64_t{1}}, {"epsilon", 1e-5}};
  const auto dense = [&](ValueId v, const std::string& name, int64_t in, int64_t out) {
    return net.op("MatMul",
                  {v, net.leaf(name + ".w" + n, {in, out}), net.leaf(name + ".b" + n, {out})});
  };
  const auto heads = [&](ValueId v) {
    const ValueId split = net.op("Reshape", {v}, {{"shape", ir::Dims{2, 16, 2, 16}}});
    return net.op("Transpose", {split}, {{"perm", ir::Dims{0, 2, 1, 3}}});
  };
  ValueId h = net.op("LayerNorm", {x, net.leaf("g1" + n, {32}), net.leaf("b1" + n, {32})}, norm);
  const ValueId q = heads(dense(h, "q", 32, 32)), k = heads(dense(h, "k", 32, 32)),
                v = heads(dense(h, "v", 32, 32));
  h = net.op("MatMul", {q, k}, {{"trans_b", int64_t{1}}});
  h = net.op("Softmax", {h}, {{"axis", int64_t{3}}});
  h = net.op("MatMul", {net.op("Dropout", {h}, {{"ratio", 0.1}, {"stream", int64_t{1}}}), v});
  h = net.op("Reshape", {net.op("Transpose", {h}, {{"perm", ir::Dims{0, 2, 1, 3}}})},
             {{"shape", ir::Dims{32, 32}}});
  x = net.op("Add", {x, dense(h, "o", 32, 32)});
  h = net.op("LayerNorm", {x, net.leaf("g2" + n, {32}), net.leaf("b2" + n, {32})}, norm);
  h = dense(net.op("Relu", {dense(h, "up", 32, 128)}), "down", 128, 32);
  return net.op("Add", {x, h});
}

const ir::Graph& step() {
  static const ir::Graph made = [] {
    Network net;
    ValueId x = net.leaf("x", {32, 32}, Category::kInput);
    for (int i = 0; i < 26; ++i) x = block(net, x, std::to_string(i));
    net.graph.set_output(net.op("MatMul", {x, net.leaf("head", {32, 10})}), true);
    autodiff::TrainingOptions options;
    options.optimizer.kind = autodiff::OptimizerKind::kAdamW;
    auto trained = autodiff::make_training_graph(net.graph, options);
    LT_CHECK(trained.has_value(), trained ? std::string() : trained.error().message);
    return std::move(*trained);
  }();
  return made;
}

// Times of all runs, for the ratio at the end.
std::vector<double> from_nothing_seconds, followed_seconds;

void view_from_nothing(benchmark::State& state) {
  const analysis::OpCosts costs{IdVector<OpId, double>(step().op_count(), 1e-3),
                                IdVector<OpId, int64_t>(step().op_count(), 0)};
  for (auto _ : state) {
    const double start = cpu_seconds();
    benchmark::DoNotOptimize(analysis::make_schedule_view(step(), costs, 64));
    from_nothing_seconds.push_back(cpu_seconds() - start);
  }
  state.counters["ops"] = static_cast<double>(step().op_count());
}

// Timed: the update alone.
void view_followed(benchmark::State& state) {
  ir::GraphEdit graph(step());
  auto view = analysis::ViewEdit::make(graph, no_cost, 64).value();
  const auto before = view.mark();
  for (auto _ : state) {
    recompute_region(graph, step().op_count() / 8);
    const double start = cpu_seconds();
    LT_CHECK(view.update().has_value(), "the changed step has a view");
    followed_seconds.push_back(cpu_seconds() - start);
    state.SetIterationTime(followed_seconds.back());
    view.rollback(before);
  }
}

// Timed: the edit, its view, and taking both back.
void try_and_take_back(benchmark::State& state) {
  ir::GraphEdit graph(step());
  auto view = analysis::ViewEdit::make(graph, no_cost, 64).value();
  const auto before = view.mark();
  for (auto _ : state) {
    recompute_region(graph, step().op_count() / 8);
    LT_CHECK(view.update().has_value(), "the changed step has a view");
    view.rollback(before);
  }
}

void take_back(benchmark::State& state) {
  ir::GraphEdit graph(step());
  auto view = analysis::ViewEdit::make(graph, no_cost, 64).value();
  const auto before = view.mark();
  for (auto _ : state) {
    recompute_region(graph, step().op_count() / 8);
    LT_CHECK(view.update().has_value(), "the changed step has a view");
    const double start = cpu_seconds();
    view.rollback(before);
    state.SetIterationTime(cpu_seconds() - start);
  }
}

// A whole problem out of the edit, which a solver asks for.
void compact_problem(benchmark::State& state) {
  ir::GraphEdit graph(step());
  const auto view = analysis::ViewEdit::make(graph, no_cost, 64).value();
  for (auto _ : state) benchmark::DoNotOptimize(view.problem().compact());
}

void contract_and_expand(benchmark::State& state) {
  ir::GraphEdit graph(step());
  auto view = analysis::ViewEdit::make(graph, no_cost, 64).value();
  plan::ProblemEdit& problem = view.problem();
  std::vector<plan::SchedOpId> region;
  for (size_t i = 0; region.size() < kRegion; ++i)
    region.push_back(plan::SchedOpId(problem.op_slots() / 2 + i));
  for (auto _ : state) {
    const auto start = problem.mark();
    const auto made = problem.contract(region, "region");
    LT_CHECK(made.has_value() && problem.expand(*made).has_value(), "a stretch is convex");
    problem.rollback(start);
  }
}

// The step's best order in a problem in which values of a region around its peak are larger.
struct Inherited {
  plan::ScheduleProblem problem;
  std::vector<plan::SchedOpId> sequence, touched;

  Inherited() {
    const analysis::OpCosts costs{IdVector<OpId, double>(step().op_count(), 1e-3),
                                  IdVector<OpId, int64_t>(step().op_count(), 0)};
    problem = analysis::make_schedule_view(step(), costs, 64).value().problem;
    sequence = order::solve(problem).sequence;
    const size_t peak = plan::simulate(problem, sequence).value().peak_step;
    for (size_t at = peak - kRegion / 2; at < peak + kRegion / 2; ++at)
      touched.push_back(sequence[at]);
    for (plan::SchedValue& value : problem.values)
      if (std::count(touched.begin(), touched.end(), value.producer) > 0) value.bytes *= 2;
  }
};

const Inherited& inherited() {
  static const Inherited made;
  return made;
}

void order_simulated(benchmark::State& state) {
  const plan::ProblemIndex index(inherited().problem);
  for (auto _ : state)
    benchmark::DoNotOptimize(plan::simulate(inherited().problem, index, inherited().sequence));
}

// Timed with copies of the order and its profile, which are small beside it.
void order_rescheduled(benchmark::State& state) {
  const Inherited& given = inherited();
  const plan::ProblemIndex index(given.problem);
  const order::ProfiledOrder order{given.sequence,
                                   plan::simulate(given.problem, index, given.sequence).value()};
  order::WaistOutcome outcome;
  for (auto _ : state) outcome = order::reschedule(given.problem, index, order, given.touched);
  state.counters["intervals"] = outcome.intervals;
  state.counters["peak_ratio"] = static_cast<double>(outcome.order.profile.peak_bytes) /
                                 static_cast<double>(order.profile.peak_bytes);
}

void order_anew(benchmark::State& state) {
  plan::ScheduleOutcome outcome;
  for (auto _ : state) outcome = order::solve(inherited().problem);
  const auto before = plan::simulate(inherited().problem, inherited().sequence).value().peak_bytes;
  state.counters["peak_ratio"] =
      static_cast<double>(outcome.peak_bytes) / static_cast<double>(before);
}

// Asks one question about every op of the step; the time is per op.
template <class Question>
void per_op(benchmark::State& state, const Question& question) {
  std::vector<ops::Instance> instances;
  for (const OpId id : step().ops()) instances.push_back(ops::instance_of(step(), id));
  for (auto _ : state)
    for (const ops::Instance& instance : instances) question(instance);
  state.counters["per_op"] =
      benchmark::Counter(static_cast<double>(instances.size() * state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void op_infer(benchmark::State& state) {
  per_op(state, [](const ops::Instance& op) { benchmark::DoNotOptimize(ops::infer(op)); });
}
void op_in_place_pairs(benchmark::State& state) {
  per_op(state, [](const ops::Instance& op) { benchmark::DoNotOptimize(ops::in_place_pairs(op)); });
}
void op_axis_map(benchmark::State& state) {
  per_op(state, [](const ops::Instance& op) { benchmark::DoNotOptimize(ops::axis_map(op)); });
}
void op_work(benchmark::State& state) {
  per_op(state, [](const ops::Instance& op) { benchmark::DoNotOptimize(ops::work(op)); });
}
void op_part(benchmark::State& state) {
  per_op(state, [](const ops::Instance& op) { benchmark::DoNotOptimize(ops::part(op, 0, 0, 1)); });
}

BENCHMARK(view_from_nothing)->Unit(benchmark::kMicrosecond);
BENCHMARK(view_followed)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(take_back)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(try_and_take_back)->Unit(benchmark::kMicrosecond);
BENCHMARK(compact_problem)->Unit(benchmark::kMicrosecond);
BENCHMARK(contract_and_expand)->Unit(benchmark::kMicrosecond);
BENCHMARK(order_simulated)->Unit(benchmark::kMicrosecond);
BENCHMARK(order_rescheduled)->Unit(benchmark::kMicrosecond);
BENCHMARK(order_anew)->Unit(benchmark::kMicrosecond);
BENCHMARK(op_infer)->Unit(benchmark::kMicrosecond);
BENCHMARK(op_in_place_pairs)->Unit(benchmark::kMicrosecond);
BENCHMARK(op_axis_map)->Unit(benchmark::kMicrosecond);
BENCHMARK(op_work)->Unit(benchmark::kMicrosecond);
BENCHMARK(op_part)->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--networks") == 0)
    return bench::measure_networks({argv + 2, argv + argc});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  if (from_nothing_seconds.empty() || followed_seconds.empty()) return 0;
  const double ratio = median(from_nothing_seconds) / median(followed_seconds);
  std::printf(
      "a region of %zu ops in a step of %zu: its view follows %.0f times faster than one is "
      "made from nothing (wanted: %.0f)\n",
      kRegion, step().op_count(), ratio, kWantedRatio);
  return ratio >= kWantedRatio ? 0 : 1;
}

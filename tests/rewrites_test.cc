// Every rewrite of the list, on random networks that give it something to do: twins of ops, sums
// and products, values cut and joined, products and convolutions that share an operand. What a
// network computes is judged by the reference executor in f64 before and after, and so are the
// gradients of a training step that is made from what the rewrite made, or that it rewrites. Those
// that run by default keep every bit, and never raise the least peak of all orders: neither of what
// they rewrite nor of the step that is made from it.
#include "rewrite/rewrites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "analysis/schedule_view.h"
#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/ref/interpreter.h"
#include "order/order.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"

namespace lowtide::rewrites_test {
namespace {

using ir::ValueId;
using rewrite::Rewrite;
using rewrite::RewriteStage;

constexpr double kClose = 1e-12;  // relative, in f64
constexpr int64_t kMostColumns = 24;

class Network : public GraphWriter {
 public:
  // What some rewrites need, beside the other ops.
  struct Kinds {
    int norms = 0, attentions = 0, losses = 0, trips = 0, branches = 0;
    bool ignores = false;  // losses: the label 0
  };

  Network(uint64_t seed, int ops) : Network(seed, ops, Kinds{}) {}
  Network(uint64_t seed, int ops, const Kinds& kinds) : rng_(seed) {
    graph_.name = "rewrites";
    for (const char* name : {"x", "y"}) pool_.push_back(given(name, {4, 6}));
    pool_.push_back(given("p", {4, 6}, Category::kParameter));
    for (int i = 0; i < ops; ++i) {
      if (i < kinds.norms) normalise();
      if (i < kinds.attentions) attend();
      if (i < kinds.losses) classify(kinds.ignores);
      if (i < kinds.trips) go_and_come_back();
      if (i < kinds.branches) branch();
      grow();
    }
    for (ValueId v : graph_.values())
      if (is_first_output(v) && graph_.readers(v).empty()) result(v);
    // Something to train in whatever came out.
    result(op("Mul", {pool_[0], pool_[2]}));
  }

 private:
  int64_t dim(ValueId v, size_t d) const { return graph_.value(v).dims[d].constant().value(); }
  bool is_first_output(ValueId v) const {
    const ir::OpId producer = graph_.value(v).producer;
    return producer.valid() && graph_.op(producer).outputs[0] == v;
  }
  ValueId any() { return pool_[pool_.size() - 1 - rng_.below(std::min<size_t>(pool_.size(), 8))]; }
  ValueId like(ValueId x) {
    std::vector<ValueId> same;
    for (ValueId v : pool_)
      if (graph_.value(v).dims == graph_.value(x).dims) same.push_back(v);
    return same[rng_.below(same.size())];
  }
  ValueId keep(ValueId v) {
    if (dim(v, 1) <= kMostColumns && dim(v, 0) <= kMostColumns) pool_.push_back(v);
    return v;
  }
  ValueId part(ValueId x, size_t axis, int64_t begin, int64_t end) {
    ir::Dims starts = {0, 0}, sizes = graph_.value(x).dims;
    starts[axis] = begin;
    sizes[axis] = end - begin;
    return op("Slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", ir::Dims{1, 1}}});
  }

  void normalise() {
    const ValueId x = any();
    const auto column = [&](const char* name) {
      return given(name, {dim(x, 1)}, Category::kParameter);
    };
    keep(op("BatchNormTrain", {x, column("scale"), column("shift")}, {{"epsilon", 1e-3}}));
  }
  // Over the columns of a value, causal by half.
  void attend() {
    const ValueId x = op("Tanh", {any()});
    ValueId scores = op("MatMul", {x, like(x)}, {{"trans_b", int64_t{1}}});
    if (rng_.below(2) == 0) {
      const ir::Attrs fill = {
          {"shape", graph_.value(scores).dims}, {"value", -1e30}, {"dtype", std::string("f32")}};
      const ValueId mask =
          op("Trilu", {op("Fill", {}, fill)}, {{"upper", int64_t{1}}, {"k", int64_t{1}}});
      scores = op("Add", {scores, mask});
    }
    const ValueId shares = op("Softmax", {scores}, {{"axis", int64_t{1}}});
    keep(op("MatMul", {shares, like(x)}));
  }
  // Each row is one of more classes than it has columns. Where a label is ignored not all are that.
  void classify(bool ignores) {
    ValueId x = op("Tanh", {any()});
    if (dim(x, 0) < dim(x, 1)) x = op("Transpose", {x}, {{"perm", ir::Dims{1, 0}}});
    const int64_t classes = dim(x, 1) + rng_.between(1, 4);
    const ValueId w = given("w", {dim(x, 1), classes}, Category::kParameter);
    ir::Value labels;
    labels.name = graph_.fresh_name("labels");
    labels.dims = {dim(x, 0)};
    labels.dtype = DType::kI64;
    labels.category = Category::kInput;
    ir::Attrs attrs = {{"axis", int64_t{1}}};
    if (ignores) {
      attrs["ignore_index"] = int64_t{0};
      labels.initial.kind = ir::InitialValue::Kind::kInline;
      for (int64_t row = 0; row < dim(x, 0); ++row) {
        const int64_t label = (row + 1) % classes;
        labels.initial.bytes.append(reinterpret_cast<const char*>(&label), sizeof(label));
      }
    }
    const ValueId given_labels = graph_.add_value(std::move(labels));
    const ValueId logits = op("MatMul", {x, w});
    result(op("CrossEntropy", {logits, given_labels}, std::move(attrs)));
  }
  // As exporters write it: moved or cast, and back; or not at all.
  void go_and_come_back() {
    const ValueId x = any();
    const ir::Dims shape = graph_.value(x).dims;
    const auto moved = [&](ValueId v, ir::Dims perm) {
      return op("Transpose", {v}, {{"perm", std::move(perm)}});
    };
    const auto shaped = [&](ValueId v, ir::Dims dims) {
      return op("Reshape", {v}, {{"shape", std::move(dims)}});
    };
    const auto cast = [&](ValueId v, const char* to) {
      return op("Cast", {v}, {{"to", std::string(to)}});
    };
    const auto read_by_others = [&](ValueId v) {
      if (rng_.below(4) > 0) return v;
      result(op("Exp", {graph_.value(v).dtype == DType::kF32 ? v : cast(v, "f32")}));
      return v;
    };
    const ir::Dims turns[] = {{2, 0, 1}, {1, 2, 0}, {0, 2, 1}, {0, 1, 2}};
    switch (rng_.below(5)) {
      case 0:
        keep(moved(read_by_others(moved(x, {1, 0})), {1, 0}));
        return;
      case 1: {
        ValueId deep = shaped(x, {shape[0], 1, shape[1]});
        for (int i = 0; i < 2; ++i) deep = read_by_others(moved(deep, turns[rng_.below(4)]));
        const ir::Dims& now = graph_.value(deep).dims;
        keep(shaped(deep, {now[0] * now[1], now[2]}));
        return;
      }
      case 2:
        keep(cast(read_by_others(cast(x, "f64")), "f32"));
        return;
      case 3:
        keep(op("Expand", {x}, {{"shape", shape}}));
        return;
      default: {
        const ValueId mask = cast(op("Greater", {x, like(x)}), rng_.below(2) == 0 ? "i64" : "u8");
        keep(op("Mul", {x, cast(read_by_others(mask), "f32")}));
      }
    }
  }
  // Convolutions of an image with kernels of several sizes, results as large as it is.
  void branch() {
    const ValueId x = any();
    const ir::Dims rows = graph_.value(x).dims;
    const auto shaped = [&](ValueId v, ir::Dims dims) {
      return op("Reshape", {v}, {{"shape", std::move(dims)}});
    };
    const ValueId image = shaped(x, {1, 1, rows[0], rows[1]});
    std::vector<ValueId> made;
    for (uint64_t i = rng_.below(2) + 2; i-- > 0;) {
      const int64_t height = 2 * rng_.between(0, 1) + 1, width = 2 * rng_.between(0, 1) + 1;
      const int64_t channels = rng_.between(1, 2);
      const ir::Dims half = {(height - 1) / 2, (width - 1) / 2};
      made.push_back(
          op("Conv",
             {image, given("w", {channels, 1, height, width}, Category::kParameter),
              rng_.below(4) == 0 ? given("b", {channels}, Category::kParameter) : ValueId()},
             {{"pads", ir::Dims{half[0], half[1], half[0], half[1]}}}));
    }
    if (rng_.below(2) == 0) made = {op("Concat", made, {{"axis", int64_t{1}}})};
    for (ValueId v : made)
      keep(op("Tanh", {shaped(v, {graph_.value(v).dims[1] * rows[0], rows[1]})}));
  }
  void twin() {
    std::vector<ir::OpId> ops(graph_.ops().begin(), graph_.ops().end());
    if (ops.empty()) return;
    const ir::Op old = graph_.op(ops[rng_.below(ops.size())]);
    if (graph_.value(old.outputs[0]).dtype != DType::kF32) return;
    const ValueId made = op(old.kind, old.inputs, old.attrs);
    if (graph_.value(made).dims.size() == 2) keep(made);  // no loss
  }
  // A sum or product of a few, each of them or their product with one that all share.
  void algebra() {
    const ValueId x = any(), shared = like(x);
    const int terms = static_cast<int>(rng_.between(2, 4));
    const bool factored = rng_.below(2) == 0;
    ValueId sum = x;
    for (int t = 0; t < terms; ++t) {
      ValueId term = like(x);
      if (factored)
        term =
            op("Mul", rng_.below(2) == 0 ? std::vector{term, shared} : std::vector{shared, term});
      sum = op(rng_.below(4) == 0 && !factored ? "Mul" : "Add", {sum, term});
    }
    keep(op("Tanh", {sum}));
  }
  void cut_and_join() {
    const ValueId x = any();
    const size_t axis = rng_.below(2);
    const int64_t extent = dim(x, axis);
    std::vector<ValueId> parts;
    for (int64_t at = rng_.below(3) == 0 ? extent / 3 : 0; at < extent;) {
      const int64_t end = std::min(extent, at + rng_.between(1, 3));
      parts.push_back(part(x, axis, at, end));
      at = end;
    }
    if (rng_.below(3) == 0) parts.push_back(like(x));
    if (rng_.below(3) == 0) keep(op("Tanh", {parts[rng_.below(parts.size())]}));
    if (rng_.below(4) == 0) std::reverse(parts.begin(), parts.end());
    keep(op("Concat", parts, {{"axis", static_cast<int64_t>(axis)}}));
  }
  void join_and_cut() {
    const ValueId x = any(), y = like(x);
    const size_t axis = rng_.below(2);
    const ValueId whole = op("Concat", {x, y, like(x)}, {{"axis", static_cast<int64_t>(axis)}});
    const int64_t n = dim(x, axis);
    for (uint64_t i = rng_.below(3) + 1; i-- > 0;) {
      const int64_t from = rng_.between(0, 2) * n, begin = rng_.between(0, n - 1);
      keep(part(whole, axis, from + begin, from + rng_.between(begin + 1, n)));
    }
    if (rng_.below(3) == 0) keep(whole);
  }
  void cut_again() {
    ValueId x = any();
    for (int i = 0; i < 2; ++i) {
      const size_t axis = rng_.below(2);
      const int64_t n = dim(x, axis), begin = rng_.between(0, n / 2);
      x = part(x, axis, begin, rng_.between(begin + 1, n));
    }
    keep(x);
  }
  void products() {
    const ValueId x = any(), y = like(x);
    const bool transposed = rng_.below(3) == 0;
    const auto weight = [&](int64_t n) {
      return given("w", transposed ? ir::Dims{n, dim(x, 1)} : ir::Dims{dim(x, 1), n},
                   Category::kParameter);
    };
    ir::Attrs attrs;
    if (transposed) attrs["trans_b"] = int64_t{1};
    const int64_t n = rng_.between(1, 6);
    const ValueId w = weight(n);
    const bool share_weight = rng_.below(2) == 0;
    std::vector<ValueId> made = {op("MatMul", {x, w, ValueId::none()}, attrs)};
    if (share_weight) {
      made.push_back(op("MatMul", {y, w, ValueId::none()}, attrs));
    } else {
      for (int i = 0; i < 2; ++i)
        made.push_back(op("MatMul", {x, weight(rng_.between(1, 6)), ValueId::none()}, attrs));
    }
    if (rng_.below(2) == 0) {
      keep(op("Concat", made, {{"axis", int64_t{share_weight ? 0 : 1}}}));
    } else {
      for (ValueId v : made) keep(op("Tanh", {v}));
    }
  }

  // Only parts of a product are read.
  void cut_product() {
    const ValueId x = any();
    const ValueId w = given("w", {dim(x, 1), 6}, Category::kParameter);
    const ValueId bias = rng_.below(2) == 0 ? given("bias", {6}, Category::kParameter) : ValueId();
    const ValueId whole = op("MatMul", {x, w, bias});
    const size_t axis = rng_.below(2);
    const int64_t n = dim(whole, axis);
    for (uint64_t i = rng_.below(2) + 1; i-- > 0;) {
      const int64_t begin = rng_.between(0, n - 1);
      keep(op("Tanh", {part(whole, axis, begin, rng_.between(begin + 1, n))}));
    }
  }

  void grow() {
    switch (rng_.below(9)) {
      case 0:
        keep(op("Tanh", {any()}));
        return;
      case 1:
        keep(op("Transpose", {any()}, {{"perm", ir::Dims{1, 0}}}));
        return;
      case 2:
        return twin();
      case 3:
        return algebra();
      case 4:
        return cut_and_join();
      case 5:
        return join_and_cut();
      case 6:
        return cut_again();
      case 7:
        return cut_product();
      default:
        return products();
    }
  }

  Rng rng_;
  std::vector<ValueId> pool_;
};

std::string what_differs(const ir::Graph& before, const ir::Graph& after, double close) {
  ref::Context context;
  context.precision = ref::Precision::kF64;
  context.seed_missing_inputs = true;
  context.seed = 7;
  context.integer_limit = 2;  // labels
  const auto was = ref::interpret(before, {}, context), is = ref::interpret(after, {}, context);
  if (!was || !is) return was ? is.error().message : was.error().message;
  const std::vector<ValueId> old = before.outputs(), now = after.outputs();
  if (old.size() != now.size()) return "another number of results";
  for (size_t o = 0; o < old.size(); ++o) {
    const auto same = after.find_value(before.value(old[o]).name);
    if (!same || !after.value(*same).is_output) return before.value(old[o]).name + " is no result";
    const ref::Tensor& a = was->at(old[o]);
    const ref::Tensor& b = is->at(*same);
    if (a.dims != b.dims || a.f.size() != b.f.size()) return "dims of " + before.value(old[o]).name;
    double most = 0;
    for (double x : a.f) most = std::max(most, std::abs(x));
    for (size_t i = 0; i < a.f.size(); ++i)
      if (!(std::abs(a.f[i] - b.f[i]) <= close * most))
        return before.value(old[o]).name + " has other elements";
  }
  return {};
}

std::vector<std::string> results_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (ValueId v : graph.outputs()) names.push_back(graph.value(v).name);
  return names;
}

ir::Graph gradients(const ir::Graph& forward) {
  autodiff::TrainingOptions options;
  options.loss.kind = autodiff::LossKind::kModelOutput;
  options.update = false;
  const auto made = autodiff::make_training_graph(forward, options);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? *made : ir::Graph();
}

// To join products, few large ones are better than many small ones; to part them, what they compute
// is all that counts.
rewrite::RewriteContext context_for(const Rewrite& rewrite) {
  rewrite::RewriteContext context;
  context.alignment_bytes = 64;
  context.query_blocks = 3;
  const bool by_element = rewrite.name == "part-products";
  context.seconds = [by_element](const plan::OpDesc& op) -> Result<double> {
    if (op.kind != "MatMul" && op.kind != "Conv") return 1e-6;
    return by_element ? 1e-4 * static_cast<double>(plan::element_count(op.outputs[0])) : 1e-3;
  };
  return context;
}

// What the rewrite makes of it; the graph itself where it has nothing to do.
ir::Graph rewritten(const Rewrite& rewrite, RewriteStage stage, const ir::Graph& graph,
                    int64_t& changed) {
  auto made = rewrite::run(rewrite, stage, graph, context_for(rewrite));
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  if (!made || made->ops == 0) return graph;
  changed += made->ops;
  const Status valid = ir::check(made->graph);
  EXPECT_TRUE(valid.has_value()) << (valid ? "" : valid.error().message);
  return made->graph;
}

// What only serves steps in parts is about batch norm, or labels that are ignored.
Network::Kinds kinds_for(const Rewrite& rewrite) {
  const bool counts = rewrite.name == "count-labels-first";
  const bool is_of_losses = counts || rewrite.name.find("loss") != std::string_view::npos;
  return {.norms = rewrite.in_parts && !counts ? 2 : 0,
          .attentions = rewrite.in_blocks ? 2 : 0,
          .losses = is_of_losses ? 2 : 0,
          .trips = rewrite.name == "round-trips" ? 3 : 0,
          .branches = rewrite.name == "enlarge-kernels" ? 3 : 0,
          .ignores = counts};
}

class EveryRewrite : public testing::TestWithParam<size_t> {
 protected:
  const Rewrite& rewrite() const { return rewrite::rewrites()[GetParam()]; }
  double close() const { return rewrite().by_default ? 0 : kClose; }
  Network::Kinds kinds() const { return kinds_for(rewrite()); }
  // Slices of slices that others read, too, are few.
  int ops() const { return rewrite().name == "direct-slices" ? 24 : 8; }
};

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  std::string name(rewrite::rewrites()[info.param].name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TEST_P(EveryRewrite, KeepsWhatIsComputed) {
  int64_t changed = 0, networks = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const ir::Graph graph = Network(seed, ops(), kinds()).graph();
    const int64_t before = changed;
    const ir::Graph after = rewritten(rewrite(), RewriteStage::kStep, graph, changed);
    networks += changed > before;
    ASSERT_EQ(what_differs(graph, after, close()), "");
    ASSERT_EQ(results_of(graph), results_of(after));
    int64_t again = 0;
    rewritten(rewrite(), RewriteStage::kStep, after, again);
    EXPECT_EQ(again, 0) << "it is not done after one run";
  }
  RecordProperty("ops", static_cast<int>(changed));
  std::cout << rewrite().name << ": " << changed << " ops of " << networks << " networks\n";
  EXPECT_GT(changed, 100);
  EXPECT_GT(networks, 50);
}

TEST_P(EveryRewrite, KeepsTheGradients) {
  int64_t changed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Network network(seed, ops(), kinds());
    const ir::Graph graph = network.with_one_result();
    const ir::Graph step = gradients(graph);
    ASSERT_GT(step.outputs().size(), 1U);
    if (rewrite().on_forward) {
      const ir::Graph of_rewritten =
          gradients(rewritten(rewrite(), RewriteStage::kForward, graph, changed));
      ASSERT_EQ(what_differs(step, of_rewritten, kClose), "");
    }
    if (rewrite().on_step) {
      const ir::Graph after = rewritten(rewrite(), RewriteStage::kStep, step, changed);
      ASSERT_EQ(what_differs(step, after, close()), "");
    }
  }
  std::cout << rewrite().name << ": " << changed << " ops\n";
  EXPECT_GT(changed, 100);
}

// The least peak of all orders that run each op once, without rounding, which several values pay
// more often than one; nothing where it was not proven.
std::optional<int64_t> least_peak(const ir::Graph& graph) {
  analysis::OpCosts costs;
  costs.seconds = IdVector<ir::OpId, double>(graph.op_count(), 0);
  costs.workspace_bytes = IdVector<ir::OpId, int64_t>(graph.op_count(), 0);
  const auto view = analysis::make_schedule_view(graph, costs, 4);
  EXPECT_TRUE(view.has_value()) << (view ? "" : view.error().message);
  order::OrderOptions options;
  options.limits.max_units = 200'000;
  const plan::ScheduleOutcome best = order::solve(view->problem, options);
  if (best.status != plan::SolveStatus::kOptimal) return std::nullopt;
  return best.peak_bytes;
}

void compare_least_peaks(const Rewrite& rewrite) {
  SCOPED_TRACE(rewrite.name);
  int compared = 0, lower = 0, of_forward = 0;
  int64_t changed = 0;
  for (uint64_t seed = 1000; seed < 1000 + static_cast<uint64_t>(some_of(4000, 20)); ++seed) {
    SCOPED_TRACE(seed);
    const Network::Kinds kinds = kinds_for(rewrite);
    Network network(seed, 6 - kinds.trips, kinds);
    const bool trains = seed % 2 == 0;
    const ir::Graph forward = trains ? network.with_one_result() : network.graph();
    const ir::Graph graph = trains ? gradients(forward) : forward;
    int64_t ops = 0;
    const ir::Graph step = rewritten(rewrite, RewriteStage::kStep, graph, ops);
    changed += ops;
    const auto was = least_peak(graph);
    if (!was) continue;
    ++compared;
    // Where it has nothing to do the peak is the same.
    if (const auto is = ops > 0 ? least_peak(step) : was) {
      ASSERT_LE(*is, *was);
      lower += *is < *was;
    }
    if (!trains || !rewrite.on_forward) continue;
    ops = 0;
    const ir::Graph before_gradients = rewritten(rewrite, RewriteStage::kForward, forward, ops);
    if (ops == 0) continue;
    if (const auto is = least_peak(gradients(before_gradients))) {
      ++of_forward;
      ASSERT_LE(*is, *was) << "before there were gradients";
    }
  }
  std::cout << rewrite.name << ": lower in " << lower << " of " << compared << "; " << of_forward
            << " were rewritten before there were gradients\n";
  EXPECT_GT(compared, 100);
  if (rewrite.on_forward) {
    EXPECT_GT(of_forward, 10);
  }
  EXPECT_GT(lower, 0);
  EXPECT_GT(changed, 50);
}

TEST(DefaultRewrites, NeverRaiseTheLeastPeak) {
  for (const Rewrite& rewrite : rewrite::rewrites())
    if (rewrite.by_default) compare_least_peaks(rewrite);
}

INSTANTIATE_TEST_SUITE_P(List, EveryRewrite, testing::Range(size_t{0}, rewrite::rewrites().size()),
                         name_of);

}  // namespace
}  // namespace lowtide::rewrites_test

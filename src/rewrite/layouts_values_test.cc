// A pass may not change what a graph computes, nor where its values are read. Random graphs of
// convolutions, elementwise ops, views of views and updates go through choose_layouts under
// catalogs that wish for random layouts; then three things hold:
//
//   every given value is what it was, on the reference executor;
//   every view shows the right bytes: its storage is laid out as the layout of the version that it
//       shows says, and read at the view's own offset in the view's own layout;
//   every update overwrites what it overwrote before, and so a storage that is there from the
//   start.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "exec/ref/interpreter.h"
#include "ops/op_table.h"
#include "rewrite/layouts.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

int64_t number(const sym::Expr& extent) {
  return extent.constant().value();
}

ir::Dims sizes(std::initializer_list<int64_t> values) {
  return ir::Dims(values.begin(), values.end());
}

Layout random_layout(size_t rank, Rng& rng) {
  if (rank < 2 || rng.below(3) == 0) return {};
  if (rng.below(2) == 0 && rank > 2) return Layout::channels_last(rank);
  Layout layout;
  layout.order.resize(rank);
  std::iota(layout.order.begin(), layout.order.end(), uint8_t{0});
  for (size_t d = rank; d > 1; --d) std::swap(layout.order[d - 1], layout.order[rng.below(d)]);
  return std::is_sorted(layout.order.begin(), layout.order.end()) ? Layout() : layout;
}

// Wishes for layouts that the op table can type, by the number of times that it was asked.
class FickleCatalog : public plan::KernelCatalog {
 public:
  explicit FickleCatalog(uint64_t seed) : rng_(seed) {}

  Result<int64_t> workspace_bytes(const plan::OpDesc&) const override { return 0; }
  plan::LayoutWish wish(const plan::OpDesc& op) const override {
    if (op.kind == "Conv") {
      Layout blocked;
      blocked.blocked = "test";
      blocked.blocked_bytes = 65536;
      const Layout data = Layout::channels_last(4);
      return {{data, rng_.below(2) == 0 ? blocked : Layout()}, {data}};
    }
    const bool asks = rng_.below(2) == 0;
    if (op.kind == "Relu" || op.kind == "Slice" || op.kind == "Add") {
      const Layout layout = random_layout(op.inputs[0]->dims.size(), rng_);
      if (asks) return {std::vector<Layout>(op.inputs.size(), layout), {layout}};
    }
    return {};
  }

 private:
  mutable Rng rng_;
};

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : rng_(seed) {
    for (const char* name : {"x", "y"})
      pool_.push_back(given(name, {rng_.between(1, 2), rng_.between(1, 4), 4, rng_.between(1, 6)}));
    pool_.push_back(parameter());
    for (int step = 0; step < 14; ++step) grow();
    for (int u = 0; u < 2; ++u) update();
    graph_.set_output(pool_.back(), true);
    graph_.set_output(pool_[pool_.size() / 2], true);
  }

  const ir::Graph& graph() const { return graph_; }

 private:
  ValueId any() { return pool_[rng_.below(pool_.size())]; }
  const ir::Dims& dims(ValueId v) const { return graph_.value(v).dims; }

  ValueId given(const std::string& name, ir::Dims dims, Category category = Category::kInput) {
    ir::Value value;
    value.name = graph_.fresh_name(name);
    value.dims = std::move(dims);
    value.category = category;
    const bool state = category == Category::kOptimizerState;
    value.initial.kind = state ? ir::InitialValue::Kind::kZero : ir::InitialValue::Kind::kSeeded;
    return graph_.add_value(std::move(value));
  }
  ValueId parameter() { return given("w", {2, rng_.between(2, 4), 4, 3}, Category::kParameter); }

  std::vector<ValueId> add(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs,
                           Phase phase = Phase::kForward) {
    ops::AppendOptions options;
    options.phase = phase;
    options.module = std::string(kind);
    if (graph_.op_count() > 0 && rng_.below(4) == 0)
      options.control = {ir::OpId(rng_.below(graph_.op_count()))};
    const auto op = ops::append(graph_, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
    return op ? graph_.op(*op).outputs : std::vector<ValueId>{};
  }
  void keep(const std::vector<ValueId>& made) {
    if (!made.empty()) pool_.push_back(made[0]);
  }

  void grow() {
    const ValueId x = any();
    switch (rng_.below(7)) {
      case 0:
        return convolution(x);
      case 1:
        return keep(add("Relu", {x}, {}));
      case 2:
        return sum(x);
      case 3:
        return transpose(x);
      case 4:
        return reshape(x);
      default:
        return slice(x);
    }
  }

  void convolution(ValueId x) {
    if (dims(x).size() != 4) return;
    const ValueId w = given("kernel", sizes({3, number(dims(x)[1]), 1, 1}), Category::kParameter);
    keep(add("Conv", {x, w, ValueId::none()},
             {{"strides", sizes({1, 1})},
              {"pads", sizes({0, 0, 0, 0})},
              {"dilations", sizes({1, 1})},
              {"group", int64_t{1}}}));
  }
  void sum(ValueId x) {
    std::vector<ValueId> same;
    for (ValueId other : pool_)
      if (dims(other) == dims(x)) same.push_back(other);
    keep(add("Add", {x, same[rng_.below(same.size())]}, {}));
  }
  void transpose(ValueId x) {
    ir::Dims perm;
    for (size_t d = 0; d < dims(x).size(); ++d) perm.emplace_back(static_cast<int64_t>(d));
    for (size_t d = perm.size(); d > 1; --d) std::swap(perm[d - 1], perm[rng_.below(d)]);
    keep(add("Transpose", {x}, {{"perm", perm}}));
  }
  // Without its ones, with one more, or two dimensions joined.
  void reshape(ValueId x) {
    ir::Dims shape;
    const uint64_t way = rng_.below(3);
    for (const sym::Expr& dim : dims(x))
      if (way != 0 || number(dim) != 1) shape.push_back(dim);
    if (way == 1) shape.insert(shape.begin() + static_cast<long>(rng_.below(shape.size() + 1)), 1);
    if (way == 2 && shape.size() > 1) {
      const size_t at = rng_.below(shape.size() - 1);
      shape[at] = shape[at] * shape[at + 1];
      shape.erase(shape.begin() + static_cast<long>(at + 1));
    }
    keep(add("Reshape", {x}, {{"shape", shape}}));
  }
  // Mostly of one dimension, so that many are contiguous in some layout.
  void slice(ValueId x) {
    if (dims(x).empty()) return;
    const size_t cut = rng_.below(dims(x).size());
    ir::Dims starts, lengths;
    for (size_t d = 0; d < dims(x).size(); ++d) {
      const int64_t all = number(dims(x)[d]);
      const bool whole = d != cut && rng_.below(8) != 0;
      const int64_t start = whole ? 0 : rng_.between(0, all - 1);
      starts.emplace_back(start);
      lengths.emplace_back(whole ? all : rng_.between(1, all - start));
    }
    keep(add("Slice", {x},
             {{"starts", starts}, {"sizes", lengths}, {"steps", ir::Dims(starts.size(), 1)}}));
  }

  // Whatever is in the pool serves as a gradient.
  void update() {
    const ValueId gradient = any();
    if (graph_.value(gradient).category == Category::kParameter) return;
    const ir::Dims shape = dims(gradient);
    const ValueId w = given("trained", shape, Category::kParameter);
    if (rng_.below(2) == 0) {
      add("SgdUpdate", {w, gradient}, {{"learning_rate", 0.5}}, Phase::kUpdate);
      return;
    }
    const ValueId m = given("m", shape, Category::kOptimizerState);
    const ValueId v = given("v", shape, Category::kOptimizerState);
    add("AdamWUpdate", {w, gradient, m, v},
        {{"learning_rate", 0.5}, {"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-3}},
        Phase::kUpdate);
  }

  Rng rng_;
  ir::Graph graph_;
  std::vector<ValueId> pool_;
};

// For each element in row-major order, which one it is in memory.
std::vector<int64_t> places(const ref::Tensor& tensor, const Layout& layout) {
  ref::Sizes strides = ref::row_major_strides(tensor.dims);
  if (!layout.order.empty()) {
    int64_t step = 1;
    for (size_t p = layout.order.size(); p-- > 0;) {
      strides[layout.order[p]] = step;
      step *= tensor.dims[layout.order[p]];
    }
  }
  std::vector<int64_t> result;
  for (ref::Odometer at(tensor.dims); at.live(); at.next()) result.push_back(at.dot(strides));
  return result;
}

// What `view` shows of the storage that holds `version`.
std::vector<double> read_through(const ir::Value& view, const ref::Tensor& shape,
                                 const ir::Value& version, const ref::Tensor& contents) {
  std::vector<double> memory(contents.f.size());
  const std::vector<int64_t> written = places(contents, version.layout);
  for (size_t e = 0; e < written.size(); ++e)
    memory[static_cast<size_t>(written[e])] = contents.f[e];
  const int64_t first = (number(view.offset_bytes) - number(version.offset_bytes)) / 4;
  std::vector<double> seen;
  for (int64_t place : places(shape, view.layout)) {
    const auto at = static_cast<size_t>(first + place);
    seen.push_back(at < memory.size() ? memory[at] : -1e9);
  }
  return seen;
}

// The number of views of views at an offset among them.
int check_views(const ir::Graph& graph, const ref::Values& values) {
  int deep = 0;
  for (ValueId v : graph.values()) {
    const ir::Value& view = graph.value(v);
    if (view.alias != ir::Alias::kView) continue;
    ValueId shown = v;
    while (graph.value(shown).alias == ir::Alias::kView) shown = graph.value(shown).base;
    EXPECT_EQ(read_through(view, values.at(v), graph.value(shown), values.at(shown)),
              values.at(v).f)
        << view.name << " at byte " << number(view.offset_bytes);
    const ir::Value& base = graph.value(view.base);
    deep += base.alias == ir::Alias::kView && number(base.offset_bytes) != 0;
  }
  return deep;
}

void check_updates(const ir::Graph& before, const ir::Graph& after) {
  for (ValueId v : before.values()) {
    const ir::Value& old = before.value(v);
    if (old.alias != ir::Alias::kUpdate) continue;
    const ir::Value& now = after.value(after.find_value(old.name).value());
    EXPECT_EQ(now.alias, ir::Alias::kUpdate);
    EXPECT_EQ(after.value(now.base).name, before.value(old.base).name);
    EXPECT_FALSE(after.value(after.storage(now.storage).root).producer.valid()) << old.name;
  }
}

// Names, modules, phases, control edges and results stay.
void check_ops(const ir::Graph& before, const ir::Graph& after) {
  std::map<std::string, ir::OpId> by_name;
  for (ir::OpId id : after.ops()) by_name[after.op(id).name] = id;
  for (ir::OpId id : before.ops()) {
    const ir::Op& old = before.op(id);
    ASSERT_TRUE(by_name.contains(old.name)) << old.name;
    const ir::Op& now = after.op(by_name[old.name]);
    EXPECT_EQ(now.kind, old.kind);
    EXPECT_EQ(now.module, old.module);
    EXPECT_EQ(now.phase, old.phase);
    ASSERT_EQ(now.control.size(), old.control.size());
    for (size_t i = 0; i < old.control.size(); ++i)
      EXPECT_EQ(after.op(now.control[i]).name, before.op(old.control[i]).name);
    for (size_t i = 0; i < old.outputs.size(); ++i) {
      EXPECT_EQ(after.value(now.outputs[i]).name, before.value(old.outputs[i]).name);
      EXPECT_EQ(after.value(now.outputs[i]).is_output, before.value(old.outputs[i]).is_output);
      EXPECT_EQ(after.value(now.outputs[i]).output_rank, before.value(old.outputs[i]).output_rank);
    }
  }
}

TEST(LayoutsProperty, KeepWhatIsComputedAndWhereItIsRead) {
  int deep = 0, reorders = 0, permuted_views = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const RandomGraph drawn(seed);
    const ir::Graph& before = drawn.graph();
    const auto report = choose_layouts(before, FickleCatalog(seed));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    const ir::Graph& after = report->graph;
    reorders += report->reorders;
    const auto expected = ref::interpret(before, {}), found = ref::interpret(after, {});
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_TRUE(found.has_value()) << found.error().message;
    for (ValueId v : before.values()) {
      const auto now = after.find_value(before.value(v).name);
      ASSERT_TRUE(now.has_value()) << before.value(v).name;
      EXPECT_EQ(found->at(*now), expected->at(v)) << before.value(v).name;
      permuted_views +=
          after.value(*now).alias == ir::Alias::kView && !after.value(*now).layout.row_major();
    }
    check_views(before, *expected);
    deep += check_views(after, *found);
    check_updates(before, after);
    check_ops(before, after);
    if (testing::Test::HasFailure()) return;
  }
  // The cases that the properties are about do occur.
  EXPECT_GT(deep, 30);
  EXPECT_GT(reorders, 1000);
  EXPECT_GT(permuted_views, 100);
}

}  // namespace
}  // namespace lowtide::rewrite

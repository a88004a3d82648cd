// Old contents that are read after an update: a copy before it, for those readers alone.
#include "ops/keep_overwritten.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/op_table.h"

namespace lowtide::ops {
namespace {

using ir::ValueId;

class Written {
 public:
  ValueId given(const char* name, ir::Dims dims = {4}) {
    ir::Value value;
    value.name = name;
    value.dims = std::move(dims);
    value.category = Category::kParameter;
    return graph.add_value(std::move(value));
  }
  ValueId op(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {},
             const std::string& name = {}) {
    const auto made = append(graph, kind, std::move(inputs), std::move(attrs), {.name = name});
    EXPECT_TRUE(made) << made.error().message;
    return graph.op(*made).outputs[0];
  }
  ValueId update(ValueId m, ValueId by) {
    return op("RunningUpdate", {m, by}, {{"momentum", 0.1}});
  }

  ir::Graph graph;
};

// "kind(inputs)" of every op.
std::string text(const ir::Graph& graph) {
  std::string out;
  for (const ir::OpId id : graph.ops()) {
    out += (out.empty() ? "" : " ") + graph.op(id).kind + "(";
    for (const ValueId input : graph.op(id).inputs)
      out += (out.back() == '(' ? "" : ",") + graph.value(input).name;
    out += ")";
  }
  return out;
}

TEST(KeepOverwritten, AGraphThatReadsInTimeIsLeft) {
  Written w;
  const ValueId x = w.given("x"), m = w.given("m");
  const ValueId before = w.op("Add", {x, m}, {}, "before");
  const ValueId now = w.update(m, before);
  w.graph.set_output(w.op("Add", {now, x}, {}, "after"), true);
  const auto kept = keep_overwritten(w.graph);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(*kept == w.graph);
}

TEST(KeepOverwritten, OldContentsAreCopiedForThoseWhoReadThemLater) {
  Written w;
  const ValueId x = w.given("x"), m = w.given("m");
  const ValueId now = w.op("RunningUpdate", {m, x}, {{"momentum", 0.1}}, "now");
  w.graph.set_output(w.op("Mul", {x, m}, {}, "late"), true);
  w.graph.set_output(w.op("Add", {now, x}, {}, "new"), true);
  EXPECT_FALSE(ir::check(w.graph));
  const auto kept = keep_overwritten(w.graph);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(ir::check(*kept));
  EXPECT_EQ(text(*kept), "Copy(m) RunningUpdate(m,x) Mul(x,m/kept) Add(now,x)");
  EXPECT_EQ(kept->value(kept->outputs()[0]).name, "late");
  EXPECT_EQ(kept->outputs().size(), 2u);
}

TEST(KeepOverwritten, EveryVersionAndViewsOfIt) {
  Written w;
  const ValueId x = w.given("x"), m = w.given("m");
  const ValueId early = w.op("Reshape", {m}, {{"shape", ir::Dims{2, 2}}}, "early");
  const ValueId one = w.op("RunningUpdate", {m, x}, {{"momentum", 0.1}}, "one");
  const ValueId view = w.op("Reshape", {m}, {{"shape", ir::Dims{2, 2}}}, "view");
  w.op("RunningUpdate", {one, x}, {{"momentum", 0.1}}, "two");
  w.op("Add", {view, early}, {}, "old");
  w.op("Exp", {one}, {}, "middle");
  const auto kept = keep_overwritten(w.graph);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(ir::check(*kept));
  EXPECT_EQ(text(*kept),
            "Reshape(m) Copy(m) Copy(early) RunningUpdate(m,x) Reshape(m/kept) Copy(one) "
            "RunningUpdate(one,x) Add(view,early/kept) Exp(one/kept)");
}

TEST(KeepOverwritten, AnUpdateOfOldContentsIsForTheCheckToRefuse) {
  Written w;
  const ValueId x = w.given("x"), m = w.given("m");
  w.update(m, x);
  w.update(m, x);
  const auto kept = keep_overwritten(w.graph);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(ir::check(*kept));
}

}  // namespace
}  // namespace lowtide::ops

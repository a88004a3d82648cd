// Element types: ops that no kernel takes in their own type run wide between casts, and compute the
// same values; everything else stays as it is.
#include "rewrite/types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "exec/ref/interpreter.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

// Takes every op on 32 and 64 bits; elementwise ops on all types.
class WideCatalog : public plan::KernelCatalog {
 public:
  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    static const std::set<std::string> any = {"Add", "Mul", "Relu", "Cast"};
    if (any.contains(op.kind)) return 0;
    for (const auto& input : op.inputs)
      if (input && size_bytes(input->dtype) < 4 && input->dtype != DType::kBool)
        return error(ErrorCode::kInput, "no kernel");
    return 0;
  }
  plan::LayoutWish wish(const plan::OpDesc&) const override { return {}; }
};

class Writer {
 public:
  ir::Graph graph;
  ref::Named given;

  ir::ValueId leaf(const std::string& name, DType dtype, ref::Sizes dims,
                   Category category = Category::kInput) {
    ir::Value value;
    value.name = name;
    value.dtype = dtype;
    value.dims.assign(dims.begin(), dims.end());
    value.category = category;
    given[name] = ref::seeded(name, dtype, dims, {.seed = 3, .integer_limit = 100});
    return graph.add_value(std::move(value));
  }
  ir::ValueId op(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs = {},
                 Phase phase = Phase::kForward) {
    const auto made = ops::append(graph, kind, std::move(inputs), std::move(attrs),
                                  {.name = {}, .module = {}, .phase = phase, .output_names = {}});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return graph.op(*made).outputs[0];
  }
};

std::string kinds(const ir::Graph& graph) {
  std::string text;
  for (ir::OpId id : graph.ops()) text += (text.empty() ? "" : " ") + graph.op(id).kind;
  return text;
}

// Every value of the old graph is in the new one, of the same type and with the same bits.
void expect_same_values(const Writer& writer, const ir::Graph& typed) {
  const auto before = ref::interpret(writer.graph, writer.given);
  const auto after = ref::interpret(typed, writer.given);
  ASSERT_TRUE(before && after) << (after ? "" : after.error().message);
  for (ir::ValueId id : writer.graph.values()) {
    const ir::Value& old = writer.graph.value(id);
    const auto found = typed.find_value(old.name);
    ASSERT_TRUE(found) << old.name;
    const ir::Value& made = typed.value(*found);
    EXPECT_EQ(made.dtype, old.dtype) << old.name;
    EXPECT_EQ(made.category, old.category) << old.name;
    EXPECT_EQ(made.is_output, old.is_output) << old.name;
    EXPECT_EQ(made.output_rank, old.output_rank) << old.name;
    EXPECT_TRUE(before->at(id) == after->at(*found)) << old.name;
  }
}

TEST(Types, FloatsOf16BitsAreComputedAsF32BetweenCasts) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    Writer w;
    const auto x = w.leaf("x", type, {4, 8});
    const auto k = w.leaf("w", type, {8, 8}, Category::kParameter);
    const auto h = w.op("Relu", {w.op("MatMul", {x, k})});
    const auto y = w.op("Softmax", {w.op("MatMul", {h, k})}, {{"axis", int64_t{1}}});
    for (const auto output : {y, h}) w.graph.set_output(output, true);
    const auto report = choose_types(w.graph, WideCatalog());
    ASSERT_TRUE(report) << report.error().message;
    // x, w, first product; h, second product (w is shared); the softmax and back.
    EXPECT_EQ(kinds(report->graph),
              "Cast Cast MatMul Cast Relu Cast MatMul Cast Cast Softmax Cast");
    EXPECT_EQ(report->casts, 7);
    expect_same_values(w, report->graph);
  }
}

TEST(Types, IntegersBecomeAsWideAsAKernelNeeds) {
  Writer w;
  const auto a = w.leaf("a", DType::kU8, {4, 8});
  const auto sum = w.op("ReduceSum", {w.op("Add", {a, a})}, {{"axes", ir::Dims{1}}});
  w.graph.set_output(sum, true);
  const auto report = choose_types(w.graph, WideCatalog());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(kinds(report->graph), "Add Cast ReduceSum Cast");
  const auto wide = report->graph.op(ir::OpId(2)).outputs[0];
  EXPECT_EQ(report->graph.value(wide).dtype, DType::kI32);
  expect_same_values(w, report->graph);
}

TEST(Types, EachPhaseHasItsOwnCopy) {
  Writer w;
  const auto x = w.leaf("x", DType::kF16, {8, 8});
  const auto y = w.op("MatMul", {x, x});
  const auto z = w.op("MatMul", {y, x}, {}, Phase::kBackward);
  w.op("MatMul", {z, x}, {}, Phase::kBackward);
  const auto report = choose_types(w.graph, WideCatalog());
  ASSERT_TRUE(report) << report.error().message;
  int of_x = 0;
  for (ir::OpId id : report->graph.ops()) {
    const ir::Op& op = report->graph.op(id);
    of_x += op.kind == "Cast" && report->graph.value(op.inputs[0]).name == "x";
  }
  EXPECT_EQ(of_x, 2);
  expect_same_values(w, report->graph);
}

TEST(Types, UpdatesAreNeverCastAround) {
  Writer w;
  const auto p = w.leaf("p", DType::kF16, {8}, Category::kParameter);
  const auto g = w.leaf("g", DType::kF16, {8});
  w.op("SgdUpdate", {p, g}, {{"learning_rate", 0.1}}, Phase::kUpdate);
  const auto report = choose_types(w.graph, WideCatalog());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->changed());
  EXPECT_TRUE(report->graph == w.graph);
}

TEST(Types, NamesThatCastsWouldTakeStayWithTheirOwners) {
  Writer w;
  const auto x = w.leaf("x", DType::kF16, {8, 8});
  const auto y = w.op("MatMul", {x, x});
  const auto taken = ops::append(w.graph, "Relu", {y}, {},
                                 {.name = "cast/x/f32", .module = {}, .output_names = {"x/f32"}});
  w.graph.set_output(w.graph.op(*taken).outputs[0], true);
  const auto report = choose_types(w.graph, WideCatalog());
  ASSERT_TRUE(report) << report.error().message;
  const auto found = report->graph.find_value("x/f32");
  ASSERT_TRUE(found);
  EXPECT_TRUE(report->graph.value(*found).is_output);
  EXPECT_EQ(report->graph.op(report->graph.value(*found).producer).name, "cast/x/f32");
  expect_same_values(w, report->graph);
}

TEST(Types, ControlEdgesLeadToTheSameOps) {
  Writer w;
  const auto x = w.leaf("x", DType::kF16, {8, 8});
  w.op("MatMul", {x, x});
  w.op("Relu", {x});
  w.graph.add_control(ir::OpId(0), ir::OpId(1));
  const auto report = choose_types(w.graph, WideCatalog());
  ASSERT_TRUE(report) << report.error().message;
  for (ir::OpId id : report->graph.ops()) {
    const ir::Op& op = report->graph.op(id);
    if (op.kind != "Relu") continue;
    ASSERT_EQ(op.control.size(), 1u);
    EXPECT_EQ(report->graph.op(op.control[0]).kind, "MatMul");
  }
}

}  // namespace
}  // namespace lowtide::rewrite

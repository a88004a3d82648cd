// Ifs whose condition is known give way to the branch that is taken; others are refused by name.
#include "io/onnx_branches.h"

#include <gtest/gtest.h>

#include "io/convert.h"
#include "io/onnx_wire.h"
#include "io/testing/test_models.h"

namespace lowtide::io {
namespace {

using Names = std::vector<std::string>;

struct Branch {
  onnx_wire::Graph& graph;

  Branch& node(const std::string& op, const Names& inputs, const Names& outputs) {
    ModelMaker::fill(*graph.add_node(), op, inputs, outputs);
    return *this;
  }
  Branch& output(const std::string& name) {
    graph.add_output()->set_name(name);
    return *this;
  }
  void weight(const std::string& name, const std::vector<int64_t>& dims) {
    onnx_wire::Tensor& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(1);
    int64_t count = 1;
    for (int64_t dim : dims) tensor.add_dims(dim), count *= dim;
    for (int64_t i = 0; i < count; ++i) tensor.add_float_data(0.5F);
  }
};

Branch branch(onnx_wire::Node& node, const std::string& name) {
  onnx_wire::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(5);
  return Branch{*attribute.mutable_g()};
}

// cond = dim `dim` of x equals 1, as exporters ask before a Squeeze.
void ask_dim(ModelMaker& maker, const std::string& cond, int64_t dim) {
  maker.ints(cond + ".dim", {}, {dim});
  maker.ints(cond + ".one", {}, {1});
  maker.node("Shape", {"x"}, {cond + ".shape"});
  maker.node("Gather", {cond + ".shape", cond + ".dim"}, {cond + ".extent"});
  maker.node("Equal", {cond + ".extent", cond + ".one"}, {cond});
}

Result<ir::Graph> read(const ModelMaker& maker, const OnnxOptions& options = {}) {
  return read_onnx_bytes(maker.bytes(), "", "made.onnx", options);
}

Names kinds(const Result<ir::Graph>& graph) {
  if (!graph) return {graph.error().message};
  Names names;
  for (const ir::OpId op : graph->ops()) names.push_back(graph->op(op).kind);
  return names;
}

// y = x without dim 1 when that is 1, else exp(x).
ModelMaker squeezed(const std::string& extent) {
  ModelMaker maker;
  maker.input("x", {"2", extent, "3"}).output("y");
  ask_dim(maker, "cond", 1);
  onnx_wire::Node& node = maker.node("If", {"cond"}, {"y"}, "choice");
  Branch then = branch(node, "then_branch");
  ModelMaker::fill(*then.graph.add_node(), "Constant", {}, {"axes"});
  set_ints(*then.graph.mutable_node(0), "value_ints", {1});
  then.node("Squeeze", {"x", "axes"}, {"t"}).output("t");
  branch(node, "else_branch").node("Exp", {"x"}, {"t"}).output("t");
  return maker;
}

TEST(Branches, TheOneThatShapesChooseIsTaken) {
  EXPECT_EQ(kinds(read(squeezed("1"))), Names{"Reshape"});
  EXPECT_EQ(kinds(read(squeezed("4"))), Names{"Exp"});
  const auto graph = read(squeezed("4"));
  ASSERT_TRUE(graph);
  EXPECT_TRUE(graph->value(*graph->find_value("y")).is_output);
}

TEST(Branches, ASymbolInTheConditionWantsItsNumber) {
  EXPECT_EQ(kinds(read(squeezed("n"))),
            Names{"made.onnx: node of 'cond' (Equal): needs the number of n: give --dim n=N"});
  EXPECT_EQ(kinds(read(squeezed("n"), {.bindings = {{"n", 1}}})), Names{"Reshape"});
}

TEST(Branches, AConditionFromDataIsRefusedByName) {
  ModelMaker maker;
  maker.input("x", {"2"}).input("c", {}, 9).output("y");
  onnx_wire::Node& node = maker.node("If", {"c"}, {"y"}, "choice");
  branch(node, "then_branch").node("Exp", {"x"}, {"t"}).output("t");
  branch(node, "else_branch").node("Neg", {"x"}, {"t"}).output("t");
  EXPECT_EQ(kinds(read(maker)),
            Names{"made.onnx: node 'choice' (If): its condition 'c' is computed from data; it must "
                  "be known when the model is read"});
}

TEST(Branches, OfOneAnotherAreTakenInTurn) {
  // Two Ifs that use the same inner names, the second on what the first made; in its branch a
  // third.
  ModelMaker maker;
  maker.input("x", {"2", "1", "3"}).output("z");
  ask_dim(maker, "cond", 1);
  maker.floats("outer", {3}, {1, 2, 3});
  onnx_wire::Node& first = maker.node("If", {"cond"}, {"y"}, "first");
  branch(first, "then_branch").node("Exp", {"x"}, {"t"}).node("Neg", {"t"}, {"u"}).output("u");
  branch(first, "else_branch").node("Abs", {"x"}, {"t"}).output("t");
  maker.node("Size", {"y"}, {"count"});
  maker.ints("six", {}, {6});
  maker.node("Equal", {"count", "six"}, {"second.cond"});
  onnx_wire::Node& second = maker.node("If", {"second.cond"}, {"z"}, "second");
  Branch then = branch(second, "then_branch");
  then.node("Mul", {"y", "outer"}, {"t"});
  onnx_wire::Node& third = *then.graph.add_node();
  ModelMaker::fill(third, "If", {"cond"}, {"u"}, "third");
  then.output("u");
  branch(third, "then_branch").node("Sin", {"t"}, {"v"}).output("v");
  branch(third, "else_branch").node("Cos", {"t"}, {"v"}).output("v");
  branch(second, "else_branch").node("Abs", {"y"}, {"t"}).output("t");
  const auto graph = read(maker);
  EXPECT_EQ(kinds(graph), (Names{"Exp", "Neg", "Mul", "Sin"}));
}

TEST(Branches, MayGiveWhatTheyDoNotMake) {
  ModelMaker maker;
  maker.input("x", {"2", "1"}).output("a").output("b").output("c");
  ask_dim(maker, "cond", 1);
  onnx_wire::Node& node = maker.node("If", {"cond"}, {"a", "b", "c"}, "choice");
  Branch then = branch(node, "then_branch");
  then.weight("w", {1, 4});
  then.node("MatMul", {"x", "w"}, {"p"}).output("p").output("p").output("x");
  branch(node, "else_branch").output("x").output("x").output("x");
  const auto graph = read(maker);
  EXPECT_EQ(kinds(graph), (Names{"MatMul", "Reshape", "Reshape"}));
  ASSERT_TRUE(graph);
  for (const char* output : {"a", "b", "c"})
    EXPECT_TRUE(graph->value(*graph->find_value(output)).is_output) << output;
  EXPECT_EQ(graph->value(*graph->find_value("w")).category, Category::kParameter);
}

TEST(Branches, WithOtherOutputsThanTheIfAreRefused) {
  ModelMaker maker;
  maker.input("x", {"2", "1"}).output("y");
  ask_dim(maker, "cond", 1);
  onnx_wire::Node& node = maker.node("If", {"cond"}, {"y"}, "choice");
  branch(node, "then_branch").output("x").output("x");
  EXPECT_EQ(kinds(read(maker)),
            Names{"made.onnx: node 'choice' (If): has 1 outputs and no inputs for a branch, its "
                  "then_branch 2 and 0"});
}

TEST(Branches, StandInFunctionsToo) {
  ModelMaker maker;
  maker.input("x", {"2", "1", "3"}).output("y");
  maker.node("Choose", {"x"}, {"y"}, "call").set_domain("own");
  onnx_wire::OperatorSet& set = *maker.wire().add_opset_import();
  set.set_domain("own");
  set.set_version(1);
  onnx_wire::Function& function = *maker.wire().add_functions();
  function.set_name("Choose");
  function.set_domain("own");
  function.add_input("in");
  function.add_output("out");
  ModelMaker::fill(*function.add_node(), "Size", {"in"}, {"count"});
  ModelMaker::fill(*function.add_node(), "Cast", {"count"}, {"cond"});
  set_int(*function.mutable_node(1), "to", 9);
  onnx_wire::Node& node = *function.add_node();
  ModelMaker::fill(node, "If", {"cond"}, {"out"});
  branch(node, "then_branch").node("Exp", {"in"}, {"t"}).output("t");
  branch(node, "else_branch").node("Neg", {"in"}, {"t"}).output("t");
  EXPECT_EQ(kinds(read(maker)), Names{"Exp"});
}

TEST(Branches, LoopsAreRefusedByName) {
  ModelMaker maker;
  maker.input("x", {"2"}).output("y");
  onnx_wire::Node& node = maker.node("Loop", {"", "", "x"}, {"y"}, "again");
  branch(node, "body").node("Exp", {"x"}, {"t"}).output("t");
  EXPECT_EQ(kinds(read(maker)),
            Names{"made.onnx: unsupported ops: Loop 1 (again: its body runs many times)"});
}

}  // namespace
}  // namespace lowtide::io

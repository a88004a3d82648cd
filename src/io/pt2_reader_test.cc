// The door of exported programs, on archives made member by member. What ATen ops compute is judged
// by PyTorch in tests/python/test_pt2.py.
#include "io/pt2_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "io/aten_call.h"
#include "io/inspect.h"
#include "io/pt2_archive.h"
#include "io/testing/pt2_archive_maker.h"
#include "io/testing/test_models.h"

namespace lowtide::io {
namespace {

const std::string kBatch = "Symbol('s77', positive=True, integer=True)";

// y = relu(x w^T + b) for a batch of any size.
Pt2Maker layer() {
  Pt2Maker maker;
  maker.tensors = pt2_tensor("x", {kBatch, "3"}) + "," + pt2_tensor("p_w", {"2", "3"}, 7, true) +
                  "," + pt2_tensor("p_b", {"2"}, 7, true) + "," +
                  pt2_tensor("linear", {kBatch, "2"}) + "," + pt2_tensor("relu", {kBatch, "2"});
  maker.inputs =
      pt2_parameter("p_w", "l.weight") + "," + pt2_parameter("p_b", "l.bias") + "," + pt2_fed("x");
  maker.nodes =
      pt2_node(
          "aten.linear.default",
          {{"input", as_tensor("x")}, {"weight", as_tensor("p_w")}, {"bias", as_tensor("p_b")}},
          {"linear"}) +
      "," + pt2_node("aten.relu.default", {{"self", as_tensor("linear")}}, {"relu"});
  maker.outputs = pt2_result("relu");
  maker.ranges = R"("s77": {"min_val": 2, "max_val": 128})";
  maker.weights = pt2_weight("l.weight", "weight_0", {"2", "3"}) + "," +
                  pt2_weight("l.bias", "weight_1", {"2"});
  maker.files = {{"data/weights/weight_0", std::string(24, 'w')},
                 {"data/weights/weight_1", std::string(8, 'b')}};
  return maker;
}

std::string pt2_replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

std::string pt2_refusal(const std::string& bytes, const OnnxOptions& options = {}) {
  const auto graph = read_pt2_bytes(bytes, "m.pt2", options);
  EXPECT_FALSE(graph.has_value());
  if (graph) return "";
  EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE(graph.error().message.starts_with("m.pt2: ")) << graph.error().message;
  return graph.error().message;
}

TEST(Pt2Reader, ALayerIsOneProductAndARelu) {
  const auto graph = read_pt2_bytes(layer().bytes(), "m.pt2");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->op_count(), 2U);
  EXPECT_EQ(graph->op(ir::OpId(0)).kind, "MatMul");
  EXPECT_EQ(graph->op(ir::OpId(0)).module, "l");
  for (ir::OpId op : graph->ops()) EXPECT_EQ(graph->op(op).source, "net/model.py:12");
  EXPECT_EQ(graph->producer, "pytorch 2.13.0");
  EXPECT_EQ(ir::free_symbols(*graph), std::vector<std::string>{"s77"});
  const ir::Value& weight = graph->value(*graph->find_value("l.weight"));
  EXPECT_EQ(weight.category, Category::kParameter);
  ASSERT_EQ(graph->outputs().size(), 1U);
  EXPECT_EQ(graph->value(graph->outputs()[0]).name, "relu");
  const auto bound = read_pt2_bytes(layer().bytes(), "m.pt2", {.bindings = {{"s77", 4}}});
  ASSERT_TRUE(bound.has_value()) << bound.error().message;
  EXPECT_TRUE(ir::free_symbols(*bound).empty());
}

TEST(Pt2Reader, StoredWeightsStayInTheFileAndDeflatedOnesAreRead) {
  const std::string stored = layer().bytes();
  const auto program = decode_pt2(stored, "m.pt2", ".", "m.pt2");
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Pt2Weight& mapped = program->weights.at("l.weight");
  EXPECT_TRUE(mapped.mapped);
  EXPECT_EQ(stored.substr(static_cast<size_t>(mapped.offset), 24), std::string(24, 'w'));
  const auto deflated = decode_pt2(layer().bytes(true), "m.pt2", ".", "m.pt2");
  ASSERT_TRUE(deflated.has_value()) << deflated.error().message;
  EXPECT_FALSE(deflated->weights.at("l.weight").mapped);
  EXPECT_EQ(deflated->weights.at("l.weight").bytes, std::string(24, 'w'));
}

TEST(Pt2Reader, AWeightThatIsATransposedViewIsReadRowMajor) {
  Pt2Maker maker = layer();
  std::string bytes;
  for (char c = 'a'; c < 'a' + 6; ++c) bytes += std::string(4, c);  // [3, 2] in memory
  maker.files[0].second = bytes;
  maker.weights = pt2_replaced(maker.weights, R"("strides": [{"as_int": 3}, {"as_int": 1}])",
                               R"("strides": [{"as_int": 1}, {"as_int": 2}])");
  const std::string file = maker.bytes();
  const auto program = decode_pt2(file, "m.pt2", ".", "m.pt2");
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(program->weights.at("l.weight").bytes, "aaaacccceeeebbbbddddffff");
}

TEST(Pt2Reader, AProgramSavedWithoutWeightsDrawsThem) {
  Pt2Maker maker = layer();
  for (auto& [name, contents] : maker.files) contents.clear();
  // All of them lie in the same member then, which does not tie them.
  maker.tensors +=
      "," + pt2_tensor("p_v", {"2", "3"}, 7, true) + "," + pt2_tensor("linear_1", {kBatch, "2"});
  maker.inputs += "," + pt2_parameter("p_v", "other.weight");
  maker.weights += "," + pt2_weight("other.weight", "weight_0", {"2", "3"});
  maker.nodes +=
      "," + pt2_node("aten.linear.default",
                     {{"input", as_tensor("x")}, {"weight", as_tensor("p_v")}}, {"linear_1"});
  maker.outputs += "," + pt2_result("linear_1");
  const auto graph = read_pt2_bytes(maker.bytes(), "m.pt2");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_TRUE(graph->find_value("other.weight").has_value());
  EXPECT_EQ(graph->value(*graph->find_value("l.weight")).initial.kind,
            ir::InitialValue::Kind::kSeeded);
}

TEST(Pt2Reader, TiedWeightsAreOneAndFrozenOnesAreNotTrained) {
  Pt2Maker maker = layer();
  maker.tensors +=
      "," + pt2_tensor("p_v", {"2", "3"}, 7, true) + "," + pt2_tensor("linear_1", {kBatch, "2"});
  maker.inputs += "," + pt2_parameter("p_v", "tied.weight");
  maker.weights += "," + pt2_weight("tied.weight", "weight_0", {"2", "3"});
  maker.nodes +=
      "," + pt2_node("aten.linear.default",
                     {{"input", as_tensor("x")}, {"weight", as_tensor("p_v")}}, {"linear_1"});
  maker.outputs += "," + pt2_result("linear_1");
  const auto graph = read_pt2_bytes(maker.bytes(), "m.pt2");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_FALSE(graph->find_value("tied.weight").has_value());
  Pt2Maker frozen = layer();
  frozen.tensors = pt2_replaced(
      frozen.tensors, R"("p_b": {"dtype": 7, "sizes": [{"as_int": 2}], "requires_grad": true)",
      R"("p_b": {"dtype": 7, "sizes": [{"as_int": 2}], "requires_grad": false)");
  const auto apart = read_pt2_bytes(frozen.bytes(), "m.pt2");
  ASSERT_TRUE(apart.has_value()) << apart.error().message;
  EXPECT_EQ(apart->value(*apart->find_value("l.bias")).category, Category::kInput);
}

// x is zeroed in its first place, then doubled: y = [0, 2 x1, 2 x2].
Pt2Maker writes() {
  Pt2Maker maker;
  maker.tensors = pt2_tensor("x", {"3"}) + "," + pt2_tensor("clone", {"3"}) + "," +
                  pt2_tensor("select", {}) + "," + pt2_tensor("zero_", {}) + "," +
                  pt2_tensor("mul_", {"3"}) + "," + pt2_tensor("view", {"3", "1"});
  maker.inputs = pt2_fed("x");
  const std::string zero = R"({"as_int": 0})", two = R"({"as_int": 2})";
  maker.nodes =
      pt2_node("aten.clone.default", {{"self", as_tensor("x")}}, {"clone"}) + "," +
      pt2_node("aten.view.default",
               {{"self", as_tensor("clone")}, {"size", R"({"as_ints": [3, 1]})"}}, {"view"}) +
      "," +
      pt2_node("aten.select.int", {{"self", as_tensor("clone")}, {"dim", zero}, {"index", zero}},
               {"select"}) +
      "," + pt2_node("aten.zero_.default", {{"self", as_tensor("select")}}, {"zero_"}) + "," +
      pt2_node("aten.mul_.Tensor", {{"self", as_tensor("clone")}, {"other", two}}, {"mul_"});
  maker.outputs = pt2_result("clone");
  return maker;
}

TEST(Pt2Reader, WritesInPlaceAreReadByWhoeverComesAfter) {
  const auto graph = read_pt2_bytes(writes().bytes(), "m.pt2");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->value(graph->outputs()[0]).name, "mul_");
  EXPECT_EQ(count_ops(*graph, "Concat"), 1);  // the zero, and what is behind it
}

TEST(Pt2Reader, AViewThatIsReadAfterAWriteIsRefused) {
  Pt2Maker maker = writes();
  maker.outputs = pt2_result("view");
  EXPECT_EQ(pt2_refusal(maker.bytes()),
            "m.pt2: the program's result reads 'view' after node 'mul_' wrote into the memory that "
            "it shows");
  Pt2Maker through = writes();
  through.nodes +=
      "," + pt2_node("aten.mul_.Tensor",
                     {{"self", as_tensor("view")}, {"other", R"({"as_int": 2})"}}, {"view"});
  EXPECT_NE(pt2_refusal(through.bytes()).find("reads 'view' after"), std::string::npos);
}

TEST(Pt2Reader, RegionsMayHaveNodesOfTheSameNames) {
  Pt2Maker maker;
  maker.tensors =
      pt2_tensor("x", {"3"}) + "," + pt2_tensor("relu", {"3"}) + "," + pt2_tensor("exp", {"3"});
  maker.inputs = pt2_fed("x");
  const std::string body = R"({"as_graph": {"name": "body", "graph": {"inputs": [)" +
                           as_tensor("x") + R"(], "outputs": [)" + as_tensor("relu") +
                           R"(], "nodes": [)" +
                           pt2_node("aten.relu.default", {{"self", as_tensor("x")}}, {"relu"}) +
                           R"(], "tensor_values": {)" + pt2_tensor("x", {"3"}) + "," +
                           pt2_tensor("relu", {"3"}) + "}}}}";
  const auto region = [&](const std::string& operand, const std::string& result) {
    return pt2_node("higher_order.wrap_with_set_grad_enabled",
                    {{"", R"({"as_bool": false})"}, {"", body}, {"", as_tensor(operand)}},
                    {result});
  };
  maker.nodes = pt2_node("aten.exp.default", {{"self", as_tensor("x")}}, {"relu"}) + "," +
                region("relu", "exp");
  maker.outputs = pt2_result("exp");
  const auto graph = read_pt2_bytes(maker.bytes(), "m.pt2");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->op_count(), 2U);
  EXPECT_EQ(graph->op(ir::OpId(0)).kind, "Exp");
  EXPECT_EQ(graph->op(ir::OpId(1)).kind, "Relu");
}

// exp of x in a region of autocast
std::string autocast(const std::string& enabled, const std::string& keeps_casts) {
  Pt2Maker maker;
  maker.tensors = pt2_tensor("x", {"3"}) + "," + pt2_tensor("y", {"3"});
  maker.inputs = pt2_fed("x");
  const std::string body =
      R"({"as_graph": {"name": "body", "graph": {"inputs": [)" + as_tensor("x") +
      R"(], "outputs": [)" + as_tensor("e") + R"(], "nodes": [)" +
      pt2_node("aten.exp.default", {{"self", as_tensor("x")}}, {"e"}) + R"(], "tensor_values": {)" +
      pt2_tensor("x", {"3"}) + "," + pt2_tensor("e", {"3"}) + "}}}}";
  maker.nodes = pt2_node("higher_order.wrap_with_autocast",
                         {{"", R"({"as_string": "cpu"})"},
                          {"", R"({"as_scalar_type": 13})"},
                          {"", R"({"as_bool": )" + enabled + "}"},
                          {"", R"({"as_bool": )" + keeps_casts + "}"},
                          {"", body},
                          {"", as_tensor("x")}},
                         {"y"});
  maker.outputs = pt2_result("y");
  return maker.bytes();
}

TEST(Pt2Reader, ARegionThatCastsByItselfIsRefusedWhetherOrNotItKeepsItsCasts) {
  for (const std::string keeps : {"false", "true"}) {
    EXPECT_NE(pt2_refusal(autocast("true", keeps)).find("casts by itself"), std::string::npos);
    const auto off = read_pt2_bytes(autocast("false", keeps), "m.pt2");
    ASSERT_TRUE(off.has_value()) << off.error().message;
    EXPECT_EQ(off->op(ir::OpId(0)).kind, "Exp");
  }
}

TEST(Pt2Reader, ASizeThatAProgramWasExportedWithIsSaidOfItsSymbol) {
  Pt2Maker maker = layer();
  const std::string said = R"("expr_str": ")" + kBatch + '"';
  maker.tensors = pt2_replaced(maker.tensors, said, said + R"(, "hint": {"as_int": 8})");
  sym::Bindings examples;
  const auto graph = read_pt2_bytes(maker.bytes(), "m.pt2", {.examples = &examples});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(examples, (sym::Bindings{{"s77", 8}}));
  const auto summary = inspect_pt2_bytes(maker.bytes(), "", "", "m.pt2");
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->ranges.at("s77"), "2 to 128, exported with 8");
  maker.tensors =
      pt2_replaced(maker.tensors, R"("hint": {"as_int": 8})", R"("hint": {"as_int": []})");
  EXPECT_NE(pt2_refusal(maker.bytes()).find("hint"), std::string::npos);
}

TEST(Pt2Reader, OpsWithoutARowAreOpaqueToAPlanAndRefusedWhereTheyMustBeDifferentiated) {
  Pt2Maker maker = layer();
  maker.nodes = pt2_replaced(maker.nodes, "aten.relu.default", "mylib.scan.default");
  const auto graph = read_pt2_bytes(maker.bytes(), "m.pt2");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const ir::Op& scan = graph->op(ir::OpId(1));
  EXPECT_EQ(scan.kind, "Opaque");
  EXPECT_EQ(std::get<std::string>(scan.attrs.at("op")), "mylib.scan.default");
  EXPECT_EQ(graph->value(scan.outputs[0]).dims, (ir::Dims{sym::Expr::symbol("s77"), 2}));
  EXPECT_EQ(pt2_refusal(maker.bytes(), {.training = true}),
            "m.pt2: unsupported ops, which have no gradients here: mylib.scan.default 1 (relu)");
  const auto summary = inspect_pt2_bytes(maker.bytes(), "", "", "m.pt2");
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->unsupported.size(), 1U);
  EXPECT_EQ(summary->ranges.at("s77"), "2 to 128");
  EXPECT_EQ(summary->parameters, 2);
}

// y = batch_norm(x)
Pt2Maker batch_norm(const std::string& training) {
  Pt2Maker maker;
  maker.tensors = pt2_tensor("x", {"4", "3"}) + "," + pt2_tensor("mean", {"3"}) + "," +
                  pt2_tensor("var", {"3"}) + "," + pt2_tensor("p_w", {"3"}, 7, true) + "," +
                  pt2_tensor("y", {"4", "3"});
  maker.inputs = pt2_parameter("p_w", "norm.weight") + "," + pt2_fed("x") + "," + pt2_fed("mean") +
                 "," + pt2_fed("var");
  maker.nodes = pt2_node("aten.batch_norm.default",
                         {{"input", as_tensor("x")},
                          {"weight", as_tensor("p_w")},
                          {"running_mean", as_tensor("mean")},
                          {"running_var", as_tensor("var")},
                          {"training", R"({"as_bool": )" + training + "}"}},
                         {"y"});
  maker.outputs = pt2_result("y");
  maker.weights = pt2_weight("norm.weight", "weight_0", {"3"});
  maker.files = {{"data/weights/weight_0", std::string(12, 'w')}};
  return maker;
}

TEST(Pt2Reader, ABatchNormTakesTheStatisticsThatTheProgramWasExportedWith) {
  for (const bool trains : {false, true}) {
    for (const std::string statistics : {"false", "true"}) {
      const auto graph =
          read_pt2_bytes(batch_norm(statistics).bytes(), "m.pt2", {.training = trains});
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      const bool of_batch = trains && statistics == "true";
      EXPECT_EQ(count_ops(*graph, "BatchNormTrain"), of_batch ? 1 : 0) << trains << statistics;
      EXPECT_EQ(count_ops(*graph, "BatchNormInference"), of_batch ? 0 : 1) << trains << statistics;
    }
  }
}

TEST(Pt2Reader, ASizeOutsideOfTheRangeThatWasExportedIsUsage) {
  const auto graph = read_pt2_bytes(layer().bytes(), "m.pt2", {.bindings = {{"s77", 1}}});
  ASSERT_FALSE(graph.has_value());
  EXPECT_EQ(graph.error().code, ErrorCode::kUsage);
  EXPECT_EQ(graph.error().message, "m.pt2: --dim s77=1: the program was exported for 2 to 128");
}

TEST(Pt2Reader, BadArchivesAreNamedInOneLine) {
  const std::string whole = layer().bytes();
  EXPECT_NE(pt2_refusal("no archive").find("no zip archive"), std::string::npos);
  EXPECT_NE(pt2_refusal(whole.substr(0, whole.size() - 30)).find("no zip archive, or cut short"),
            std::string::npos);
  std::string damaged = whole;
  damaged[whole.find("aten.linear")] = 'A';
  EXPECT_NE(pt2_refusal(damaged).find("member 'models/model.json' is damaged"), std::string::npos);
  EXPECT_NE(pt2_refusal(zip_of({{"a", "b"}})).find("no exported program of PyTorch"),
            std::string::npos);
  EXPECT_NE(pt2_refusal(zip_of({{"models/m.json", "{]"}})).find("models/m.json: no JSON"),
            std::string::npos);
}

TEST(Pt2Reader, BadProgramsAreNamedInOneLine) {
  const auto changed = [](auto change) {
    Pt2Maker maker = layer();
    change(maker);
    return pt2_refusal(maker.bytes());
  };
  EXPECT_NE(changed([](Pt2Maker& m) {
              m.schema = R"({"major": 7, "minor": 2})";
            }).find("schema_version.major: expected schema version 8"),
            std::string::npos);
  EXPECT_NE(changed([](Pt2Maker& m) {
              m.files.pop_back();
            }).find("weight 'l.bias' is in no member of the archive ('data/weights/weight_1')"),
            std::string::npos);
  EXPECT_NE(changed([](Pt2Maker& m) {
              m.weights = pt2_weight("l.bias", "weight_1", {"2"});
            }).find("the archive has no contents for weight 'l.weight'"),
            std::string::npos);
  EXPECT_NE(changed([](Pt2Maker& m) { m.files[0].second.resize(20); })
                .find("weight 'l.weight' ends at byte 24 of member 'data/weights/weight_0', which "
                      "has 20"),
            std::string::npos);
  EXPECT_NE(changed([](Pt2Maker& m) {
              m.weights = pt2_weight("l.weight", "weight_0", {"2", "3"}, 7, true) + "," +
                          pt2_weight("l.bias", "weight_1", {"2"});
            }).find("weight 'l.weight' is only there as a pickle"),
            std::string::npos);
  EXPECT_NE(changed([](Pt2Maker& m) {
              m.weights = pt2_weight("l.weight", "weight_0", {"2", "3"}, 10) + "," +
                          pt2_weight("l.bias", "weight_1", {"2"});
            }).find("weight 'l.weight' is COMPLEXFLOAT, which is not computed with"),
            std::string::npos);
  EXPECT_NE(changed([](Pt2Maker& m) {
              m.outputs = pt2_result("nothing");
            }).find("reads 'nothing', which nothing before it makes"),
            std::string::npos);
}

TEST(AtenTable, EveryTargetIsThereOnce) {
  std::vector<std::string_view> targets;
  for (const std::span<const AtenRow> family : aten_families())
    for (const AtenRow& row : family) {
      targets.push_back(row.target);
      EXPECT_NE(row.lower, nullptr) << row.target;
      EXPECT_EQ(find_aten(row.target), &row) << row.target;
    }
  std::sort(targets.begin(), targets.end());
  EXPECT_EQ(std::adjacent_find(targets.begin(), targets.end()), targets.end());
}

TEST(AtenTable, TypesArePromotedAsPyTorchDoes) {
  EXPECT_EQ(promoted(DType::kI64, true, DType::kF32, false), DType::kF32);
  EXPECT_EQ(promoted(DType::kF16, true, DType::kF32, false), DType::kF16);
  EXPECT_EQ(promoted(DType::kF16, true, DType::kBF16, true), DType::kF32);
  EXPECT_EQ(promoted(DType::kI32, true, DType::kI64, false), DType::kI32);
  EXPECT_EQ(promoted(DType::kBool, true, DType::kI64, true), DType::kI64);
  EXPECT_EQ(promoted(DType::kU8, true, DType::kI8, true), DType::kI16);
}

}  // namespace
}  // namespace lowtide::io

// The ONNX door on small files made message by message, and on the models of this repository. First
// what must be refused, each with one line that names the file, the node or tensor, and the
// numbers; then what is taken, and as what. Nothing may crash.
#include "io/onnx_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "base/rng.h"
#include "io/inspect.h"
#include "io/onnx_wire.h"
#include "io/testing/test_models.h"
#include "ir/graph.h"
#include "sym/expr.h"

namespace lowtide::io {
namespace {

// ---- refusals

std::string error_of(const std::string& bytes, const OnnxOptions& options = {},
                     const std::string& folder = "") {
  const auto graph = read_onnx_bytes(bytes, folder, "made.onnx", options);
  if (graph) return "";
  EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
  return graph.error().message;
}

// x -> Relu -> y
ModelMaker relu() {
  ModelMaker maker;
  maker.input("x", {"2", "3"}).output("y");
  maker.node("Relu", {"x"}, {"y"}, "act");
  return maker;
}

TEST(OnnxRefusal, EveryTruncationIsAnErrorOrAModel) {
  ModelMaker maker = relu();
  maker.floats("w", {2, 2}, {1, 2, 3, 4});
  const std::string bytes = maker.bytes();
  int refused = 0;
  for (size_t n = 0; n < bytes.size(); ++n) refused += error_of(bytes.substr(0, n)).empty() ? 0 : 1;
  EXPECT_GT(refused, static_cast<int>(bytes.size()) / 2);
  EXPECT_EQ(error_of(bytes), "");
}

// What a changed file may give: a graph that is consistent, or one line that names the file.
template <class T>
void expect_one_line(const Result<T>& refused, int round) {
  EXPECT_EQ(refused.error().code, ErrorCode::kInput) << "round " << round;
  EXPECT_TRUE(refused.error().message.starts_with("changed.onnx: "))
      << "round " << round << ": " << refused.error().message;
  EXPECT_EQ(refused.error().message.find('\n'), std::string::npos) << "round " << round;
}

TEST(OnnxRefusal, ChangedBytesOfARealModelGiveASoundGraphOrOneLine) {
  const auto bytes = read_file(std::string(LOWTIDE_SOURCE_DIR) + "/models/unet.onnx");
  ASSERT_TRUE(bytes);
  Rng rng(7);
  int read = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    std::string changed = *bytes;
    for (int k = 0; k <= round % 4; ++k)
      changed[rng.below(changed.size())] = static_cast<char>(rng.below(256));
    const auto graph = read_onnx_bytes(changed, "", "changed.onnx",
                                       {.bindings = {{"batch", 2}}, .training = round % 2 == 0});
    if (graph) {
      ++read;
      const Status sound = ir::check(*graph);
      EXPECT_TRUE(sound) << "round " << round << ": " << sound.error().message;
    } else {
      ++refused;
      expect_one_line(graph, round);
    }
    const auto summary = inspect_onnx_bytes(changed, "", "changed.onnx");
    if (!summary) expect_one_line(summary, round);
    EXPECT_TRUE(summary || !graph) << "round " << round << ": read, but not inspected";
  }
  EXPECT_GT(read, 5);  // neither half of the test is vacuous
  EXPECT_GT(refused, 5);
}

TEST(OnnxRefusal, SaysWhenBytesAreNotAModel) {
  EXPECT_EQ(error_of("not a model"),
            "made.onnx: not an ONNX model: 11 bytes that do not decode (truncated?)");
  EXPECT_NE(error_of("").find("without a graph"), std::string::npos);
}

TEST(OnnxRefusal, NamesVersionsOutOfRange) {
  ModelMaker maker = relu();
  maker.wire().set_ir_version(99);
  EXPECT_EQ(error_of(maker.bytes()), "made.onnx: IR version 99 is not one of 3 to 14");
  EXPECT_EQ(error_of([] {
              ModelMaker old(3);
              old.input("x", {"2"}).output("y");
              old.node("Relu", {"x"}, {"y"});
              return old.bytes();
            }()),
            "made.onnx: opset 3 is not one of 7 to 28");
}

TEST(OnnxRefusal, ChecksPayloadsAndDims) {
  ModelMaker wrong = relu();
  wrong.floats("w", {2, 2}, {1, 2, 3});
  EXPECT_EQ(error_of(wrong.bytes()),
            "made.onnx: tensor 'w' (FLOAT) holds 12 bytes, its shape needs 16");
  ModelMaker negative = relu();
  negative.floats("w", {2, -2}, {});
  EXPECT_EQ(error_of(negative.bytes()), "made.onnx: tensor 'w' has the negative dim -2");
  ModelMaker huge = relu();
  huge.floats("w", {int64_t{1} << 40, int64_t{1} << 40}, {});
  EXPECT_NE(error_of(huge.bytes()).find("more than 2^48 elements"), std::string::npos);
  ModelMaker input;
  input.input("x", {"-3"}).output("y");
  input.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(error_of(input.bytes()), "made.onnx: 'x' has the negative dim -3");
}

TEST(OnnxRefusal, RefusesWrongTypes) {
  ModelMaker maker;
  maker.input("x", {"2"}, 8).output("y");
  maker.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(error_of(maker.bytes()),
            "made.onnx: input 'x' is STRING; tensors of bool, integers of 8 to 64 bits and floats "
            "of 16 to 64 bits are read");
}

TEST(OnnxRefusal, NamesCyclesDuplicatesAndDanglingNames) {
  ModelMaker cycle;
  cycle.input("x", {"2"}).output("b");
  cycle.node("Add", {"x", "b"}, {"a"}, "first");
  cycle.node("Relu", {"a"}, {"b"}, "second");
  EXPECT_EQ(error_of(cycle.bytes()),
            "made.onnx: nodes on or behind a cycle: node 'first' (Add), node 'second' (Relu)");
  ModelMaker twice = relu();
  twice.node("Relu", {"x"}, {"y"}, "again");
  EXPECT_EQ(error_of(twice.bytes()),
            "made.onnx: node 'again' (Relu) makes 'y', which exists already");
  ModelMaker dangling = relu();
  dangling.node("Relu", {"nowhere"}, {"z"}, "lost");
  EXPECT_EQ(error_of(dangling.bytes()),
            "made.onnx: node 'lost' (Relu) reads 'nowhere', which nothing makes");
  ModelMaker output = relu();
  output.output("z");
  EXPECT_EQ(error_of(output.bytes()), "made.onnx: output 'z' is made by no node");
}

TEST(OnnxRefusal, TakesNoOpThatOnlyTheDoorMakes) {
  for (const char* op : {"Silu", "SafeSoftmax"}) {
    ModelMaker maker;
    maker.input("x", {"2"}).output("y");
    maker.node(op, {"x"}, {"y"});
    const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().message, std::string("made.onnx: unsupported ops: ") + op + " 1 (y)");
  }
}

TEST(OnnxRefusal, ReportsAllUnsupportedOpsAtOnce) {
  ModelMaker maker = relu();
  maker.node("Det", {"x"}, {"a"}, "cell");
  maker.node("Unique", {"x"}, {"b"}, "where_a");
  maker.node("Unique", {"x"}, {"c"}, "where_b");
  EXPECT_EQ(error_of(maker.bytes()),
            "made.onnx: unsupported ops: Det 1 (cell), Unique 2 (where_a where_b: the size of its "
            "result is data)");
  const auto summary = inspect_onnx_bytes(maker.bytes(), "", "made.onnx");
  ASSERT_TRUE(summary);
  ASSERT_EQ(summary->unsupported.size(), 2U);
  EXPECT_EQ(summary->unsupported[0], (OpCount{"Unique", 2, {"where_a", "where_b"}}));
}

TEST(OnnxRefusal, KeepsExternalDataInTheModelsFolder) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / "lowtide_external_test";
  fs::remove_all(root);
  fs::create_directories(root / "model");
  std::ofstream(root / "secret.bin") << std::string(64, 'x');
  fs::create_symlink(root / "secret.bin", root / "model" / "link.bin");
  const auto with = [&](const std::string& location) {
    ModelMaker maker = relu();
    maker.external("w", {4}, location);
    return error_of(maker.bytes(), {}, (root / "model").string());
  };
  EXPECT_EQ(with("../secret.bin"),
            "made.onnx: tensor 'w': external file '../secret.bin' leaves the model's folder");
  EXPECT_NE(with((root / "secret.bin").string()).find("is an absolute path"), std::string::npos);
  EXPECT_NE(with("link.bin").find("is a link that leaves the model's folder"), std::string::npos);
  EXPECT_EQ(with("weights.bin"), "");
  fs::remove_all(root);
}

TEST(OnnxRefusal, SaysWhichSymbolNeedsANumber) {
  ModelMaker maker;
  maker.input("x", {"batch", "4", "2", "2"}).output("y");
  for (const char* name : {"s", "b", "m", "v"}) maker.floats(name, {4}, {1, 1, 1, 1});
  maker.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, "bn");
  EXPECT_EQ(error_of(maker.bytes(), {.training = true}),
            "made.onnx: node 'bn' (BatchNormalization): the running variance needs the number of "
            "batch: give --dim batch=N");
  EXPECT_EQ(error_of(maker.bytes(), {.bindings = {{"batch", 2}}, .training = true}), "");
  EXPECT_EQ(error_of(maker.bytes(), {.bindings = {{"bath", 2}}}),
            "made.onnx: --dim bath=2: the model has no such dim, but batch");
}

TEST(OnnxRefusal, NamesTheNodeWhoseOperandsDoNotFit) {
  ModelMaker maker;
  maker.input("a", {"2", "3"}).input("b", {"4", "5"}).output("y");
  maker.node("MatMul", {"a", "b"}, {"y"}, "product");
  const std::string message = error_of(maker.bytes());
  EXPECT_EQ(message.find("made.onnx: node 'product' (MatMul): "), 0U) << message;
  ModelMaker shape;
  shape.input("x", {"2", "3"}).output("y");
  shape.ints("to", {2}, {4, 2});
  shape.node("Reshape", {"x", "to"}, {"y"}, "view");
  EXPECT_EQ(error_of(shape.bytes()),
            "made.onnx: node 'view' (Reshape): 6 elements cannot take a shape of 8");
}

// A fault that an op's table would read as a default or not at all.
TEST(OnnxRefusal, WrongTypesOfAttributes) {
  ModelMaker word;
  word.input("x", {"2", "3"}).output("y");
  set_word(word.node("Softmax", {"x"}, {"y"}, "soft"), "axis", "foo");
  EXPECT_EQ(error_of(word.bytes()),
            "made.onnx: node 'soft' (Softmax): attribute 'axis' is STRING 'foo'; it must be INT");
  ModelMaker real;
  real.input("x", {"2", "3"}).output("y");
  set_real(real.node("Softmax", {"x"}, {"y"}, "soft"), "axis", 0.5F);
  EXPECT_EQ(error_of(real.bytes()),
            "made.onnx: node 'soft' (Softmax): attribute 'axis' is FLOAT 0.5; it must be INT");
  ModelMaker flag;
  flag.input("a", {"2", "3"}).input("b", {"3", "2"}).output("y");
  set_word(flag.node("Gemm", {"a", "b"}, {"y"}, "product"), "transB", "yes");
  EXPECT_EQ(error_of(flag.bytes()),
            "made.onnx: node 'product' (Gemm): attribute 'transB' is STRING 'yes'; it must be INT");
  ModelMaker untold;  // a file before IR 4 tells no type; the filled field does
  untold.input("x", {"2", "3"}).output("y");
  set_word(untold.node("Softmax", {"x"}, {"y"}), "axis", "foo").clear_type();
  EXPECT_EQ(error_of(untold.bytes()),
            "made.onnx: node of 'y' (Softmax): attribute 'axis' is STRING 'foo'; it must be INT");
}

TEST(OnnxRefusal, InputsOutputsAndAttributesThatTheOpDoesNotHave) {
  ModelMaker inputs;
  inputs.input("x", {"2"}).input("z", {"2"}).output("y");
  inputs.node("Relu", {"x", "z"}, {"y"}, "act");
  EXPECT_EQ(error_of(inputs.bytes()),
            "made.onnx: node 'act' (Relu): has 2 inputs; the op has at most 1");
  ModelMaker outputs;
  outputs.input("x", {"2"}).output("y");
  outputs.node("Relu", {"x"}, {"y", "z"}, "act");
  EXPECT_EQ(error_of(outputs.bytes()),
            "made.onnx: node 'act' (Relu): has 2 outputs; the op has at most 1");
  ModelMaker none;
  none.input("x", {"2"}).output("x");
  none.node("Constant", {}, {}, "nothing");
  EXPECT_EQ(error_of(none.bytes()), "made.onnx: node 'nothing' (Constant): has no output");
  ModelMaker attribute;
  attribute.input("x", {"2"}).output("y");
  set_real(attribute.node("LeakyRelu", {"x"}, {"y"}, "leaky"), "slope", 0.5F);
  EXPECT_EQ(error_of(attribute.bytes()),
            "made.onnx: node 'leaky' (LeakyRelu): has the attribute 'slope'; the op knows only "
            "alpha");
  ModelMaker plain = relu();
  set_int(*plain.graph().mutable_node(0), "inplace", 1);
  EXPECT_EQ(error_of(plain.bytes()),
            "made.onnx: node 'act' (Relu): has the attribute 'inplace'; the op has none");
}

TEST(OnnxRefusal, DeclaredShapesThatContradictTheNodes) {
  ModelMaker output = relu();
  ModelMaker::declare(*output.graph().mutable_output(0), "y", {"7", "7"}, 1);
  const std::string stale =
      "node 'act' (Relu): 'y' is declared as [7, 7], but its shape is [2, 3]; what the nodes make "
      "counts";
  std::vector<std::string> notes;
  EXPECT_EQ(error_of(output.bytes(), {.notes = &notes}), "");
  EXPECT_EQ(notes, std::vector{stale});
  ModelMaker inner = relu();
  inner.node("Relu", {"y"}, {"z"}, "next");
  inner.output("z");
  ModelMaker::declare(*inner.graph().add_value_info(), "y", {"2", "3", "1"}, 1);
  EXPECT_EQ(error_of(inner.bytes()),
            "made.onnx: node 'act' (Relu): 'y' is declared as [2, 3, 1], but its shape is [2, 3]");
  ModelMaker symbols;  // a number against a symbol is no contradiction, a bound symbol is a number
  symbols.input("x", {"n", "3"}).output("y");
  ModelMaker::declare(*symbols.graph().mutable_output(0), "y", {"4", "other"}, 1);
  symbols.node("Relu", {"x"}, {"y"}, "act");
  EXPECT_EQ(error_of(symbols.bytes()), "");
  EXPECT_EQ(error_of(symbols.bytes(), {.bindings = {{"n", 4}}}), "");
  notes.clear();
  EXPECT_EQ(error_of(symbols.bytes(), {.bindings = {{"n", 5}}, .notes = &notes}), "");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(
      notes[0].starts_with("node 'act' (Relu): 'y' is declared as [4, other], but its shape "
                           "is [5, 3]"))
      << notes[0];
}

TEST(OnnxRefusal, InputsWithoutShapeAndGraphsWithoutOutputs) {
  ModelMaker input = relu();
  input.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(error_of(input.bytes()),
            "made.onnx: input 'x' is declared without a shape; its rank must be in the file (dims "
            "may be symbols)");
  ModelMaker scalar;
  scalar.input("x", {}).output("y");
  scalar.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(error_of(scalar.bytes()), "");
  ModelMaker nothing;
  nothing.input("x", {"2"});
  nothing.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(error_of(nothing.bytes()),
            "made.onnx: the graph has 1 nodes and no outputs; it must name at least one");
}

// Sizes that only show under the caller's numbers; every message names the file first.
TEST(OnnxRefusal, SizesThatAreNoSizesOnceBound) {
  ModelMaker maker;
  maker.input("x", {"batch", "4*batch - 6"}).output("y");
  maker.node("Relu", {"x"}, {"y"}, "act");
  EXPECT_EQ(error_of(maker.bytes(), {.bindings = {{"batch", 1}}}),
            "made.onnx: input 'x': dim 1 (4*batch - 6) is -2 with --dim batch=1; a size is at "
            "least 0");
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(error_of(maker.bytes(), {.bindings = {{"batch", most}}}),
            "made.onnx: input 'x': dim 1 (4*batch - 6) overflows 64 bits with --dim "
            "batch=9223372036854775807; a size is at least 0");
  ModelMaker large;
  large.input("x", {"batch", "3"}).output("y");
  large.node("Relu", {"x"}, {"y"}, "act");
  for (const int64_t batch : {most, most / 4, most / 16}) {
    const std::string message = error_of(large.bytes(), {.bindings = {{"batch", batch}}});
    EXPECT_EQ(message.find("made.onnx: "), 0U) << message;
    EXPECT_EQ(message.find("--dim =N"), std::string::npos) << message;
  }
  ModelMaker norm;
  norm.input("x", {"batch", "4", "2", "2"}).output("y");
  for (const char* name : {"s", "b", "m", "v"}) norm.floats(name, {4}, {1, 1, 1, 1});
  norm.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, "bn");
  const std::string message =
      error_of(norm.bytes(), {.bindings = {{"batch", most}}, .training = true});
  EXPECT_EQ(message.find("made.onnx: "), 0U) << message;
  EXPECT_EQ(message.find("give --dim"), std::string::npos) << message;
}

TEST(OnnxRefusal, StopsFunctionsThatCallThemselves) {
  ModelMaker maker;
  maker.input("x", {"2"}).output("y");
  maker.node("Loop", {"x"}, {"y"}, "call").set_domain("own");
  onnx_wire::Function& function = *maker.wire().add_functions();
  function.set_name("Loop");
  function.set_domain("own");
  function.add_input("a");
  function.add_output("b");
  ModelMaker::fill(*function.add_node(), "Loop", {"a"}, {"b"}, "inner").set_domain("own");
  EXPECT_NE(error_of(maker.bytes()).find("nest deeper than 64"), std::string::npos);
}

// ---- models that are taken

Result<ir::Graph> graph_of(const ModelMaker& maker, const OnnxOptions& options = {}) {
  return read_onnx_bytes(maker.bytes(), "", "made.onnx", options);
}

// The kinds of a graph's ops in order, and the dims of its first output.
std::string kinds(const ir::Graph& graph) {
  std::string text;
  for (ir::OpId op : graph.ops()) text += (text.empty() ? "" : " ") + graph.op(op).kind;
  return text;
}
std::string output_dims(const ir::Graph& graph) {
  std::string text;
  for (ir::ValueId id : graph.values()) {
    if (!graph.value(id).is_output) continue;
    for (const sym::Expr& dim : graph.value(id).dims)
      text += (text.empty() ? "" : ", ") + sym::print(dim);
    break;
  }
  return text;
}

Result<ir::Graph> read_model(const std::string& name, const OnnxOptions& options) {
  return read_onnx(std::string(LOWTIDE_SOURCE_DIR) + "/models/" + name, options);
}

TEST(OnnxModels, ResNet50ConvertsBoundAndSymbolic) {
  const auto symbolic = read_model("resnet50.onnx", {});
  ASSERT_TRUE(symbolic) << symbolic.error().message;
  EXPECT_EQ(symbolic->op_count(), 175U);
  EXPECT_EQ(output_dims(*symbolic), "batch, 1000");
  const auto trained = read_model("resnet50.onnx", {.bindings = {{"batch", 2}}, .training = true});
  ASSERT_TRUE(trained) << trained.error().message;
  EXPECT_EQ(count_ops(*trained, "BatchNormTrain"), 53);
  EXPECT_EQ(count_ops(*trained, "RunningUpdate"), 106);
  int64_t trained_elements = 0, statistics = 0;
  for (ir::ValueId id : trained->values()) {
    const ir::Value& value = trained->value(id);
    if (value.producer.valid() || value.category != Category::kParameter) continue;
    EXPECT_EQ(value.initial.kind, ir::InitialValue::Kind::kSeeded) << value.name;
    statistics += value.name.find("running_") != std::string::npos;
    if (value.name.find("running_") == std::string::npos)
      trained_elements += *ir::element_count(value).constant();
  }
  EXPECT_EQ(trained_elements, 25557032);
  EXPECT_EQ(statistics, 106);
}

TEST(OnnxModels, UnetKeepsItsTransposedConvolutions) {
  const auto graph = read_model("unet.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(count_ops(*graph, "ConvDataGrad"), 4);
  EXPECT_EQ(output_dims(*graph), "batch, 2, 256, 256");
}

// The mask arithmetic of 60 nodes folds to one triangle, the position ids to a slice, the
// activation to one op, without numbers for batch and seq.
TEST(OnnxModels, Gpt2FoldsItsMaskWithoutNumbers) {
  const auto graph = read_model("gpt2.onnx", {.training = true});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(output_dims(*graph), "batch, seq, 50257");
  EXPECT_EQ(count_ops(*graph, "Trilu"), 1);
  EXPECT_EQ(count_ops(*graph, "Fill"), 1);
  EXPECT_EQ(count_ops(*graph, "Gelu"), 12);
  EXPECT_EQ(count_ops(*graph, "Tanh"), 0);
  EXPECT_EQ(count_ops(*graph, "Gather"), 1);
  EXPECT_EQ(count_ops(*graph, "Dropout"), 37);
  EXPECT_EQ(count_ops(*graph, "MatMul"), 73);
  const auto without = read_model("gpt2.onnx", {.training = true, .dropout = false});
  ASSERT_TRUE(without);
  EXPECT_EQ(count_ops(*without, "Dropout"), 0);
  const auto table = graph->find_value("transformer.wte.weight");
  ASSERT_TRUE(table);
  // Tied: the embedding and, transposed, the output projection.
  EXPECT_EQ(graph->readers(*table).size(), 2U);
}

TEST(OnnxModels, OpsKnowTheirModules) {
  const auto graph = read_model("gpt2.onnx", {});
  ASSERT_TRUE(graph);
  for (ir::OpId op : graph->ops()) {
    if (graph->op(op).name != "node_addmm") continue;
    EXPECT_EQ(graph->op(op).module, "transformer.h.0.attn.c_attn");
  }
  EXPECT_EQ(module_of_scopes("['', 'a', 'a.b', 'add']"), "a.b");
  EXPECT_EQ(module_of_scopes("__import__('os')"), "");
  EXPECT_EQ(module_of_scopes("['never', 'closed"), "");
}

TEST(OnnxReader, ExpandsFunctionsWithAttributesAndDefaults) {
  ModelMaker maker;
  maker.input("x", {"2"}).output("y");
  set_real(maker.node("Leak", {"x"}, {"y"}, "call"), "slope", 0.25F);
  maker.graph().mutable_node(0)->set_domain("own");
  onnx_wire::Function& function = *maker.wire().add_functions();
  function.set_name("Leak");
  function.set_domain("own");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("slope");
  onnx_wire::Node& inner =
      ModelMaker::fill(*function.add_node(), "LeakyRelu", {"a"}, {"t"}, "leaky");
  onnx_wire::Attribute& reference = *inner.add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name("slope");
  reference.set_type(1);
  ModelMaker::fill(*function.add_node(), "Relu", {"t"}, {"b"});
  const auto graph = graph_of(maker);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(kinds(*graph), "LeakyRelu Relu");
  EXPECT_EQ(std::get<double>(graph->op(ir::OpId(0)).attrs.at("alpha")), 0.25);
  EXPECT_EQ(graph->op(ir::OpId(0)).name, "call/leaky");
}

TEST(OnnxReader, UnderstandsExpressionsInDims) {
  ModelMaker maker;
  maker.input("x", {"2*batch", "Min(512, seq)", "seq + 1"}).output("y");
  maker.node("Relu", {"x"}, {"y"});
  const auto symbolic = graph_of(maker);
  ASSERT_TRUE(symbolic) << symbolic.error().message;
  EXPECT_EQ(ir::free_symbols(*symbolic), (std::vector<std::string>{"batch", "seq"}));
  const auto bound = graph_of(maker, {.bindings = {{"batch", 3}, {"seq", 600}}});
  ASSERT_TRUE(bound);
  EXPECT_EQ(output_dims(*bound), "6, 512, 601");
}

TEST(OnnxReader, ShapeArithmeticKeepsSymbols) {
  ModelMaker maker;
  maker.input("x", {"batch", "seq", "8"}).output("y");
  maker.ints("first", {1}, {0}).set_name("first");
  maker.ints("minus", {1}, {-1});
  maker.node("Shape", {"x"}, {"shape"});
  maker.node("Gather", {"shape", "first"}, {"rows"});
  maker.node("Concat", {"rows", "minus"}, {"target"});
  set_int(*maker.graph().mutable_node(2), "axis", 0);
  maker.node("Reshape", {"x", "target"}, {"y"});
  const auto graph = graph_of(maker);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(kinds(*graph), "Reshape");
  EXPECT_EQ(output_dims(*graph), "batch, 8*seq");
}

TEST(OnnxReader, TiedWeightIsOneParameterAndTransposesFold) {
  ModelMaker maker;
  maker.input("ids", {"2", "3"}, 7).output("y");
  maker.floats("table", {5, 4}, std::vector<float>(20, 1));
  maker.node("Gather", {"table", "ids"}, {"rows"});
  set_ints(maker.node("Transpose", {"table"}, {"turned"}), "perm", {1, 0});
  maker.node("MatMul", {"rows", "turned"}, {"y"});
  const auto graph = graph_of(maker);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(kinds(*graph), "Gather MatMul");
  EXPECT_EQ(std::get<int64_t>(graph->op(ir::OpId(1)).attrs.at("trans_b")), 1);
  const auto table = graph->find_value("table");
  ASSERT_TRUE(table);
  EXPECT_EQ(graph->value(*table).category, Category::kParameter);
  EXPECT_EQ(graph->readers(*table).size(), 2U);
}

TEST(OnnxReader, TransposeWithAnotherReaderStaysForIt) {
  ModelMaker maker;
  maker.input("a", {"2", "3"}).input("b", {"4", "3"}).output("y").output("z");
  set_ints(maker.node("Transpose", {"b"}, {"t"}), "perm", {1, 0});
  maker.node("MatMul", {"a", "t"}, {"y"});
  maker.node("Relu", {"t"}, {"z"});
  const auto graph = graph_of(maker);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(kinds(*graph), "MatMul Transpose Relu");
}

TEST(OnnxReader, FusesBiasAndScalars) {
  ModelMaker maker;
  maker.input("x", {"2", "3"}).output("y");
  maker.floats("w", {3, 4}, std::vector<float>(12, 1));
  maker.floats("bias", {4}, {1, 2, 3, 4});
  maker.floats("two", {}, {2});
  maker.node("MatMul", {"x", "w"}, {"p"});
  maker.node("Add", {"bias", "p"}, {"q"});
  maker.node("Mul", {"q", "two"}, {"y"});
  const auto graph = graph_of(maker);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(kinds(*graph), "MatMul AffineScalar");
  EXPECT_EQ(graph->op(ir::OpId(0)).inputs.size(), 3U);
  EXPECT_EQ(std::get<double>(graph->op(ir::OpId(1)).attrs.at("scale")), 2.0);
}

// Attributes of old opsets and inputs of new ones say the same.
TEST(OnnxReader, ReadsBothFormsOfAxes) {
  for (const bool as_attribute : {true, false}) {
    ModelMaker maker(as_attribute ? 11 : 18);
    maker.input("x", {"2", "1", "3"}).output("y").output("z");
    maker.ints("one", {1}, {1});
    maker.ints("last", {1}, {-1});
    std::vector<std::string> squeeze = {"x"}, reduce = {"x"};
    if (!as_attribute) squeeze.push_back("one"), reduce.push_back("last");
    onnx_wire::Node& first = maker.node("Squeeze", squeeze, {"y"});
    if (as_attribute) set_ints(first, "axes", {1});
    onnx_wire::Node& second = maker.node("ReduceMean", reduce, {"z"});
    if (as_attribute) set_ints(second, "axes", {-1});
    const auto graph = graph_of(maker);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(kinds(*graph), "Reshape ReduceMean");
    EXPECT_EQ(output_dims(*graph), "2, 3");
  }
}

TEST(OnnxReader, ReadsWeightsThatLieBesideTheModel) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "lowtide_weights_test";
  fs::create_directories(folder);
  std::ofstream(folder / "weights.bin", std::ios::binary) << std::string(32, '\0');
  ModelMaker maker;
  maker.input("x", {"2", "2"}).output("y");
  onnx_wire::StringPair& offset = *maker.external("w", {2, 2}, "weights.bin").add_external_data();
  offset.set_key("offset");
  offset.set_value("16");
  maker.node("MatMul", {"x", "w"}, {"y"});
  const auto graph = read_onnx_bytes(maker.bytes(), folder.string(), "made.onnx");
  ASSERT_TRUE(graph) << graph.error().message;
  const ir::InitialValue& initial = graph->value(*graph->find_value("w")).initial;
  EXPECT_EQ(initial.kind, ir::InitialValue::Kind::kExternal);
  EXPECT_EQ(initial.offset, 16);
  EXPECT_EQ(initial.length, 16);
  fs::remove_all(folder);
}

TEST(OnnxInspect, SummarizesWithoutBindings) {
  const auto summary = inspect_onnx(std::string(LOWTIDE_SOURCE_DIR) + "/models/gpt2.onnx");
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->trained_elements, 124439808);
  EXPECT_EQ(summary->symbols, (std::vector<std::string>{"batch", "seq"}));
  EXPECT_EQ(summary->nodes, 544);
  EXPECT_EQ(summary->opset, 20);
  EXPECT_TRUE(summary->unsupported.empty());
  EXPECT_TRUE(summary->refused.empty());
  EXPECT_TRUE(summary->no_kernel.empty());
  EXPECT_TRUE(summary->external_missing);
  EXPECT_EQ(summary->ops[0].op_type, "Reshape");
  EXPECT_EQ(summary->ops[0].count, 135);
}

TEST(OnnxInspect, ListsEveryNodeThatTheConversionRefuses) {
  ModelMaker maker(11);
  maker.input("x", {"2", "3"}).input("u", {"2"}, 8).output("y").output("z").output("w");
  maker.node("MaxPool", {"x"}, {"a"}, "pool");
  maker.node("Relu", {"a"}, {"y"}, "behind");
  maker.node("MaxPool", {"x"}, {"z"}, "second");
  maker.node("Loop", {"x"}, {"w"}, "again");
  const auto typed = inspect_onnx_bytes(maker.bytes(), "", "made.onnx");
  ASSERT_TRUE(typed) << typed.error().message;
  ASSERT_EQ(typed->refused.size(), 1U);
  EXPECT_TRUE(typed->refused[0].starts_with("input 'u' is STRING; tensors of bool, "));
  maker.graph().mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  const auto summary = inspect_onnx_bytes(maker.bytes(), "", "made.onnx");
  ASSERT_TRUE(summary) << summary.error().message;
  ASSERT_EQ(summary->refused.size(), 2U);
  EXPECT_EQ(summary->refused[0], "node 'pool' (MaxPool): has no kernel_shape");
  const std::string text = print(*summary);
  EXPECT_NE(text.find("unsupported Loop 1 (again: its body runs many times)\nunsupported node "
                      "'pool' (MaxPool): has no"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("unsupported node 'second'"), std::string::npos) << text;
  EXPECT_EQ(text.find("'behind'"), std::string::npos) << text;
}

// Kernels for f32 alone.
class FewKernels : public plan::KernelCatalog {
 public:
  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    if (op.inputs[0]->dtype == DType::kF32) return 0;
    return error(ErrorCode::kInput, "no kernel for " + op.kind);
  }
  plan::LayoutWish wish(const plan::OpDesc&) const override { return {}; }
};

TEST(OnnxInspect, TellsWhichOpsHaveNoKernelAndPrintsNoEmptyFields) {
  ModelMaker wide;
  wide.input("x", {"n"}, 11).output("y");
  wide.node("Relu", {"x"}, {"y"}, "act");
  const FewKernels kernels;
  const auto summary = inspect_onnx_bytes(wide.bytes(), "", "made.onnx", {.kernels = &kernels});
  ASSERT_TRUE(summary) << summary.error().message;
  const std::string head =
      "model made, IR 10, opset 20\n"
      "input x DOUBLE (n)\n"
      "output y FLOAT (...)\n"
      "symbols n\n"
      "parameters 0 tensors, 0 elements (0 trained), 0 bytes\n"
      "nodes 1: Relu 1\n";
  EXPECT_EQ(print(*summary),
            head + "unsupported with size 64 for each symbol: op 'act': no kernel for Relu\n");
  const auto bound = inspect_onnx_bytes(wide.bytes(), "", "made.onnx",
                                        {.bindings = {{"n", 3}}, .kernels = &kernels});
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(print(*bound), head + "unsupported op 'act': no kernel for Relu\n");
  const auto clean = inspect_onnx_bytes(relu().bytes(), "", "made.onnx", {.kernels = &kernels});
  ASSERT_TRUE(clean);
  EXPECT_NE(print(*clean).find("\nunsupported none\n"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::io

// The official ONNX test cases, each one op (or its function body written out) with inputs and
// expected outputs, run through the door and on the reference executor. Inputs that say shapes,
// axes and the like are known when a real model is read, so they become initializers here; ops that
// exist only as folding get all inputs so, and ops that can do both are run both ways.
//
// The cases are files of the onnx wheel (1.22.0 is the last that ships them). Environment
// LOWTIDE_ONNX_NODE_TESTS names their folder; without it the project's virtual environment is
// searched. Absent files skip the test visibly. Tolerances are those of the cases' own runner:
// relative 1e-3, absolute 1e-7.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <set>

#include "base/file.h"
#include "exec/ref/interpreter.h"
#include "exec/ref/tensor.h"
#include "io/convert.h"
#include "io/host_eval.h"
#include "io/onnx_ops.h"
#include "io/onnx_signatures.h"
#include "io/onnx_tensor.h"
#include "io/onnx_wire.h"

namespace lowtide::io {
namespace {

namespace fs = std::filesystem;

// Inputs that must be known when the model is read, by op.
const std::map<std::string, std::vector<size_t>, std::less<>> kKnownInputs = {
    {"Reshape", {1}},    {"Squeeze", {1}},         {"Unsqueeze", {1}},    {"Slice", {1, 2, 3, 4}},
    {"Split", {1}},      {"Expand", {1}},          {"Tile", {1}},         {"Pad", {1, 2, 3}},
    {"Trilu", {1}},      {"Clip", {1, 2}},         {"Dropout", {1, 2}},   {"ReduceSum", {1}},
    {"ReduceMean", {1}}, {"ReduceMax", {1}},       {"ReduceMin", {1}},    {"ReduceL1", {1}},
    {"ReduceL2", {1}},   {"ReduceSumSquare", {1}}, {"ReduceLogSum", {1}}, {"ReduceLogSumExp", {1}},
};

// Messages that say "this door does not take that", as opposed to a failure: the whole text behind
// the case's name as a pattern, and the reason that is counted. Anything else is a failure.
struct Refusal {
  const char* pattern;
  const char* reason;
};
constexpr Refusal kRefusals[] = {
    {"unsupported ops: .*", "op not taken"},
    {R"(node .*\((Range|ConstantOfShape|CumSum|GatherElements|ScatterND|ReduceProd)\): )"
     "is read only where its inputs are known constants",
     "inputs not known"},
    {R"(node .*\((Pad|Slice)\): input \d \('.*'\) must be known when the model is read)",
     "inputs not known"},
    {R"(node .*\(GatherND\): a GatherND with indices from data is not taken)", "inputs not known"},
    {R"(node .*\(Attention\): (input|output) \d \(.*\) is not taken)", "form not taken"},
    {R"(node .*\(SoftmaxCrossEntropyLoss\): (class weights are not taken|)"
     R"(only the mean reduction is taken|log_prob \(output 1\) is not taken))",
     "form not taken"},
    {R"(node .*\(Mod\): Mod with the sign of the dividend \(fmod\) is not taken)",
     "form not taken"},
    {R"(node .*\(AveragePool\): AveragePool with dilation \d is not taken)", "form not taken"},
    {R"(node .*\(MaxPool\): the indices of MaxPool \(output 1\) are not taken)", "form not taken"},
    {R"(node .*\(Pad\): mode (wrap|reflect|edge) is not taken, only constant)", "form not taken"},
    {R"(node .*\(ScatterND\): ScatterND with a reduction is not folded)", "form not taken"},
    {R"(node .*\(Slice\): a Slice with step -\d+ is not taken)", "form not taken"},
    {R"(node .*\(Range\): a Range of floats is not folded)", "form not taken"},
    {R"(node .*\(ReduceProd\): a reduction over no elements is not folded)", "form not taken"},
    {R"(node .*\(Softmax\): at opset \d+ axis .* means all dims behind it)", "form not taken"},
    {R"(node .*\(Cast\): a cast to \w+, which is not computed with)", "element type"},
    {R"(node .*: op .*: (MaxPool|ReduceMax|Neg): input 0 has type (u8|bool), wanted a .* type)",
     "element type"},
    {"input '.*' is .*; tensors of bool, integers of 8 to 64 bits and floats .* are read",
     "element type"},
};

// Fewer passes than this mean that cases which used to pass are refused or lost.
constexpr int kLeastPassed = 1180;

// Converted ops that cannot have a passing case here, and why.
const std::map<std::string, std::string_view, std::less<>> kNoCase = {
    {"Not", "its cases are of opset 1, which is not read"},
    {"RandomUniformLike", "its output is drawn"},
};

struct Case {
  std::string name;
  OnnxModel model;
  std::map<std::string, OnnxTensor> inputs;  // by name
  std::vector<OnnxTensor> outputs;
};

struct Tally {
  int run = 0, passed = 0;
  std::map<std::string, int> skipped;
  std::map<std::string, int> passed_ops;
  std::vector<std::string> failures, refusals;
};

std::optional<fs::path> cases_folder() {
  if (const char* named = std::getenv("LOWTIDE_ONNX_NODE_TESTS")) return fs::path(named);
  const fs::path library = fs::path(LOWTIDE_SOURCE_DIR) / ".venv" / "lib";
  std::error_code code;
  for (const auto& python : fs::directory_iterator(library, code)) {
    const fs::path folder = python.path() / "site-packages/onnx/backend/test/data/node";
    if (fs::exists(folder)) return folder;
  }
  return std::nullopt;
}

// A case, or why it is not one: a reason that is counted.
tl::expected<Case, std::string> load(const fs::path& folder) {
  Case loaded;
  loaded.name = folder.filename().string();
  const auto bytes = read_file((folder / "model.onnx").string());
  if (!bytes) return tl::unexpected<std::string>("no model file");
  auto model = decode_onnx_model(*bytes, loaded.name, "");
  if (!model) return tl::unexpected<std::string>("version or payload not read");
  loaded.model = std::move(*model);
  const fs::path data = folder / "test_data_set_0";
  for (size_t i = 0; i < loaded.model.inputs.size(); ++i) {
    auto tensor = read_onnx_tensor((data / fmt::format("input_{}.pb", i)).string());
    if (!tensor || !loaded.model.inputs[i].is_tensor)
      return tl::unexpected<std::string>("not a tensor");
    if (!tensor->dtype) return tl::unexpected<std::string>("element type");
    loaded.inputs[loaded.model.inputs[i].name] = std::move(*tensor);
  }
  for (size_t i = 0; i < loaded.model.outputs.size(); ++i) {
    auto tensor = read_onnx_tensor((data / fmt::format("output_{}.pb", i)).string());
    if (!tensor || !loaded.model.outputs[i].is_tensor)
      return tl::unexpected<std::string>("not a tensor");
    if (!tensor->dtype) return tl::unexpected<std::string>("element type");
    loaded.outputs.push_back(std::move(*tensor));
  }
  return loaded;
}

// Inputs of the model that have to be initializers; all of them when `everything`.
std::set<std::string> known_inputs(const Case& test, bool everything) {
  std::set<std::string> names;
  for (const OnnxNode& node : test.model.nodes) {
    const auto listed = kKnownInputs.find(node.op_type);
    const bool only_folds = find_conversion(node.op_type) == nullptr || node.op_type == "GatherND";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool in_list = listed != kKnownInputs.end() &&
                           std::count(listed->second.begin(), listed->second.end(), i) > 0;
      if (!node.inputs[i].empty() && (everything || only_folds || in_list))
        names.insert(node.inputs[i]);
    }
  }
  return names;
}

// The case's model with some inputs turned into constants.
OnnxModel with_constants(const Case& test, const std::set<std::string>& known) {
  OnnxModel model = test.model;
  for (OnnxValueInfo& input : model.inputs) {
    const OnnxTensor& tensor = test.inputs.at(input.name);
    input.dims.clear();
    input.has_shape = true;
    for (int64_t dim : tensor.dims) input.dims.emplace_back(sym::Expr(dim));
    input.dim_text.assign(tensor.dims.size(), "");
    if (!known.contains(input.name)) continue;
    OnnxTensor constant = tensor;
    constant.name = input.name;
    model.initializers.push_back(std::move(constant));
    model.value_info[input.name].kind = "CONSTANT_TENSOR";
  }
  return model;
}

Result<ref::Tensor> to_ref(const OnnxTensor& tensor) {
  return ref::from_bytes(*tensor.dtype, tensor.dims, tensor.bytes, tensor.name);
}

// The executor computes and keeps narrow floats in a wider type: bf16 is compared at its own
// spacing.
bool close(double a, double b, DType dtype) {
  if (std::isnan(b)) return std::isnan(a);
  if (std::isinf(b)) return a == b;
  return std::fabs(a - b) <= 1e-7 + (dtype == DType::kBF16 ? 0x1p-7 : 1e-3) * std::fabs(b);
}

// Empty when the two agree.
std::string difference(const ref::Tensor& got, const ref::Tensor& want) {
  if (got.dtype != want.dtype)
    return fmt::format("type {} instead of {}", name(got.dtype), name(want.dtype));
  if (got.dims != want.dims)
    return fmt::format("rank {} with {} elements instead of rank {} with {}", got.dims.size(),
                       got.count(), want.dims.size(), want.count());
  for (size_t i = 0; i < want.f.size(); ++i)
    if (!close(got.f[i], want.f[i], want.dtype))
      return fmt::format("element {} is {} instead of {}", i, got.f[i], want.f[i]);
  for (size_t i = 0; i < want.i.size(); ++i)
    if (got.i[i] != want.i[i])
      return fmt::format("element {} is {} instead of {}", i, got.i[i], want.i[i]);
  return "";
}

// Runs a converted case and compares its outputs. Empty when all agree.
Result<std::string> run(const Case& test, const ir::Graph& graph) {
  ref::Named given;
  for (const auto& [name, tensor] : test.inputs) {
    if (!graph.find_value(name)) continue;
    LT_ASSIGN(given[name], to_ref(tensor));
  }
  LT_ASSIGN(const ref::Values values, ref::interpret(graph, given));
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    const auto value = graph.find_value(test.model.outputs[i].name);
    if (!value) return fmt::format("output {} is missing", test.model.outputs[i].name);
    LT_ASSIGN(const ref::Tensor want, to_ref(test.outputs[i]));
    const std::string wrong = difference(values.at(*value), want);
    if (!wrong.empty()) return fmt::format("output {}: {}", i, wrong);
  }
  return std::string();
}

std::string refusal_reason(const std::string& label, const std::string& message) {
  const std::string cause = message.substr(std::min(message.size(), label.size() + 2));
  for (const Refusal& refusal : kRefusals)
    if (std::regex_match(cause, std::regex(refusal.pattern))) return refusal.reason;
  return "";
}

bool is_random(const Case& test) {
  for (const OnnxNode& node : test.model.nodes) {
    if (node.op_type.starts_with("Random") || node.op_type == "Bernoulli") return true;
    if (node.op_type == "Dropout" && node.inputs.size() > 2) return true;
  }
  return false;
}

void try_case(const Case& test, bool everything, Tally& tally) {
  const auto graph = graph_of(with_constants(test, known_inputs(test, everything)), {});
  const std::string label = test.name + (everything ? " (folded)" : "");
  if (!graph) {
    const std::string reason = refusal_reason(test.name, graph.error().message);
    if (reason.empty())
      tally.failures.push_back(fmt::format("{}: {}", label, graph.error().message));
    if (!reason.empty() && reason != "op not taken")
      tally.refusals.push_back(graph.error().message);
    ++tally.skipped[reason.empty() ? "failed" : reason];
    return;
  }
  ++tally.run;
  const auto outcome = run(test, *graph);
  if (outcome && outcome->empty()) {
    ++tally.passed;
    if (test.model.nodes.size() == 1) ++tally.passed_ops[test.model.nodes[0].op_type];
  } else {
    tally.failures.push_back(
        fmt::format("{}: {}", label, outcome ? *outcome : outcome.error().message));
  }
}

// The summary, printed and kept as properties of the test, which its JUnit XML carries.
void report(const Tally& tally) {
  std::string skipped;
  int skips = 0;
  for (const auto& [reason, count] : tally.skipped) {
    skipped += fmt::format("{}{} {}", skipped.empty() ? "" : ", ", count, reason);
    skips += count;
    std::string key = "skipped_" + reason;
    std::replace(key.begin(), key.end(), ' ', '_');
    testing::Test::RecordProperty(key, count);
  }
  testing::Test::RecordProperty("run", tally.run);
  testing::Test::RecordProperty("passed", tally.passed);
  testing::Test::RecordProperty("skipped", skips);
  testing::Test::RecordProperty("ops_with_passing_cases",
                                static_cast<int>(tally.passed_ops.size()));
  std::cout << fmt::format("ONNX node cases: {} run, {} passed, {} skipped ({})\n", tally.run,
                           tally.passed, skips, skipped);
  std::cout << fmt::format("ops with passing cases of their own: {}\n", tally.passed_ops.size());
  if (std::getenv("LOWTIDE_ONNX_NODE_VERBOSE") == nullptr) return;
  for (const std::string& refusal : tally.refusals) std::cout << "refused " << refusal << "\n";
  for (const auto& [op, count] : tally.passed_ops) std::cout << fmt::format("{} {}\n", op, count);
}

// Every op with a conversion, by name; those of the peepholes' own domain are not ONNX's.
std::vector<std::string> converted_ops() {
  std::vector<std::string> ops;
  for (const std::span<const ConvertRow> family :
       {elementwise_conversions(), product_conversions(), network_conversions(),
        reduction_conversions(), movement_conversions(), attention_conversions()})
    for (const ConvertRow& row : family)
      if (row.op_type != "Silu") ops.emplace_back(row.op_type);
  return ops;
}

TEST(OnnxNodeCases, RunOnTheReferenceExecutor) {
  const auto folder = cases_folder();
  if (!folder || !fs::exists(*folder))
    GTEST_SKIP() << "no ONNX node cases; set LOWTIDE_ONNX_NODE_TESTS";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(*folder)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  Tally tally;
  for (const fs::path& path : folders) {
    const auto test = load(path);
    if (!test) {
      ++tally.skipped[test.error()];
      continue;
    }
    if (is_random(*test)) {
      ++tally.skipped["random"];
      continue;
    }
    try_case(*test, false, tally);
    const bool foldable =
        std::all_of(test->model.nodes.begin(), test->model.nodes.end(), [](const OnnxNode& node) {
          return is_folded(node.op_type) && find_conversion(node.op_type) != nullptr;
        });
    if (foldable) try_case(*test, true, tally);
  }
  report(tally);
  EXPECT_GE(tally.passed, kLeastPassed);
  EXPECT_EQ(tally.passed, tally.run);
  for (const std::string& op : converted_ops()) {
    EXPECT_NE(find_signature(op), nullptr) << op << " has no signature";
    EXPECT_NE(tally.passed_ops.contains(op), kNoCase.contains(op))
        << op
        << (kNoCase.contains(op) ? " is listed as without cases but passes some"
                                 : " has no passing case");
  }
  for (const std::string& failure : tally.failures) ADD_FAILURE() << failure;
}

}  // namespace
}  // namespace lowtide::io

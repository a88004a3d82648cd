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
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "exec/ref/interpreter.h"
#include "exec/ref/tensor.h"
#include "io/convert.h"
#include "io/convert_indexing.h"
#include "io/convert_recurrent.h"
#include "io/host_eval.h"
#include "io/onnx_ops.h"
#include "io/onnx_peephole.h"
#include "io/onnx_signatures.h"
#include "io/onnx_wire.h"
#include "io/testing/onnx_tensor.h"

namespace lowtide::io {
namespace {

namespace fs = std::filesystem;

// Inputs that must be known when the model is read, by op.
const std::map<std::string, std::vector<size_t>, std::less<>> kKnownInputs = {
    {"Reshape", {1}},    {"Squeeze", {1}},         {"Unsqueeze", {1}},    {"Slice", {1, 2, 3, 4}},
    {"Split", {1}},      {"Expand", {1}},          {"Tile", {1}},         {"Pad", {1, 2, 3}},
    {"Trilu", {1}},      {"Clip", {1, 2}},         {"Dropout", {1, 2}},   {"ReduceSum", {1}},
    {"AffineGrid", {1}}, {"CenterCropPad", {1}},   {"Resize", {1, 2, 3}}, {"Upsample", {1}},
    {"ReduceMean", {1}}, {"ReduceMax", {1}},       {"ReduceMin", {1}},    {"ReduceL1", {1}},
    {"ReduceL2", {1}},   {"ReduceSumSquare", {1}}, {"ReduceLogSum", {1}}, {"ReduceLogSumExp", {1}},
    {"TopK", {1}},       {"OneHot", {1}},          {"CumSum", {1}},       {"CumProd", {1}},
    {"Col2Im", {1, 2}},  {"Compress", {1}},        {"MaxUnpool", {2}},
};

// Cases of 1,765 that agree. Fewer mean that cases which used to agree are refused or lost.
constexpr int kLeastAgreed = 1407;

// Converted ops that cannot have a passing case here, and why.
const std::map<std::string, std::string_view, std::less<>> kNoCase = {
    {"Not", "its cases are of opset 1, which is not read"},
    {"RandomUniformLike", "its output is drawn"},
    {"GlobalLpPool", "it has none"},
};

struct Case {
  std::string name;
  OnnxModel model;
  std::map<std::string, OnnxTensor> inputs;  // by name
  std::vector<OnnxTensor> outputs;
};

enum class Verdict : uint8_t { kAgrees, kRefused, kWrong };

struct Counts {
  std::array<int, 3> of = {};  // by verdict
};

// Cases of several nodes (function bodies written out) count under one name.
constexpr const char* kSeveral = "(several ops)";

struct Tally {
  std::map<std::string, Counts> by_op;
  std::map<std::string, int> refused;  // by reason
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
    const bool only_folds = find_conversion(node.op_type) == nullptr;
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

// What kind of refusal a message is; for the summary alone.
std::string refusal_reason(const std::string& message) {
  const auto has = [&message](const char* words) {
    return message.find(words) != std::string::npos;
  };
  if (has(": unsupported ops: ")) return "op not taken";
  if (has("known constants") || has("must be known when the model is read")) return "not known";
  if (has("not computed with") || has(" are read") || has(" has type ")) return "element type";
  return "form not taken";
}

bool is_random(const Case& test) {
  for (const OnnxNode& node : test.model.nodes)
    if (node.op_type.starts_with("Random") || node.op_type == "Bernoulli") return true;
  return false;
}

Verdict try_case(const Case& test, bool everything, Tally& tally) {
  const auto graph = graph_of(with_constants(test, known_inputs(test, everything)), {});
  const std::string label = test.name + (everything ? " (folded)" : "");
  if (!graph && graph.error().code == ErrorCode::kInput) {
    tally.refusals.push_back(graph.error().message);
    return Verdict::kRefused;
  }
  const auto outcome = graph ? run(test, *graph) : tl::unexpected<Error>(graph.error());
  if (outcome && outcome->empty()) return Verdict::kAgrees;
  tally.failures.push_back(
      fmt::format("{}: {}", label, outcome ? *outcome : outcome.error().message));
  return Verdict::kWrong;
}

// Both ways where ops can be folded and converted: wrong if either is, agreeing if either is.
Verdict try_both(const Case& test, Tally& tally) {
  const size_t refusals = tally.refusals.size();
  const Verdict converted = try_case(test, false, tally);
  const bool foldable = std::all_of(test.model.nodes.begin(), test.model.nodes.end(),
                                    [](const OnnxNode& node) { return is_folded(node.op_type); });
  const Verdict folded = foldable ? try_case(test, true, tally) : Verdict::kRefused;
  if (converted == Verdict::kWrong || folded == Verdict::kWrong) return Verdict::kWrong;
  if (converted == Verdict::kAgrees || folded == Verdict::kAgrees) {
    tally.refusals.resize(refusals);
    return Verdict::kAgrees;
  }
  tally.refusals.resize(refusals + 1);
  ++tally.refused[refusal_reason(tally.refusals.back())];
  return Verdict::kRefused;
}

// The summary, printed and kept as properties of the test, which its JUnit XML carries; the counts
// by op where LOWTIDE_ONNX_NODE_VERBOSE is set.
Counts report(const Tally& tally) {
  Counts all;
  for (const auto& [op, counts] : tally.by_op)
    for (size_t v = 0; v < 3; ++v) all.of[v] += counts.of[v];
  std::string reasons;
  for (const auto& [reason, count] : tally.refused)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, reason);
  const char* names[] = {"agree", "refused", "wrong"};
  for (size_t v = 0; v < 3; ++v) testing::Test::RecordProperty(names[v], all.of[v]);
  std::cout << fmt::format("ONNX node cases: {} agree, {} refused ({}), {} wrong\n", all.of[0],
                           all.of[1], reasons, all.of[2]);
  if (std::getenv("LOWTIDE_ONNX_NODE_VERBOSE") == nullptr) return all;
  for (const std::string& refusal : tally.refusals) std::cout << "refused " << refusal << "\n";
  for (const auto& [op, counts] : tally.by_op)
    std::cout << fmt::format("{:28} agree {:4} refused {:4} wrong {:4}\n", op, counts.of[0],
                             counts.of[1], counts.of[2]);
  return all;
}

// Every op with a conversion, by name; those of the peepholes' own domain are not ONNX's.
std::vector<std::string> converted_ops() {
  std::vector<std::string> ops;
  for (const std::span<const ConvertRow> family : conversion_families())
    for (const ConvertRow& row : family)
      if (std::ranges::find(kPeepholeOps, row.op_type) == kPeepholeOps.end())
        ops.emplace_back(row.op_type);
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
    if (!test || is_random(*test)) {
      ++tally.refused[test ? "random" : test.error()];
      ++tally.by_op[kSeveral].of[static_cast<size_t>(Verdict::kRefused)];
      continue;
    }
    const std::string op =
        test->model.nodes.size() == 1 ? test->model.nodes[0].op_type : std::string(kSeveral);
    ++tally.by_op[op].of[static_cast<size_t>(try_both(*test, tally))];
  }
  const Counts all = report(tally);
  EXPECT_GE(all.of[0], kLeastAgreed);
  EXPECT_EQ(all.of[2], 0);
  for (const std::string& op : converted_ops()) {
    EXPECT_NE(find_signature(op), nullptr) << op << " has no signature";
    const auto counts = tally.by_op.find(op);
    const bool agrees = counts != tally.by_op.end() && counts->second.of[0] > 0;
    EXPECT_NE(agrees, kNoCase.contains(op))
        << op
        << (kNoCase.contains(op) ? " is listed as without cases but agrees on some"
                                 : " has no case that agrees");
  }
  for (const std::string& failure : tally.failures) ADD_FAILURE() << failure;
}

TEST(OnnxOps, AreAllInTheReadme) {
  const auto text = read_file(LOWTIDE_SOURCE_DIR "/src/io/README.md");
  ASSERT_TRUE(text) << text.error().message;
  std::set<std::string> words;
  std::string word;
  for (const char c : *text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += c;
    else
      words.insert(std::exchange(word, ""));
  }
  for (const std::string& op : converted_ops()) EXPECT_TRUE(words.contains(op)) << op;
}

}  // namespace
}  // namespace lowtide::io

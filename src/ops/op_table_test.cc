// Every op once with numbers worked out by hand: the types of its outputs, its FLOPs, the bytes
// that it reads and writes. A row without a case fails EveryKindHasACase.
#include "ops/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "ops/row.h"
#include "ops/testing/instance_text.h"

namespace lowtide::ops {
namespace {

using D = ir::Dims;

struct Case {
  std::string kind;
  ir::Attrs attrs;
  std::string inputs;
  std::string outputs;
  int64_t flops, bytes_read, bytes_written;
};

// Six elements of four bytes each way; per element what the kind costs.
void add_elementwise(std::vector<Case>& cases) {
  const std::vector<std::pair<const char*, int64_t>> unary = {
      {"Relu", 1},  {"Sigmoid", 4},  {"Tanh", 1},       {"Erf", 1},   {"Exp", 1},   {"Log", 1},
      {"Sqrt", 1},  {"Neg", 1},      {"Reciprocal", 1}, {"Abs", 1},   {"Tan", 1},   {"Sinh", 1},
      {"Cosh", 1},  {"Asin", 1},     {"Acos", 1},       {"Atan", 1},  {"Asinh", 1}, {"Acosh", 1},
      {"Atanh", 1}, {"Sin", 1},      {"Cos", 1},        {"Floor", 1}, {"Ceil", 1},  {"Round", 1},
      {"Sign", 1},  {"Softplus", 3}, {"HardSwish", 5},  {"Mish", 5},  {"Gelu", 5},  {"Silu", 5},
      {"Clip", 2}};
  for (const auto& [kind, cost] : unary)
    cases.push_back({kind, {}, "f32[2,3]", "f32[2,3]", 6 * cost, 24, 24});
  cases.push_back({"LeakyRelu", {{"alpha", 0.1}}, "f32[2,3]", "f32[2,3]", 12, 24, 24});
  cases.push_back({"Elu", {{"alpha", 0.1}}, "f32[2,3]", "f32[2,3]", 24, 24, 24});
  const ir::Attrs line = {{"alpha", 0.2}, {"beta", 0.5}};
  cases.push_back({"HardSigmoid", line, "f32[2,3]", "f32[2,3]", 24, 24, 24});
  cases.push_back({"HardSigmoidGrad", line, "f32[2,3] f32[2,3]", "f32[2,3]", 24, 48, 24});
  cases.push_back({"PowScalar", {{"exponent", 2.0}}, "f32[2,3]", "f32[2,3]", 6, 24, 24});
  cases.push_back(
      {"AffineScalar", {{"scale", 2.0}, {"shift", 1.0}}, "f32[2,3]", "f32[2,3]", 12, 24, 24});
  cases.push_back({"Not", {}, "bool[2,3]", "bool[2,3]", 6, 6, 6});
  cases.push_back({"IsNaN", {}, "f32[2,3]", "bool[2,3]", 6, 24, 6});
  cases.push_back({"Cast", {{"to", std::string("i64")}}, "f32[2,3]", "i64[2,3]", 6, 24, 48});
  cases.push_back({"BitCast", {{"to", std::string("i32")}}, "f32[2,3]", "i32[2,3]", 0, 24, 24});
  cases.push_back({"Copy", {}, "f32[2,3]", "f32[2,3]", 0, 24, 24});
  for (const char* kind : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod"})
    cases.push_back({kind, {}, "f32[2,3] f32[3]", "f32[2,3]", 6, 36, 24});
  cases.push_back({"LogAddExp", {}, "f32[2,3] f32[3]", "f32[2,3]", 24, 36, 24});
  for (const char* kind : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    cases.push_back({kind, {}, "f32[2,1] f32[1,3]", "bool[2,3]", 6, 20, 6});
  for (const char* kind : {"And", "Or", "Xor"})
    cases.push_back({kind, {}, "bool[2,3] bool[3]", "bool[2,3]", 6, 9, 6});
  for (const char* kind : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "ShiftLeft", "ShiftRight"})
    cases.push_back({kind, {}, "i16[2,3] i16[3]", "i16[2,3]", 6, 18, 12});
  cases.push_back({"Where", {}, "bool[2,3] f32[2,3] f32[2,3]", "f32[2,3]", 6, 54, 24});
  const std::vector<std::pair<const char*, int64_t>> gradients = {
      {"ReluGrad", 1},  {"SigmoidGrad", 3}, {"TanhGrad", 3}, {"GeluGrad", 9},
      {"SiluGrad", 8},  {"ErfGrad", 5},     {"ClipGrad", 3}, {"HardSwishGrad", 5},
      {"MishGrad", 12}, {"SoftplusGrad", 5}};
  for (const auto& [kind, cost] : gradients)
    cases.push_back({kind, {}, "f32[2,3] f32[2,3]", "f32[2,3]", 6 * cost, 48, 24});
  cases.push_back({"LeakyReluGrad", {{"alpha", 0.1}}, "f32[6] f32[6]", "f32[6]", 12, 48, 24});
  cases.push_back({"EluGrad", {{"alpha", 0.1}}, "f32[6] f32[6]", "f32[6]", 24, 48, 24});
  cases.push_back(
      {"Dropout", {{"ratio", 0.5}, {"stream", int64_t{1}}}, "f32[2,3]", "f32[2,3]", 12, 24, 24});
  cases.push_back({"RandomUniform",
                   {{"low", 0.0}, {"high", 1.0}, {"stream", int64_t{1}}},
                   "f32[2,3]",
                   "f32[2,3]",
                   12,
                   0,
                   24});
}

void add_products(std::vector<Case>& cases) {
  // 2*4*3 results, 5 products each; one addition for the bias.
  cases.push_back({"MatMul", {}, "f32[2,4,5] f32[5,3] f32[3]", "f32[2,4,3]", 264, 232, 96});
  cases.push_back({"MatMul",
                   {{"trans_a", int64_t{1}}, {"trans_b", int64_t{1}}},
                   "f32[5,4] f32[3,5]",
                   "f32[4,3]",
                   120,
                   140,
                   48});
  // 2 images, 2 groups, 3 outputs and 2 inputs per group, 3*3 positions, 3*3 taps, 2 operations.
  const ir::Attrs window = {{"strides", D{2, 2}}, {"pads", D{1, 1, 1, 1}}, {"group", int64_t{2}}};
  cases.push_back({"Conv", window, "f32[2,4,5,5] f32[6,2,3,3]", "f32[2,6,3,3]", 3888, 1232, 432});
  ir::Attrs backward = window;
  backward["output_spatial"] = D{5, 5};
  cases.push_back(
      {"ConvDataGrad", backward, "f32[2,6,3,3] f32[6,2,3,3]", "f32[2,4,5,5]", 3888, 864, 800});
  ir::Attrs weights = window;
  weights["kernel"] = D{3, 3};
  cases.push_back({"ConvWgtGrad", weights, "f32[2,4,5,5] f32[2,6,3,3] f32[6,2,3,3]", "f32[6,2,3,3]",
                   3888 + 108, 1664, 432});
}

void add_normalisations(std::vector<Case>& cases) {
  const ir::Attrs epsilon = {{"epsilon", 1e-5}};
  const ir::Attrs last = {{"axis", int64_t{1}}, {"epsilon", 1e-5}};
  const ir::Attrs axis = {{"axis", int64_t{1}}};
  cases.push_back({"BatchNormTrain", epsilon, "f32[2,3,4] f32[3] f32[3]",
                   "f32[2,3,4] f32[3] f32[3]", 144, 120, 120});
  cases.push_back({"BatchNormInference", epsilon, "f32[2,3,4] f32[3] f32[3] f32[3] f32[3]",
                   "f32[2,3,4]", 48, 144, 96});
  cases.push_back({"BatchNormGrad", epsilon, "f32[2,3,4] f32[2,3,4] f32[3] f32[3] f32[3]",
                   "f32[2,3,4] f32[3] f32[3]", 216, 228, 120});
  const ir::Attrs count = {{"count", int64_t{8}}};
  cases.push_back({"BatchMean", count, "f32[2,3,4]", "f32[3]", 24, 96, 12});
  cases.push_back({"BatchVariance", count, "f32[2,3,4] f32[3]", "f32[3]", 72, 108, 12});
  cases.push_back({"BatchNormGradSums", epsilon, "f32[2,3,4] f32[2,3,4] f32[3] f32[3]",
                   "f32[3] f32[3]", 96, 216, 24});
  cases.push_back({"BatchNormGradData",
                   {{"epsilon", 1e-5}, {"count", int64_t{8}}},
                   "f32[2,3,4] f32[2,3,4] f32[3] f32[3] f32[3] f32[3] f32[3]",
                   "f32[2,3,4]",
                   120,
                   252,
                   96});
  cases.push_back({"RunningUpdate", {{"momentum", 0.1}}, "f32[3] f32[3]", "f32[3]", 12, 24, 12});
  cases.push_back({"LayerNorm", last, "f32[2,4] f32[4]", "f32[2,4] f32[2] f32[2]", 64, 48, 48});
  cases.push_back({"LayerNormGrad", last, "f32[2,4] f32[2,4] f32[4] f32[2] f32[2]",
                   "f32[2,4] f32[4] f32[4]", 112, 96, 64});
  cases.push_back({"RmsNorm", last, "f32[2,4] f32[4]", "f32[2,4] f32[2]", 32, 48, 40});
  cases.push_back(
      {"RmsNormGrad", last, "f32[2,4] f32[2,4] f32[4] f32[2]", "f32[2,4] f32[4]", 88, 88, 48});
  for (const char* kind : {"Softmax", "LogSoftmax"})
    cases.push_back({kind, axis, "f32[2,4]", "f32[2,4]", 40, 32, 32});
  for (const char* kind : {"SoftmaxGrad", "LogSoftmaxGrad"})
    cases.push_back({kind, axis, "f32[2,4] f32[2,4]", "f32[2,4]", 32, 64, 32});
  const ir::Attrs window = {{"size", int64_t{5}}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}};
  cases.push_back({"Lrn", window, "f32[2,4]", "f32[2,4]", 96, 32, 32});
  cases.push_back({"LrnGrad", window, "f32[2,4] f32[2,4]", "f32[2,4]", 192, 64, 32});
  const ir::Attrs norm = {{"axis", int64_t{1}}, {"p", int64_t{2}}};
  cases.push_back({"LpNormalize", norm, "f32[2,4]", "f32[2,4]", 24, 32, 32});
  cases.push_back({"LpNormalizeGrad", norm, "f32[2,4] f32[2,4]", "f32[2,4]", 48, 64, 32});
  cases.push_back({"CrossEntropy", axis, "f32[2,4] i64[2]", "f32[] f32[2]", 32, 48, 12});
  cases.push_back({"CrossEntropyGrad", axis, "f32[2,4] i64[2] f32[2]", "f32[2,4]", 24, 56, 32});
  ir::Attrs part = axis;
  part["first_class"] = int64_t{4};
  part["classes"] = int64_t{9};
  cases.push_back({"CrossEntropyGrad", part, "f32[2,4] i64[2] f32[2]", "f32[2,4]", 24, 56, 32});
  cases.push_back({"LabelLogits", part, "f32[2,4] i64[2]", "f32[2]", 0, 24, 8});
  cases.push_back({"LabelLogits", axis, "f32[2,4] i64[2] f32[2]", "f32[2]", 2, 32, 8});
  cases.push_back(
      {"CrossEntropyMean", {{"classes", int64_t{9}}}, "f32[2] f32[2] i64[2]", "f32[]", 4, 32, 4});
  cases.push_back({"LabelCount", {{"classes", int64_t{9}}}, "i64[2]", "i64[]", 2, 16, 8});
  cases.push_back({"CrossEntropy", axis, "f32[2,4] i64[2] i64[]", "f32[] f32[2]", 32, 56, 12});
  cases.push_back({"MseLoss", {}, "f32[2,4] f32[2,4]", "f32[]", 24, 64, 4});
  cases.push_back({"MseLossGrad", {}, "f32[2,4] f32[2,4]", "f32[2,4]", 16, 64, 32});
}

void add_pooling(std::vector<Case>& cases) {
  const ir::Attrs window = {{"kernel", D{2, 2}}, {"strides", D{2, 2}}};
  ir::Attrs backward = window;
  backward["input_spatial"] = D{4, 4};
  cases.push_back({"MaxPool", window, "f32[1,2,4,4]", "f32[1,2,2,2] u8[1,2,2,2]", 32, 128, 40});
  cases.push_back(
      {"MaxPoolGrad", backward, "f32[1,2,2,2] u8[1,2,2,2]", "f32[1,2,4,4]", 32, 40, 128});
  cases.push_back({"MaxPoolPositions", backward, "u8[1,2,2,2]", "i64[1,2,2,2]", 8, 8, 64});
  cases.push_back({"AvgPool", window, "f32[1,2,4,4]", "f32[1,2,2,2]", 32, 128, 32});
  cases.push_back({"AvgPoolGrad", backward, "f32[1,2,2,2]", "f32[1,2,4,4]", 32, 32, 128});
  // Four blocks of 2 by 2 taps at stride 2, two channels.
  const ir::Attrs blocks = {
      {"spatial", int64_t{2}}, {"output_spatial", D{4, 4}}, {"strides", D{2, 2}}};
  cases.push_back({"Col2Im", blocks, "f32[1,2,2,2,2,2]", "f32[1,2,4,4]", 32, 128, 128});
  cases.push_back({"Col2ImGrad", window, "f32[1,2,4,4]", "f32[1,2,2,2,2,2]", 0, 128, 128});
  for (const char* kind : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})
    cases.push_back({kind, {{"axes", D{1}}}, "f32[2,3,4]", "f32[2,4]", 24, 96, 32});
  cases.push_back({"ReduceLogSumExp", {{"axes", D{1}}}, "f32[2,3,4]", "f32[2,4]", 96, 96, 32});
  cases.push_back(
      {"ReduceProdGrad", {{"axes", D{1}}}, "f32[2,4] f32[2,3,4]", "f32[2,3,4]", 72, 128, 96});
}

void add_movements(std::vector<Case>& cases) {
  cases.push_back({"Reshape", {{"shape", D{3, 4}}}, "f32[2,6]", "f32[3,4]", 0, 0, 0});
  cases.push_back({"Transpose", {{"perm", D{1, 0}}}, "f32[2,3]", "f32[3,2]", 0, 24, 24});
  cases.push_back(
      {"Slice", {{"starts", D{0, 1}}, {"sizes", D{4, 2}}}, "f32[4,6]", "f32[4,2]", 0, 32, 32});
  cases.push_back(
      {"Pad", {{"begins", D{1, 0}}, {"ends", D{0, 1}}}, "f32[2,2]", "f32[3,3]", 0, 16, 36});
  cases.push_back({"Concat", {{"axis", int64_t{1}}}, "f32[2,3] f32[2,1]", "f32[2,4]", 0, 32, 32});
  cases.push_back({"Join", {{"axis", int64_t{1}}}, "f32[1,3] f32[1,2]", "f32[1,5]", 0, 0, 0});
  cases.push_back({"Expand", {{"shape", D{2, 3}}}, "f32[3]", "f32[2,3]", 0, 12, 24});
  cases.push_back({"Gather", {{"axis", int64_t{0}}}, "f32[10,4] i64[3]", "f32[3,4]", 0, 72, 48});
  cases.push_back({"GatherGrad",
                   {{"axis", int64_t{0}}, {"dim", int64_t{10}}},
                   "f32[3,4] i64[3]",
                   "f32[10,4]",
                   12,
                   72,
                   160});
  cases.push_back({"Reorder",
                   {{"layout", std::string("perm:0231")}},
                   "f32[1,2,2,2]",
                   "f32[1,2,2,2]",
                   0,
                   32,
                   32});
  cases.push_back({"Fill",
                   {{"shape", D{2, 3}}, {"value", 0.0}, {"dtype", std::string("i64")}},
                   "",
                   "i64[2,3]",
                   0,
                   0,
                   48});
  cases.push_back({"Trilu", {{"upper", int64_t{1}}}, "f32[3,3]", "f32[3,3]", 0, 36, 36});
  cases.push_back({"SgdUpdate", {{"learning_rate", 0.1}}, "f32[6] f32[6]", "f32[6]", 36, 48, 24});
  cases.push_back(
      {"SgdUpdate", {{"learning_rate", 0.1}}, "f32[6] f32[6] f32[6]", "f32[6] f32[6]", 36, 72, 48});
  cases.push_back({"AdamWUpdate",
                   {{"learning_rate", 0.1}, {"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-8}},
                   "f32[6] f32[6] f32[6] f32[6]",
                   "f32[6] f32[6] f32[6]",
                   84,
                   96,
                   72});
}

// 2*8*8 results of 4 taps each, two operations per tap; the gradient walks dy.
void add_resampling(std::vector<Case>& cases) {
  const ir::Attrs linear = {{"axes", D{2, 3}},
                            {"sizes", D{8, 8}},
                            {"mode", std::string("linear")},
                            {"coordinates", std::string("half_pixel")}};
  cases.push_back({"Resize", linear, "f32[1,2,4,4]", "f32[1,2,8,8]", 1024, 128, 512});
  cases.push_back({"ResizeGrad", linear, "f32[1,2,4,4]", "f32[1,2,8,8]", 256, 128, 512});
  const ir::Attrs pads = {{"begins", D{0, 2}}, {"ends", D{0, 1}}, {"mode", std::string("reflect")}};
  const ir::Attrs places = {{"mode", std::string("linear")}, {"padding", std::string("zeros")}};
  cases.push_back(
      {"GridSample", places, "f32[1,2,4,4] f32[1,3,3,2]", "f32[1,2,3,3]", 144, 144, 72});
  cases.push_back({"GridSampleGrad", places, "f32[1,2,3,3] f32[1,2,4,4] f32[1,3,3,2]",
                   "f32[1,2,4,4] f32[1,3,3,2]", 432, 328, 200});
  const ir::Attrs boxes = {
      {"mode", std::string("avg")}, {"height", int64_t{2}}, {"width", int64_t{3}}};
  cases.push_back(
      {"RoiAlign", boxes, "f32[1,2,4,4] i64[5] f32[5,4]", "f32[5,2,2,3]", 480, 520, 240});
  cases.push_back({"PadRepeat", pads, "i64[2,3]", "i64[2,6]", 0, 48, 96});
  cases.push_back({"PadRepeatGrad", pads, "f32[2,6]", "f32[2,3]", 12, 48, 24});
}

void add_indexing(std::vector<Case>& cases) {
  const auto axis = [](int64_t d) { return ir::Attrs{{"axis", d}}; };
  for (const char* kind : {"ArgMax", "ArgMin"})
    cases.push_back({kind, axis(1), "f32[2,3,4]", "i64[2,4]", 24, 96, 64});
  cases.push_back({"TopK",
                   {{"axis", int64_t{1}}, {"count", int64_t{2}}},
                   "f32[3,5]",
                   "f32[3,2] i64[3,2]",
                   30,
                   60,
                   72});
  for (const char* kind : {"CumSum", "CumProd"})
    cases.push_back({kind, axis(0), "f32[2,3]", "f32[2,3]", 6, 24, 24});
  cases.push_back({"OneHot",
                   {{"axis", int64_t{1}}, {"depth", int64_t{3}}},
                   "i64[4] f32[2]",
                   "f32[4,3]",
                   0,
                   40,
                   48});
  cases.push_back({"ReverseSequence",
                   {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}},
                   "f32[4,2,3] i64[2]",
                   "f32[4,2,3]",
                   0,
                   112,
                   96});
  // Read: what is taken, and the indices.
  cases.push_back({"GatherElements", axis(0), "f32[9,3] i64[4,2]", "f32[4,2]", 0, 96, 32});
  cases.push_back(
      {"ScatterElements", axis(0), "f32[9,3] i64[4,2] f32[4,2]", "f32[9,3]", 0, 204, 108});
  cases.push_back({"GatherND",
                   {{"batch_dims", int64_t{1}}},
                   "f32[2,9,3] i64[2,4,1]",
                   "f32[2,4,3]",
                   0,
                   160,
                   96});
  cases.push_back({"ScatterND", {}, "f32[2,9,3] i32[4,2] f32[4,3]", "f32[2,9,3]", 0, 296, 216});
}

// Two steps of three sequences, four units.
void add_recurrent(std::vector<Case>& cases) {
  const auto attrs = [](std::string words) {
    return ir::Attrs{{"direction", std::string("forward")}, {"activations", std::move(words)}};
  };
  const ir::Attrs lstm = attrs("sigmoid+tanh+tanh"), gru = attrs("sigmoid+tanh");
  const std::string lstm_out = "f32[2,3,4] f32[1,3,4] f32[1,3,4]",
                    gru_out = "f32[2,3,4] f32[1,3,4]";
  cases.push_back({"Lstm", lstm, "f32[2,3,16] f32[1,16,4]", lstm_out, 768, 640, 192});
  cases.push_back({"LstmTrain", lstm, "f32[2,3,16] f32[1,16,4]",
                   lstm_out + " f32[2,3,16] f32[2,3,4]", 768, 640, 672});
  cases.push_back({"LstmGrad", lstm, "- - - f32[2,3,4] f32[2,3,16] f32[2,3,4] f32[1,16,4]",
                   "f32[2,3,16] f32[1,16,4] f32[1,3,4] f32[1,3,4]", 1536, 832, 736});
  cases.push_back({"Gru", gru, "f32[2,3,12] f32[1,12,4]", gru_out, 576, 480, 144});
  cases.push_back({"GruTrain", gru, "f32[2,3,12] f32[1,12,4]", gru_out + " f32[2,3,12] f32[2,3,4]",
                   576, 480, 528});
  cases.push_back({"GruGrad", gru, "- - f32[2,3,4] f32[2,3,12] f32[2,3,4] f32[1,12,4]",
                   "f32[2,3,12] f32[1,12,4] f32[1,3,4]", 1152, 672, 528});
  cases.push_back({"Rnn", attrs("relu"), "f32[2,3,4] f32[1,4,4]", gru_out, 192, 160, 144});
  cases.push_back({"RnnGrad", attrs("relu"), "- - f32[2,3,4] f32[1,4,4]",
                   "f32[2,3,4] f32[1,4,4] f32[1,3,4]", 384, 160, 208});
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> made;
    add_elementwise(made);
    add_products(made);
    add_normalisations(made);
    add_pooling(made);
    add_movements(made);
    add_resampling(made);
    add_indexing(made);
    add_recurrent(made);
    return made;
  }();
  return cases;
}

TEST(OpTable, EveryKindHasACase) {
  std::set<std::string_view> covered;
  for (const Case& c : all_cases()) covered.insert(c.kind);
  for (std::string_view kind : kinds()) EXPECT_TRUE(covered.contains(kind)) << kind;
}

TEST(OpTable, InfersTypesAndCounts) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.kind);
    const Example example(c.kind, c.attrs, c.inputs);
    EXPECT_EQ(inferred(example), c.outputs);
    const auto cost = work(example.instance());
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->flops, sym::Expr(c.flops)) << sym::print(cost->flops);
    EXPECT_EQ(cost->bytes_read, sym::Expr(c.bytes_read)) << sym::print(cost->bytes_read);
    EXPECT_EQ(cost->bytes_written, sym::Expr(c.bytes_written)) << sym::print(cost->bytes_written);
  }
}

// Pieces are not walked one within the other, nor are dims that a Reshape couples, and an empty
// tensor has no element however large its other dims are.
TEST(OpTable, WorkOfWhatFitsDoesNotOverflow) {
  std::string pieces, many;
  for (int i = 0; i < 8; ++i) pieces += "f32[4096,1000] ";
  for (int i = 0; i < 64; ++i) many += "f32[4096,1000] ";
  const Case cases[] = {
      {"Concat", {{"axis", int64_t{1}}}, pieces, "", 0, 131'072'000, 131'072'000},
      {"Concat", {{"axis", int64_t{1}}}, many, "", 0, 1'048'576'000, 1'048'576'000},
      {"Reshape", {{"shape", D{99'991, 100'003}}}, "f32[100003,99991]", "", 0, 0, 0},
      {"Relu", {}, "f32[4294967296,4294967296,0]", "", 0, 0, 0},
      {"Add", {}, "f32[4294967296,4294967296,0] f32[4294967296,4294967296,0]", "", 0, 0, 0},
  };
  for (const Case& c : cases) {
    const auto cost = work(Example(c.kind, c.attrs, c.inputs).instance());
    ASSERT_TRUE(cost) << c.kind << ": " << cost.error().message;
    EXPECT_EQ(cost->flops, sym::Expr(c.flops)) << c.kind;
    EXPECT_EQ(cost->bytes_read, sym::Expr(c.bytes_read)) << c.kind;
    EXPECT_EQ(cost->bytes_written, sym::Expr(c.bytes_written)) << c.kind;
  }
}

// The product of dims as a number that does not overflow here; -1: one is negative or unknown.
__int128 elements(const D& dims) {
  __int128 product = 1;
  for (const sym::Expr& dim : dims) {
    const auto extent = dim.constant();
    if (!extent || *extent < 0) return -1;
    product *= *extent;
    if (product > __int128{1} << 62) return __int128{1} << 62;
  }
  return product;
}

// What a slice reads lies within its operand, and what a window skips is counted in 32 bits.
void expect_places_within(const Signature& signature, const Instance& instance) {
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    if (!signature.inputs[i]) continue;
    for (size_t d = 0; d < signature.inputs[i]->size(); ++d) {
      const DimIndex& dim = (*signature.inputs[i])[d];
      const auto number = [](const sym::Expr& expr) { return __int128{expr.constant().value()}; };
      const auto extent = [&](size_t axis) {
        return number(*signature.axes[static_cast<size_t>(dim.axes[axis])].extent);
      };
      if (dim.form == LinkKind::kWindow) {
        for (const sym::Expr* each : {&dim.stride, &dim.dilation, &dim.pad_low, &dim.pad_high})
          EXPECT_LT(std::abs(*each->constant()), int64_t{1} << 31);
      } else if (dim.form == LinkKind::kShift && !dim.pads && extent(0) > 0) {
        const __int128 begin = -number(dim.pad_low);
        EXPECT_TRUE(begin >= 0 && begin + (extent(0) - 1) * number(dim.stride) <
                                      number(instance.inputs[i]->dims[d]));
      }
    }
  }
}

void try_numbers(const Case& c, const ir::Attrs& attrs) {
  const Example example(c.kind, attrs, c.inputs);
  const auto bound = bind_anew(example.instance());
  if (!bound || !bound->outputs) return;
  for (const OutputType& output : *bound->outputs) {
    const __int128 count = elements(output.type.dims);
    EXPECT_TRUE(count >= 0 && count < __int128{1} << 62) << print(output.type);
  }
  expect_places_within(bound->signature, example.instance());
  const auto cost = work(example.instance());
  if (cost) {
    EXPECT_GE(cost->flops.constant().value_or(0), 0);
  }
}

// An attribute may be any number that a file has: it is refused, or all that follows from it is
// computed right.
TEST(OpTable, ExtremeNumbersAreRefusedOrFit) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const int64_t extremes[] = {kLeast,
                              kLeast + 1,
                              -(int64_t{1} << 62),
                              -(int64_t{1} << 32),
                              -1,
                              0,
                              int64_t{1} << 31,
                              (int64_t{1} << 62) - 1,
                              int64_t{1} << 62,
                              std::numeric_limits<int64_t>::max()};
  for (const Case& c : all_cases())
    for (const auto& [name, value] : c.attrs)
      for (const int64_t extreme : extremes) {
        SCOPED_TRACE(fmt::format("{}, {} = {}", c.kind, name, extreme));
        ir::Attrs attrs = c.attrs;
        if (std::holds_alternative<int64_t>(value)) {
          attrs[name] = extreme;
          try_numbers(c, attrs);
        } else if (const D* list = std::get_if<D>(&value)) {
          for (size_t i = 0; i < list->size(); ++i) {
            D changed = *list;
            changed[i] = extreme;
            attrs[name] = changed;
            try_numbers(c, attrs);
          }
        }
      }
}

TEST(OpTable, RowsAreWellFormed) {
  for (std::string_view kind : kinds()) {
    SCOPED_TRACE(kind);
    const Row& row = *find(kind);
    EXPECT_NE(row.axes.empty(), row.compute == nullptr);
    const OperandWords types = parse_words(row.types), layouts = parse_words(row.layouts);
    EXPECT_EQ(types.inputs.size(), layouts.inputs.size());
    EXPECT_EQ(types.outputs.size(), layouts.outputs.size());
    EXPECT_EQ(traits(row).has_effect, !row.updates.empty());
    EXPECT_TRUE(traits(row).gradient.empty() || traits(row).gradient == kind);
    const auto is_position = [](std::string_view word) { return word == "i" || word == "l"; };
    EXPECT_EQ(row.positions.empty(),
              std::none_of(types.inputs.begin(), types.inputs.end(), is_position));
    if (row.axes.empty()) continue;
    const auto pattern = parse_pattern(row.axes);
    ASSERT_TRUE(pattern) << pattern.error().message;
    EXPECT_EQ(pattern->inputs.size(), types.inputs.size());
    EXPECT_EQ(pattern->outputs.size(), types.outputs.size());
  }
  EXPECT_EQ(find("NoSuchOp"), nullptr);
}

TEST(OpTable, IsWhatTheDocumentLists) {
  std::ifstream file(LOWTIDE_SOURCE_DIR "/docs/ops.md");
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string> words;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("| ")) continue;
    std::istringstream cell(line.substr(2, line.find('|', 2) - 2));
    for (std::string word; cell >> word;) words.insert(word);
  }
  for (std::string_view kind : kinds()) EXPECT_TRUE(words.contains(std::string(kind))) << kind;
  for (const std::string& word : words)
    if (word != "op" && std::isupper(static_cast<unsigned char>(word[0]))) {
      EXPECT_NE(find(word), nullptr) << word;
    }
}

}  // namespace
}  // namespace lowtide::ops

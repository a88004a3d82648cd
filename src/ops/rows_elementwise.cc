// Rows of the elementwise ops: every output element depends on one element of each input. FLOPs per
// element count each addition, multiplication, comparison and elementary function as one.
#include <fmt/format.h>

#include <vector>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

constexpr std::string_view kOne = "a.. -> a..";
constexpr std::string_view kTwo = "a.., a.. -> a..";

Row unary(std::string_view kind, int64_t flops, std::string_view attrs = "",
          bool differentiable = true) {
  return {.kind = kind,
          .axes = kOne,
          .types = "T -> T",
          .layouts = "x -> x",
          .attrs = attrs,
          .in_place = "0<-0",
          .flops = flops,
          .traits = {.gradient = differentiable ? kind : ""}};
}

// Also defined on integers.
Row numeric(std::string_view kind, int64_t flops, std::string_view attrs = "") {
  Row row = unary(kind, flops, attrs);
  row.types = "N -> N";
  return row;
}

Row binary(std::string_view kind, std::string_view types, std::string_view in_place,
           bool differentiable) {
  return {.kind = kind,
          .axes = kTwo,
          .types = types,
          .layouts = "x x -> x",
          .in_place = in_place,
          .broadcast = true,
          .flops = 1,
          .traits = {.gradient = differentiable ? kind : ""}};
}

// From dy and the forward op's input or output. ReluGrad may overwrite dy only.
Row gradient(std::string_view kind, int64_t flops, std::string_view attrs = "",
             std::string_view in_place = "0<-0 0<-1") {
  return {.kind = kind,
          .axes = kTwo,
          .types = "T T -> T",
          .layouts = "x x -> x",
          .attrs = attrs,
          .in_place = in_place,
          .flops = flops};
}

Status check_dropout(const Instance& instance) {
  LT_ASSIGN(const double ratio, real_attr(instance, "ratio"));
  if (ratio >= 0 && ratio < 1) return {};
  return error(ErrorCode::kInput, fmt::format("Dropout: ratio {} is not in [0, 1)", ratio));
}

Status check_gelu(const Instance& instance) {
  LT_ASSIGN(const std::string word, word_attr(instance, "approximate", "none"));
  if (word == "none" || word == "tanh") return {};
  return error(ErrorCode::kInput,
               fmt::format("{}: approximate is {}, not none or tanh", instance.kind, word));
}

// Of the bits of other types few are a bool's.
Status check_bit_cast(const Instance& instance) {
  LT_ASSIGN(const std::string word, word_attr(instance, "to"));
  const auto to = parse_dtype(word);
  if (!to || instance.inputs.empty() || !instance.inputs[0]) return {};  // said elsewhere
  const DType from = instance.inputs[0]->dtype;
  if (size_bytes(*to) == size_bytes(from) && (*to != DType::kBool || from == DType::kBool))
    return {};
  return error(ErrorCode::kInput,
               fmt::format("BitCast: the bits of {} are not those of {}", name(from), name(*to)));
}

void add_unary(std::vector<Row>& rows) {
  for (std::string_view kind : {"Relu", "Abs", "Neg", "Sign"}) rows.push_back(numeric(kind, 1));
  for (std::string_view kind : {"Tanh", "Erf", "Exp", "Log", "Reciprocal", "Sin", "Cos"})
    rows.push_back(unary(kind, 1));
  rows.push_back(unary("Sqrt", 1, "norm:int?"));
  for (std::string_view kind :
       {"Tan", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"})
    rows.push_back(unary(kind, 1));
  for (std::string_view kind : {"Floor", "Ceil"}) rows.push_back(unary(kind, 1, "", false));
  rows.push_back(unary("Round", 1, "straight:int?", false));
  rows.push_back(unary("Sigmoid", 4));
  rows.push_back(unary("Softplus", 3));
  rows.push_back(unary("HardSwish", 5));
  rows.push_back(unary("Mish", 5));
  rows.push_back(unary("Silu", 5));
  rows.push_back(unary("LeakyRelu", 2, "alpha:real"));
  rows.push_back(unary("Elu", 4, "alpha:real"));
  rows.push_back(unary("HardSigmoid", 4, "alpha:real beta:real"));
  rows.push_back(unary("Gelu", 5, "approximate:word?"));
  rows.back().check = check_gelu;
  rows.push_back(numeric("Clip", 2, "min:real? max:real? open:int?"));
  rows.push_back(numeric("PowScalar", 1, "exponent:real"));
  rows.push_back(numeric("AffineScalar", 2, "scale:real shift:real"));
  for (Row& row : rows)
    if (row.kind == "Sign") row.traits.gradient = "";
}

void add_type_changing(std::vector<Row>& rows) {
  rows.push_back({.kind = "Not",
                  .axes = kOne,
                  .types = "b -> b",
                  .layouts = "x -> x",
                  .in_place = "0<-0",
                  .flops = 1});
  rows.push_back(
      {.kind = "IsNaN", .axes = kOne, .types = "T -> b", .layouts = "x -> x", .flops = 1});
  rows.push_back({.kind = "Cast",
                  .axes = kOne,
                  .types = "* -> @to",
                  .layouts = "x -> x",
                  .attrs = "to:word",
                  .in_place = "0<-0",
                  .flops = 1,
                  .traits = {.carries = true, .gradient = "Cast"}});
  rows.push_back({.kind = "BitCast",
                  .axes = kOne,
                  .types = "* -> @to",
                  .layouts = "x -> x",
                  .attrs = "to:word",
                  .in_place = "0<-0",
                  .check = check_bit_cast});
  rows.push_back({.kind = "Copy",
                  .axes = kOne,
                  .types = "U -> U",
                  .layouts = "x -> x",
                  .traits = {.carries = true, .gradient = "Copy"}});
}

void add_binary(std::vector<Row>& rows) {
  for (std::string_view kind : {"Add", "Sub", "Mul", "Div", "Max", "Min"})
    rows.push_back(binary(kind, "N N -> N", "0<-0 0<-1", true));
  for (Row& row : rows)
    if (row.kind == "Max" || row.kind == "Min") row.attrs = "first:int?";
  rows.push_back(binary("LogAddExp", "T T -> T", "0<-0 0<-1", false));
  rows.back().flops = 4;
  rows.push_back(binary("Pow", "N N -> N", "0<-0", true));
  rows.push_back(binary("Mod", "N N -> N", "0<-0", false));
  rows.back().attrs = "fmod:int?";
  for (std::string_view kind : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    rows.push_back(binary(kind, "U U -> b", "", false));
  for (std::string_view kind : {"And", "Or", "Xor"})
    rows.push_back(binary(kind, "b b -> b", "0<-0 0<-1", false));
  for (std::string_view kind : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "ShiftLeft", "ShiftRight"})
    rows.push_back(binary(kind, "I I -> I", "0<-0 0<-1", false));
  rows.push_back({.kind = "Where",
                  .axes = "a.., a.., a.. -> a..",
                  .types = "b U U -> U",
                  .layouts = "x x x -> x",
                  .in_place = "0<-1 0<-2",
                  .broadcast = true,
                  .flops = 1,
                  .traits = {.carries = true, .gradient = "Where"}});
}

void add_gradients(std::vector<Row>& rows) {
  rows.push_back(gradient("ReluGrad", 1, "", "0<-0"));
  rows.push_back(gradient("SigmoidGrad", 3));
  rows.push_back(gradient("TanhGrad", 3));
  rows.push_back(gradient("GeluGrad", 9, "approximate:word?"));
  rows.back().check = check_gelu;
  rows.push_back(gradient("SiluGrad", 8));
  rows.push_back(gradient("LeakyReluGrad", 2, "alpha:real"));
  rows.push_back(gradient("EluGrad", 4, "alpha:real"));
  rows.push_back(gradient("HardSigmoidGrad", 4, "alpha:real beta:real"));
  rows.push_back(gradient("HardSwishGrad", 5));
  rows.push_back(gradient("ClipGrad", 3, "min:real? max:real? open:int?"));
  rows.push_back(gradient("SoftplusGrad", 5));
  rows.push_back(gradient("MishGrad", 12));
  rows.push_back(gradient("ErfGrad", 5));
}

void add_random(std::vector<Row>& rows) {
  rows.push_back({.kind = "Dropout",
                  .axes = kOne,
                  .types = "T -> T",
                  .layouts = "x -> x",
                  .attrs = "ratio:real stream:int whole_dims:list? part_begin:list?",
                  .in_place = "0<-0",
                  .part = PartRule::kRandom,
                  .flops = 2,
                  .check = check_dropout,
                  .traits = {.random = true, .gradient = "Dropout"}});
  rows.push_back({.kind = "RandomUniform",
                  .axes = kOne,
                  .types = "T -> T",
                  .layouts = "x -> x",
                  .attrs = "low:real high:real stream:int whole_dims:list? part_begin:list?",
                  .shape_only = 0,
                  .part = PartRule::kRandom,
                  .flops = 2,
                  .traits = {.random = true}});
}

}  // namespace

std::span<const Row> elementwise_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> made;
    add_unary(made);
    add_type_changing(made);
    add_binary(made);
    add_gradients(made);
    add_random(made);
    return made;
  }();
  return rows;
}

}  // namespace lowtide::ops

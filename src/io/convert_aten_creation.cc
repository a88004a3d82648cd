// ATen ops that make a tensor of nothing but numbers and sizes: these are known while the program
// is read, or formulas over their index.
#include <cmath>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

// Of the dims of the result.
void filled_by(AtenCall& call, double value) {
  const DType type = call.out_type();
  call.result("Expand", {call.number(value, type), call.size_list(call.out().dims)});
}

void zeros(AtenCall& call) {
  filled_by(call, 0);
}
void ones(AtenCall& call) {
  filled_by(call, 1);
}

// Numbers drawn evenly from 0 to 1, anew in every step of a training graph.
void drawn(AtenCall& call) {
  if (!call.training()) return call.fail("draws at random, which only a training graph does");
  call.result("RandomUniformLike", {call.filled(0, call.out_type(), call.out().dims)});
}

void full(AtenCall& call) {
  const std::string value = call.operand("fill_value", call.out_type());
  call.result("Expand", {value, call.size_list(call.out().dims)});
}

void scalar_tensor(AtenCall& call) {
  call.result("Identity", {call.operand("s", call.out_type())});
}

void range(AtenCall& call) {
  const DType type = call.out_type();
  const std::string start = call.has("start") ? call.operand("start", type) : call.number(0, type);
  const std::string step = call.has("step") ? call.operand("step", type) : call.number(1, type);
  call.result("Range", {start, call.operand("end", type), step});
}

// `steps` numbers from start to end.
void spaced(AtenCall& call) {
  const DType type = call.out_type();
  const double start = call.real("start", 0), end = call.real("end", 1);
  const int64_t steps = call.integer("steps", 2);
  if (steps < 1) return call.fail("fewer than 1 step");
  const double step = steps == 1 ? 0 : (end - start) / static_cast<double>(steps - 1);
  const std::string places =
      call.emit("Range", {call.size_number(0), call.size_number(steps), call.size_number(1)});
  const std::string scaled =
      call.emit("Mul", {call.cast(places, DType::kI64, type), call.number(step, type)});
  call.result("Add", {scaled, call.number(start, type)});
}

void eye(AtenCall& call) {
  const std::vector<sym::Expr> dims = call.out().dims;
  if (dims.size() != 2) return call.fail("no matrix");
  const auto places = [&](const sym::Expr& count, const std::vector<int64_t>& axis) {
    const std::string line =
        call.emit("Range", {call.size_number(0), call.size_number(count), call.size_number(1)});
    return call.emit("Unsqueeze", {line, call.integer_list(axis)});
  };
  const std::string same = call.emit("Equal", {places(dims[0], {1}), places(dims[1], {0})});
  call.result_as(same, DType::kBool);
}

constexpr AtenRow kCreationAtenRows[] = {
    {"aten.zeros.default", zeros},
    {"aten.zeros_like.default", zeros},
    {"aten.new_zeros.default", zeros},
    {"aten.empty.memory_format", zeros},
    {"aten.empty_like.default", zeros},
    {"aten.new_empty.default", zeros},
    {"aten.ones.default", ones},
    {"aten.ones_like.default", ones},
    {"aten.new_ones.default", ones},
    {"aten.rand.default", drawn},
    {"aten.rand_like.default", drawn},
    {"aten.full.default", full},
    {"aten.full_like.default", full},
    {"aten.new_full.default", full},
    {"aten.scalar_tensor.default", scalar_tensor},
    {"aten.arange.default", range},
    {"aten.arange.start", range},
    {"aten.arange.start_step", range},
    {"aten.linspace.default", spaced},
    {"aten.eye.default", eye},
    {"aten.eye.m", eye},
};

}  // namespace

std::span<const AtenRow> aten_creation_rows() {
  return kCreationAtenRows;
}

}  // namespace lowtide::io

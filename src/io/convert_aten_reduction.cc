// ATen ops that reduce dims: sums, means, extremes, norms, variances.
#include <limits>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

using sym::Expr;

struct Reduced {
  std::vector<int64_t> axes;  // empty: all
  int64_t keep = 0;
};

Reduced reduced(AtenCall& call) {
  Reduced over{call.integers("dim"), call.flag("keepdim", false) ? 1 : 0};
  const auto rank = static_cast<int64_t>(call.rank("self"));
  for (int64_t& axis : over.axes) {
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= std::max<int64_t>(rank, 1)) call.fail("a dim that is not there");
  }
  if (rank == 0) over.axes.clear();
  return over;
}

std::string reduce(AtenCall& call, std::string_view op, const std::string& x, const Reduced& over,
                   int64_t keep) {
  std::vector<std::string> inputs = {x};
  if (!over.axes.empty()) inputs.push_back(call.integer_list(over.axes));
  return call.emit(op, std::move(inputs), {{"keepdims", keep}});
}

void reduction(AtenCall& call) {
  const Reduced over = reduced(call);
  std::vector<std::string> inputs = {call.operand("self", call.out_type())};
  if (!over.axes.empty()) inputs.push_back(call.integer_list(over.axes));
  call.result(call.row().onnx, std::move(inputs), {{"keepdims", over.keep}});
}

// Whether any, or every element is true, as the largest or smallest of numbers.
void truth_of(AtenCall& call) {
  const Reduced over = reduced(call);
  const std::string number =
      call.cast(call.operand("self", DType::kBool), DType::kBool, DType::kI32);
  const std::string made = reduce(call, call.row().onnx, number, over, over.keep);
  call.result("Cast", {made}, {{"to", int64_t{9}}});
}

// Extremes along a dim, and where they are. The value is read from its place, so that all of its
// gradient goes there: amax would spread it over elements that tie.
void extreme_at(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  const int64_t keep = call.flag("keepdim", false) ? 1 : 0;
  const std::string x = call.tensor("self");
  const std::string op(call.row().onnx);
  if (call.rank("self") == 0) {
    call.result_at(0, "Identity", {x});
  } else {
    const AtenAttrs along = {{"axis", axis}, {"keepdims", int64_t{1}}};
    const std::string place = call.emit("Arg" + op, {x}, along);
    const std::string value = call.emit("GatherElements", {x, place}, {{"axis", axis}});
    if (keep != 0)
      call.result_at(0, "Identity", {value});
    else
      call.result_at(0, "Squeeze", {value, call.integer_list({axis})});
  }
  call.result_at(1, "Arg" + op, {x}, {{"axis", axis}, {"keepdims", keep}});
}

// How many elements are reduced to one.
Expr counted(AtenCall& call, const Reduced& over) {
  Expr count = 1;
  const auto& dims = call.meta("self").dims;
  if (over.axes.empty())
    for (const Expr& dim : dims) count = count * dim;
  for (const int64_t axis : over.axes)
    if (static_cast<size_t>(axis) < dims.size()) count = count * dims[static_cast<size_t>(axis)];
  return count;
}

// The sum of squared distances from the mean, by the count less `correction`.
std::string variance(AtenCall& call, int64_t keep) {
  const DType type = call.out_type();
  const Reduced over = reduced(call);
  const std::string x = call.operand("self", type);
  const std::string mean = reduce(call, "ReduceMean", x, over, 1);
  const std::string off = call.emit("Sub", {x, mean});
  const std::string squares = call.emit("Mul", {off, off});
  const double correction = call.has("correction")        ? call.real("correction", 1)
                            : call.flag("unbiased", true) ? 1
                                                          : 0;
  if (correction == 0) return reduce(call, "ReduceMean", squares, over, keep);
  const auto count = counted(call, over).constant();
  if (!count) {
    call.fail("the number of elements that it reduces must be known");
    return {};
  }
  const std::string sum = reduce(call, "ReduceSum", squares, over, keep);
  return call.emit("Div", {sum, call.number(static_cast<double>(*count) - correction, type)});
}

// The variance, or its root, which has slope 0 where all elements are equal.
void spread_at(AtenCall& call, size_t output, int64_t keep) {
  const std::string made = variance(call, keep);
  AtenAttrs attrs;
  if (call.row().onnx == "Sqrt") attrs.emplace_back("norm", int64_t{1});
  call.result_at(output, call.row().onnx, {made}, std::move(attrs));
}

void spread(AtenCall& call) {
  spread_at(call, 0, call.flag("keepdim", false) ? 1 : 0);
}

void spread_and_mean(AtenCall& call) {
  const Reduced over = reduced(call);
  spread_at(call, 0, over.keep);
  std::vector<std::string> inputs = {call.operand("self", call.out_type())};
  if (!over.axes.empty()) inputs.push_back(call.integer_list(over.axes));
  call.result_at(1, "ReduceMean", std::move(inputs), {{"keepdims", over.keep}});
}

void norm(AtenCall& call) {
  const std::string_view order = call.has("ord") ? "ord" : "p";
  const double p = call.real(order, 2);
  if (p != 1 && p != 2) return call.fail("a norm that is neither 1 nor 2");
  const Reduced over = reduced(call);
  std::vector<std::string> inputs = {call.operand("self", call.out_type())};
  if (!over.axes.empty()) inputs.push_back(call.integer_list(over.axes));
  call.result(p == 1 ? "ReduceL1" : "ReduceL2", std::move(inputs), {{"keepdims", over.keep}});
}

constexpr AtenRow kReductionAtenRows[] = {
    {"aten.sum.default", reduction, "ReduceSum"},
    {"aten.sum.dim_IntList", reduction, "ReduceSum"},
    {"aten.mean.default", reduction, "ReduceMean"},
    {"aten.mean.dim", reduction, "ReduceMean"},
    {"aten.prod.default", reduction, "ReduceProd"},
    {"aten.prod.dim_int", reduction, "ReduceProd"},
    {"aten.amax.default", reduction, "ReduceMax"},
    {"aten.amin.default", reduction, "ReduceMin"},
    {"aten.max.default", reduction, "ReduceMax"},
    {"aten.min.default", reduction, "ReduceMin"},
    {"aten.logsumexp.default", reduction, "ReduceLogSumExp"},
    {"aten.max.dim", extreme_at, "Max"},
    {"aten.min.dim", extreme_at, "Min"},
    {"aten.any.default", truth_of, "ReduceMax"},
    {"aten.any.dim", truth_of, "ReduceMax"},
    {"aten.any.dims", truth_of, "ReduceMax"},
    {"aten.all.default", truth_of, "ReduceMin"},
    {"aten.all.dim", truth_of, "ReduceMin"},
    {"aten.var.correction", spread, "Identity"},
    {"aten.var.dim", spread, "Identity"},
    {"aten.std.correction", spread, "Sqrt"},
    {"aten.std.dim", spread, "Sqrt"},
    {"aten.var_mean.correction", spread_and_mean, "Identity"},
    {"aten.var_mean.dim", spread_and_mean, "Identity"},
    {"aten.std_mean.correction", spread_and_mean, "Sqrt"},
    {"aten.std_mean.dim", spread_and_mean, "Sqrt"},
    {"aten.linalg_vector_norm.default", norm},
    {"aten.norm.ScalarOpt_dim", norm},
};

}  // namespace

std::span<const AtenRow> aten_reduction_rows() {
  return kReductionAtenRows;
}

}  // namespace lowtide::io

// Rows of the products: matrix products and convolutions, two operations per loop point. A bias is
// added once, so that of the parts of a split reduction only the first has it.
#include <fmt/format.h>

#include <vector>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

// trans_a and trans_b say how the operands are stored, so they swap the axes of the last two
// dimensions.
Result<Signature> mat_mul_axes(const Instance& instance) {
  LT_ASSIGN(const int64_t trans_a, int_attr(instance, "trans_a", 0));
  LT_ASSIGN(const int64_t trans_b, int_attr(instance, "trans_b", 0));
  const std::string text = fmt::format("b.. {}, b.. {}, n? -> b.. m n",
                                       trans_a != 0 ? "k m" : "m k", trans_b != 0 ? "n k" : "k n");
  LT_ASSIGN(const KnownPattern pattern, known_pattern(text));
  return expand(*pattern, instance, true);
}

constexpr std::string_view kWindow = "strides:list? pads:list? dilations:list? group:int?";

}  // namespace

std::span<const Row> product_rows() {
  static const std::vector<Row> rows = {
      {.kind = "MatMul",
       .compute = mat_mul_axes,
       .types = "N N N -> N",
       .layouts = "r r r -> r",
       .attrs = "trans_a:int? trans_b:int?",
       .added = "2",
       .adds_into = "0",
       .broadcast = true,
       .flops = 2,
       .traits = {.product = true, .gradient = "MatMul"}},
      {.kind = "Conv",
       .axes = "n (g:group c) (o*strides+r*dilations-pads).., (g k) c r.., (g k)? -> n (g k) o..",
       .types = "T T T -> T",
       .layouts = "x w r -> x",
       .attrs = kWindow,
       .added = "2",
       .adds_into = "0",
       .flops = 2,
       .traits = {.product = true, .gradient = "Conv"}},
      {.kind = "ConvDataGrad",
       .axes = "n (g:group k) o.., (g k) c r.., (g c)? -> "
               "n (g c) (o*strides+r*dilations-pads)..:output_spatial",
       .types = "T T T -> T",
       .layouts = "x w r -> x",
       .attrs = "strides:list? pads:list? dilations:list? group:int? output_spatial:list",
       .added = "2",
       .adds_into = "0",
       .cuts_off = [](const Instance&) { return true; },
       .flops = 2,
       .traits = {.product = true, .gradient = "ConvDataGrad"}},
      {.kind = "ConvWgtGrad",
       .axes = "n (g:group c) (o*strides+r:kernel*dilations-pads).., n (g k) o.. -> "
               "(g k) c r..",
       .types = "T T -> T",
       .layouts = "x x -> @dw_layout",
       .attrs = "strides:list? pads:list? dilations:list? group:int? kernel:list dw_layout:word?",
       .adds_into = "0",
       .flops = 2,
       .traits = {.product = true}},
  };
  return rows;
}

}  // namespace lowtide::ops

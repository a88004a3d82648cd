#include "cost/tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

namespace lowtide::cost {
namespace {

constexpr int64_t kStep = 32;  // along k: what a processor loads at once
constexpr int64_t kSlices[] = {1, 2, 4, 8, 16, 32};
constexpr double kPartialBytes = 4;  // sums are f32 whatever the operands are

int64_t up_div(int64_t number, int64_t by) {
  return (number + by - 1) / by;
}

int64_t product_of(const std::vector<int64_t>& dims, size_t from, size_t to) {
  int64_t product = 1;
  for (size_t i = from; i < to; ++i) product *= dims[i];
  return product;
}

int64_t number_attr(const plan::OpDesc& op, std::string_view name, int64_t otherwise) {
  const auto found = op.attrs.find(name);
  const auto* number = found == op.attrs.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return number == nullptr ? otherwise : *number;
}

// A weight that all of the batch shares makes one product of all rows.
ProductShape of_matmul(const plan::OpDesc& op) {
  const std::vector<int64_t>& c = op.outputs[0].dims;
  if (c.size() < 2) return {};
  ProductShape shape{.batch = product_of(c, 0, c.size() - 2), .m = c[c.size() - 2], .n = c.back()};
  const std::vector<int64_t>& b = op.inputs[1]->dims;
  const bool is_shared = b.size() < 3 || product_of(b, 0, b.size() - 2) == 1;
  if (is_shared && number_attr(op, "trans_a", 0) == 0) {
    shape.m *= shape.batch;
    shape.batch = 1;
  }
  return shape;
}

ProductShape shape_of(const plan::OpDesc& op) {
  if (op.outputs.empty() || op.inputs.size() < 2 || !op.inputs[1]) return {};
  if (op.kind == "MatMul") return of_matmul(op);
  const std::vector<int64_t>& dims = op.outputs[0].dims;
  if (dims.size() < 2) return {};
  const int64_t group = std::max<int64_t>(number_attr(op, "group", 1), 1);
  if (op.kind == "Conv" || op.kind == "ConvDataGrad")
    return {.batch = group, .m = dims[0] * product_of(dims, 2, dims.size()), .n = dims[1] / group};
  if (op.kind == "ConvWgtGrad")
    return {.batch = group, .m = dims[0] / group, .n = product_of(dims, 1, dims.size())};
  return {};
}

}  // namespace

std::optional<ProductShape> product_shape(const plan::OpDesc& op, const OpWork& work) {
  ProductShape shape = shape_of(op);
  if (shape.batch < 1 || shape.m <= 1 || shape.n <= 1) return std::nullopt;
  shape.k = work.flops / 2 / static_cast<double>(shape.batch) / static_cast<double>(shape.m) /
            static_cast<double>(shape.n);
  if (shape.k <= 1) return std::nullopt;
  return shape;
}

double tile_seconds(const ProductShape& shape, const TileRates& tiles, double bytes_per_second) {
  const double rate = tiles.flops_per_second / static_cast<double>(tiles.processors);
  const double outputs = static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                         static_cast<double>(shape.n);
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t rows : tiles.sides)
    for (const int64_t columns : tiles.sides)
      for (const int64_t slices : kSlices) {
        const int64_t count =
            shape.batch * up_div(shape.m, rows) * up_div(shape.n, columns) * slices;
        const double waves = static_cast<double>(up_div(count, tiles.processors));
        const double slice = shape.k / static_cast<double>(slices);
        const double depth = std::ceil(slice / kStep) * kStep;
        const double area = static_cast<double>(rows) * static_cast<double>(columns);
        double seconds = waves * 2 * area * depth / rate;
        if (slices > 1)
          seconds += 2 * static_cast<double>(slices) * outputs * kPartialBytes / bytes_per_second;
        best = std::min(best, seconds);
      }
  return best;
}

}  // namespace lowtide::cost

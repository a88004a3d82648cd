// Random instances of the ops that read or write at places given by data. Half of the indices are
// negative. Indices at which an op overwrites are distinct, since which of two equal ones wins is
// not said by a gradient; where it adds, multiplies or takes an extreme, and where it reads, they
// repeat.
#include <array>

#include "ops/testing/random_draw.h"

namespace lowtide::ops {
namespace {

using Kind = InputValues::Kind;

constexpr std::array<std::string_view, 5> kReductions = {"none", "add", "mul", "max", "min"};

std::vector<int64_t> extents_of(const ir::Dims& dims) {
  std::vector<int64_t> extents;
  for (const sym::Expr& dim : dims) extents.push_back(number(dim));
  return extents;
}

int64_t product(const std::vector<int64_t>& extents, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t d = begin; d < end; ++d) result *= extents[d];
  return result;
}

InputValues exactly(std::vector<double> values) {
  return {.kind = Kind::kInteger, .low = 0, .high = 1, .exact = std::move(values)};
}

double signed_place(int64_t place, int64_t extent, Rng& rng) {
  return static_cast<double>(chance(rng, 2) ? place - extent : place);
}

// One index per element: distinct ones count up from a random start along the axis.
InputValues element_indices(const ir::Dims& indices, size_t axis, int64_t extent, bool distinct,
                            Rng& rng) {
  const std::vector<int64_t> extents = extents_of(indices);
  const int64_t inner = product(extents, axis + 1, extents.size());
  const int64_t start = rng.between(0, extent - 1);
  std::vector<double> values;
  for (int64_t e = 0; e < product(extents, 0, extents.size()); ++e) {
    const int64_t place = distinct ? (start + e / inner) % extent : rng.between(0, extent - 1);
    values.push_back(signed_place(place, extent, rng));
  }
  return exactly(std::move(values));
}

void draw_elements(RandomInstance& made, bool distinct, Rng& rng) {
  const ir::Dims data = random_dims(rng, rng.between(1, 3));
  const size_t axis = rng.below(data.size());
  ir::Dims indices = data;
  for (size_t d = 0; d < data.size(); ++d)
    if (d == axis || chance(rng, 3))
      indices[d] = rng.between(1, distinct || d != axis ? number(data[d]) : 5);
  made.inputs = {Type{DType::kF32, data, {}}, Type{DType::kI64, indices, {}}};
  made.attrs["axis"] = static_cast<int64_t>(axis);
  made.values = {{}, element_indices(indices, axis, number(data[axis]), distinct, rng)};
  if (made.kind == "GatherElements") return;
  made.inputs.push_back(Type{DType::kF32, indices, {}});
  made.values.emplace_back();
}

// A tuple of indices per block: distinct ones step through the places of the data that they can
// name.
InputValues tuples(int64_t batches, int64_t count, const std::vector<int64_t>& extents,
                   bool distinct, Rng& rng) {
  const int64_t places = product(extents, 0, extents.size());
  std::vector<double> values;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t start = rng.between(0, places - 1);
    for (int64_t t = 0; t < count; ++t) {
      int64_t place = distinct ? (start + t) % places : rng.between(0, places - 1);
      for (size_t d = 0; d < extents.size(); ++d) {
        const int64_t block = product(extents, d + 1, extents.size());
        values.push_back(signed_place(place / block, extents[d], rng));
        place %= block;
      }
    }
  }
  return exactly(std::move(values));
}

void draw_tuples(RandomInstance& made, bool distinct, Rng& rng) {
  const ir::Dims data = random_dims(rng, rng.between(1, 4));
  const size_t batch = rng.below(data.size());
  const size_t width = 1 + rng.below(data.size() - batch);
  const std::vector<int64_t> all = extents_of(data);
  const std::vector<int64_t> chosen(all.begin() + static_cast<long>(batch),
                                    all.begin() + static_cast<long>(batch + width));
  const int64_t places = product(chosen, 0, width);
  const int64_t count = rng.between(1, distinct ? places : 6);
  ir::Dims lead(data.begin(), data.begin() + static_cast<long>(batch));
  const int64_t batches = product(all, 0, batch);
  if (count > 1 || chance(rng, 2)) lead.emplace_back(count);
  ir::Dims indices = lead, blocks = lead;
  indices.emplace_back(static_cast<int64_t>(width));
  blocks.insert(blocks.end(), data.begin() + static_cast<long>(batch + width), data.end());
  made.inputs = {Type{DType::kF32, data, {}}, Type{DType::kI64, indices, {}}};
  made.attrs["batch_dims"] = static_cast<int64_t>(batch);
  made.values = {{}, tuples(batches, count, chosen, distinct, rng)};
  if (made.kind == "GatherND") return;
  made.inputs.push_back(Type{DType::kF32, blocks, {}});
  made.values.emplace_back();
}

}  // namespace

bool is_indexing(std::string_view kind) {
  return kind == "GatherElements" || kind == "ScatterElements" || kind == "GatherND" ||
         kind == "ScatterND";
}

void draw_indexing(RandomInstance& made, Rng& rng) {
  bool distinct = false;
  if (made.kind.starts_with("Scatter")) {
    const std::string_view reduction = kReductions[rng.below(kReductions.size())];
    made.attrs["reduction"] = std::string(reduction);
    distinct = reduction == "none";
  }
  if (made.kind.ends_with("ND"))
    draw_tuples(made, distinct, rng);
  else
    draw_elements(made, distinct, rng);
  if (chance(rng, 2)) made.inputs[1]->dtype = DType::kI32;
}

}  // namespace lowtide::ops

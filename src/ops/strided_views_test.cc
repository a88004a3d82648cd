// Strided views by definition: a storage holds the numbers 0, 1, 2, ... and each view is read
// twice, once by its strides and offset, once by what its op means (element by element, through all
// the views that it lies on). Then who may read one, and what is refused.
#include <gtest/gtest.h>

#include <functional>

#include "base/rng.h"
#include "ops/op_table.h"

namespace lowtide::ops {
namespace {

using Index = std::vector<int64_t>;
using Meaning = std::function<int64_t(const Index&)>;  // the number in the storage

struct Read {
  Type type;
  int64_t offset_bytes = 0;
  Meaning meaning;
  Index dims;
};

Index numbers(const ir::Dims& dims) {
  Index result;
  for (const sym::Expr& dim : dims) result.push_back(*dim.constant());
  return result;
}

int64_t flat(const Index& index, const Index& dims) {
  int64_t position = 0;
  for (size_t d = 0; d < dims.size(); ++d) position = position * dims[d] + index[d];
  return position;
}

Index unflat(int64_t position, const Index& dims) {
  Index index(dims.size());
  for (size_t d = dims.size(); d-- > 0; position /= dims[d]) index[d] = position % dims[d];
  return index;
}

int64_t count_of(const Index& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

// One view more; nothing where the op cannot be one.
std::optional<Read> view_of(const Read& x, std::string_view kind, ir::Attrs attrs) {
  attrs["view"] = int64_t{1};
  const auto made = infer({.kind = kind, .attrs = &attrs, .inputs = {x.type}});
  if (!made) return std::nullopt;
  EXPECT_EQ(made->front().alias, ir::Alias::kView);
  Read y{.type = made->front().type, .offset_bytes = x.offset_bytes, .meaning = {}, .dims = {}};
  y.offset_bytes += *made->front().offset_bytes.constant();
  y.dims = numbers(y.type.dims);
  const auto list = [attrs](const char* name) {
    return numbers(std::get<ir::Dims>(attrs.find(name)->second));
  };
  const Index from = x.dims, to = y.dims;
  if (kind == "Transpose")
    y.meaning = [m = x.meaning, perm = list("perm")](const Index& at) {
      Index in(at.size());
      for (size_t d = 0; d < at.size(); ++d) in[static_cast<size_t>(perm[d])] = at[d];
      return m(in);
    };
  if (kind == "Slice")
    y.meaning = [m = x.meaning, starts = list("starts"), steps = list("steps")](const Index& at) {
      Index in(at.size());
      for (size_t d = 0; d < at.size(); ++d) in[d] = starts[d] + at[d] * steps[d];
      return m(in);
    };
  if (kind == "Expand")
    y.meaning = [m = x.meaning, from](const Index& at) {
      Index in(at.end() - static_cast<int64_t>(from.size()), at.end());
      for (size_t d = 0; d < in.size(); ++d) in[d] = from[d] == 1 ? 0 : in[d];
      return m(in);
    };
  if (kind == "Reshape")
    y.meaning = [m = x.meaning, from, to](const Index& at) {
      return m(unflat(flat(at, to), from));
    };
  return y;
}

void expect_as_meant(const Read& view, std::string_view what) {
  const Index strides = strides_of(view.type.layout, view.dims);
  EXPECT_EQ(view.type.layout, view.type.layout.order.empty() ? layout_of_strides(view.dims, strides)
                                                             : view.type.layout);
  for (int64_t i = 0; i < count_of(view.dims); ++i) {
    const Index at = unflat(i, view.dims);
    int64_t place = view.offset_bytes / 4;
    for (size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
    ASSERT_EQ(place, view.meaning(at))
        << what << " element " << i << " " << print(view.type.layout);
  }
}

// A dense value in row-major order, or in another one.
Read dense(const Index& dims, std::vector<uint8_t> order = {}) {
  Read x{.type = {DType::kF32, ir::Dims(dims.begin(), dims.end()), {}},
         .offset_bytes = 0,
         .meaning = {},
         .dims = dims};
  x.type.layout.order = std::move(order);
  const Index strides = strides_of(x.type.layout, dims);
  x.meaning = [strides](const Index& at) {
    int64_t place = 0;
    for (size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
    return place;
  };
  return x;
}

std::vector<size_t> shuffled(size_t count, Rng& rng) {
  std::vector<size_t> order;
  for (size_t d = 0; d < count; ++d)
    order.insert(order.begin() + static_cast<int64_t>(rng.below(order.size() + 1)), d);
  return order;
}

std::pair<std::string_view, ir::Attrs> drawn_view(const Index& dims, Rng& rng) {
  ir::Dims first, second, third;
  switch (rng.below(4)) {
    case 0:
      for (size_t d : shuffled(dims.size(), rng)) first.emplace_back(static_cast<int64_t>(d));
      return {"Transpose", {{"perm", first}}};
    case 1:
      for (int64_t dim : dims) {
        const int64_t start = static_cast<int64_t>(rng.below(static_cast<uint64_t>(dim)));
        const int64_t step = rng.between(1, 2);
        first.emplace_back(start);
        second.emplace_back(rng.between(1, (dim - start - 1) / step + 1));
        third.emplace_back(step);
      }
      return {"Slice", {{"starts", first}, {"sizes", second}, {"steps", third}}};
    case 2:
      if (rng.below(2) == 0 && dims.size() < 5) first.emplace_back(rng.between(1, 2));
      for (int64_t dim : dims) first.emplace_back(dim == 1 ? rng.between(1, 3) : dim);
      return {"Expand", {{"shape", first}}};
    default:
      for (size_t d = 0; d < dims.size(); ++d) {
        const bool joins = d + 1 < dims.size() && rng.below(2) == 0;
        const int64_t dim = joins ? dims[d] * dims[d + 1] : dims[d];
        if (dim % 2 == 0 && first.size() < 5 && rng.below(2) == 0) {
          first.emplace_back(2);
          first.emplace_back(dim / 2);
        } else {
          first.emplace_back(dim);
        }
        if (joins) ++d;
        if (rng.below(6) == 0 && first.size() < 5) first.emplace_back(1);
      }
      return {"Reshape", {{"shape", first}}};
  }
}

TEST(StridedViews, ChainsReadWhatTheirOpsMean) {
  int strided = 0, deep = 0, unjoined = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Index dims;
    for (int64_t left = rng.between(1, 4); left > 0; --left) dims.push_back(rng.between(1, 4));
    std::vector<uint8_t> order;
    if (rng.below(3) == 0)
      for (size_t d : shuffled(dims.size(), rng)) order.push_back(static_cast<uint8_t>(d));
    Read value = dense(dims, order);
    for (int depth = 1; depth <= 5; ++depth) {
      const auto [kind, attrs] = drawn_view(value.dims, rng);
      const auto next = view_of(value, kind, attrs);
      unjoined += !next;
      if (!next) {
        EXPECT_EQ(kind, "Reshape");  // the others always are
        continue;
      }
      expect_as_meant(*next, kind);
      if (HasFailure()) return;
      strided += next->type.layout.strided();
      deep += next->type.layout.strided() && depth > 2;
      value = *next;
    }
  }
  EXPECT_GT(strided, 500);
  EXPECT_GT(deep, 200);
  EXPECT_GT(unjoined, 20);
}

// Where numpy reshapes without a copy, so does a view: the elements follow each other evenly.
TEST(StridedViews, AReshapeThatIsRefusedHasNoStrides) {
  Read x = dense({4, 6});
  const auto columns = view_of(x, "Transpose", {{"perm", ir::Dims{1, 0}}});
  ASSERT_TRUE(columns.has_value());
  EXPECT_EQ(print(columns->type.layout), "strided:1,6");
  EXPECT_FALSE(view_of(*columns, "Reshape", {{"shape", ir::Dims{24}}}).has_value());
  const auto split = view_of(*columns, "Reshape", {{"shape", ir::Dims{2, 3, 4}}});
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(print(split->type.layout), "strided:3,1,6");
  const auto back = view_of(*columns, "Transpose", {{"perm", ir::Dims{1, 0}}});
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(back->type.layout.row_major());
}

Result<std::vector<OutputType>> inferred_on(std::string_view kind, const ir::Attrs& attrs,
                                            std::vector<std::string> layouts, ir::Dims dims) {
  Instance instance{.kind = kind, .attrs = &attrs, .inputs = {}};
  for (const std::string& text : layouts) {
    Type type{DType::kF32, dims, {}};
    EXPECT_TRUE(parse(text, type.layout)) << text;
    instance.inputs.emplace_back(std::move(type));
  }
  return infer(instance);
}

TEST(StridedViews, AreReadAndNotWritten) {
  const auto sum = inferred_on("Add", {}, {"strided:1,4", "row_major"}, {4, 4});
  ASSERT_TRUE(sum.has_value()) << sum.error().message;
  EXPECT_TRUE(sum->front().type.layout.row_major());
  const auto led = inferred_on("Add", {}, {"strided:0,1", "perm:10"}, {4, 4});
  ASSERT_TRUE(led.has_value()) << led.error().message;
  EXPECT_EQ(print(led->front().type.layout), "perm:10");
  const auto alone = inferred_on("Exp", {}, {"strided:0,1"}, {4, 4});
  ASSERT_TRUE(alone.has_value()) << alone.error().message;
  EXPECT_TRUE(alone->front().type.layout.row_major());

  const ir::Attrs none;
  Type strided{DType::kF32, {4, 4}, {}}, plain = strided;
  strided.layout.strides = {1, 4};
  EXPECT_EQ(in_place_pairs({.kind = "Add", .attrs = &none, .inputs = {strided, plain}}),
            (std::vector<std::pair<int, int>>{{1, 0}}));

  const ir::Attrs rate = {{"learning_rate", 0.1}}, rows = {{"axis", int64_t{0}}},
                  shape = {{"shape", ir::Dims{16}}},
                  word = {{"layout", std::string("strided:1,4")}};
  EXPECT_FALSE(inferred_on("SgdUpdate", rate, {"strided:1,4", "row_major"}, {4, 4}).has_value());
  EXPECT_FALSE(inferred_on("Join", rows, {"row_major", "strided:1,4"}, {4, 4}).has_value());
  EXPECT_FALSE(inferred_on("Reshape", shape, {"strided:1,4"}, {4, 4}).has_value());
  EXPECT_FALSE(inferred_on("Reorder", word, {"row_major"}, {4, 4}).has_value());
  EXPECT_FALSE(inferred_on("Exp", {}, {"strided:1,4,1"}, {4, 4}).has_value());
  EXPECT_EQ(inferred_on("Join", rows, {"row_major", "strided:1,4"}, {4, 4}).error().message,
            "Join: input 1 [4, 4] has layout strided:1,4, wanted dense values");
}

TEST(StridedViews, HaveConstantSizesAndForwardSteps) {
  const ir::Attrs swap = {{"perm", ir::Dims{1, 0}}, {"view", int64_t{1}}};
  const sym::Expr n = sym::Expr::symbol("n");
  const auto symbolic = inferred_on("Transpose", swap, {"row_major"}, {n, 4});
  ASSERT_FALSE(symbolic.has_value());
  EXPECT_NE(symbolic.error().message.find("bind its symbols"), std::string::npos);
  const ir::Attrs backwards = {{"starts", ir::Dims{3, 0}},
                               {"sizes", ir::Dims{4, 2}},
                               {"steps", ir::Dims{-1, 1}},
                               {"view", int64_t{1}}};
  EXPECT_FALSE(inferred_on("Slice", backwards, {"row_major"}, {4, 4}).has_value());
  // Without the attribute nothing changes.
  const ir::Attrs copy = {{"perm", ir::Dims{1, 0}}};
  EXPECT_EQ(inferred_on("Transpose", copy, {"row_major"}, {4, 4})->front().alias, ir::Alias::kOwn);
}

// An element that stands for many is read once; where the way through the operand leaps, each
// element brings its line with it. Elementwise ops go the way of their result, others their own.
TEST(StridedViews, CostWhatIsRead) {
  const auto read = [](std::string_view kind, const ir::Attrs& attrs,
                       std::vector<int64_t> strides) {
    Type x{DType::kF32, {64, 64}, {}};
    x.layout.strides = std::move(strides);
    const auto done = work({.kind = kind, .attrs = &attrs, .inputs = {std::move(x)}});
    EXPECT_TRUE(done.has_value());
    return done ? *done->bytes_read.constant() : 0;
  };
  const int64_t all = 4 * 64 * 64;
  const ir::Attrs none, rows = {{"axes", ir::Dims{1}}, {"keepdims", int64_t{0}}},
                        dense = {{"layout", std::string("row_major")}};
  EXPECT_EQ(read("Exp", none, {}), all);
  EXPECT_EQ(read("Exp", none, {0, 1}), 4 * 64);
  EXPECT_EQ(read("Exp", none, {1, 0}), 4 * 64);
  EXPECT_EQ(read("Exp", none, {128, 2}), 2 * all);
  EXPECT_EQ(read("Exp", none, {1, 64}), 16 * all);
  EXPECT_EQ(read("Cast", {{"to", std::string("f16")}}, {1, 64}), 16 * all);
  EXPECT_EQ(read("ReduceSum", rows, {1, 64}), all);
  EXPECT_EQ(read("ReduceSum", rows, {6400, 100}), 16 * all);
  EXPECT_EQ(read("Reorder", dense, {1, 64}), all);
  EXPECT_EQ(read("Reorder", dense, {1, 0}), 4 * 64);
}

}  // namespace
}  // namespace lowtide::ops

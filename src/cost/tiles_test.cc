// Tiles and waves counted one by one; monotone in every extent; never below the roofline.
#include "cost/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/rng.h"
#include "cost/roofline.h"

namespace lowtide::cost {
namespace {

const TileRates kTiles{.processors = 6, .flops_per_second = 6e9, .sides = {64, 128}};

plan::TensorDesc tensor(std::vector<int64_t> dims) {
  return {.dtype = DType::kF32, .dims = std::move(dims), .layout = {}};
}

plan::OpDesc matmul(std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> c) {
  return {.kind = "MatMul",
          .attrs = {},
          .inputs = {tensor(std::move(a)), tensor(std::move(b))},
          .outputs = {tensor(std::move(c))}};
}

plan::OpDesc convolution(std::string kind, std::vector<int64_t> a, std::vector<int64_t> b,
                         std::vector<int64_t> c, int64_t group) {
  plan::OpDesc op = matmul(std::move(a), std::move(b), std::move(c));
  op.kind = std::move(kind);
  op.attrs = {{"group", group}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  if (op.kind == "ConvWgtGrad") op.attrs["kernel"] = std::vector<int64_t>{3, 3};
  if (op.kind == "ConvDataGrad")
    op.attrs["output_spatial"] =
        std::vector<int64_t>(op.outputs[0].dims.begin() + 2, op.outputs[0].dims.end());
  return op;
}

std::optional<ProductShape> shape_of(const plan::OpDesc& op) {
  return product_shape(op, op_work(op).value());
}

// By handing every slice of every tile to the next free processor, wave by wave.
double by_hand(const ProductShape& shape, const TileRates& tiles, double bytes_per_second) {
  double best = std::numeric_limits<double>::infinity();
  for (int64_t rows : tiles.sides)
    for (int64_t columns : tiles.sides)
      for (int64_t slices = 1; slices <= 32; slices *= 2) {
        int64_t busy = 0, waves = 0;
        for (int64_t b = 0; b < shape.batch; ++b)
          for (int64_t m = 0; m < shape.m; m += rows)
            for (int64_t n = 0; n < shape.n; n += columns)
              for (int64_t s = 0; s < slices; ++s) {
                if (busy == 0) ++waves;
                busy = (busy + 1) % tiles.processors;
              }
        int64_t steps = 0;
        while (static_cast<double>(steps * 32 * slices) < shape.k) ++steps;
        const auto flops =
            static_cast<double>(waves * tiles.processors * 2 * rows * columns * 32 * steps);
        const double partial =
            slices == 1 ? 0 : static_cast<double>(slices * shape.batch * shape.m * shape.n * 4 * 2);
        best = std::min(best, flops / tiles.flops_per_second + partial / bytes_per_second);
      }
  return best;
}

TEST(Tiles, WavesAreWhole) {
  // Six tiles of 128 x 128 in one wave of six processors at 1e9 each.
  const double six = 2.0 * 128 * 128 * 128 / 1e9;
  EXPECT_DOUBLE_EQ(tile_seconds({1, 384, 256, 128}, {6, 6e9, {128}}, 1e3), six);
  // A seventh tile is a second wave, and one element a tile.
  EXPECT_DOUBLE_EQ(tile_seconds({1, 385, 256, 128}, {6, 6e9, {128}}, 1e3), 2 * six);
  EXPECT_DOUBLE_EQ(tile_seconds({7, 1, 1, 128}, {6, 6e9, {128}}, 1e3), 2 * six);
  // A single tile: with memory that costs nothing its sum is split in four (eight are two waves).
  EXPECT_NEAR(tile_seconds({1, 128, 128, 128}, {6, 6e9, {128}}, 1e30), six / 4, six * 1e-9);
  // With memory that costs, it is not.
  EXPECT_DOUBLE_EQ(tile_seconds({1, 128, 128, 128}, {6, 6e9, {128}}, 1e3), six);
}

TEST(Tiles, AreAsManyAsCountedByHand) {
  Rng rng(7);
  for (int i = 0; i < 200; ++i) {
    const auto to = [&](int64_t most) { return rng.between(1, most); };
    const ProductShape shape{to(5), to(700), to(700), static_cast<double>(to(3000))};
    EXPECT_NEAR(tile_seconds(shape, kTiles, 1e9) / by_hand(shape, kTiles, 1e9), 1, 1e-12)
        << shape.batch << " " << shape.m << " " << shape.n << " " << shape.k;
  }
}

TEST(Tiles, LongerIsNeverFaster) {
  Rng rng(8);
  for (int i = 0; i < 500; ++i) {
    const auto to = [&](int64_t most) { return rng.between(1, most); };
    const ProductShape shape{to(5), to(700), to(700), static_cast<double>(to(3000))};
    ProductShape longer = shape;
    longer.batch += to(2) - 1;
    longer.m += to(100) - 1;
    longer.n += to(100) - 1;
    longer.k += static_cast<double>(to(200));
    EXPECT_LE(tile_seconds(shape, kTiles, 1e9), tile_seconds(longer, kTiles, 1e9));
  }
}

TEST(Tiles, ShapesOfProductsAndConvolutions) {
  const auto expect = [](const plan::OpDesc& op, int64_t batch, int64_t m, int64_t n, double k) {
    const auto shape = shape_of(op);
    ASSERT_TRUE(shape.has_value()) << op.kind;
    EXPECT_EQ(shape->batch, batch);
    EXPECT_EQ(shape->m, m);
    EXPECT_EQ(shape->n, n);
    EXPECT_DOUBLE_EQ(shape->k, k);
  };
  expect(matmul({70, 90}, {90, 80}, {70, 80}), 1, 70, 80, 90);
  expect(matmul({4, 70, 90}, {90, 80}, {4, 70, 80}), 1, 280, 80, 90);
  expect(matmul({4, 70, 90}, {4, 90, 80}, {4, 70, 80}), 4, 70, 80, 90);
  expect(convolution("Conv", {5, 16, 10, 10}, {32, 8, 3, 3}, {5, 32, 10, 10}, 2), 2, 500, 16, 72);
  expect(convolution("ConvDataGrad", {5, 32, 10, 10}, {32, 8, 3, 3}, {5, 16, 10, 10}, 2), 2, 500, 8,
         144);
  expect(convolution("ConvWgtGrad", {5, 16, 10, 10}, {5, 32, 10, 10}, {32, 8, 3, 3}, 2), 2, 16, 72,
         500);
  EXPECT_FALSE(shape_of(matmul({1, 90}, {90, 80}, {1, 80})).has_value());
  EXPECT_FALSE(shape_of(convolution("Conv", {5, 16, 10, 10}, {16, 1, 3, 3}, {5, 16, 10, 10}, 16))
                   .has_value());
  plan::OpDesc add = matmul({7, 7}, {7, 7}, {7, 7});
  add.kind = "Add";
  EXPECT_FALSE(shape_of(add).has_value());
}

TEST(Tiles, AChosenModelIsNeverBelowTheRoofline) {
  DeviceProfile device = find_device("rtx3090").value();
  ASSERT_TRUE(device.tiles.has_value());
  EXPECT_EQ(device.tiles->processors, 82);
  EXPECT_EQ(device.tiles->flops_per_second, 28e12);
  DeviceProfile tiles = device;
  ASSERT_TRUE(choose_cost_model(tiles, "tiles").has_value());
  bool has_more = false;
  for (int64_t m : {1, 2, 63, 64, 65, 512, 4096, 20000})
    for (int64_t k : {1, 31, 768, 3072})
      for (int64_t n : {1, 64, 768, 50257}) {
        const plan::OpDesc op = matmul({m, k}, {k, n}, {m, n});
        const OpWork work = op_work(op).value();
        const double roofline = model_seconds(op, work, device);
        EXPECT_EQ(roofline, roofline_seconds(op.kind, kernel_class(op), work, device));
        EXPECT_GE(model_seconds(op, work, tiles), roofline);
        has_more |= model_seconds(op, work, tiles) > 1.1 * roofline;
      }
  EXPECT_TRUE(has_more);
  // Whole waves at the roofline's rate and free memory are the roofline.
  tiles.tiles = TileRates{82, device.matmul_flops_per_second, {128}};
  const plan::OpDesc whole = matmul({82 * 128, 4096}, {4096, 128 * 64}, {82 * 128, 128 * 64});
  EXPECT_DOUBLE_EQ(model_seconds(whole, op_work(whole).value(), tiles),
                   model_seconds(whole, op_work(whole).value(), device));
}

TEST(Tiles, AProfileWithoutThemCannotChooseThem) {
  DeviceProfile device = find_device("h100").value();
  const Status refused = choose_cost_model(device, "tiles");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_NE(refused.error().message.find("H100"), std::string::npos) << refused.error().message;
  EXPECT_EQ(choose_cost_model(device, "brick").error().code, ErrorCode::kUsage);
  EXPECT_TRUE(choose_cost_model(device, "roofline").has_value());
}

TEST(Tiles, ProfilesReadThemBack) {
  const DeviceProfile device = find_device("rtx3090").value();
  const std::string text = print_device(device);
  EXPECT_EQ(parse_device(text, "again").value().tiles, device.tiles);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return parse_device(changed, "bad.json");
  };
  EXPECT_FALSE(with("\"processors\": 82", "\"processors\": 0").has_value());
  EXPECT_FALSE(with("\"sides\"", "\"edges\"").has_value());
}

}  // namespace
}  // namespace lowtide::cost

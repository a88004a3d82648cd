// Profiles are read strictly; the roofline takes the slower of arithmetic and memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "cost/device.h"
#include "cost/roofline.h"
#include "ops/op_table.h"

namespace lowtide::cost {
namespace {

constexpr const char* kProfile = R"({"name": "toy", "memory_bytes": 1e9, "alignment_bytes": 64,
  "bytes_per_second": 1e9, "launch_seconds": 1e-6, "matmul_flops_per_second": 1e12,
  "vector_flops_per_second": 1e9, "efficiency": {"Exp": 0.5}})";

TEST(Device, EveryShippedProfileIsReadable) {
  const auto names = known_devices();
  for (const char* wanted : {"cpu", "rtx3090", "a100-40", "a100-80", "h100", "h200"})
    EXPECT_NE(std::find(names.begin(), names.end(), wanted), names.end()) << wanted;
  for (const std::string& name : names) EXPECT_TRUE(find_device(name).has_value()) << name;
}

TEST(Device, ErrorsNameTheMember) {
  const auto expect_error = [](std::string text, const char* word) {
    const auto device = parse_device(text, "toy.json");
    ASSERT_FALSE(device.has_value()) << text;
    EXPECT_EQ(device.error().code, ErrorCode::kInput);
    EXPECT_NE(device.error().message.find(word), std::string::npos) << device.error().message;
    EXPECT_NE(device.error().message.find("toy.json"), std::string::npos);
  };
  const std::string good = kProfile;
  const auto with = [&](const char* from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    return text;
  };
  expect_error("nonsense", "JSON");
  expect_error(with("1e12", "0"), "matmul_flops_per_second");
  expect_error(with("launch_seconds", "lunch_seconds"), "lunch_seconds");
  expect_error(with("\"alignment_bytes\": 64", "\"alignment_bytes\": 0.5"), "alignment_bytes");
  for (const char* alignment : {"48", "3", "16777215", "-64"})
    expect_error(with("\"alignment_bytes\": 64", std::string("\"alignment_bytes\": ") + alignment),
                 "alignment_bytes");
  expect_error(with("0.5", "\"half\""), "Exp");
  EXPECT_EQ(find_device("no-such-device").error().code, ErrorCode::kUsage);
}

TEST(Roofline, TakesTheSlowerOfArithmeticAndMemory) {
  const DeviceProfile device = parse_device(kProfile, "toy").value();
  ir::Graph graph;
  ir::Value x;
  x.name = "x";
  x.dims = {1000, 1000};
  const auto input = graph.add_value(std::move(x));
  const auto product =
      ops::append(graph, "MatMul", {input, input, ir::ValueId::none(), ir::ValueId::none()},
                  {{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}})
          .value();
  const auto exp = ops::append(graph, "Exp", {input}, {}).value();
  const auto view = ops::append(graph, "Reshape", {input}, {{"shape", ir::Dims{1000000}}}).value();
  // 2e9 FLOPs at 1e12/s are 2 ms; three (or two) matrices of 4 MB at 1 GB/s are more.
  const double matmul = op_seconds(graph, product, device).value();
  EXPECT_GE(matmul, 8e-3);
  EXPECT_LE(matmul, 12.1e-3);
  // At half efficiency 8 MB take 16 ms.
  EXPECT_NEAR(op_seconds(graph, exp, device).value(), 16e-3 + 1e-6, 17e-3);
  EXPECT_GT(op_seconds(graph, exp, device).value(), 16e-3);
  EXPECT_EQ(op_seconds(graph, view, device).value(), 0.0);
}

}  // namespace
}  // namespace lowtide::cost

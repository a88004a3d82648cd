// What an Attention is written out as. That results and gradients are right is what the official
// node cases and tests/python/test_rarer_ops.py say.
#include <gtest/gtest.h>

#include "io/onnx_reader.h"
#include "io/testing/test_models.h"
#include "ir/graph.h"

namespace lowtide::io {
namespace {

// A mask costs ops only where there is one, and a causal one, which lets every query read the first
// key, only its addition.
TEST(Attention, IsMaskedWhereThereIsAMask) {
  for (const bool causal : {false, true}) {
    for (const bool mask : {false, true}) {
      ModelMaker maker(23);
      maker.input("x", {"1", "1", "4", "4"}).input("mask", {"4", "4"}, 9).output("y");
      std::vector<std::string> inputs = {"x", "x", "x"};
      if (mask) inputs.emplace_back("mask");
      set_int(maker.node("Attention", inputs, {"y"}), "is_causal", causal ? 1 : 0);
      const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
      ASSERT_TRUE(graph) << graph.error().message;
      EXPECT_EQ(count_ops(*graph, "ReduceMax"), mask ? 1 : 0);
      EXPECT_EQ(count_ops(*graph, "Where") > 0, mask);
      EXPECT_EQ(count_ops(*graph, "Add") > 0, causal);
    }
  }
}

}  // namespace
}  // namespace lowtide::io

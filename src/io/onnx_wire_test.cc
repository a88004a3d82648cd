// The two ways in which a file holds the elements of a tensor: raw, or as a list of the widest type
// of their kind. Both give the same bytes, in every type.
#include "io/onnx_wire.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/element.h"
#include "io/onnx.pb.h"
#include "io/onnx_reader.h"
#include "io/testing/onnx_tensor.h"
#include "io/testing/test_models.h"

namespace lowtide::io {
namespace {

// ONNX's type codes.
constexpr std::pair<int32_t, DType> kCodes[] = {
    {1, DType::kF32},  {2, DType::kU8},   {3, DType::kI8},   {4, DType::kU16},  {5, DType::kI16},
    {6, DType::kI32},  {7, DType::kI64},  {9, DType::kBool}, {10, DType::kF16}, {11, DType::kF64},
    {12, DType::kU32}, {13, DType::kU64}, {16, DType::kBF16}};

void add_to_list(onnx_wire::Tensor& wire, DType dtype, const char* raw) {
  uint16_t half = 0;
  switch (dtype) {
    case DType::kF32:
      wire.add_float_data(static_cast<float>(read_real(dtype, raw)));
      return;
    case DType::kF64:
      wire.add_double_data(read_real(dtype, raw));
      return;
    case DType::kI64:
      wire.add_int64_data(read_integer(dtype, raw));
      return;
    case DType::kU32:
    case DType::kU64:
      wire.add_uint64_data(static_cast<uint64_t>(read_integer(dtype, raw)));
      return;
    case DType::kF16:
    case DType::kBF16:
      std::memcpy(&half, raw, sizeof half);
      wire.add_int32_data(half);
      return;
    default:
      wire.add_int32_data(static_cast<int32_t>(read_integer(dtype, raw)));
  }
}

TEST(OnnxWire, ListsAndRawBytesSayTheSameInEveryType) {
  ASSERT_EQ(std::size(kCodes), static_cast<size_t>(kDTypes));
  for (const auto& [code, dtype] : kCodes) {
    onnx_wire::Tensor list;
    list.set_name("t");
    list.set_data_type(code);
    list.add_dims(3);
    onnx_wire::Tensor raw = list;
    std::string bytes;
    for (const int64_t number : {int64_t{1}, int64_t{0}, int64_t{-3}}) {
      char element[8];
      write_integer(dtype, number, element);
      bytes.append(element, static_cast<size_t>(size_bytes(dtype)));
      add_to_list(list, dtype, element);
    }
    raw.set_raw_data(bytes);
    for (const onnx_wire::Tensor& wire : {list, raw}) {
      const auto tensor = decode_onnx_tensor(wire.SerializeAsString(), "made");
      ASSERT_TRUE(tensor) << name(dtype) << ": " << tensor.error().message;
      EXPECT_EQ(tensor->dtype, dtype);
      EXPECT_EQ(tensor->bytes, bytes) << name(dtype);
    }
  }
}

// Of two exporters: a list of modules and a trace in the metadata, a trace in the doc string.
TEST(OnnxWire, NodesSayWhichLineTheyComeFrom) {
  ModelMaker maker;
  maker.input("x", {"2"}).output("y");
  onnx_wire::Node& first = maker.node("Relu", {"x"}, {"h"});
  onnx_wire::StringPair& pair = *first.add_metadata_props();
  pair.set_key("pkg.torch.onnx.stack_trace");
  pair.set_value("File \"/users/me/net/model.py\", line 12, in forward\n    h = relu(x)");
  maker.node("Relu", {"h"}, {"y"}).set_doc_string("/users/me/net/model.py(13): forward\n");
  const auto graph = read_onnx_bytes(maker.bytes(), "", "m.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->op_count(), 2U);
  EXPECT_EQ(graph->op(ir::OpId(0)).source, "net/model.py:12");
  EXPECT_EQ(graph->op(ir::OpId(1)).source, "net/model.py:13");
}

TEST(OnnxWire, ATensorByItselfThatIsNoneIsRefused) {
  onnx_wire::Tensor wire;
  wire.set_name("t");
  wire.set_data_type(1);
  wire.add_dims(3);
  wire.set_raw_data(std::string(12, 'x'));
  const std::string bytes = wire.SerializeAsString();
  ASSERT_TRUE(decode_onnx_tensor(bytes, "made"));
  const auto short_of = decode_onnx_tensor(bytes.substr(0, bytes.size() - 1), "made");
  ASSERT_FALSE(short_of);
  EXPECT_EQ(short_of.error().code, ErrorCode::kInput);
  EXPECT_NE(short_of.error().message.find("made"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::io

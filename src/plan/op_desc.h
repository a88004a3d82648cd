// One op with its operands, as concrete plain data: what a kernel is chosen and built from. All
// sizes are numbers.
//
// Tests: src/exec/cpu/operand_types_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"

namespace lowtide::plan {

struct TensorDesc {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  Layout layout;
  bool operator==(const TensorDesc&) const = default;
};

// Elements; bytes occupied (the blocked size where the layout has one). Sizes were checked when the
// plan was made or read.
int64_t element_count(const TensorDesc& desc);
int64_t size_bytes(const TensorDesc& desc);
// Bytes from its first element to the end of its last: size_bytes, but of a strided view, whose
// elements lie apart or stand for many.
int64_t span_bytes(const TensorDesc& desc);

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attrs = std::map<std::string, AttrValue, std::less<>>;

struct OpDesc {
  std::string kind;
  Attrs attrs;
  std::vector<std::optional<TensorDesc>> inputs;  // nullopt: optional input that is absent
  std::vector<TensorDesc> outputs;
  bool operator==(const OpDesc&) const = default;
};

// What the owner of an opaque op calls it ("Opaque ops" in docs/ops.md); null of other ops, none of
// which has such an attribute.
const std::string* foreign_name(const Attrs& attrs);

}  // namespace lowtide::plan

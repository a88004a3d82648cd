// A model of models/*.onnx, every layer of it, with other extents: so that a naive interpreter
// computes its training step in a fraction of a second. What is exchanged is numbers: dims of
// parameters and buffers, and the constants that shapes are made of.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/file.h"
#include "io/convert.h"
#include "io/onnx_wire.h"

namespace lowtide {

using Extents = std::map<int64_t, int64_t>;  // as the file has them, and what they become

inline int64_t narrowed(int64_t extent, const Extents& extents) {
  const auto found = extents.find(extent);
  return found != extents.end() ? found->second : extent;
}

// The dims of a tensor; of one with values the first so many, or those of a shape.
inline void narrow(io::OnnxTensor& tensor, const Extents& extents) {
  const auto before = tensor.dims;
  for (int64_t& dim : tensor.dims) dim = narrowed(dim, extents);
  if (tensor.external || !tensor.dtype) return;
  const auto size = static_cast<size_t>(size_bytes(*tensor.dtype));
  tensor.bytes.resize(static_cast<size_t>(tensor.element_count()) * size);
  if (tensor.dtype != DType::kI64 || tensor.dims != before) return;
  for (size_t at = 0; at < tensor.bytes.size(); at += size) {
    int64_t number = 0;
    std::memcpy(&number, tensor.bytes.data() + at, size);
    number = narrowed(number, extents);
    std::memcpy(tensor.bytes.data() + at, &number, size);
  }
}

// `fed`: of the inputs, where a number means something else there than in a parameter.
inline Result<ir::Graph> read_narrowed(const std::string& path, const Extents& extents,
                                       const Extents& fed, const io::OnnxOptions& options) {
  LT_ASSIGN(const MappedFile file, MappedFile::open(path));
  LT_ASSIGN(io::OnnxModel model, io::decode_onnx_model(file.bytes(), path, ""));
  for (io::OnnxTensor& tensor : model.initializers) narrow(tensor, extents);
  for (io::OnnxValueInfo& input : model.inputs)
    for (auto& dim : input.dims)
      if (dim && dim->constant()) dim = sym::Expr(narrowed(*dim->constant(), fed));
  // What the file declares of its results is of the extents that it had.
  for (io::OnnxValueInfo& output : model.outputs) output.has_shape = false, output.dims.clear();
  for (auto& [name, info] : model.value_info) info.has_shape = false, info.dims.clear();
  return io::graph_of(std::move(model), options);
}

}  // namespace lowtide

// The ONNX door: a model file as exporters write it, read into a Graph.
//
//   const io::OnnxOptions options = {.bindings = {{"batch", 4}, {"seq", 512}}, .training = true};
//   LT_ASSIGN(ir::Graph graph, io::read_onnx("models/gpt2.onnx", options));
//
// Steps, each in files of its own: bytes to plain data (onnx_wire), local functions expanded
// (onnx_functions), structure checked and ordered (onnx_order), nodes that together spell one
// op joined (onnx_peephole), everything that depends on shapes and constants alone evaluated with
// symbols kept (host_*), the rest converted op by op (convert_*). README.md lists the ops taken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "sym/expr.h"

namespace lowtide::io {

struct OnnxOptions {
  sym::Bindings bindings = {};  // numbers for symbolic dims; the others stay symbols
  // BatchNormalization of one output takes the statistics of the batch, and keeps running ones as
  // state.
  bool training = false;
  bool dropout = true;  // with training: Dropout draws its mask; false makes it the identity
  // Where to add what the user of the file should know though it is read, a line each.
  std::vector<std::string>* notes = nullptr;
  // Where to put the sizes that symbols had in the batch that a program was exported with.
  sym::Bindings* examples = nullptr;
};

// Error: kInput: a file that cannot be read or decoded, all ops that are not taken (at once, with
// counts and node names), a node whose operands do not fit, a size that needs a symbol's number
// (naming the flag). kUsage: a binding of a symbol that the model does not have.
Result<ir::Graph> read_onnx(const std::string& path, const OnnxOptions& options = {});
// The same from memory. External data is looked for in `folder`; "" means that there is none.
// Survives any bytes.
Result<ir::Graph> read_onnx_bytes(std::string_view bytes, const std::string& folder,
                                  const std::string& origin, const OnnxOptions& options = {});

}  // namespace lowtide::io

// The door of exported programs: a .pt2 file as torch.export.save writes it, read into a Graph
// without PyTorch.
//
//   LT_ASSIGN(ir::Graph graph, io::read_pt2("resnet.pt2", {.training = true}));
//
// Archive and JSON to plain data (pt2_model.h), ATen ops to the nodes that the doors share by a row
// each (aten_call.h, pt2_lower.h), and from there as an ONNX model (onnx_reader.h): shapes folded,
// parameters and buffers told apart, one op per node. Weights stay in the file and are mapped from
// there when a plan runs. Symbols are those of the program ("s77"); a number outside of the range
// that it was exported for is refused.
//
// A program is for training or not as the caller says; where it was exported with model.train(),
// its dropouts draw then and its batch norms take the statistics of the batch. One that was
// exported with model.eval() trains as eager mode does then: no dropout, running statistics.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/onnx_reader.h"
#include "io/pt2_lower.h"
#include "ir/graph.h"

namespace lowtide::io {

// Error: kInput: a file that cannot be read or is none of these, another schema, weights that are
// missing, pickled or of a type that is not computed with; all ops that no row takes, at once, in a
// graph for training (else they are opaque); a node whose operands do not fit. kUsage: a binding of
// a symbol that the program does not have, or of a number outside its range.
Result<ir::Graph> read_pt2(const std::string& path, const OnnxOptions& options = {});
// The same from memory; the weights are then drawn from the seed. Survives any bytes.
Result<ir::Graph> read_pt2_bytes(std::string_view bytes, const std::string& origin,
                                 const OnnxOptions& options = {});

// Up to the nodes that the doors share, for inspection. `folder` and `file` as in decode_pt2.
Result<Lowered> lower_pt2(std::string_view bytes, const std::string& origin,
                          const std::string& folder, const std::string& file,
                          const OnnxOptions& options);

// "aten.fft_rfft2.default 4 (fft_rfft2 fft_rfft2_1 ...)", for messages.
std::string print_not_taken(const std::vector<NotTaken>& not_taken);

// Whether a path is of this door: it ends with ".pt2".
bool is_pt2_path(std::string_view path);

}  // namespace lowtide::io

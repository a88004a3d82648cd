#include "io/onnx_reader.h"

#include <filesystem>

#include "base/file.h"
#include "io/convert.h"
#include "io/onnx_branches.h"
#include "io/onnx_ops.h"
#include "io/onnx_parameters.h"
#include "io/onnx_peephole.h"
#include "io/onnx_sequences.h"
#include "io/onnx_wire.h"

namespace lowtide::io {

Result<ir::Graph> graph_of(OnnxModel model, const OnnxOptions& options) {
  LT_RETURN_IF_ERROR(take_branches(model, options));
  replace_sequences(model);
  LT_RETURN_IF_ERROR(check_ops(model));
  constants_to_initializers(model);
  apply_peepholes(model);
  return Conversion(model, options).run();
}

Result<ir::Graph> read_onnx_bytes(std::string_view bytes, const std::string& folder,
                                  const std::string& origin, const OnnxOptions& options) {
  auto graph = decode_onnx_model(bytes, origin, folder).and_then([&](OnnxModel&& model) {
    return graph_of(std::move(model), options);
  });
  // Errors from below the door (an op's own checks, the graph's) do not know the file.
  if (!graph && !graph.error().message.starts_with(origin + ": "))
    return error(graph.error().code, origin + ": " + graph.error().message);
  return graph;
}

Result<ir::Graph> read_onnx(const std::string& path, const OnnxOptions& options) {
  LT_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return read_onnx_bytes(file.bytes(), folder.empty() ? "." : folder, path, options);
}

}  // namespace lowtide::io

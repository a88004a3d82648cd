// What a model file holds, and what of it cannot be planned: works on any decodable file, bound or
// not, supported or not. The conversion is tried as a plan would do it, and every node that it
// refuses is told, not only the first; then each op is asked for a kernel.
//
// Tests: onnx_reader_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/kernel_catalog.h"
#include "sym/expr.h"

namespace lowtide::io {

// An op type with its number of nodes and the names of some of them.
struct OpCount {
  std::string op_type;  // "domain.op" outside the default domain
  int64_t count = 0;
  std::vector<std::string> nodes;  // at most 8, in file order
  std::string why = {};            // that it is not taken, where the door says it
  bool operator==(const OpCount&) const = default;
};

// An input or output: its dims as written, "?" where the file says nothing; only "..." where it
// gives no shape.
struct TensorSummary {
  std::string name;
  std::string dtype;
  std::vector<std::string> dims;
  bool operator==(const TensorSummary&) const = default;
};

struct ModelSummary {
  std::string name, producer;
  int64_t ir_version = 0, opset = 0;  // 0: no ONNX file, but
  std::string form;                   // what it is instead, in words
  int64_t nodes = 0;                  // after functions were expanded
  int64_t functions = 0;
  std::vector<OpCount> ops;          // by falling count, then by name
  std::vector<OpCount> unsupported;  // those of `ops` that the door does not take
  // What the conversion refuses beside `unsupported`, one line each: nodes whose form is not read
  // (with the node's name), inputs of types that are not computed with, declarations that
  // contradict.
  std::vector<std::string> refused;
  // What the kernels refuse of a model that the conversion takes, one line each, as a plan says it:
  // "op 'y': no CPU kernel for ...".
  std::vector<std::string> no_kernel;
  // The size that dims without a number were given for `refused` and `no_kernel`; none: all have
  // one, or no size makes a graph.
  std::optional<int64_t> size_tried;
  int64_t parameters = 0;  // trained weights and running statistics: tensors, elements, bytes
  int64_t parameter_elements = 0;
  int64_t parameter_bytes = 0;
  // The part of parameter_elements that is trained (running statistics are not).
  int64_t trained_elements = 0;
  int64_t external_bytes = 0;  // of all initializers that lie in other files
  // At least one of those files does not exist: weights are drawn from a seed.
  bool external_missing = false;
  std::vector<std::string> symbols;                        // in dims of inputs and outputs, sorted
  std::map<std::string, std::string, std::less<>> ranges;  // of symbols, where the file says one
  std::vector<TensorSummary> inputs, outputs;
};

struct InspectOptions {
  sym::Bindings bindings = {};                   // numbers for symbolic dims
  const plan::KernelCatalog* kernels = nullptr;  // none: no kernels are asked for
};

// Error: kInput: unreadable or undecodable file, cyclic or dangling nodes. Unsupported ops are not
// an error here. kUsage: a binding of a symbol that the model does not have.
Result<ModelSummary> inspect_onnx(const std::string& path, const InspectOptions& options = {});
Result<ModelSummary> inspect_onnx_bytes(std::string_view bytes, const std::string& folder,
                                        const std::string& origin,
                                        const InspectOptions& options = {});

// The same of an exported program (pt2_reader.h): its ops are those of PyTorch; `unsupported` ones
// are opaque to a plan. `folder` and `file`: where the bytes lie; "" if nowhere.
Result<ModelSummary> inspect_pt2(const std::string& path, const InspectOptions& options = {});
Result<ModelSummary> inspect_pt2_bytes(std::string_view bytes, const std::string& folder,
                                       const std::string& file, const std::string& origin,
                                       const InspectOptions& options = {});

// The same of a graph as text or JSON (graph_file.h). Error: as read_graph_file.
Result<ModelSummary> inspect_graph(const std::string& path, const InspectOptions& options = {});

// The summary as a person reads it, one fact a line.
std::string print(const ModelSummary& summary);

}  // namespace lowtide::io

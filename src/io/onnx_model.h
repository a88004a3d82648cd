// An ONNX model as plain data: what the wire format says, with payloads normalised to little-endian
// bytes, metadata reduced to what the door uses, and local functions kept apart until
// onnx_functions.h expands them. Everything behind the wire works on these structs, so the protobuf
// library is seen by one source file only (onnx_wire.cc).
//
// Tests: onnx_reader_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "sym/expr.h"

namespace lowtide::io {

// A tensor of the file. `bytes` is row-major little endian; for an external tensor it is empty and
// `file` names where they lie.
struct OnnxTensor {
  std::string name;
  int32_t type_code = 0;       // ONNX's TensorProto.DataType
  std::optional<DType> dtype;  // none: a type Lowtide does not compute with
  std::vector<int64_t> dims;
  std::string bytes;
  bool constant_node = false;  // written as a Constant node
  bool external = false;
  std::string file;
  int64_t offset = 0;
  int64_t length = 0;

  int64_t element_count() const {  // fits: decode_onnx_model checks it
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
};

struct OnnxSubgraph;

// One attribute; the fields that are set depend on how the exporter wrote it.
struct OnnxAttr {
  int32_t type = 0;  // AttributeProto.AttributeType; 0: an empty list of a file that tells no types
  std::optional<int64_t> integer;
  std::optional<double> real;
  std::optional<std::string> word;
  std::optional<OnnxTensor> tensor;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> words;
  std::string reference;               // inside a function: the function attribute it stands for
  std::vector<OnnxSubgraph> subgraph;  // one, or none
};

// Of a BatchNormalization's training_mode: the statistics are those given, also in a graph for
// training, as an exported program in eval mode says.
inline constexpr int64_t kGivenStatistics = -1;

struct OnnxNode {
  std::string op_type;
  std::string domain;
  std::string overload;
  std::string name;                  // may be empty
  std::string module;                // path of the module it comes from; may be empty
  std::string source;                // line of the model's code (source_line.h); may be empty
  std::vector<std::string> inputs;   // "" for an absent optional input
  std::vector<std::string> outputs;  // "" for an output nobody wants
  std::map<std::string, OnnxAttr, std::less<>> attrs;
};

// The body of an If (or of a loop, which is not read). It also reads names of the graph around it.
struct OnnxSubgraph {
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<std::string> inputs, outputs;
};

// A declared value: input, output, or entry of value_info. A dim is none when the file says nothing
// about it.
struct OnnxValueInfo {
  std::string name;
  int32_t type_code = 0;
  std::optional<DType> dtype;
  bool is_tensor = false;
  bool has_shape = false;
  std::vector<std::optional<sym::Expr>> dims;
  std::vector<std::string> dim_text;  // as written, for messages
  std::string kind;                   // PARAMETER, BUFFER, CONSTANT_TENSOR, USER_INPUT, or empty
};

struct OnnxFunction {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::map<std::string, OnnxAttr, std::less<>> defaults;
  std::vector<OnnxNode> nodes;
  int64_t opset = 0;  // of the default domain; 0: the model's
};

struct OnnxModel {
  std::string origin;  // how messages name the file
  std::string folder;  // external data lies at or below it
  int64_t ir_version = 0;
  int64_t opset = 0;  // of the default domain
  std::map<std::string, int64_t, std::less<>> other_domains;
  std::string producer;
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs, outputs;
  std::map<std::string, OnnxValueInfo, std::less<>> value_info;
  std::vector<OnnxFunction> functions;
};

// The versions this door reads.
inline constexpr int64_t kMinIrVersion = 3, kMaxIrVersion = 14;
inline constexpr int64_t kMinOpset = 7, kMaxOpset = 28;

// The dtype of an ONNX type code, and its name in the specification ("FLOAT", "INT4", or the
// number) for messages.
std::optional<DType> onnx_dtype(int32_t type_code);
std::string onnx_type_name(int32_t type_code);

// "node 'name' (Op)" or, without a name, "node of 'output' (Op)": how every message speaks of a
// node.
std::string describe(const OnnxNode& node);
// An error about a node: the file, the node, the cause.
tl::unexpected<Error> node_error(const OnnxModel& model, const OnnxNode& node, const Error& cause);

// The innermost module of a "pkg.torch.onnx.name_scopes" entry, a Python list of words: "['', 'a',
// 'a.b', 'add']" is "a.b". Text that is not such a list gives "". The last word is the operation,
// not a module.
std::string module_of_scopes(std::string_view text);

}  // namespace lowtide::io

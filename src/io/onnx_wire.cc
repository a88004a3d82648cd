// Decoding: protobuf messages to the plain structs of onnx_model.h.
//
// Nothing here trusts the file. Sizes are multiplied with overflow checks before anything is
// allocated for them, the payload of a tensor must fill its shape exactly, and an external path is
// accepted only when, after following symbolic links, it still lies in the model's folder (or does
// not exist at all: files without weights are normal here). Unknown fields are skipped by the
// protobuf library; unknown type codes are kept and refused only by the op that would read them.
#include "io/onnx_wire.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>

#include "io/onnx.pb.h"
#include "io/source_line.h"

namespace lowtide::io {
namespace {

static_assert(std::endian::native == std::endian::little, "payloads are copied as they lie");

constexpr int kMaxNesting = 64;  // of messages; a branch in a branch is three of them
constexpr int kMaxFileNodes = 1 << 20;
constexpr int kMaxRank = 32;
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr std::string_view kKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kStackKey = "pkg.torch.onnx.stack_trace";

template <class Message>
bool parse(std::string_view bytes, Message& message) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) return false;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxNesting);
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// What every step needs to know of where it is.
struct Place {
  const std::string& origin;
  const std::string& folder;
};

template <class T>
void append_little_endian(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

// Payloads that are not raw come as lists of the widest type of their kind.
std::string typed_payload(const onnx_wire::Tensor& wire, DType dtype) {
  std::string bytes;
  const auto append = [&]<class Element>(const auto& list, Element) {
    for (const auto v : list) append_little_endian(bytes, static_cast<Element>(v));
  };
  switch (dtype) {
    case DType::kF32:
      append(wire.float_data(), float{});
      break;
    case DType::kF64:
      append(wire.double_data(), double{});
      break;
    case DType::kI64:
      append(wire.int64_data(), int64_t{});
      break;
    case DType::kU64:
      append(wire.uint64_data(), uint64_t{});
      break;
    case DType::kU32:
      append(wire.uint64_data(), uint32_t{});
      break;
    case DType::kI32:
      append(wire.int32_data(), int32_t{});
      break;
    case DType::kF16:
    case DType::kBF16:
    case DType::kU16:
    case DType::kI16:
      append(wire.int32_data(), uint16_t{});
      break;
    case DType::kU8:
    case DType::kI8:
      append(wire.int32_data(), uint8_t{});
      break;
    case DType::kBool:
      for (int32_t v : wire.int32_data()) append_little_endian(bytes, static_cast<uint8_t>(v != 0));
      break;
  }
  return bytes;
}

Result<int64_t> parse_number(const Place& place, const std::string& tensor, std::string_view key,
                             std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0)
    return error(ErrorCode::kInput, fmt::format("{}: tensor '{}': external {} is '{}', not a size",
                                                place.origin, tensor, key, text));
  return value;
}

// The path of external data must stay in the model's folder, also through symbolic links.
Status check_external_path(const Place& place, const OnnxTensor& tensor) {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view why) {
    return error(ErrorCode::kInput, fmt::format("{}: tensor '{}': external file '{}' {}",
                                                place.origin, tensor.name, tensor.file, why));
  };
  if (tensor.file.empty()) return refuse("has no name");
  if (tensor.file.find('\0') != std::string::npos) return refuse("has a zero byte in its name");
  const fs::path path(tensor.file);
  if (path.is_absolute()) return refuse("is an absolute path; it must lie in the model's folder");
  for (const fs::path& part : path)
    if (part == "..") return refuse("leaves the model's folder");
  if (place.folder.empty()) return {};
  std::error_code code;
  const fs::path root = fs::weakly_canonical(fs::path(place.folder), code);
  if (code) return refuse("cannot be resolved: " + code.message());
  const fs::path full = fs::weakly_canonical(root / path, code);
  if (code) return refuse("cannot be resolved: " + code.message());
  const fs::path inside = full.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..")
    return refuse("is a link that leaves the model's folder");
  return {};
}

Status read_external(const Place& place, const onnx_wire::Tensor& wire, int64_t bytes,
                     OnnxTensor& tensor) {
  tensor.external = true;
  tensor.length = bytes;
  for (const onnx_wire::StringPair& entry : wire.external_data()) {
    if (entry.key() == "location") tensor.file = entry.value();
    if (entry.key() == "offset") {
      LT_ASSIGN(tensor.offset, parse_number(place, tensor.name, "offset", entry.value()));
    }
    if (entry.key() == "length") {
      LT_ASSIGN(const int64_t length, parse_number(place, tensor.name, "length", entry.value()));
      if (tensor.dtype && length != bytes)
        return error(ErrorCode::kInput,
                     fmt::format("{}: tensor '{}': external length is {} bytes, its shape needs {}",
                                 place.origin, tensor.name, length, bytes));
    }
  }
  if (tensor.offset > std::numeric_limits<int64_t>::max() - tensor.length)
    return error(ErrorCode::kInput, fmt::format("{}: tensor '{}': external offset {} is too large",
                                                place.origin, tensor.name, tensor.offset));
  return check_external_path(place, tensor);
}

Result<OnnxTensor> read_tensor(const Place& place, onnx_wire::Tensor& wire) {
  OnnxTensor tensor;
  tensor.name = wire.name();
  tensor.type_code = wire.data_type();
  tensor.dtype = onnx_dtype(wire.data_type());
  if (wire.dims_size() > kMaxRank)
    return error(ErrorCode::kInput,
                 fmt::format("{}: tensor '{}' has {} dims, more than {}", place.origin, tensor.name,
                             wire.dims_size(), kMaxRank));
  int64_t count = 1;
  for (int64_t dim : wire.dims()) {
    if (dim < 0)
      return error(ErrorCode::kInput, fmt::format("{}: tensor '{}' has the negative dim {}",
                                                  place.origin, tensor.name, dim));
    if (__builtin_mul_overflow(count, dim, &count) || count > kMaxElements)
      return error(ErrorCode::kInput,
                   fmt::format("{}: tensor '{}' has more than 2^48 elements (dim {})", place.origin,
                               tensor.name, dim));
    tensor.dims.push_back(dim);
  }
  const int64_t bytes = tensor.dtype ? count * size_bytes(*tensor.dtype) : 0;
  if (wire.data_location() == 1) {
    LT_RETURN_IF_ERROR(read_external(place, wire, bytes, tensor));
    return tensor;
  }
  if (!tensor.dtype) return tensor;
  tensor.bytes = wire.has_raw_data() ? std::move(*wire.mutable_raw_data())
                                     : typed_payload(wire, *tensor.dtype);
  if (static_cast<int64_t>(tensor.bytes.size()) != bytes)
    return error(
        ErrorCode::kInput,
        fmt::format("{}: tensor '{}' ({}) holds {} bytes, its shape needs {}", place.origin,
                    tensor.name, onnx_type_name(tensor.type_code), tensor.bytes.size(), bytes));
  return tensor;
}

enum AttributeType {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8
};

// The type of an attribute that does not tell it: that of the field it fills.
int32_t filled_type(const onnx_wire::Attribute& wire) {
  if (wire.has_f()) return kFloat;
  if (wire.has_i()) return kInt;
  if (wire.has_s()) return kString;
  if (wire.has_t()) return kTensor;
  if (wire.has_g()) return kGraph;
  if (wire.floats_size() > 0) return kFloats;
  if (wire.ints_size() > 0) return kInts;
  return wire.strings_size() > 0 ? kStrings : 0;
}

Result<OnnxNode> read_node(const Place& place, onnx_wire::Node& wire);

Status check_node_count(const Place& place, const onnx_wire::Graph& wire) {
  if (wire.node_size() <= kMaxFileNodes) return {};
  return error(ErrorCode::kInput, fmt::format("{}: {} nodes, more than {}", place.origin,
                                              wire.node_size(), kMaxFileNodes));
}

// NOLINTBEGIN(misc-no-recursion): a subgraph in a subgraph, at most kMaxNesting messages deep
Result<OnnxSubgraph> read_subgraph(const Place& place, onnx_wire::Graph& wire) {
  LT_RETURN_IF_ERROR(check_node_count(place, wire));
  OnnxSubgraph graph;
  for (onnx_wire::Node& node : *wire.mutable_node()) {
    LT_ASSIGN(OnnxNode read, read_node(place, node));
    graph.nodes.push_back(std::move(read));
  }
  for (onnx_wire::Tensor& tensor : *wire.mutable_initializer()) {
    LT_ASSIGN(OnnxTensor read, read_tensor(place, tensor));
    graph.initializers.push_back(std::move(read));
  }
  for (const onnx_wire::ValueInfo& info : wire.input()) graph.inputs.push_back(info.name());
  for (const onnx_wire::ValueInfo& info : wire.output()) graph.outputs.push_back(info.name());
  return graph;
}

// The field that is in use is told by `type` (AttributeProto.AttributeType); files before IR 4 may
// leave it out.
Result<OnnxAttr> read_attribute(const Place& place, onnx_wire::Attribute& wire) {
  OnnxAttr attr;
  attr.type = wire.type() == 0 ? filled_type(wire) : wire.type();
  attr.reference = wire.ref_attr_name();
  const int type = wire.type();
  if (type == kFloat || (type == 0 && wire.has_f())) attr.real = static_cast<double>(wire.f());
  if (type == kInt || (type == 0 && wire.has_i())) attr.integer = wire.i();
  if (type == kString || (type == 0 && wire.has_s())) attr.word = wire.s();
  if (type == kInts || type == 0) attr.integers.assign(wire.ints().begin(), wire.ints().end());
  if (type == kFloats || type == 0) attr.reals.assign(wire.floats().begin(), wire.floats().end());
  if (type == kStrings || type == 0)
    attr.words.assign(wire.strings().begin(), wire.strings().end());
  if (wire.has_t() && (type == kTensor || type == 0)) {
    LT_ASSIGN(attr.tensor, read_tensor(place, *wire.mutable_t()));
  }
  if (wire.has_g() && (type == kGraph || type == 0)) {
    LT_ASSIGN(OnnxSubgraph graph, read_subgraph(place, *wire.mutable_g()));
    attr.subgraph.push_back(std::move(graph));
  }
  return attr;
}

Result<OnnxNode> read_node(const Place& place, onnx_wire::Node& wire) {
  OnnxNode node;
  node.op_type = wire.op_type();
  node.domain = wire.domain() == "ai.onnx" ? "" : wire.domain();
  node.overload = wire.overload();
  node.name = wire.name();
  node.inputs.assign(wire.input().begin(), wire.input().end());
  node.outputs.assign(wire.output().begin(), wire.output().end());
  node.source = source_line(wire.doc_string());
  for (const onnx_wire::StringPair& entry : wire.metadata_props()) {
    if (entry.key() == kScopesKey) node.module = module_of_scopes(entry.value());
    if (entry.key() == kStackKey) node.source = source_line(entry.value());
  }
  for (onnx_wire::Attribute& attribute : *wire.mutable_attribute()) {
    LT_ASSIGN(OnnxAttr attr, read_attribute(place, attribute));
    node.attrs[attribute.name()] = std::move(attr);
  }
  return node;
}
// NOLINTEND(misc-no-recursion)

Status read_dim(const Place& place, const onnx_wire::Dimension& wire, OnnxValueInfo& info) {
  if (wire.has_dim_value()) {
    if (wire.dim_value() < 0)
      return error(ErrorCode::kInput, fmt::format("{}: '{}' has the negative dim {}", place.origin,
                                                  info.name, wire.dim_value()));
    info.dims.emplace_back(sym::Expr(wire.dim_value()));
    info.dim_text.push_back(std::to_string(wire.dim_value()));
    return {};
  }
  info.dim_text.push_back(wire.dim_param());
  if (wire.dim_param().empty()) {
    info.dims.emplace_back(std::nullopt);
    return {};
  }
  // Exporters write expressions, but any text is legal: what is not an expression is the name of a
  // symbol.
  auto expr = sym::parse_expr(wire.dim_param());
  info.dims.emplace_back(expr ? *expr : sym::Expr::symbol(wire.dim_param()));
  return {};
}

Result<OnnxValueInfo> read_value_info(const Place& place, const onnx_wire::ValueInfo& wire) {
  OnnxValueInfo info;
  info.name = wire.name();
  for (const onnx_wire::StringPair& entry : wire.metadata_props())
    if (entry.key() == kKindKey) info.kind = entry.value();
  if (!wire.type().has_tensor_type()) return info;
  const onnx_wire::TensorType& type = wire.type().tensor_type();
  info.is_tensor = true;
  info.type_code = type.elem_type();
  info.dtype = onnx_dtype(type.elem_type());
  info.has_shape = type.has_shape();
  for (const onnx_wire::Dimension& dim : type.shape().dim())
    LT_RETURN_IF_ERROR(read_dim(place, dim, info));
  return info;
}

Status read_graph(const Place& place, onnx_wire::Graph& wire, OnnxModel& model) {
  model.name = wire.name();
  if (wire.sparse_initializer_size() > 0)
    return error(ErrorCode::kInput,
                 fmt::format("{}: {} sparse initializers; only dense ones are read", place.origin,
                             wire.sparse_initializer_size()));
  LT_RETURN_IF_ERROR(check_node_count(place, wire));
  for (onnx_wire::Node& node : *wire.mutable_node()) {
    LT_ASSIGN(OnnxNode read, read_node(place, node));
    model.nodes.push_back(std::move(read));
  }
  for (onnx_wire::Tensor& tensor : *wire.mutable_initializer()) {
    LT_ASSIGN(OnnxTensor read, read_tensor(place, tensor));
    model.initializers.push_back(std::move(read));
  }
  for (const onnx_wire::ValueInfo& info : wire.input()) {
    LT_ASSIGN(OnnxValueInfo read, read_value_info(place, info));
    model.inputs.push_back(std::move(read));
  }
  for (const onnx_wire::ValueInfo& info : wire.output()) {
    LT_ASSIGN(OnnxValueInfo read, read_value_info(place, info));
    model.outputs.push_back(std::move(read));
  }
  for (const onnx_wire::ValueInfo& info : wire.value_info()) {
    LT_ASSIGN(OnnxValueInfo read, read_value_info(place, info));
    model.value_info[info.name()] = std::move(read);
  }
  return {};
}

Result<OnnxFunction> read_function(const Place& place, onnx_wire::Function& wire) {
  OnnxFunction function;
  function.name = wire.name();
  function.domain = wire.domain();
  function.overload = wire.overload();
  function.inputs.assign(wire.input().begin(), wire.input().end());
  function.outputs.assign(wire.output().begin(), wire.output().end());
  function.attributes.assign(wire.attribute().begin(), wire.attribute().end());
  for (onnx_wire::Attribute& attribute : *wire.mutable_attribute_proto()) {
    LT_ASSIGN(OnnxAttr attr, read_attribute(place, attribute));
    function.defaults[attribute.name()] = std::move(attr);
  }
  for (onnx_wire::Node& node : *wire.mutable_node()) {
    LT_ASSIGN(OnnxNode read, read_node(place, node));
    function.nodes.push_back(std::move(read));
  }
  for (const onnx_wire::OperatorSet& set : wire.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx") function.opset = set.version();
  return function;
}

Status check_versions(const OnnxModel& model) {
  if (model.ir_version < kMinIrVersion || model.ir_version > kMaxIrVersion)
    return error(ErrorCode::kInput,
                 fmt::format("{}: IR version {} is not one of {} to {}", model.origin,
                             model.ir_version, kMinIrVersion, kMaxIrVersion));
  if (model.opset != 0 && (model.opset < kMinOpset || model.opset > kMaxOpset))
    return error(ErrorCode::kInput, fmt::format("{}: opset {} is not one of {} to {}", model.origin,
                                                model.opset, kMinOpset, kMaxOpset));
  return {};
}

}  // namespace

Result<OnnxModel> decode_onnx_model(std::string_view bytes, const std::string& origin,
                                    const std::string& folder) {
  onnx_wire::Model wire;
  if (!parse(bytes, wire))
    return error(ErrorCode::kInput,
                 fmt::format("{}: not an ONNX model: {} bytes that do not decode (truncated?)",
                             origin, bytes.size()));
  if (!wire.has_graph())
    return error(ErrorCode::kInput,
                 fmt::format("{}: an ONNX model without a graph ({} bytes)", origin, bytes.size()));
  OnnxModel model;
  model.origin = origin;
  model.folder = folder;
  model.ir_version = wire.ir_version();
  model.producer = wire.producer_name();
  if (!wire.producer_version().empty()) model.producer += " " + wire.producer_version();
  for (const onnx_wire::OperatorSet& set : wire.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx")
      model.opset = set.version();
    else
      model.other_domains[set.domain()] = set.version();
  }
  LT_RETURN_IF_ERROR(check_versions(model));
  const Place place{model.origin, model.folder};
  LT_RETURN_IF_ERROR(read_graph(place, *wire.mutable_graph(), model));
  for (onnx_wire::Function& function : *wire.mutable_functions()) {
    LT_ASSIGN(OnnxFunction read, read_function(place, function));
    model.functions.push_back(std::move(read));
  }
  return model;
}

}  // namespace lowtide::io

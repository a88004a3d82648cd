// Small ONNX files made message by message, for tests of the door.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/onnx.pb.h"
#include "ir/graph.h"

namespace lowtide::io {

// The ops of a kind.
inline int count_ops(const ir::Graph& graph, std::string_view kind) {
  int found = 0;
  for (const ir::OpId op : graph.ops()) found += graph.op(op).kind == kind;
  return found;
}

// Builds small ONNX files in memory, message by message.
class ModelMaker {
 public:
  explicit ModelMaker(int64_t opset = 20) {
    model_.set_ir_version(10);
    model_.mutable_graph()->set_name("made");
    model_.add_opset_import()->set_version(opset);
  }

  onnx_wire::Model& wire() { return model_; }
  onnx_wire::Graph& graph() { return *model_.mutable_graph(); }
  std::string bytes() const { return model_.SerializeAsString(); }

  // Dims are numbers or dim_param texts.
  ModelMaker& input(const std::string& name, const std::vector<std::string>& dims, int type = 1) {
    declare(*graph().add_input(), name, dims, type);
    return *this;
  }
  ModelMaker& output(const std::string& name) {
    declare(*graph().add_output(), name, {}, 1);
    graph().mutable_output()->rbegin()->mutable_type()->mutable_tensor_type()->clear_shape();
    return *this;
  }
  onnx_wire::Node& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = "") {
    return fill(*graph().add_node(), op, inputs, outputs, name);
  }
  static onnx_wire::Node& fill(onnx_wire::Node& node, const std::string& op,
                               const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const std::string& name = "") {
    node.set_op_type(op);
    node.set_name(name);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    return node;
  }
  onnx_wire::Tensor& floats(const std::string& name, const std::vector<int64_t>& dims,
                            const std::vector<float>& values) {
    onnx_wire::Tensor& tensor = header(name, dims, 1);
    for (float v : values) tensor.add_float_data(v);
    return tensor;
  }
  onnx_wire::Tensor& ints(const std::string& name, const std::vector<int64_t>& dims,
                          const std::vector<int64_t>& values) {
    onnx_wire::Tensor& tensor = header(name, dims, 7);
    for (int64_t v : values) tensor.add_int64_data(v);
    return tensor;
  }
  // A float tensor whose bytes lie in a file.
  onnx_wire::Tensor& external(const std::string& name, const std::vector<int64_t>& dims,
                              const std::string& location) {
    onnx_wire::Tensor& tensor = header(name, dims, 1);
    tensor.set_data_location(1);
    onnx_wire::StringPair& pair = *tensor.add_external_data();
    pair.set_key("location");
    pair.set_value(location);
    return tensor;
  }

  static void declare(onnx_wire::ValueInfo& info, const std::string& name,
                      const std::vector<std::string>& dims, int type) {
    info.set_name(name);
    onnx_wire::TensorType& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const std::string& dim : dims) {
      onnx_wire::Dimension& made = *tensor.mutable_shape()->add_dim();
      if (!dim.empty() && (dim[0] == '-' || (dim[0] >= '0' && dim[0] <= '9')) &&
          dim.find_first_not_of("-0123456789") == std::string::npos)
        made.set_dim_value(std::stoll(dim));
      else
        made.set_dim_param(dim);
    }
  }

 private:
  onnx_wire::Tensor& header(const std::string& name, const std::vector<int64_t>& dims, int type) {
    onnx_wire::Tensor& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (int64_t dim : dims) tensor.add_dims(dim);
    return tensor;
  }
  onnx_wire::Model model_;
};

inline void set_int(onnx_wire::Node& node, const std::string& name, int64_t value) {
  onnx_wire::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(2);
  attribute.set_i(value);
}
inline void set_ints(onnx_wire::Node& node, const std::string& name,
                     const std::vector<int64_t>& values) {
  onnx_wire::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(7);
  for (int64_t v : values) attribute.add_ints(v);
}
inline void set_real(onnx_wire::Node& node, const std::string& name, float value) {
  onnx_wire::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(1);
  attribute.set_f(value);
}

inline onnx_wire::Attribute& set_word(onnx_wire::Node& node, const std::string& name,
                                      const std::string& value) {
  onnx_wire::Attribute& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(3);
  attribute.set_s(value);
  return attribute;
}

}  // namespace lowtide::io

// The conversion of an ordered model into a Graph, and what an op's conversion sees of it
// (NodeCall).
//
// Each ONNX name has a Slot: a value of the graph, a value known on the host, an initializer that
// nobody has asked for yet, or a transposition that has not been written out (matrix products read
// it as an attribute, other readers make it real). Constants become values of the graph when an op
// asks for them, and only once. Names of the same tensor (Identity, a Reshape to the dims that are
// there) share one Slot, so that a tied weight is one parameter whoever asks for it first.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/host_value.h"
#include "io/onnx_model.h"
#include "io/onnx_parameters.h"
#include "io/onnx_reader.h"
#include "ir/graph.h"

namespace lowtide::io {

struct Slot {
  std::optional<ir::ValueId> value;
  std::optional<HostValue> host;
  const OnnxTensor* initializer = nullptr;  // a parameter not in the graph yet
  // value = Transpose(source, perm), to be written when somebody needs it.
  std::optional<ir::ValueId> transposed;
  std::vector<size_t> perm;
  size_t transpose_node = 0;  // the node it comes from, for names
  // `host` made a value with extents of 1 where it does not vary.
  std::optional<ir::ValueId> narrow;
};

// Everything behind decoding: functions, order, peepholes, conversion. For tests that edit the
// model first.
Result<ir::Graph> graph_of(OnnxModel model, const OnnxOptions& options);

class Conversion {
 public:
  Conversion(const OnnxModel& model, const OnnxOptions& options);
  Result<ir::Graph> run();
  // Converts what can be converted and returns every refusal, each with its node but without the
  // file's name. A node that reads what a refused one would have made is passed over, as is one
  // whose op is not taken (check_ops tells those).
  std::vector<std::string> dry_run();
  const ir::Graph& graph() const { return graph_; }
  // The Ifs, by node, whose condition is known, as far as the conversion came.
  const std::map<size_t, bool>& known_conditions() const { return conditions_; }

 private:
  friend class NodeCall;

  Slot& slot(const std::string& name);                 // empty when the name is new
  const Slot* find_slot(std::string_view name) const;  // null: there is no such name
  // A name for what the file does not name; no name of the file.
  std::string inner_name(std::string wanted) const;

  Status begin();  // inputs and initializers
  Status add_inputs();
  Status check_bound_dim(const OnnxValueInfo& input, size_t d, const sym::Expr& dim,
                         const sym::Expr& bound) const;
  void add_initializers();
  Status convert(size_t n);
  Status note_condition(size_t n);
  Result<bool> convert_on_host(const OnnxNode& node);
  Status mark_outputs();
  Result<ir::ValueId> named_output(const std::string& name);
  Status check_declared() const;
  void note(std::string text) const;
  void note_untold() const;
  std::optional<ir::Dims> dims_of(const Slot& slot) const;  // none: the slot holds nothing

  Result<ir::ValueId> parameter(const OnnxTensor& tensor);
  Result<ir::ValueId> materialize(const std::string& name);
  Result<ir::ValueId> materialize_narrow(const std::string& name);
  Result<ir::ValueId> constant(const HostValue& value, const std::string& name);
  Result<ir::ValueId> fill_uniform(const HostValue& value, const std::string& name);
  Result<ir::ValueId> fill(const HostValue& value, const std::string& name);

  const OnnxModel& model_;
  const OnnxOptions& options_;
  ir::Graph graph_;
  TensorRoles roles_;
  std::deque<Slot> slots_;
  std::map<std::string, size_t, std::less<>> slot_of_;               // places in slots_
  std::map<std::string, std::vector<size_t>, std::less<>> readers_;  // nodes, by the name they read
  std::map<std::string, int, std::less<>> outputs_;                  // names of the model's outputs
  std::map<size_t, bool> conditions_;
  std::vector<bool> done_;                    // nodes that another node's conversion covered
  int64_t stream_ = 0;                        // of random ops, in file order
  std::map<ir::ValueId, ir::ValueId> reals_;  // of stored integers, the same numbers as floats
};

// One node while it is converted.
class NodeCall {
 public:
  NodeCall(Conversion& door, size_t index);

  const OnnxNode& node() const { return node_; }
  int64_t opset() const { return door_.model_.opset; }
  bool training() const { return door_.options_.training; }
  bool dropout() const { return door_.options_.dropout; }
  const sym::Bindings& bindings() const { return door_.options_.bindings; }
  // What the file declares of an output; null: nothing.
  const OnnxValueInfo* declared(size_t output) const;
  size_t inputs() const { return node_.inputs.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  bool wants(size_t output) const {
    return output < node_.outputs.size() && !node_.outputs[output].empty();
  }

  // Error: an input of a type that is not computed with.
  Status check_types() const;
  // Error: input i is of another type than a float.
  Status check_floats(size_t i) const;
  // What is known of an input without making it a value. A copy: the graph's own move when an op is
  // added.
  ir::Dims dims(size_t i) const;
  DType dtype(size_t i) const;
  const HostValue* host(size_t i) const;  // null unless known on the host
  Result<std::vector<sym::Expr>> sizes(size_t i) const;
  Result<std::vector<int64_t>> integers(size_t i) const;
  // The number of a one-element float or integer constant; none when the input is anything else.
  std::optional<double> scalar(size_t i) const;
  // The same as an attribute: an integer keeps all its digits.
  std::optional<ir::AttrValue> number(size_t i) const;
  bool is_parameter(size_t i) const;

  // The float whose number a stored integer is, where one was remembered: what is differentiated.
  void remember_real(ir::ValueId integer, ir::ValueId real) { door_.reals_[integer] = real; }
  std::optional<ir::ValueId> real_of(ir::ValueId integer) const {
    const auto found = door_.reals_.find(integer);
    return found == door_.reals_.end() ? std::nullopt : std::optional(found->second);
  }

  // The input as a value of the graph. `operand` may have extents of 1 where numpy's broadcast
  // fills them in anyway.
  Result<ir::ValueId> value(size_t i);
  Result<ir::ValueId> operand(size_t i);
  Result<ir::ValueId> inline_constant(const HostValue& host, std::string_view suffix);
  // A scalar as a value; of an integer type only what a double holds exactly.
  Result<ir::ValueId> inline_number(double value, DType dtype, std::string_view suffix);
  const ir::Value& of(ir::ValueId id) const { return door_.graph_.value(id); }

  // What a training step overwrites to keep a new version of a value: the newest one of a
  // parameter's or buffer's storage, if the value shows all of that storage. None: it is fed,
  // constant or made by the step, or the graph is not for training.
  std::optional<ir::ValueId> buffer(ir::ValueId id) const;
  // Nodes that read the tensor of input i after this one read `version`.
  void renew(size_t i, ir::ValueId version);

  // The unwritten transposition behind an input: its source and perm.
  std::optional<std::pair<ir::ValueId, std::vector<size_t>>> pending_transpose(size_t i) const;

  // Adds an op whose result is intermediate.
  Result<ir::ValueId> emit(std::string_view kind, std::vector<ir::ValueId> inputs,
                           ir::Attrs attrs = {});
  // The same, for all its results.
  Result<std::vector<ir::ValueId>> emit_all(std::string_view kind, std::vector<ir::ValueId> inputs,
                                            ir::Attrs attrs);
  // Adds the op whose outputs are the node's first `outputs` outputs.
  Status result(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs = {},
                size_t outputs = 1);
  // The same for an op of which only output 0 is the node's; all its outputs.
  Result<std::vector<ir::ValueId>> result_all(std::string_view kind,
                                              std::vector<ir::ValueId> inputs, ir::Attrs attrs);
  // As result, for one output of the node that is an op's first; its value.
  Result<ir::ValueId> result_at(size_t output, std::string_view kind,
                                std::vector<ir::ValueId> inputs, ir::Attrs attrs = {});
  // For a node that is written out as several ops: they compute with x in f32 where it is a float
  // of 16 bits, which the squares and sums between them would leave, and `result_as` ends them in
  // the node's own type.
  Result<ir::ValueId> wide(ir::ValueId x);
  Result<ir::ValueId> as_type(ir::ValueId x, DType to);
  Status result_as(DType to, std::string_view kind, std::vector<ir::ValueId> inputs,
                   ir::Attrs attrs = {});
  void set(size_t output, ir::ValueId value);
  void set_host(size_t output, HostValue value);
  // Output 0 is the same tensor as input i, whatever that is.
  void pass(size_t i);
  void set_transpose(ir::ValueId source, std::vector<size_t> perm);

  // For fusing with what follows: the only reader of output 0 if there is exactly one and it is of
  // this type, and its operand besides output 0. `absorb` makes output 0 stand for that node's
  // output as well.
  std::optional<size_t> sole_reader(std::string_view op_type) const;
  NodeCall at(size_t index) const { return NodeCall(door_, index); }
  void absorb(size_t reader);

  int64_t next_stream() { return door_.stream_++; }

 private:
  const Slot& slot(size_t i) const;
  std::vector<std::string> output_names(size_t outputs) const;
  Result<std::vector<ir::ValueId>> append(std::string_view kind, std::vector<ir::ValueId> inputs,
                                          ir::Attrs attrs, std::string name,
                                          std::vector<std::string> output_names);

  Conversion& door_;
  size_t index_;
  const OnnxNode& node_;
  std::string label_;                      // name of ops and intermediate values
  std::optional<std::string> final_name_;  // after absorb: what output 0 is called
};

// Attribute values.
ir::AttrValue list(std::vector<sym::Expr> values);
ir::AttrValue list(const std::vector<int64_t>& values);
ir::AttrValue word(std::string_view text);

}  // namespace lowtide::io

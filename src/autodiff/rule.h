// What gradient rules are written in. A rule sees one forward op and the gradients of its outputs;
// it appends backward ops and gives every input that needs one its contribution. Internal to this
// folder.
//
// Tests: rules_test.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::autodiff {

class Backward;

class RuleContext {
 public:
  RuleContext(Backward& pass, ir::OpId op);

  // ---- the forward op ----
  std::string_view kind() const { return op_.kind; }
  const ir::Attrs& attrs() const { return op_.attrs; }
  size_t input_count() const { return op_.inputs.size(); }
  bool has_input(size_t i) const { return i < op_.inputs.size() && op_.inputs[i].valid(); }
  ir::ValueId input(size_t i) const { return op_.inputs[i]; }
  ir::ValueId output(size_t o) const { return op_.outputs[o]; }
  const ir::Dims& dims(ir::ValueId value) const;
  DType dtype(ir::ValueId value) const;
  std::string layout(ir::ValueId value) const;  // as a word
  std::string what() const;                     // "Conv 'layer1/conv'", for messages
  // Whether the gradient of input i is wanted.
  bool needs(size_t i) const;

  // Copies of the forward ops that read a value, in their order.
  std::vector<ir::Op> forward_readers(ir::ValueId value) const;

  // ---- gradients of the outputs ----
  bool has_dy(size_t o) const;
  // The gradient of output o, which has one.
  Result<ir::ValueId> dy(size_t o = 0);
  // The same when it is a known number (that of the loss itself is 1), so that a scale can be an
  // attribute.
  std::optional<double> constant_dy() const;

  // The gradient collected so far by any forward value; none when there is none.
  Result<ir::ValueId> gradient_of(ir::ValueId value);

  // Has the rule of the op that makes `value` called even if no gradient reaches it: it will speak
  // for this op.
  void leave_to(ir::ValueId value);

  // ---- making backward ops ----
  Result<ir::ValueId> make(std::string_view kind, std::vector<ir::ValueId> inputs,
                           ir::Attrs attrs = {});
  Result<std::vector<ir::ValueId>> make_all(std::string_view kind, std::vector<ir::ValueId> inputs,
                                            ir::Attrs attrs = {});
  Result<ir::ValueId> reshape(ir::ValueId value, const ir::Dims& shape);
  Result<ir::ValueId> sum(ir::ValueId value, std::vector<int64_t> axes, bool keepdims);
  // A scalar constant of the dtype of `like`.
  Result<ir::ValueId> number(double value, ir::ValueId like);
  // A constant i64 vector.
  ir::ValueId indices(const std::vector<int64_t>& values);
  // Undoes broadcasting: sums over what `dims` does not have, or has with extent 1.
  Result<ir::ValueId> reduce_to(ir::ValueId value, const ir::Dims& dims);

  // ---- contributions ----
  // Adds `gradient` (of the dims of input i) to the gradient of input i.
  Status give(size_t i, ir::ValueId gradient);
  // The same after reduce_to.
  Status give_reduced(size_t i, ir::ValueId gradient);
  Status give_constant(size_t i, double value);
  // Makes an op whose result is the contribution to input i. Where it can add into what is there,
  // its accumulator takes the gradient so far.
  Status give_added(size_t i, std::string_view kind, std::vector<ir::ValueId> inputs,
                    ir::Attrs attrs);
  // The same of an op whose output i is the contribution to input i, for all inputs that there are.
  Status give_all_added(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs);

 private:
  std::optional<size_t> open_operand(const ops::Row& row, size_t o, size_t i) const;
  Status add_accumulator(std::vector<ir::ValueId>& inputs, size_t place, size_t i);

  Backward& pass_;
  const ir::Op op_;  // a copy: the graph grows while rules look at it
};

using Rule = Status (*)(RuleContext&);
using RuleTable = std::map<std::string_view, Rule>;

// All rules, by the name that the op table has for them (Traits::gradient).
const RuleTable& rules();

void add_elementwise_rules(RuleTable& table);
void add_product_rules(RuleTable& table);
void add_norm_rules(RuleTable& table);
void add_window_rules(RuleTable& table);
void add_move_rules(RuleTable& table);
void add_resampling_rules(RuleTable& table);

// Attributes as rules write them.
ir::Dims sizes(const std::vector<int64_t>& values);
int64_t integer_attr(const ir::Attrs& attrs, std::string_view name, int64_t absent = 0);
double real_attr(const ir::Attrs& attrs, std::string_view name, double absent = 0);
ir::Dims list_attr(const ir::Attrs& attrs, std::string_view name);
// The dims behind batch and channels.
ir::Dims spatial(const ir::Dims& dims);
// The attributes with those of `more` added or replaced.
ir::Attrs with(ir::Attrs attrs, const ir::Attrs& more);
// A copy of the attributes of these names that are there.
ir::Attrs only(const ir::Attrs& attrs, std::initializer_list<std::string_view> names);

}  // namespace lowtide::autodiff

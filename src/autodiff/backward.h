// The state of one reverse pass: which values need a gradient and what each has collected so far.
// Internal to this folder.
//
// Tests: gradient_test.cc, training_test.cc.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "autodiff/gradient.h"
#include "autodiff/rule.h"
#include "ir/graph.h"

namespace lowtide::autodiff {

class Backward {
 public:
  Backward(ir::Graph& graph, std::span<const ir::ValueId> wrt, const GradientOptions& options);

  // Visits all ops against their order. Afterwards gradient() answers.
  Status run(ir::ValueId loss);

  ir::Graph& graph() { return graph_; }
  const GradientOptions& options() const { return options_; }
  size_t forward_ops() const { return forward_ops_; }  // later ops are of the pass
  bool needs(ir::ValueId value) const { return value.valid() && needs_[value]; }
  bool has_gradient(ir::ValueId value) const;
  std::optional<double> constant_gradient(ir::ValueId value) const;
  // The gradient as a value of the graph; written out where it is only known as a number.
  Result<ir::ValueId> gradient(ir::ValueId value);
  Status add_gradient(ir::ValueId value, ir::ValueId gradient);
  Status add_constant(ir::ValueId value, double constant);
  // For ops that added the gradient so far into their result.
  void replace_gradient(ir::ValueId value, ir::ValueId gradient);

  void visit_anyway(ir::OpId op) { visit_anyway_.insert(op); }

  // Appends a backward op that belongs to forward op `of`.
  Result<ir::OpId> append(const ir::Op& of, std::string_view kind, std::vector<ir::ValueId> inputs,
                          ir::Attrs attrs);

 private:
  struct SoFar {                     // of a gradient
    std::optional<double> constant;  // the same number everywhere, not written out
    ir::ValueId value;
  };
  // A summand of a parameter's gradient is memory for gradients, also before the sum is complete.
  void mark_summand(ir::ValueId of, ir::ValueId summand);
  void find_needs(std::span<const ir::ValueId> wrt);
  Status visit(ir::OpId op);

  ir::Graph& graph_;
  GradientOptions options_;
  size_t forward_ops_;
  IdVector<ir::ValueId, bool> needs_;    // of the values before the pass
  IdVector<ir::ValueId, SoFar> so_far_;  // the same
  std::set<ir::OpId> visit_anyway_;
  ir::Op visiting_;  // whose module new ops get
};

}  // namespace lowtide::autodiff

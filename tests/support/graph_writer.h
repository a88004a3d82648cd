// Writes a graph op by op, for tests: what a network of a test derives from, or uses as it is.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide {

class GraphWriter {
 public:
  // Fed, if it is an input, or else drawn. A number follows a name that is taken.
  ir::ValueId given(const std::string& name, ir::Dims dims, Category category = Category::kInput) {
    ir::Value value;
    value.name = graph_.fresh_name(name);
    value.dims = std::move(dims);
    value.category = category;
    if (category != Category::kInput) value.initial.kind = ir::InitialValue::Kind::kSeeded;
    return graph_.add_value(std::move(value));
  }
  // The op's first output. Without a name it is called like its kind.
  ir::ValueId op(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs = {},
                 std::string name = {}) {
    ops::AppendOptions options;
    options.name = std::move(name);
    const auto made = ops::append(graph_, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return made ? graph_.op(*made).outputs[0] : ir::ValueId(0);
  }
  void result(ir::ValueId v) { graph_.set_output(v, true); }
  // Ends in one result, the sum of the means of all there are, as training wants it.
  const ir::Graph& with_one_result() {
    ir::ValueId sum;
    for (ir::ValueId v : graph_.outputs()) {
      graph_.set_output(v, false);
      ir::Dims axes;
      for (size_t d = 0; d < graph_.value(v).dims.size(); ++d)
        axes.emplace_back(static_cast<int64_t>(d));
      const ir::ValueId mean = op("ReduceMean", {v}, {{"axes", axes}, {"keepdims", int64_t{0}}});
      sum = sum.valid() ? op("Add", {sum, mean}) : mean;
    }
    result(sum);
    return graph_;
  }
  const ir::Graph& graph() const { return graph_; }
  ir::Graph& graph() { return graph_; }

 protected:
  ir::Graph graph_;
};

}  // namespace lowtide

// Small graphs for tests, made op by op.
//
// Tests: labels_test.cc, scale_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/schedule_view.h"
#include "fission/classes.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::fission {

struct Net {
  ir::ValueId given(ir::Dims dims) {
    ir::Value value;
    value.name = "given" + std::to_string(names++);
    value.dims = std::move(dims);
    value.category = Category::kInput;
    return graph.add_value(std::move(value));
  }
  // Its first output.
  ir::ValueId op(std::string name, std::string_view kind, std::vector<ir::ValueId> inputs,
                 ir::Attrs attrs = {}) {
    ops::AppendOptions options;
    options.name = std::move(name);
    const auto made = ops::append(graph, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return graph.op(*made).outputs[0];
  }
  AxisClass largest() const { return axis_classes(graph).value().front(); }
  // Each op takes a second.
  analysis::ScheduleView view() const {
    analysis::OpCosts costs;
    costs.seconds = IdVector<ir::OpId, double>(graph.op_count(), 1);
    costs.workspace_bytes = IdVector<ir::OpId, int64_t>(graph.op_count(), 0);
    return analysis::make_schedule_view(graph, costs, 1).value();
  }

  ir::Graph graph;
  int names = 0;
};

}  // namespace lowtide::fission

// Logits of some rows, the loss of these and its gradient, as a training step has them.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ops/op_table.h"
#include "support/graph_writer.h"

namespace lowtide {

// The classes lie along `axis`. Labels are all classes. Something else reads the log-sum-exp.
struct LossOfRows : GraphWriter {
  LossOfRows(ir::Dims dims, int64_t axis, ir::Attrs attrs = {}) {
    const ir::ValueId logits = op("Tanh", {given("x", dims)});
    const int64_t classes = dims[static_cast<size_t>(axis)].constant().value_or(7);
    dims.erase(dims.begin() + axis);
    const ir::ValueId labels = given_labels(std::move(dims), classes);
    attrs["axis"] = axis;
    const auto made = ops::append(
        graph_, "CrossEntropy", {logits, labels}, attrs,
        {.name = "loss", .module = "head", .output_names = {"loss", "loss.log_sum_exp"}});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    const std::vector<ir::ValueId> results = graph_.op(*made).outputs;
    result(results[0]);
    result(op("Exp", {results[1]}));
    attrs["scale"] = 0.5;
    result(op("CrossEntropyGrad", {logits, labels, results[1]}, attrs));
  }

 private:
  ir::ValueId given_labels(ir::Dims dims, int64_t classes) {
    ir::Value labels;
    labels.name = "labels";
    labels.dtype = DType::kI64;
    labels.dims = std::move(dims);
    labels.category = Category::kInput;
    labels.initial.kind = ir::InitialValue::Kind::kInline;
    const auto rows = ir::element_count(labels).constant().value_or(0);  // fed nowhere, if symbolic
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t label = (row + row / classes) % classes;
      labels.initial.bytes.append(reinterpret_cast<const char*>(&label), sizeof(label));
    }
    return graph_.add_value(std::move(labels));
  }
};

}  // namespace lowtide

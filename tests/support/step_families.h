// Small training steps of several families of networks, drawn at random, for properties that hold
// for any step: images through a U-Net with batch norm, text through causal attention to
// cross-entropy over a vocabulary, rows through experts that a router chooses, sequences through a
// recurrent network, and the networks of small_steps.h.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "ops/op_table.h"
#include "rewrite/batch_norm.h"
#include "rewrite/label_counts.h"
#include "rewrite/loss_classes.h"
#include "rewrite/query_blocks.h"
#include "support/graph_writer.h"
#include "support/small_steps.h"

namespace lowtide {

class DrawnNetwork : private GraphWriter {
 public:
  explicit DrawnNetwork(Rng& rng) : rng_(rng) {}

  // Two resolutions; what the first makes is joined again behind the second.
  ir::Graph unet() {
    ir::ValueId x = given("image", {rng_.between(2, 4), 3, 8, 8});
    const ir::ValueId skip = x = block(x, 3, 4);
    x = op(drawn() ? "MaxPool" : "AvgPool", {x},
           {{"kernel", ir::Dims{2, 2}}, {"strides", ir::Dims{2, 2}}});
    x = block(x, 4, 6);
    if (drawn())
      x = op("ConvDataGrad", {x, weight({6, 4, 2, 2})},
             {{"strides", ir::Dims{2, 2}}, {"output_spatial", ir::Dims{8, 8}}});
    else
      x = op("Conv", {op("Resize", {x}, to_8x8()), weight({4, 6, 1, 1})});
    x = block(op("Concat", {skip, x}, {{"axis", int64_t{1}}}), 8, 4);
    return finished(op("Conv", {x, weight({3, 4, 1, 1}), weight({3})}));
  }

  // A block of a language model; the head shares the table of the embedding or has its own.
  ir::Graph text() {
    const int64_t samples = rng_.between(2, 3), rows = 6, wide = 8, words = 11;
    const ir::ValueId table = weight({words, wide});
    ir::ValueId x = op("Gather", {table, chosen({samples, rows}, words)}, {{"axis", int64_t{0}}});
    x = op("Add", {x, weight({rows, wide})});
    x = op("Add", {x, attention(norm(x, wide), samples, rows, wide)});
    ir::ValueId hidden = op("MatMul", {norm(x, wide), weight({wide, 12}), weight({12})});
    hidden = op("MatMul", {op(drawn() ? "Gelu" : "Silu", {hidden}), weight({12, wide})});
    x = norm(op("Add", {x, dropout(hidden)}), wide);
    const bool tied = drawn();
    return finished(op("MatMul", {x, tied ? table : weight({wide, words})},
                       {{"trans_b", static_cast<int64_t>(tied)}}));
  }

  // Each row through the two experts that its router likes best, weighed by how much.
  ir::Graph experts() {
    const int64_t rows = rng_.between(5, 8), wide = 6, experts = 4;
    ir::ValueId x = op("Tanh", {op("MatMul", {given("rows", {rows, wide}), weight({wide, wide})})});
    const ir::ValueId odds =
        op("Softmax", {op("MatMul", {x, weight({wide, experts})})}, {{"axis", int64_t{1}}});
    const ir::ValueId weights = weight({experts, wide, wide});
    const ir::ValueId row = op("Reshape", {x}, {{"shape", ir::Dims{rows, 1, wide}}});
    const ir::ValueId best =
        op("TopK", {odds}, {{"axis", int64_t{1}}, {"count", int64_t{2}}, {"smallest", int64_t{0}}});
    const ir::ValueId places = graph_.op(graph_.value(best).producer).outputs[1];
    for (int64_t k = 0; k < 2; ++k) {
      const ir::ValueId chosen =
          op("Reshape", {slice(places, {0, k}, {rows, 1})}, {{"shape", ir::Dims{rows}}});
      const ir::ValueId expert = op("Gather", {weights, chosen}, {{"axis", int64_t{0}}});
      const ir::ValueId made =
          op("Reshape", {op("MatMul", {row, expert})}, {{"shape", ir::Dims{rows, wide}}});
      x = op("Add", {x, op("Mul", {op("Relu", {made}), slice(best, {0, k}, {rows, 1})})});
    }
    return finished(op("MatMul", {x, weight({wide, 5})}));
  }

  ir::Graph recurrent() {
    const int64_t steps = rng_.between(3, 5), samples = rng_.between(2, 4), units = 3;
    const bool lstm = drawn();
    const int64_t gates = lstm ? 4 : 3;
    ir::ValueId x = given("sequence", {steps, samples, 5});
    x = op("MatMul", {x, weight({5, gates * units}), weight({gates * units})});
    ir::Attrs attrs = {{"direction", std::string("forward")},
                       {"activations", std::string(lstm ? "sigmoid+tanh+tanh" : "sigmoid+tanh")}};
    const ir::ValueId recurrence = weight({1, gates * units, units});
    x = op(lstm ? "LstmTrain" : "GruTrain", {x, recurrence}, std::move(attrs));
    return finished(op("MatMul", {op("Tanh", {x}), weight({units, 4})}));
  }

 private:
  bool drawn() { return rng_.below(2) == 0; }
  ir::ValueId weight(ir::Dims dims) {
    return given("weight", std::move(dims), Category::kParameter);
  }

  ir::ValueId chosen(ir::Dims dims, int64_t limit) {
    ir::Value value;
    value.name = graph_.fresh_name("words");
    value.dtype = DType::kI64;
    value.category = Category::kInput;
    std::vector<int64_t> numbers(static_cast<size_t>(*dims[0].constant() * *dims[1].constant()));
    for (int64_t& number : numbers) number = rng_.between(0, limit - 1);
    value.dims = std::move(dims);
    value.initial.kind = ir::InitialValue::Kind::kInline;
    value.initial.bytes.assign(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof(int64_t));
    return graph_.add_value(std::move(value));
  }

  static ir::Attrs to_8x8() {
    return {{"axes", ir::Dims{2, 3}},
            {"sizes", ir::Dims{8, 8}},
            {"mode", std::string("linear")},
            {"coordinates", std::string("half_pixel")}};
  }

  ir::ValueId block(ir::ValueId x, int64_t from, int64_t to) {
    x = op("Conv", {x, weight({to, from, 3, 3})}, {{"pads", ir::Dims{1, 1, 1, 1}}});
    x = op("BatchNormTrain", {x, weight({to}), weight({to})}, {{"epsilon", 1e-3}});
    return op("Relu", {x});
  }

  ir::ValueId norm(ir::ValueId x, int64_t wide) {
    const ir::Attrs attrs = {{"axis", int64_t{2}}, {"epsilon", 1e-3}};
    if (drawn()) return op("RmsNorm", {x, weight({wide})}, attrs);
    return op("LayerNorm", {x, weight({wide}), weight({wide})}, attrs);
  }

  ir::ValueId dropout(ir::ValueId x) {
    return op("Dropout", {x}, {{"ratio", 0.25}, {"stream", ++streams_}});
  }

  ir::ValueId slice(ir::ValueId x, ir::Dims starts, ir::Dims sizes) {
    ir::Dims steps(starts.size(), 1);
    return op("Slice", {x},
              {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", steps}});
  }

  // In two heads, from one product for queries, keys and values.
  ir::ValueId attention(ir::ValueId x, int64_t samples, int64_t rows, int64_t wide) {
    const ir::ValueId all = op("MatMul", {x, weight({wide, 3 * wide})});
    const auto heads = [&](int64_t k) {
      const ir::ValueId one = slice(all, {0, 0, k * wide}, {samples, rows, wide});
      return op("Transpose",
                {op("Reshape", {one}, {{"shape", ir::Dims{samples, rows, 2, wide / 2}}})},
                {{"perm", ir::Dims{0, 2, 1, 3}}});
    };
    ir::ValueId scores = op("MatMul", {heads(0), heads(1)}, {{"trans_b", int64_t{1}}});
    scores = op("AffineScalar", {scores}, {{"scale", 0.5}, {"shift", 0.0}});
    const ir::ValueId fill =
        op("Fill", {},
           {{"shape", ir::Dims{rows, rows}}, {"value", -1e30}, {"dtype", std::string("f32")}});
    scores = op("Add", {scores, op("Trilu", {fill}, {{"upper", int64_t{1}}, {"k", int64_t{1}}})});
    scores = dropout(op("Softmax", {scores}, {{"axis", int64_t{3}}}));
    x = op("Transpose", {op("MatMul", {scores, heads(2)})}, {{"perm", ir::Dims{0, 2, 1, 3}}});
    x = op("Reshape", {x}, {{"shape", ir::Dims{samples, rows, wide}}});
    return dropout(op("MatMul", {x, weight({wide, wide})}));
  }

  ir::Graph finished(ir::ValueId result) {
    graph_.set_output(result, true);
    return std::move(graph_);
  }

  Rng& rng_;
  int64_t streams_ = 0;
};

inline constexpr const char* kFamilies[] = {"unet", "text", "experts", "recurrent", "small"};

// Of the family seed % 5. Batch norm and the loss over words are taken apart and attention put in
// blocks of queries by the toss of a coin. Of every third loss over words one of them is ignored.
// Without the moments of AdamW: it divides gradients by their size, and rounding is all there is of
// those that are zero.
inline ir::Graph step_of_family(uint64_t seed, Rng& rng) {
  const size_t family = seed % std::size(kFamilies);
  if (family == 4) return training_step(seed / std::size(kFamilies), rng);
  DrawnNetwork network(rng);
  ir::Graph graph = family == 0   ? network.unet()
                    : family == 1 ? network.text()
                    : family == 2 ? network.experts()
                                  : network.recurrent();
  const auto taken = [](auto made) {
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return std::move(made->graph);
  };
  if (family == 1 && rng.below(2) == 0) graph = taken(rewrite::attention_in_blocks(graph, 3));
  autodiff::TrainingOptions training;
  training.loss.kind = family == 0 && rng.below(2) == 0 ? autodiff::LossKind::kMeanSquaredError
                                                        : autodiff::LossKind::kCrossEntropy;
  training.optimizer.kind = autodiff::OptimizerKind::kSgd;
  training.optimizer.momentum = 0.9;
  const bool ignores = family == 1 && seed / std::size(kFamilies) % 3 == 1;
  if (ignores) training.loss.ignore_index = 4;
  auto step = autodiff::make_training_graph(graph, training);
  EXPECT_TRUE(step.has_value()) << (step ? "" : step.error().message);
  if (ignores) step = taken(rewrite::count_labels_first(*step));
  if (family == 0 && rng.below(2) == 0) return taken(rewrite::norm_in_passes(*step));
  if (family == 1 && rng.below(2) == 0) return taken(rewrite::loss_by_classes(*step));
  return std::move(*step);
}

}  // namespace lowtide

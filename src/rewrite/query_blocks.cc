#include "rewrite/query_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/edit.h"
#include "rewrite/rules.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

// From here on a number added to scores makes an exact zero of their softmax, in any float type.
constexpr double kMasked = -1e9;
// The least number of 16 bits: what masks of them hold.
constexpr double kLeastHalf = -65504;

struct Attention {
  OpId scores, mix;           // the two products
  std::vector<OpId> between;  // in order; the softmax is one of them
  ValueId causal_mask;        // among what they add; or none
  int64_t rows = 0, keys = 0;
};

std::optional<int64_t> extent(const ir::Value& value, size_t from_back) {
  if (value.dims.size() < from_back) return std::nullopt;
  return value.dims[value.dims.size() - from_back].constant();
}

int64_t number(const ir::Op& op, std::string_view name) {
  const auto found = op.attrs.find(name);
  return found == op.attrs.end() ? 0 : std::get<int64_t>(found->second);
}

// Two operands, all others absent.
bool is_product(const ir::Op& op) {
  return op.kind == "MatMul" && op.outputs.size() == 1 &&
         std::all_of(op.inputs.begin() + 2, op.inputs.end(),
                     [](ValueId in) { return !in.valid(); });
}

class AttentionFinder {
 public:
  explicit AttentionFinder(const ir::Graph& graph) : graph_(graph) {}

  // The attention that ends in this op.
  std::optional<Attention> at(OpId id) const {
    const ir::Op& op = graph_.op(id);
    if (!is_product(op) || number(op, "trans_a") != 0) return std::nullopt;
    Attention found;
    found.mix = id;
    bool has_softmax = false;
    ValueId x = op.inputs[0];
    while (true) {
      if (!is_read_once(x)) return std::nullopt;
      const OpId maker = graph_.value(x).producer;
      if (!maker.valid() || !graph_.op(maker).control.empty()) return std::nullopt;
      if (is_product(graph_.op(maker))) {
        found.scores = maker;
        break;
      }
      const auto operand = passes_rows(maker, has_softmax);
      if (!operand) return std::nullopt;
      has_softmax |= graph_.op(maker).kind == "Softmax";
      found.between.push_back(maker);
      x = *operand;
    }
    std::reverse(found.between.begin(), found.between.end());
    const auto rows = extent(graph_.value(x), 2), keys = extent(graph_.value(x), 1);
    if (is_block(found.scores)) return std::nullopt;
    if (!has_softmax || !rows || !keys || *rows < 2) return std::nullopt;
    found.rows = *rows;
    found.keys = *keys;
    find_mask(found);
    return found;
  }

 private:
  bool is_read_once(ValueId id) const {
    const ir::Value& value = graph_.value(id);
    return value.alias == ir::Alias::kOwn && !value.is_output && graph_.readers(id).size() == 1 &&
           graph_.values_in(value.storage).size() == 1;
  }

  // The operand through which the op's rows are made of rows, going back from the second product.
  std::optional<ValueId> passes_rows(OpId id, bool has_softmax) const {
    const ir::Op& op = graph_.op(id);
    const ir::Value& made = graph_.value(op.outputs[0]);
    if (op.outputs.size() != 1) return std::nullopt;
    if (op.kind == "AffineScalar" || op.kind == "Dropout") return op.inputs[0];
    if (op.kind == "Softmax" && !has_softmax &&
        number(op, "axis") == static_cast<int64_t>(made.dims.size()) - 1)
      return op.inputs[0];
    if (op.kind != "Add" || !has_softmax) return std::nullopt;
    for (const size_t k : {0, 1})
      if (graph_.value(op.inputs[k]).dims == made.dims &&
          graph_.value(op.inputs[k]).producer.valid() && is_read_once(op.inputs[k]) &&
          leads_to_product(op.inputs[k]))
        return op.inputs[k];
    return std::nullopt;
  }

  // Of two operands of one shape, the scores are those that a product makes.
  bool leads_to_product(ValueId id) const {
    std::vector<ValueId> open = {id};
    while (!open.empty()) {
      const OpId maker = graph_.value(open.back()).producer;
      open.pop_back();
      if (!maker.valid()) continue;
      const ir::Op& op = graph_.op(maker);
      if (is_product(op)) return true;
      if (op.kind == "AffineScalar" || op.kind == "Add")
        open.insert(open.end(), op.inputs.begin(), op.inputs.begin() + (op.kind == "Add" ? 2 : 1));
    }
    return false;
  }

  // Its queries are some rows of others.
  bool is_block(OpId scores) const {
    const ir::Op& op = graph_.op(scores);
    const ir::Value& queries = graph_.value(op.inputs[0]);
    if (!queries.producer.valid()) return false;
    const ir::Op& maker = graph_.op(queries.producer);
    const size_t from_back = number(op, "trans_a") != 0 ? 1 : 2;
    return maker.kind == "Slice" &&
           extent(queries, from_back) != extent(graph_.value(maker.inputs[0]), from_back);
  }

  void find_mask(Attention& found) const {
    if (found.rows != found.keys) return;
    ValueId x = graph_.op(found.scores).outputs[0];
    for (const OpId id : found.between) {
      const ir::Op& op = graph_.op(id);
      if (op.kind == "Softmax") return;
      if (op.kind == "Add") {
        const ValueId other = op.inputs[op.inputs[0] == x ? 1 : 0];
        if (is_causal_mask(other, found.rows)) found.causal_mask = other;
      }
      x = op.outputs[0];
    }
  }

  bool is_causal_mask(ValueId id, int64_t rows) const {
    const ir::Value& mask = graph_.value(id);
    if (!mask.producer.valid() || extent(mask, 1) != rows || extent(mask, 2) != rows) return false;
    for (size_t d = 0; d + 2 < mask.dims.size(); ++d)
      if (!(mask.dims[d] == sym::Expr(1))) return false;
    const ir::Op& triangle = graph_.op(mask.producer);
    if (triangle.kind != "Trilu" || number(triangle, "upper") == 0 || number(triangle, "k") != 1)
      return false;
    const ValueId filled = triangle.inputs[0];
    if (!graph_.value(filled).producer.valid()) return false;
    const ir::Op& fill = graph_.op(graph_.value(filled).producer);
    if (fill.kind != "Fill") return false;
    const double value = std::get<double>(fill.attrs.at("value"));
    const bool is_half = size_bytes(mask.dtype) == 2;
    return value <= (is_half ? kLeastHalf : kMasked);
  }

  const ir::Graph& graph_;
};

// The ops of one attention in blocks.
class BlockWriter {
 public:
  BlockWriter(GraphEdit& edit, const Attention& attention) : edit_(edit), attention_(attention) {}

  std::optional<ValueId> write(int64_t blocks) {
    blocks = std::min(blocks, attention_.rows);
    std::vector<int64_t> begins;
    for (int64_t k = 0, at = 0; k <= blocks; ++k) {
      begins.push_back(at);
      at += attention_.rows / blocks + (k < attention_.rows % blocks ? 1 : 0);
    }
    const ir::Op scores = edit_.op(attention_.scores), mix = edit_.op(attention_.mix);
    ValueId keys = scores.inputs[1], values = mix.inputs[1];
    const size_t keys_from_back = number(scores, "trans_b") != 0 ? 2 : 1;
    const size_t values_from_back = number(mix, "trans_b") != 0 ? 1 : 2;
    std::vector<ValueId> made(static_cast<size_t>(blocks));
    for (int64_t k = blocks - 1; k >= 0; --k) {
      block_ = k;
      begin_ = begins[static_cast<size_t>(k)];
      end_ = begins[static_cast<size_t>(k) + 1];
      keys_ = attention_.causal_mask.valid() ? end_ : attention_.keys;
      keys = slice(keys, keys_from_back, 0, keys_);
      values = slice(values, values_from_back, 0, keys_);
      made[static_cast<size_t>(k)] = write_block(keys, values);
    }
    ir::Attrs axis = {
        {"axis",
         static_cast<int64_t>(edit_.value(edit_.op(attention_.mix).outputs[0]).dims.size() - 2)}};
    const ValueId joined = append(attention_.mix, "", "Concat", made, std::move(axis));
    return failed_ ? std::nullopt : std::optional(joined);
  }

 private:
  ValueId write_block(ValueId keys, ValueId values) {
    const ir::Op scores = edit_.op(attention_.scores), mix = edit_.op(attention_.mix);
    const ValueId queries =
        slice(scores.inputs[0], number(scores, "trans_a") != 0 ? 1 : 2, begin_, end_);
    const std::string name = fmt::format("/block{}", block_);
    ValueId was = scores.outputs[0];
    ValueId x = append(attention_.scores, name, "MatMul", {queries, keys}, scores.attrs);
    for (const OpId id : attention_.between) {
      const ir::Op op = edit_.op(id);
      std::vector<ValueId> inputs = op.inputs;
      for (ValueId& input : inputs) input = input == was ? x : other(input);
      x = append(id, name, op.kind, std::move(inputs), attrs_of(op));
      was = op.outputs[0];
    }
    return append(attention_.mix, name, "MatMul", {x, values}, mix.attrs);
  }

  // What is added to scores, where the block has them.
  ValueId other(ValueId id) {
    if (id == attention_.causal_mask) return triangle(id);
    const auto rows = extent(edit_.value(id), 2), keys = extent(edit_.value(id), 1);
    if (rows && *rows != 1) id = slice(id, 2, begin_, end_);
    if (keys && *keys != 1) id = slice(id, 1, 0, keys_);
    return id;
  }

  // The block's part of the mask, made as the mask is: nobody needs all of it.
  ValueId triangle(ValueId mask) {
    const OpId trilu = edit_.value(mask).producer;
    const OpId filled = edit_.value(edit_.op(trilu).inputs[0]).producer;
    ir::Attrs fill = edit_.op(filled).attrs, cut = edit_.op(trilu).attrs;
    ir::Dims dims = edit_.value(mask).dims;
    dims[dims.size() - 2] = end_ - begin_;
    dims[dims.size() - 1] = keys_;
    fill["shape"] = dims;
    cut["k"] = begin_ + 1;
    const std::string name = fmt::format("/block{}", block_);
    return append(trilu, name, "Trilu", {append(filled, name, "Fill", {}, std::move(fill))},
                  std::move(cut));
  }

  // Parts of random tensors know their place.
  ir::Attrs attrs_of(const ir::Op& op) const {
    ir::Attrs attrs = op.attrs;
    if (op.kind != "Dropout") return attrs;
    const ir::Dims& dims = edit_.value(op.inputs[0]).dims;
    if (!attrs.contains("whole_dims")) {
      attrs["whole_dims"] = dims;
      attrs["part_begin"] = ir::Dims(dims.size(), 0);
    }
    auto& begin = std::get<ir::Dims>(attrs["part_begin"]);
    begin[dims.size() - 2] = begin[dims.size() - 2] + sym::Expr(begin_);
    return attrs;
  }

  ValueId slice(ValueId x, size_t from_back, int64_t begin, int64_t end) {
    if (failed_) return x;
    const ir::Dims dims = edit_.value(x).dims;
    const size_t axis = dims.size() - from_back;
    if (dims[axis] == sym::Expr(end - begin)) return x;
    ir::Dims starts(dims.size(), 0), sizes = dims, steps(dims.size(), 1);
    starts[axis] = begin;
    sizes[axis] = end - begin;
    return append(attention_.scores, fmt::format("/slice{}", block_), "Slice", {x},
                  {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  }

  // Before the second product, called after the op that it stands for.
  ValueId append(OpId like, const std::string& suffix, std::string_view kind,
                 std::vector<ValueId> inputs, ir::Attrs attrs) {
    if (failed_) return inputs.empty() ? attention_.causal_mask : inputs[0];
    const ir::Op& op = edit_.op(like);
    const auto made = ops::append(
        edit_, ir::Place::before(attention_.mix), kind, std::move(inputs), std::move(attrs),
        {.name = op.name + suffix, .module = op.module, .source = op.source, .phase = op.phase});
    failed_ |= !made;
    return made ? edit_.op(*made).outputs[0] : attention_.causal_mask;
  }

  GraphEdit& edit_;
  const Attention& attention_;
  int64_t block_ = 0, begin_ = 0, end_ = 0, keys_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<QueryBlocksReport> attention_in_blocks(const ir::Graph& graph, int64_t blocks) {
  const AttentionFinder finder(graph);
  std::vector<OpId> roots;
  for (const OpId id : graph.ops())
    if (finder.at(id)) roots.push_back(id);
  QueryBlocksReport report;
  LT_ASSIGN(RulesReport replaced, replace_at(graph, roots, [&](GraphEdit& edit, OpId root) {
              const Attention attention = *finder.at(root);
              const auto made = BlockWriter(edit, attention).write(blocks);
              report.attentions += made.has_value();
              report.causal += made && attention.causal_mask.valid();
              if (!made) return made;
              report.most_rows = std::max(report.most_rows, attention.rows);
              for (const OpId product : {attention.scores, attention.mix})
                report.products.push_back(graph.op(product).name);
              return made;
            }));
  report.graph = std::move(replaced.graph);
  report.ops = replaced.changed;
  return report;
}

}  // namespace lowtide::rewrite

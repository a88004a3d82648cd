// Which layouts an op takes and makes. Operands that walk along with each other ("x") must have
// their elements in the same order: compared is the order of their dimensions of extent other than
// 1, aligned at the right as numpy aligns shapes. So a [c, 1, 1] vector or a [n, c, 1, 1] gate fits
// a channels-last operand, and a row-major [n, c, h, w] does not.
//
// A strided view is typed wherever it is only read: what an op computes does not depend on where
// its operands lie, and whether a kernel takes the strides is the kernel's to say. It leads no
// other operand, and what is made of it is dense. Refused are those who overwrite it, join it as a
// piece or hand it on as a view without saying so (the attribute `view`), and ops of somebody
// else's kernels that do not say that they know of strides.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

// The dimensions of extent other than 1, outermost first, numbered as if the value had `rank`
// dimensions.
std::vector<size_t> walked_order(const Layout& layout, const ir::Dims& dims, size_t rank) {
  std::vector<size_t> result;
  for (size_t d : order_of(layout, dims.size()))
    if (!(dims[d] == sym::Expr(1))) result.push_back(d + rank - dims.size());
  return result;
}

bool follows(const Type& operand, const Type& leader) {
  if (!operand.layout.blocked.empty() || !leader.layout.blocked.empty()) return false;
  if (operand.dims.size() > leader.dims.size()) return false;
  const std::vector<size_t> own = walked_order(operand.layout, operand.dims, leader.dims.size());
  std::vector<size_t> all;
  for (size_t d : order_of(leader.layout, leader.dims.size()))
    if (std::find(own.begin(), own.end(), d) != own.end()) all.push_back(d);
  return own == all;
}

// The operand whose layout the others follow: the first of full shape, or else the first of the
// highest rank.
size_t leading_input(const Instance& instance, const OperandWords& words,
                     const Signature& signature) {
  size_t best = 0;
  int best_score = -1;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (!instance.inputs[i] || input_word(words, i) != "x") continue;
    if (instance.inputs[i]->layout.strided()) continue;
    const OperandIndex& dims = *signature.inputs[i];
    const bool full = std::none_of(dims.begin(), dims.end(), [](const DimIndex& dim) {
      return dim.form == LinkKind::kBroadcast && !dim.axes.empty();
    });
    const int score = 2 * static_cast<int>(dims.size()) + (full ? 1 : 0);
    if (score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

Result<Layout> layout_attr(const Instance& instance, std::string_view attr, size_t rank) {
  LT_ASSIGN(const std::string word, word_attr(instance, attr, "row_major"));
  Layout layout;
  if (!parse(word, layout) || (!layout.order.empty() && layout.order.size() != rank) ||
      layout.strided())
    return error(ErrorCode::kInput, fmt::format("{}: {} is no layout of rank {}: {}", instance.kind,
                                                attr, rank, word));
  return layout;
}

// Whether the row lets an operand be strided.
bool takes_strides(const Row& row, const Instance& instance, std::string_view word, size_t i) {
  if (asks_view(row, instance)) return true;
  const bool hands_on = row.view == ViewRule::kAlways || row.view == ViewRule::kPieces;
  const auto& updates = words_of_row(row).updates;
  const bool overwrites = std::any_of(updates.begin(), updates.end(), [&](const auto& pair) {
    return pair.first == static_cast<int>(i);
  });
  const bool knows = !row.traits.opaque || int_attr(instance, "strided", 0).value_or(0) != 0;
  return !hands_on && !overwrites && knows && word[0] != '@';
}

Status check_input(const Row& row, const Instance& instance, std::string_view word, size_t i,
                   size_t leader) {
  const Type& input = *instance.inputs[i];
  const auto refuse = [&](std::string_view wanted) {
    return error(ErrorCode::kInput,
                 fmt::format("{}: input {} {} has layout {}, wanted {}", row.kind, i,
                             print(input.dims), print(input.layout), wanted));
  };
  if (input.layout.strided())
    return takes_strides(row, instance, word, i) ? Status() : refuse("dense values");
  if (word == "w") return {};
  if (asks_view(row, instance))
    return input.layout.blocked.empty() ? Status() : refuse("a permutation");
  if (word[0] == '@') {
    LT_ASSIGN(const Layout layout, layout_attr(instance, word.substr(1), input.dims.size()));
    if (input.layout == layout) return {};
    return refuse(print(layout));
  }
  if (!input.layout.blocked.empty()) return refuse("a permutation");
  if (word == "r" && !same_order(input.layout, {}, input.dims)) return refuse("row_major");
  if (word == "x" && !follows(input, *instance.inputs[leader]))
    return refuse(fmt::format("{} as input {} {}", print(instance.inputs[leader]->layout), leader,
                              print(instance.inputs[leader]->dims)));
  return {};
}

}  // namespace

std::string_view free_layout_attr(const Row& row, size_t output) {
  const OperandWords& words = words_of_row(row).layouts;
  if (output >= words.outputs.size() || words.outputs[output][0] != '@') return {};
  std::string_view found;
  for_each_attr(row, [&](std::string_view name, std::string_view, bool optional) {
    if (optional && name == words.outputs[output].substr(1)) found = name;
  });
  return found;
}

std::vector<size_t> order_of(const Layout& layout, size_t rank) {
  std::vector<size_t> order(layout.order.begin(), layout.order.end());
  if (!order.empty()) return order;
  order.resize(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

bool same_order(const Layout& a, const Layout& b, const ir::Dims& dims) {
  if (!a.blocked.empty() || !b.blocked.empty()) return a == b;
  if (a.strided() || b.strided()) return false;
  return walked_order(a, dims, dims.size()) == walked_order(b, dims, dims.size());
}

Status check_input_layouts(const Row& row, const Instance& instance, const Signature& signature) {
  const OperandWords& words = words_of_row(row).layouts;
  if (instance.inputs.empty()) return {};
  const size_t leader = leading_input(instance, words, signature);
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (!instance.inputs[i]) continue;
    const Layout& layout = instance.inputs[i]->layout;
    const size_t rank = instance.inputs[i]->dims.size();
    if ((!layout.order.empty() && layout.order.size() != rank) ||
        (layout.strided() && layout.strides.size() != rank))
      return error(ErrorCode::kInput,
                   fmt::format("{}: input {} {} has layout {} of another rank", row.kind, i,
                               print(instance.inputs[i]->dims), print(layout)));
    LT_RETURN_IF_ERROR(check_input(row, instance, input_word(words, i), i, leader));
  }
  return {};
}

Result<std::vector<Layout>> output_layouts(const Row& row, const Instance& instance,
                                           const Signature& signature) {
  LT_RETURN_IF_ERROR(check_input_layouts(row, instance, signature));
  const OperandWords& words = words_of_row(row).layouts;
  size_t leader = 0;
  if (!instance.inputs.empty()) leader = leading_input(instance, words, signature);
  std::vector<Layout> layouts;
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    const std::string_view word = words.outputs[i];
    const size_t rank = signature.outputs[i].size();
    Layout layout;
    if (word == "x" && rank == instance.inputs[leader]->dims.size())
      layout = instance.inputs[leader]->layout;
    if (layout.strided()) layout = {};  // of operands that all are
    if (word[0] == '@') {
      LT_ASSIGN(layout, layout_attr(instance, word.substr(1), rank));
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

}  // namespace lowtide::ops

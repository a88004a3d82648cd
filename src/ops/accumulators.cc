// Accumulators: operands behind a row's own, whose elements an op adds its results to. A row only
// lists the outputs that are sums (Row::adds_into); everything else follows here for all of them.
// The k-th accumulator has the type, layout and index expression of the k-th listed output, so what
// cuts the output into parts cuts the accumulator alike.
//
//   MatMul(a, b, bias)      c = a b + bias
//   MatMul(a, b, -, s)      c = s + a b, in the buffer of s where s dies here
//
// What a row must list is derived from its axes and tested: the outputs that some axis sums.
#include <fmt/format.h>

#include <algorithm>

#include "ops/bind.h"
#include "ops/row.h"

namespace lowtide::ops {

size_t own_operands(const Row& row, const Instance& instance) {
  const RowWords& words = words_of_row(row);
  if (words.adds_into.empty()) return instance.inputs.size();
  return std::min(instance.inputs.size(), words.types.inputs.size());
}

namespace {

Status check_accumulator(const Row& row, const Type& given, size_t input, const Type& result,
                         Facts& facts) {
  const auto refused = [&](const std::string& what, const std::string& wanted) {
    return error(ErrorCode::kInput,
                 fmt::format("{}: the accumulator, input {}, is {}, the result {}", row.kind, input,
                             what, wanted));
  };
  if (given.dtype != result.dtype)
    return refused(std::string(name(given.dtype)), std::string(name(result.dtype)));
  bool equal = given.dims.size() == result.dims.size();
  for (size_t d = 0; equal && d < given.dims.size(); ++d) {
    if (given.dims[d] == result.dims[d]) continue;
    equal = !(given.dims[d].is_constant() && result.dims[d].is_constant());
    facts.emplace_back(given.dims[d], result.dims[d]);
  }
  if (!equal) return refused(print(given.dims), print(result.dims));
  if (!same_order(given.layout, result.layout, result.dims))
    return refused("in layout " + print(given.layout), print(result.layout));
  return {};
}

}  // namespace

Status bind_accumulators(Bound& bound, const Instance& instance) {
  const std::vector<int>& outputs = words_of_row(*bound.row).adds_into;
  const size_t own = words_of_row(*bound.row).types.inputs.size();
  if (outputs.empty() || instance.inputs.size() <= own) return {};
  bound.signature.inputs.resize(own);  // trailing operands may have been left out
  for (size_t i = own; i < instance.inputs.size(); ++i) {
    const size_t k = i - own;
    const bool exists =
        k < outputs.size() && static_cast<size_t>(outputs[k]) < bound.signature.outputs.size();
    if (!exists && (instance.inputs[i] || k >= outputs.size()))
      return error(ErrorCode::kInput,
                   fmt::format("{}: input {} is none; it takes {} operands and accumulators of {} "
                               "outputs",
                               bound.row->kind, i, own, outputs.size()));
    bound.signature.inputs.emplace_back();
    if (!instance.inputs[i]) continue;
    const auto output = static_cast<size_t>(outputs[k]);
    bound.signature.inputs.back() = bound.signature.outputs[output];
    if (bound.outputs)
      LT_RETURN_IF_ERROR(check_accumulator(*bound.row, *instance.inputs[i], i,
                                           (*bound.outputs)[output].type, bound.facts));
  }
  return {};
}

std::optional<int> accumulator_operand(const Row& row, int output) {
  const RowWords& words = words_of_row(row);
  const auto found = std::find(words.adds_into.begin(), words.adds_into.end(), output);
  if (found == words.adds_into.end()) return std::nullopt;
  return static_cast<int>(words.types.inputs.size()) +
         static_cast<int>(found - words.adds_into.begin());
}

std::vector<std::pair<int, int>> accumulators(const Instance& instance) {
  const Row* row = find(instance.kind);
  std::vector<std::pair<int, int>> found;
  if (row == nullptr) return found;
  for (const int output : words_of_row(*row).adds_into) {
    const int input = *accumulator_operand(*row, output);
    if (static_cast<size_t>(input) < instance.inputs.size() &&
        instance.inputs[static_cast<size_t>(input)])
      found.emplace_back(input, output);
  }
  return found;
}

}  // namespace lowtide::ops

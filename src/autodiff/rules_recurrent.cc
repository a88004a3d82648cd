// Rules of the recurrent networks. The gradient walks back over the steps in one op, from the gates
// and states that the form for training kept; those of the input, its weights and biases follow
// from the product that made the gates' inputs.
#include "autodiff/rules_recurrent.h"

#include <fmt/core.h>

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

Result<ValueId> dy_or_none(RuleContext& c, size_t output) {
  if (!c.has_dy(output)) return ValueId::none();
  return c.dy(output);
}

ValueId input_or_none(const RuleContext& c, size_t i) {
  return c.has_input(i) ? c.input(i) : ValueId::none();
}

Status refuse_clip(const RuleContext& c) {
  if (real_attr(c.attrs(), "clip") == 0) return {};
  return error(ErrorCode::kInput, fmt::format("{}: a clip of {} has no gradient", c.what(),
                                              real_attr(c.attrs(), "clip")));
}

// Gives each input of `to` the output of the gradient op in its place.
Status give_all(RuleContext& c, const std::vector<ValueId>& gradients,
                std::initializer_list<size_t> to) {
  size_t output = 0;
  for (const size_t i : to) {
    if (output < gradients.size()) LT_RETURN_IF_ERROR(c.give(i, gradients[output]));
    ++output;
  }
  return {};
}

Status lstm_rule(RuleContext& c) {
  LT_RETURN_IF_ERROR(refuse_clip(c));
  std::vector<ValueId> inputs;
  for (size_t o = 0; o < 3; ++o) {
    LT_ASSIGN(const ValueId dy, dy_or_none(c, o));
    inputs.push_back(dy);
  }
  inputs.insert(inputs.end(), {c.output(0), c.output(3), c.output(4)});
  for (size_t i = 1; i < 6; ++i) inputs.push_back(input_or_none(c, i));
  LT_ASSIGN(const std::vector<ValueId> made,
            c.make_all("LstmGrad", std::move(inputs),
                       only(c.attrs(), {"direction", "activations", "input_forget"})));
  return give_all(c, made, {0, 1, 2, 3, 4});
}

Status gru_rule(RuleContext& c) {
  LT_RETURN_IF_ERROR(refuse_clip(c));
  std::vector<ValueId> inputs;
  for (size_t o = 0; o < 2; ++o) {
    LT_ASSIGN(const ValueId dy, dy_or_none(c, o));
    inputs.push_back(dy);
  }
  inputs.insert(inputs.end(), {c.output(0), c.output(2), c.output(3), c.input(1),
                               input_or_none(c, 3), input_or_none(c, 4)});
  LT_ASSIGN(const std::vector<ValueId> made,
            c.make_all("GruGrad", std::move(inputs),
                       only(c.attrs(), {"direction", "activations", "linear_before_reset"})));
  return give_all(c, made, {0, 1, 3, 2});
}

Status rnn_rule(RuleContext& c) {
  LT_RETURN_IF_ERROR(refuse_clip(c));
  std::vector<ValueId> inputs;
  for (size_t o = 0; o < 2; ++o) {
    LT_ASSIGN(const ValueId dy, dy_or_none(c, o));
    inputs.push_back(dy);
  }
  inputs.insert(inputs.end(), {c.output(0), c.input(1), input_or_none(c, 2), input_or_none(c, 3)});
  LT_ASSIGN(
      const std::vector<ValueId> made,
      c.make_all("RnnGrad", std::move(inputs), only(c.attrs(), {"direction", "activations"})));
  return give_all(c, made, {0, 1, 2});
}

}  // namespace

void add_recurrent_rules(RuleTable& table) {
  table["LstmTrain"] = lstm_rule;
  table["GruTrain"] = gru_rule;
  table["Rnn"] = rnn_rule;
}

}  // namespace lowtide::autodiff

// Rows of the recurrent networks: LSTM, GRU and the plain RNN, over a whole sequence, in one or
// both directions. What the input contributes to the gates (x W^T + b) comes in ready: it is one
// matrix product for all steps, and its gradients are a product's. So a row holds only what has to
// go step by step, "h R^T" and the gates.
//
//   x  t b (d g h)     the gates' inputs: steps, batch, directions x gates x units
//   R  d (g h) k       recurrent weights; k = h
//   h0 d b k           where the state starts; zero without it
//   lengths b          of the sequences; behind its end a sequence gives zeros and its state stays
//   y  t b (d h)       the state after each step
//   yh d b h           the state after the last step
//
// Only the batch splits: steps need each other, and every unit needs all of the state. Gates are in
// the order of ONNX: input, output, forget, cell; update, reset, hidden. The forms for training
// also give what the gradient needs; the activated gates may lie where their inputs lay.
#include "ops/rows_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lowtide::ops {
namespace {

bool given(const Instance& instance, size_t i) {
  return i < instance.inputs.size() && instance.inputs[i].has_value();
}

// The signature of a text in which axis g counts `gates` and axis p the peepholes.
Result<Signature> with_gates(const Instance& instance, std::string_view text, int64_t gates) {
  LT_ASSIGN(const KnownPattern pattern, known_pattern(text));
  LT_ASSIGN(Signature signature, expand(*pattern, instance, false));
  for (const auto& [name, extent] : {std::pair<std::string_view, int64_t>{"g", gates}, {"p", 3}})
    if (const int axis = signature.find_axis(name); axis >= 0)
      signature.axes[static_cast<size_t>(axis)].extent = extent;
  return signature;
}

constexpr std::string_view kLstm =
    "[t] b ([d] [g] [h]), [d] ([g] [h]) [k], [d] b [k]?, [d] b [h]?, [d] ([p] [h])?, b? -> "
    "[t] b ([d] [h]), [d] b [h], [d] b [h]";
constexpr std::string_view kLstmKept = ", [t] b ([d] [g] [h]), [t] b ([d] [h])";
constexpr std::string_view kLstmGrad =
    "[t] b ([d] [h])?, [d] b [h]?, [d] b [h]?, [t] b ([d] [h]), [t] b ([d] [g] [h]), "
    "[t] b ([d] [h]), [d] ([g] [h]) [k], [d] b [k]?, [d] b [h]?, [d] ([p] [h])?, b? -> "
    "[t] b ([d] [g] [h]), [d] ([g] [h]) [k], [d] b [k], [d] b [h]";

Result<Signature> lstm_axes(const Instance& instance) {
  return with_gates(instance, kLstm, 4);
}
Result<Signature> lstm_train_axes(const Instance& instance) {
  return with_gates(instance, fmt::format("{}{}", kLstm, kLstmKept), 4);
}
Result<Signature> lstm_grad_axes(const Instance& instance) {
  constexpr size_t kPeepholes = 9;
  return with_gates(
      instance,
      fmt::format("{}{}", kLstmGrad, given(instance, kPeepholes) ? ", [d] ([p] [h])" : ""), 4);
}

constexpr std::string_view kGru =
    "[t] b ([d] [g] [h]), [d] ([g] [h]) [k], [d] [h]?, [d] b [k]?, b? -> "
    "[t] b ([d] [h]), [d] b [h]";
constexpr std::string_view kGruKept = ", [t] b ([d] [g] [h]), [t] b ([d] [h])";
constexpr std::string_view kGruGrad =
    "[t] b ([d] [h])?, [d] b [h]?, [t] b ([d] [h]), [t] b ([d] [g] [h]), [t] b ([d] [h]), "
    "[d] ([g] [h]) [k], [d] b [k]?, b? -> [t] b ([d] [g] [h]), [d] ([g] [h]) [k], [d] b [k]";

Result<Signature> gru_axes(const Instance& instance) {
  return with_gates(instance, kGru, 3);
}
Result<Signature> gru_train_axes(const Instance& instance) {
  return with_gates(instance, fmt::format("{}{}", kGru, kGruKept), 3);
}
Result<Signature> gru_grad_axes(const Instance& instance) {
  LT_ASSIGN(const int64_t after, int_attr(instance, "linear_before_reset", 0));
  return with_gates(instance, fmt::format("{}{}", kGruGrad, after != 0 ? ", [d] [h]" : ""), 3);
}

// ---- limits ----

Status check_activations(const Instance& instance, size_t wanted) {
  LT_ASSIGN(const std::string words, word_attr(instance, "activations"));
  size_t count = 0;
  for (size_t at = 0; at <= words.size(); ++count) {
    const size_t end = std::min(words.find('+', at), words.size());
    const std::string_view word = std::string_view(words).substr(at, end - at);
    if (word != "sigmoid" && word != "tanh" && word != "relu")
      return refuse(instance, fmt::format("activation '{}'; it is sigmoid, tanh or relu", word));
    at = end + 1;
  }
  if (count != wanted)
    return refuse(instance, fmt::format("{} activations ({}), wanted {}", count, words, wanted));
  return {};
}

// `weights`: the input that holds R.
Status check_cell(const Instance& instance, size_t weights, int64_t gates, size_t activations) {
  LT_RETURN_IF_ERROR(check_activations(instance, activations));
  LT_ASSIGN(const std::string direction, word_attr(instance, "direction"));
  const bool both = direction == "both";
  if (!both && direction != "forward" && direction != "reverse")
    return refuse(instance,
                  fmt::format("direction '{}'; it is forward, reverse or both", direction));
  LT_ASSIGN(const double clip, real_attr(instance, "clip", 0.0));
  if (clip < 0) return refuse(instance, fmt::format("clip = {}", clip));
  if (!given(instance, weights) || instance.inputs[weights]->dims.size() != 3)
    return refuse(instance, fmt::format("input {} must be weights of rank 3", weights));
  const ir::Dims& r = instance.inputs[weights]->dims;
  const auto directions = r[0].constant(), rows = r[1].constant(), columns = r[2].constant();
  if (!directions || *directions != (both ? 2 : 1) || !rows || !columns ||
      *rows != gates * *columns || *columns < 1)
    return refuse(instance,
                  fmt::format("weights {} of direction {}, wanted [{}, {} * units, units]",
                              print(r), direction, both ? 2 : 1, gates));
  return {};
}

Status check_lstm(const Instance& instance) {
  return check_cell(instance, 1, 4, 3);
}
Status check_lstm_grad(const Instance& instance) {
  return check_cell(instance, 6, 4, 3);
}
Status check_gru(const Instance& instance) {
  LT_ASSIGN(const int64_t after, int_attr(instance, "linear_before_reset", 0));
  if (after == 0 && given(instance, 2))
    return refuse(instance, "a bias inside the reset gate goes with linear_before_reset");
  return check_cell(instance, 1, 3, 2);
}
Status check_gru_grad(const Instance& instance) {
  return check_cell(instance, 5, 3, 2);
}
Status check_rnn(const Instance& instance) {
  return check_cell(instance, 1, 1, 1);
}
Status check_rnn_grad(const Instance& instance) {
  return check_cell(instance, 3, 1, 1);
}

// ---- rows ----

// The gradients know no clip: from an activation's result one cannot tell that its argument was
// cut.
constexpr std::string_view kLstmAttrs =
    "direction:word activations:word clip:real? input_forget:int?";
constexpr std::string_view kGruAttrs =
    "direction:word activations:word clip:real? linear_before_reset:int?";
constexpr std::string_view kRnnAttrs = "direction:word activations:word clip:real?";
constexpr std::string_view kLstmGradAttrs = "direction:word activations:word input_forget:int?";
constexpr std::string_view kGruGradAttrs =
    "direction:word activations:word linear_before_reset:int?";
constexpr std::string_view kRnnGradAttrs = "direction:word activations:word";

void add_lstm(std::vector<Row>& rows) {
  rows.push_back({.kind = "Lstm",
                  .compute = lstm_axes,
                  .types = "T T T T T i -> T T T",
                  .layouts = "r r r r r r -> r r r",
                  .attrs = kLstmAttrs,
                  .positions = "5:t",
                  .flops = 2,
                  .check = check_lstm});
  rows.push_back({.kind = "LstmTrain",
                  .compute = lstm_train_axes,
                  .types = "T T T T T i -> T T T T T",
                  .layouts = "r r r r r r -> r r r r r",
                  .attrs = kLstmAttrs,
                  .in_place = "3<-0",
                  .positions = "5:t",
                  .flops = 2,
                  .check = check_lstm,
                  .traits = {.gradient = "LstmTrain"}});
  rows.push_back({.kind = "LstmGrad",
                  .compute = lstm_grad_axes,
                  .types = "T T T T T T T T T T i -> T T T T T",
                  .layouts = "r r r r r r r r r r r -> r r r r r",
                  .attrs = kLstmGradAttrs,
                  .in_place = "0<-4",
                  .adds_into = "1 4",
                  .positions = "10:t",
                  .flops = 4,
                  .check = check_lstm_grad});
}

void add_gru(std::vector<Row>& rows) {
  rows.push_back({.kind = "Gru",
                  .compute = gru_axes,
                  .types = "T T T T i -> T T",
                  .layouts = "r r r r r -> r r",
                  .attrs = kGruAttrs,
                  .positions = "4:t",
                  .flops = 2,
                  .check = check_gru});
  rows.push_back({.kind = "GruTrain",
                  .compute = gru_train_axes,
                  .types = "T T T T i -> T T T T",
                  .layouts = "r r r r r -> r r r r",
                  .attrs = kGruAttrs,
                  .in_place = "2<-0",
                  .positions = "4:t",
                  .flops = 2,
                  .check = check_gru,
                  .traits = {.gradient = "GruTrain"}});
  rows.push_back({.kind = "GruGrad",
                  .compute = gru_grad_axes,
                  .types = "T T T T T T T i -> T T T T",
                  .layouts = "r r r r r r r r -> r r r r",
                  .attrs = kGruGradAttrs,
                  .in_place = "0<-3",
                  .adds_into = "1 3",
                  .positions = "7:t",
                  .flops = 4,
                  .check = check_gru_grad});
}

void add_rnn(std::vector<Row>& rows) {
  rows.push_back({.kind = "Rnn",
                  .axes = "[t] b ([d] [h]), [d] [h] [k], [d] b [k]?, b? -> "
                          "[t] b ([d] [h]), [d] b [h]",
                  .types = "T T T i -> T T",
                  .layouts = "r r r r -> r r",
                  .attrs = kRnnAttrs,
                  .in_place = "0<-0",
                  .positions = "3:t",
                  .flops = 2,
                  .check = check_rnn,
                  .traits = {.gradient = "Rnn"}});
  rows.push_back({.kind = "RnnGrad",
                  .axes = "[t] b ([d] [h])?, [d] b [h]?, [t] b ([d] [h]), [d] [h] [k], [d] b [k]?, "
                          "b? -> [t] b ([d] [h]), [d] [h] [k], [d] b [k]",
                  .types = "T T T T T i -> T T T",
                  .layouts = "r r r r r r -> r r r",
                  .attrs = kRnnGradAttrs,
                  .in_place = "0<-0",
                  .adds_into = "1",
                  .positions = "5:t",
                  .flops = 4,
                  .check = check_rnn_grad});
}

}  // namespace

std::span<const Row> recurrent_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> made;
    add_lstm(made);
    add_gru(made);
    add_rnn(made);
    return made;
  }();
  return rows;
}

}  // namespace lowtide::ops

// LSTM, GRU and RNN. What the input gives to the gates, x W^T and the biases, is one matrix product
// for all steps; the recurrent op gets it ready. Its result lies [step, sequence, direction, unit],
// as PyTorch has it; ONNX's order is a transposition that waits for its readers (convert.h), and
// vanishes where they transpose back.
#include "io/convert_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "io/convert.h"
#include "io/onnx_attrs.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

struct RecurrentCell {
  std::string_view kind;  // of the op; "Train" behind it for training, where that differs
  int64_t gates;
  size_t activations;  // of one direction
  const char* defaults;
  size_t outputs;
  bool two_forms;
};
constexpr RecurrentCell kLstm = {"Lstm", 4, 3, "sigmoid+tanh+tanh", 3, true};
constexpr RecurrentCell kGru = {"Gru", 3, 2, "sigmoid+tanh", 2, true};
constexpr RecurrentCell kRnn = {"Rnn", 1, 1, "tanh", 2, false};

// Inputs that the three share.
enum In : size_t { kX, kW, kR, kB, kLengths, kH0, kC0, kPeepholes };

class Recurrent {
 public:
  Recurrent(NodeCall& call, const RecurrentCell& cell) : call_(call), cell_(cell) {}

  Status run() {
    LT_RETURN_IF_ERROR(read_sizes());
    LT_ASSIGN(ir::Attrs attrs, attributes());
    std::vector<ValueId> inputs;
    LT_ASSIGN(const ValueId gates, gate_inputs());
    LT_ASSIGN(const ValueId weights, call_.value(kR));
    inputs.insert(inputs.end(), {gates, weights});
    if (cell_.kind == "Gru") inputs.push_back(inner_bias_);
    LT_ASSIGN(const ValueId h0, state(kH0));
    inputs.push_back(h0);
    if (cell_.kind == "Lstm") {
      LT_ASSIGN(const ValueId c0, state(kC0));
      ValueId peepholes = ValueId::none();
      if (call_.has(kPeepholes)) {
        LT_ASSIGN(peepholes, call_.value(kPeepholes));
      }
      inputs.insert(inputs.end(), {c0, peepholes});
    }
    LT_ASSIGN(const ValueId lengths, sequence_lengths());
    inputs.push_back(lengths);
    const bool trains = call_.training() && cell_.two_forms;
    LT_ASSIGN(const std::vector<ValueId> made,
              call_.emit_all(fmt::format("{}{}", cell_.kind, trains ? "Train" : ""),
                             std::move(inputs), std::move(attrs)));
    for (size_t i = 1; i < cell_.outputs; ++i) LT_RETURN_IF_ERROR(set_state(i, made[i]));
    return set_sequence(made[0]);
  }

 private:
  // ---- what the node says ----

  Status read_sizes() {
    const OnnxNode& node = call_.node();
    batch_first_ = int_attr(node, "layout", 0) != 0;
    const ir::Dims x = call_.dims(kX), w = call_.dims(kW), r = call_.dims(kR);
    if (x.size() != 3 || w.size() != 3 || r.size() != 3)
      return error(ErrorCode::kInput, fmt::format("X, W and R have ranks {}, {} and {}, not 3",
                                                  x.size(), w.size(), r.size()));
    const auto units = r[2].constant(), directions = r[0].constant();
    if (!units || !directions) return error(ErrorCode::kInput, needs_number(units ? r[0] : r[2]));
    units_ = *units;
    directions_ = *directions;
    if (has_attr(node, "hidden_size") && int_attr(node, "hidden_size", 0) != units_)
      return error(ErrorCode::kInput, fmt::format("hidden_size is {}, R has {} units",
                                                  int_attr(node, "hidden_size", 0), units_));
    steps_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    const ir::Dims wanted = {Expr(directions_), Expr(cell_.gates * units_), x[2]};
    if (!(w == wanted))
      return error(ErrorCode::kInput,
                   fmt::format("W is [{}, {}, {}], wanted [{}, {}, {}]", sym::print(w[0]),
                               sym::print(w[1]), sym::print(w[2]), sym::print(wanted[0]),
                               sym::print(wanted[1]), sym::print(wanted[2])));
    return {};
  }

  Result<ir::Attrs> attributes() {
    const OnnxNode& node = call_.node();
    const std::string direction = word_attr(node, "direction", "forward");
    ir::Attrs attrs = {
        {"direction", direction == "bidirectional" ? std::string("both") : direction}};
    LT_ASSIGN(attrs["activations"], activations(direction == "bidirectional" ? 2 : 1));
    if (has_attr(node, "clip")) attrs["clip"] = real_attr(node, "clip", 0);
    if (cell_.kind == "Lstm" && int_attr(node, "input_forget", 0) != 0)
      attrs["input_forget"] = int64_t{1};
    if (cell_.kind == "Gru" && int_attr(node, "linear_before_reset", 0) != 0)
      attrs["linear_before_reset"] = int64_t{1};
    return attrs;
  }

  // The names of one direction, joined; both directions must have the same.
  Result<std::string> activations(size_t directions) {
    const auto attr = call_.node().attrs.find("activations");
    if (attr == call_.node().attrs.end() || attr->second.words.empty())
      return std::string(cell_.defaults);
    std::vector<std::string> words = attr->second.words;
    for (std::string& word : words) {
      const std::string given = word;
      std::transform(word.begin(), word.end(), word.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (word != "sigmoid" && word != "tanh" && word != "relu")
        return error(
            ErrorCode::kInput,
            fmt::format("activation '{}' is not taken, only Sigmoid, Tanh and Relu", given));
    }
    if (words.size() != cell_.activations * directions)
      return error(ErrorCode::kInput, fmt::format("{} activations, wanted {}", words.size(),
                                                  cell_.activations * directions));
    if (directions == 2 && !std::equal(words.begin(), words.begin() + words.size() / 2,
                                       words.begin() + words.size() / 2))
      return error(ErrorCode::kInput, "different activations in the two directions are not taken");
    std::string text;
    for (size_t i = 0; i < cell_.activations; ++i) text += (i > 0 ? "+" : "") + words[i];
    return text;
  }

  // ---- inputs ----

  Result<ValueId> reshape(ValueId value, ir::Dims shape) {
    if (call_.of(value).dims == shape) return value;
    return call_.emit("Reshape", {value}, {{"shape", list(std::move(shape))}});
  }
  Result<ValueId> swap_first_two(ValueId value) {
    std::vector<int64_t> perm = {1, 0, 2};
    return call_.emit("Transpose", {value}, {{"perm", list(perm)}});
  }

  // Columns [begin, end) of the biases, [directions, 2 * gates * units].
  Result<ValueId> bias_part(ValueId biases, int64_t begin, int64_t end) {
    return call_.emit("Slice", {biases},
                      {{"starts", list(std::vector<int64_t>{0, begin * units_})},
                       {"sizes", list(std::vector<int64_t>{directions_, (end - begin) * units_})},
                       {"steps", list(std::vector<int64_t>{1, 1})}});
  }

  // W's and R's biases added; R's for the candidate of a GRU that resets after the product stays
  // inside.
  Result<ValueId> added_bias() {
    LT_ASSIGN(const ValueId biases, call_.value(kB));
    const int64_t gates = cell_.gates;
    const bool inside =
        cell_.kind == "Gru" && int_attr(call_.node(), "linear_before_reset", 0) != 0;
    const int64_t shared = inside ? 2 : gates;
    LT_ASSIGN(const ValueId of_w, bias_part(biases, 0, shared));
    LT_ASSIGN(const ValueId of_r, bias_part(biases, gates, gates + shared));
    LT_ASSIGN(const ValueId sum, call_.emit("Add", {of_w, of_r}));
    if (!inside) return reshape(sum, {Expr(directions_ * gates * units_)});
    LT_ASSIGN(inner_bias_, bias_part(biases, gates + 2, gates + 3));
    LT_ASSIGN(const ValueId candidate, bias_part(biases, 2, 3));
    LT_ASSIGN(const ValueId all, call_.emit("Concat", {sum, candidate}, {{"axis", int64_t{1}}}));
    return reshape(all, {Expr(directions_ * gates * units_)});
  }

  // [steps, batch, directions * gates * units].
  Result<ValueId> gate_inputs() {
    LT_ASSIGN(ValueId x, call_.value(kX));
    if (batch_first_) {
      LT_ASSIGN(x, swap_first_two(x));
    }
    const Expr features = call_.of(x).dims[2];
    LT_ASSIGN(x, reshape(x, {steps_ * batch_, features}));
    LT_ASSIGN(const ValueId given, call_.value(kW));
    const Expr rows = directions_ * cell_.gates * units_;
    LT_ASSIGN(const ValueId w, reshape(given, {rows, features}));
    std::vector<ValueId> operands = {x, w};
    if (call_.has(kB)) {
      LT_ASSIGN(const ValueId bias, added_bias());
      operands.push_back(bias);
    }
    LT_ASSIGN(const ValueId gates,
              call_.emit("MatMul", std::move(operands), {{"trans_b", int64_t{1}}}));
    return reshape(gates, {steps_, batch_, rows});
  }

  Result<ValueId> state(size_t i) {
    if (!call_.has(i)) return ValueId::none();
    LT_ASSIGN(const ValueId given, call_.value(i));
    if (!batch_first_) return given;
    return swap_first_two(given);
  }

  // None where all sequences are known to be whole.
  Result<ValueId> sequence_lengths() {
    if (!call_.has(kLengths)) return ValueId::none();
    if (const HostValue* host = call_.host(kLengths))
      if (const auto known = host_ints(*host))
        if (std::all_of(known->begin(), known->end(),
                        [&](const Expr& length) { return length == steps_; }))
          return ValueId::none();
    return call_.value(kLengths);
  }

  // ---- outputs ----

  Status set_state(size_t output, ValueId value) {
    if (!call_.wants(output)) return {};
    if (batch_first_) {
      LT_ASSIGN(value, swap_first_two(value));
    }
    call_.set(output, value);
    return {};
  }

  // ONNX's [steps, directions, batch, units], or [batch, steps, directions, units].
  Status set_sequence(ValueId y) {
    if (!call_.wants(0)) return {};
    if (!batch_first_ && directions_ == 1) {
      LT_ASSIGN(const ValueId view, reshape(y, {steps_, Expr(1), batch_, Expr(units_)}));
      call_.set(0, view);
      return {};
    }
    LT_ASSIGN(const ValueId apart, reshape(y, {steps_, batch_, Expr(directions_), Expr(units_)}));
    call_.set_transpose(
        apart, batch_first_ ? std::vector<size_t>{1, 0, 2, 3} : std::vector<size_t>{0, 2, 1, 3});
    return {};
  }

  NodeCall& call_;
  const RecurrentCell& cell_;
  bool batch_first_ = false;
  int64_t units_ = 0, directions_ = 1;
  Expr steps_, batch_;
  ValueId inner_bias_ = ValueId::none();
};

Status lstm(NodeCall& call) {
  return Recurrent(call, kLstm).run();
}
Status gru(NodeCall& call) {
  return Recurrent(call, kGru).run();
}
Status rnn(NodeCall& call) {
  return Recurrent(call, kRnn).run();
}

constexpr ConvertRow kRecurrentRows[] = {{"LSTM", 3, lstm}, {"GRU", 3, gru}, {"RNN", 3, rnn}};

}  // namespace

std::span<const ConvertRow> recurrent_conversions() {
  return kRecurrentRows;
}

}  // namespace lowtide::io

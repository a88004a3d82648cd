// Random instances of the recurrent networks. Every optional operand is there half of the time.
// States and gates of a gradient lie where activations leave them, so that slopes of square roots
// and the like stay moderate.
#include <algorithm>
#include <array>

#include "ops/testing/random_draw.h"

namespace lowtide::ops {
namespace {

using Kind = InputValues::Kind;

constexpr std::array<const char*, 3> kActivations = {"sigmoid", "tanh", "relu"};

class RecurrentDraw {
 public:
  RecurrentDraw(RandomInstance& made, Rng& rng)
      : made_(made),
        rng_(rng),
        steps_(rng.between(1, 4)),
        batch_(rng.between(1, 3)),
        units_(rng.between(1, 4)) {
    const std::string_view kind = made.kind;
    cell_ = kind.substr(0, kind.starts_with("Lstm") ? 4 : 3);
    gates_ = cell_ == "Lstm" ? 4 : cell_ == "Gru" ? 3 : 1;
    const size_t way = rng.below(3);
    directions_ = way == 2 ? 2 : 1;
    made.attrs["direction"] = std::string(way == 2 ? "both" : way == 1 ? "reverse" : "forward");
  }

  void run() {
    draw_attributes();
    const bool gradient = made_.kind.ends_with("Grad");
    if (gradient) {
      operand(per_step(1), true);
      operand(state(), true);
      if (cell_ == "Lstm") operand(state(), true);
      operand(per_step(1), false);
      if (cell_ != "Rnn") operand(per_step(gates_), false);
      if (cell_ != "Rnn") operand(per_step(1), false);
    } else {
      operand(per_step(gates_), false);
    }
    operand({directions_, gates_ * units_, units_}, false);
    if (cell_ == "Gru" && !gradient) {
      operand({directions_, units_}, true);
      if (std::get<int64_t>(made_.attrs["linear_before_reset"]) == 0)
        made_.inputs.back() = std::nullopt;
    }
    operand(state(), true);
    if (cell_ == "Lstm") operand(state(), true);
    if (cell_ == "Lstm") operand({directions_, 3 * units_}, true);
    operand({batch_}, true);
    made_.values.back() = {Kind::kInteger, 0, steps_ + 1};
    if (made_.inputs.back())
      made_.inputs.back()->dtype = chance(rng_, 2) ? DType::kI64 : DType::kI32;
    if (gradient) settle(cell_ == "Lstm" ? 3 : 2);
  }

 private:
  // A gradient is given what a forward pass leaves: results and gates between -1 and 1, a result
  // that is zero behind the end of its sequence.
  void settle(size_t result) {
    std::vector<double> lengths;
    for (int64_t b = 0; b < batch_; ++b)
      lengths.push_back(
          static_cast<double>(made_.inputs.back() ? rng_.between(0, steps_) : steps_));
    for (size_t i = 0; i + 1 < made_.inputs.size(); ++i) {
      int64_t count = 1;
      for (const sym::Expr& dim : made_.inputs[i] ? made_.inputs[i]->dims : ir::Dims())
        count *= number(dim);
      made_.values[i] = {.kind = Kind::kInteger};
      for (int64_t e = 0; e < count; ++e)
        made_.values[i].exact.push_back(1.8 * rng_.uniform() - 0.9);
    }
    std::vector<double>& y = made_.values[result].exact;
    const auto row = static_cast<size_t>(directions_ * units_), step = row * lengths.size();
    for (size_t e = 0; e < y.size(); ++e) {
      const size_t at = e / step;
      if (static_cast<double>(at) >= lengths[e % step / row]) y[e] = 0;
    }
    made_.values.back() = {.kind = Kind::kInteger, .exact = std::move(lengths)};
  }

  void draw_attributes() {
    std::string words;
    for (int64_t n = cell_ == "Lstm" ? 3 : cell_ == "Gru" ? 2 : 1; n > 0; --n)
      words += (words.empty() ? "" : "+") + std::string(kActivations[rng_.below(2)]);
    made_.attrs["activations"] = words;
    if (cell_ == "Lstm") made_.attrs["input_forget"] = int64_t{chance(rng_, 4)};
    if (cell_ == "Gru") made_.attrs["linear_before_reset"] = int64_t{chance(rng_, 2)};
    // What trains has no clip.
    if (made_.kind == "Lstm" || made_.kind == "Gru")
      if (chance(rng_, 3)) made_.attrs["clip"] = 0.75;
  }

  ir::Dims per_step(int64_t gates) const { return {steps_, batch_, directions_ * gates * units_}; }
  ir::Dims state() const { return {directions_, batch_, units_}; }

  void operand(const ir::Dims& dims, bool optional) {
    made_.values.emplace_back();
    made_.inputs.emplace_back();
    if (!optional || chance(rng_, 2)) made_.inputs.back() = Type{DType::kF32, dims, {}};
  }

  RandomInstance& made_;
  Rng& rng_;
  std::string_view cell_;
  int64_t steps_, batch_, units_, gates_ = 1, directions_ = 1;
};

}  // namespace

bool is_recurrent(std::string_view kind) {
  return kind.starts_with("Lstm") || kind.starts_with("Gru") || kind.starts_with("Rnn");
}

void draw_recurrent(RandomInstance& made, Rng& rng) {
  RecurrentDraw(made, rng).run();
}

}  // namespace lowtide::ops

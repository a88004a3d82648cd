#include "exec/cpu/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/cpu/indexing.h"

namespace lowtide::exec_cpu {

Result<Recurrence> recurrence_of(const OpDesc& op, size_t x, size_t weights, size_t lengths) {
  LT_RETURN_IF_ERROR(check_row_major(op));
  if (!has_input(op, x) || !has_input(op, weights) || op.inputs[x]->dims.size() != 3 ||
      op.inputs[weights]->dims.size() != 3)
    return unsupported(op, "gates' inputs and weights have three dims");
  const std::vector<int64_t>&gates = op.inputs[x]->dims, &r = op.inputs[weights]->dims;
  Recurrence made;
  made.steps = gates[0];
  made.batch = gates[1];
  made.directions = r[0];
  made.units = r[2];
  made.gates = made.units > 0 ? r[1] / made.units : 0;
  made.reverse = word_attr(op, "direction", "forward") == "reverse";
  made.clip = real_attr(op, "clip", 0);
  if (made.units < 1 || made.gates * made.units != r[1])
    return unsupported(op, "the weights do not fit the gates");
  if (has_input(op, lengths)) made.wide_lengths = op.inputs[lengths]->dtype == DType::kI64;
  return made;
}

// ---- activations ----

Result<std::vector<Activation>> activations_of(const OpDesc& op) {
  struct Name {
    std::string_view word;
    const char *value, *gradient;
  };
  constexpr Name kNames[] = {{"sigmoid", "Sigmoid", "SigmoidGrad"},
                             {"tanh", "Tanh", "TanhGrad"},
                             {"relu", "Relu", "ReluGrad"}};
  const char type = op.outputs[0].dtype == DType::kF64 ? 'd' : 'f';
  std::vector<Activation> made;
  const std::string words = word_attr(op, "activations", "");
  for (size_t at = 0; at <= words.size();) {
    const size_t end = std::min(words.find('+', at), words.size());
    const std::string_view word = std::string_view(words).substr(at, end - at);
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const Name& each) { return each.word == word; });
    if (name == std::end(kNames))
      return unsupported(op, fmt::format("activation '{}' is not known", word));
    made.push_back({find_map(name->value, type, type, 1), find_map(name->gradient, type, type, 2)});
    at = end + 1;
  }
  return made;
}

std::string by_steps(const InnerProduct& product) {
  return "own:steps:" + product.implementation();
}

// ---- the gradient of the weights ----

template <class T>
Result<WeightGradient<T>> WeightGradient<T>::make(const OpDesc& op, const Recurrence& r,
                                                  int64_t gates, int64_t delta_row) {
  WeightGradient made;
  made.r_ = r;
  made.width_ = gates * r.units;
  made.delta_row_ = delta_row;
  const StridedMatrix dr{{made.width_, r.units}, {r.units, 1}};
  const int64_t later = std::max<int64_t>(r.steps - 1, 0) * r.batch;
  LT_ASSIGN(made.later_, InnerProduct::make(op, {{made.width_, later}, {1, delta_row}},
                                            {{later, r.units}, {r.y_row(), 1}}, dr, false));
  const StridedMatrix start{{r.batch, r.units}, {r.units, 1}};
  LT_ASSIGN(made.first_,
            InnerProduct::make(op, {{made.width_, r.batch}, {1, delta_row}}, start, dr, true));
  LT_ASSIGN(made.first_gathered_,
            InnerProduct::make(op, {{made.width_, r.batch}, {1, made.width_}}, start, dr, true));
  return made;
}

template <class T>
int64_t WeightGradient<T>::workspace_bytes() const {
  return bytes_of<T>(r_.batch * width_) +
         std::max({later_->workspace_bytes(), first_->workspace_bytes(),
                   first_gathered_->workspace_bytes()});
}

template <class T>
void WeightGradient<T>::run(int64_t d, const Operands& at) const {
  T* gathered = static_cast<T*>(at.workspace);
  void* scratch = static_cast<char*>(at.workspace) + bytes_of<T>(r_.batch * width_);
  const int64_t step = r_.batch * delta_row_, y_step = r_.batch * r_.y_row();
  // Deltas of a step meet the state after the step before it.
  const bool reversed = r_.reversed(d);
  later_->run(at.deltas + (reversed ? 0 : step), at.y + (reversed ? y_step : 0), at.dr, scratch);
  if (at.start == nullptr || r_.steps == 0) return;
  if (!reversed) return first_->run(at.deltas, at.start, at.dr, scratch);
  if (at.lengths == nullptr)
    return first_->run(at.deltas + (r_.steps - 1) * step, at.start, at.dr, scratch);
  // A reversed sequence starts at its own end.
  for (int64_t b = 0; b < r_.batch; ++b) {
    const int64_t last = std::min(r_.length(at.lengths, b), r_.steps) - 1;
    T* to = gathered + b * width_;
    const size_t bytes = static_cast<size_t>(width_) * sizeof(T);
    if (last < 0)
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, at.deltas + last * step + b * delta_row_, bytes);
  }
  first_gathered_->run(gathered, at.start, at.dr, scratch);
}

template class WeightGradient<float>;
template class WeightGradient<double>;

}  // namespace lowtide::exec_cpu

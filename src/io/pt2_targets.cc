#include "io/pt2_targets.h"

#include <algorithm>
#include <array>

namespace lowtide::io {
namespace {

// Ops of whose results PyTorch may show the operand's memory.
constexpr std::array<std::string_view, 34> kShowing = {"alias",
                                                       "chunk",
                                                       "contiguous",
                                                       "detach",
                                                       "expand",
                                                       "expand_as",
                                                       "flatten",
                                                       "lift_fresh",
                                                       "mT",
                                                       "movedim",
                                                       "narrow",
                                                       "numpy_T",
                                                       "permute",
                                                       "reshape",
                                                       "reshape_as",
                                                       "select",
                                                       "slice",
                                                       "split",
                                                       "split_with_sizes",
                                                       "squeeze",
                                                       "swapaxes",
                                                       "swapdims",
                                                       "t",
                                                       "tensor_split",
                                                       "to",
                                                       "transpose",
                                                       "type_as",
                                                       "unbind",
                                                       "unflatten",
                                                       "unsqueeze",
                                                       "view",
                                                       "view_as",
                                                       "_unsafe_view",
                                                       "real"};

// Ops that compute sizes, or hold them against what was assumed.
constexpr std::array<std::string_view, 12> kPassedOver = {"aten._assert_tensor_metadata.",
                                                          "aten._assert_scalar.",
                                                          "aten._assert_async.",
                                                          "aten.sym_constrain_range",
                                                          "aten.sym_size.",
                                                          "aten.sym_numel.",
                                                          "aten.sym_stride.",
                                                          "aten.sym_storage_offset.",
                                                          "aten._local_scalar_dense.",
                                                          "aten.item.",
                                                          "_operator.",
                                                          "math."};

// Ops that draw at random.
constexpr std::array<std::string_view, 14> kRandom = {
    "bernoulli", "rand",        "rand_like",     "randint",        "randint_like",
    "randn",     "randn_like",  "randperm",      "normal",         "multinomial",
    "uniform",   "exponential", "alpha_dropout", "feature_dropout"};

template <class List>
bool holds(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

std::string_view base_name(std::string_view target) {
  const size_t begin = target.find('.');
  if (begin == std::string_view::npos) return target;
  target.remove_prefix(begin + 1);
  return target.substr(0, target.find('.'));
}

std::optional<std::string> written_apart(std::string_view target) {
  const size_t name = target.find('.');
  const size_t overload = name == std::string_view::npos ? name : target.find('.', name + 1);
  if (overload == std::string_view::npos || overload < 2 || target[overload - 1] != '_' ||
      target[overload - 2] == '_')
    return std::nullopt;
  return std::string(target.substr(0, overload - 1)) + std::string(target.substr(overload));
}

bool may_show_operand(std::string_view target) {
  return holds(kShowing, base_name(target));
}

bool is_passed_over(std::string_view target) {
  return std::any_of(kPassedOver.begin(), kPassedOver.end(),
                     [&](std::string_view each) { return target.starts_with(each); });
}

bool draws_at_random(std::string_view target) {
  return holds(kRandom, base_name(target));
}

}  // namespace lowtide::io

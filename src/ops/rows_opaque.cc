#include "ops/rows_opaque.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <vector>

#include "base/words.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

// One list entry per output.
Result<ir::Dims> per_output(const Instance& instance, std::string_view attr, size_t outputs,
                            std::optional<int64_t> fallback = std::nullopt) {
  return list_attr(instance, attr, outputs, fallback);
}

Status set_types(const Instance& instance, std::vector<OutputType>& outputs) {
  LT_ASSIGN(const std::string types, word_attr(instance, "types"));
  for (std::string_view word : words_of(types)) {
    const std::optional<DType> type = parse_dtype(word);
    if (!type)
      return refuse(instance, fmt::format("types has '{}', which is no element type", word));
    outputs.emplace_back().type.dtype = *type;
  }
  return {};
}

Status set_dims(const Instance& instance, std::vector<OutputType>& outputs) {
  LT_ASSIGN(const ir::Dims ranks, per_output(instance, "ranks", outputs.size()));
  const auto& dims = std::get<ir::Dims>(instance.attrs->find("dims")->second);
  size_t taken = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::optional<int64_t> rank = ranks[o].constant();
    if (!rank || *rank < 0 || static_cast<uint64_t>(*rank) > dims.size() - taken)
      return refuse(instance, fmt::format("output {} has rank {}, and {} of {} dims are left", o,
                                          sym::print(ranks[o]), dims.size() - taken, dims.size()));
    const auto begin = dims.begin() + static_cast<std::ptrdiff_t>(taken);
    outputs[o].type.dims.assign(begin, begin + static_cast<std::ptrdiff_t>(*rank));
    taken += static_cast<size_t>(*rank);
  }
  if (taken == dims.size()) return {};
  return refuse(instance,
                fmt::format("the ranks of its outputs add up to {}, and there are {} dims", taken,
                            dims.size()));
}

// "view:0": the alias and the input.
Status read_alias(const Instance& instance, std::string_view word, OutputType& output) {
  if (word == "own") return {};
  const size_t colon = word.find(':');
  const std::string_view kind = word.substr(0, colon);
  int input = -1;
  if (colon != std::string_view::npos) {
    const char* end = word.data() + word.size();
    const auto read = std::from_chars(word.data() + colon + 1, end, input);
    if (read.ec != std::errc() || read.ptr != end) input = -1;
  }
  const bool known = kind == "view" || kind == "update";
  if (!known || input < 0 || static_cast<size_t>(input) >= instance.inputs.size() ||
      !instance.inputs[static_cast<size_t>(input)])
    return refuse(instance, fmt::format("aliases has '{}'; it takes own, view:INPUT and "
                                        "update:INPUT, an input from 0 to {} that is there",
                                        word, static_cast<int>(instance.inputs.size()) - 1));
  output.alias = kind == "view" ? ir::Alias::kView : ir::Alias::kUpdate;
  output.base_input = input;
  return {};
}

Status check_update(const Instance& instance, size_t o, const OutputType& output) {
  const Type& base = *instance.inputs[static_cast<size_t>(output.base_input)];
  if (base.layout.strided())
    return refuse(instance,
                  fmt::format("output {} updates input {}, a strided view", o, output.base_input));
  if (base.dtype == output.type.dtype && base.dims == output.type.dims) return {};
  return refuse(instance, fmt::format("output {} is {} {} and updates input {}, which is {} {}", o,
                                      name(output.type.dtype), print(output.type.dims),
                                      output.base_input, name(base.dtype), print(base.dims)));
}

Status check_aliases(const Instance& instance, const std::vector<OutputType>& outputs) {
  size_t views = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    views += outputs[o].alias == ir::Alias::kView;
    if (outputs[o].alias == ir::Alias::kUpdate)
      LT_RETURN_IF_ERROR(check_update(instance, o, outputs[o]));
  }
  if (views == 0) return {};
  if (views < outputs.size())
    return refuse(instance, fmt::format("{} of {} outputs are views; all are or none is", views,
                                        outputs.size()));
  for (size_t o = 1; o < outputs.size(); ++o)
    if (outputs[o].base_input != outputs[0].base_input)
      return refuse(instance, fmt::format("output {} is a view of input {}, output 0 of input {}; "
                                          "the views that an op makes have one base",
                                          o, outputs[o].base_input, outputs[0].base_input));
  return {};
}

Status set_aliases(const Instance& instance, std::vector<OutputType>& outputs) {
  if (!has_attr(instance, "aliases")) return {};
  LT_ASSIGN(const std::string text, word_attr(instance, "aliases"));
  LT_ASSIGN(const ir::Dims offsets, per_output(instance, "offsets", outputs.size(), 0));
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() != outputs.size())
    return refuse(instance,
                  fmt::format("aliases has {} words for {} outputs", words.size(), outputs.size()));
  for (size_t o = 0; o < outputs.size(); ++o) {
    LT_RETURN_IF_ERROR(read_alias(instance, words[o], outputs[o]));
    if (outputs[o].alias == ir::Alias::kView) outputs[o].offset_bytes = offsets[o];
  }
  return check_aliases(instance, outputs);
}

// Views may have strides, in the one form that these have.
Status set_layouts(const Instance& instance, std::vector<OutputType>& outputs) {
  if (!has_attr(instance, "layouts")) return {};
  LT_ASSIGN(const std::string text, word_attr(instance, "layouts"));
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() != outputs.size())
    return refuse(instance,
                  fmt::format("layouts has {} words for {} outputs", words.size(), outputs.size()));
  for (size_t o = 0; o < outputs.size(); ++o) {
    Layout layout;
    const bool known = parse(std::string(words[o]), layout);
    if (known && layout.row_major()) continue;
    std::vector<int64_t> dims;
    for (const Expr& dim : outputs[o].type.dims)
      if (dim.constant()) dims.push_back(*dim.constant());
    const bool fits = known && outputs[o].alias == ir::Alias::kView &&
                      dims.size() == outputs[o].type.dims.size() &&
                      layout.strides.size() == dims.size();
    if (!fits || layout != layout_of_strides(dims, layout.strides))
      return refuse(instance, fmt::format("output {} {} cannot have layout {}; views of constant "
                                          "size may have strides, 0 for dimensions of extent 1",
                                          o, print(outputs[o].type.dims), words[o]));
    outputs[o].type.layout = std::move(layout);
  }
  return {};
}

// Pairs of an input that is there and an output that owns its storage.
Status check_in_place(const Instance& instance, const std::vector<OutputType>& outputs) {
  if (!has_attr(instance, "in_place")) return {};
  const auto& numbers = std::get<ir::Dims>(instance.attrs->find("in_place")->second);
  if (numbers.size() % 2 != 0)
    return refuse(instance, fmt::format("in_place has {} numbers; it takes pairs of an input and "
                                        "an output",
                                        numbers.size()));
  for (size_t k = 0; k < numbers.size(); k += 2) {
    const int64_t input = numbers[k].constant().value_or(-1);
    const int64_t output = numbers[k + 1].constant().value_or(-1);
    const bool there = input >= 0 && static_cast<size_t>(input) < instance.inputs.size() &&
                       instance.inputs[static_cast<size_t>(input)];
    const bool owns = output >= 0 && static_cast<size_t>(output) < outputs.size() &&
                      outputs[static_cast<size_t>(output)].alias == ir::Alias::kOwn;
    if (!there || !owns)
      return refuse(instance, fmt::format("in_place has input {} for output {}; it takes an input "
                                          "that is there and an output that owns its storage",
                                          sym::print(numbers[k]), sym::print(numbers[k + 1])));
  }
  return {};
}

Result<std::vector<OutputType>> outputs_from_attributes(const Instance& instance) {
  std::vector<OutputType> outputs;
  LT_RETURN_IF_ERROR(set_types(instance, outputs));
  LT_RETURN_IF_ERROR(set_dims(instance, outputs));
  LT_RETURN_IF_ERROR(set_aliases(instance, outputs));
  LT_RETURN_IF_ERROR(set_layouts(instance, outputs));
  LT_RETURN_IF_ERROR(check_in_place(instance, outputs));
  return outputs;
}

// ---- axes that the owner says

Status check_text(const Instance& instance, std::string_view text) {
  std::string plain(text);
  if (const size_t arrow = plain.find("->"); arrow != std::string::npos) plain.erase(arrow, 2);
  // What these begin reads attributes that only rows have.
  if (plain.find_first_of("@:*+-") == std::string::npos) return {};
  return refuse(instance, fmt::format("axes is '{}'; it takes names, groups, packs, [a], {{a}} and "
                                      "1: no windows and no attributes",
                                      text));
}

// A part takes one slice of an operand, so an axis that walks two of its dimensions stays whole.
void couple_repeated(Signature& signature) {
  const auto look = [&](const OperandIndex& operand) {
    std::vector<int> seen(signature.axes.size(), 0);
    for (const DimIndex& dim : operand)
      for (const int axis : dim.axes)
        if (++seen[static_cast<size_t>(axis)] > 1)
          signature.axes[static_cast<size_t>(axis)].coupled = true;
  };
  for (const auto& operand : signature.inputs)
    if (operand) look(*operand);
  for (const OperandIndex& operand : signature.outputs) look(operand);
}

// The extents of results are those of `dims`, which a part writes anew.
Status tie_results(const Instance& instance, const std::vector<OutputType>& outputs,
                   Signature& signature) {
  bool fits = signature.outputs.size() == outputs.size();
  for (size_t o = 0; fits && o < outputs.size(); ++o)
    fits = signature.outputs[o].size() == outputs[o].type.dims.size();
  if (!fits) return refuse(instance, "axes has other outputs than types and ranks");
  int entry = 0;
  for (size_t o = 0; o < outputs.size(); ++o)
    for (size_t d = 0; d < signature.outputs[o].size(); ++d, ++entry) {
      DimIndex& dim = signature.outputs[o][d];
      dim.extent = outputs[o].type.dims[d];
      dim.extent_source = AttrRef{"dims", entry};
    }
  return {};
}

Result<Signature> said_axes(const Instance& instance, const std::vector<OutputType>& outputs) {
  LT_ASSIGN(const std::string text, word_attr(instance, "axes"));
  LT_RETURN_IF_ERROR(check_text(instance, text));
  const auto pattern = known_pattern(text);
  if (!pattern) return refuse(instance, pattern.error().message);
  for (const OutputType& output : outputs)
    if (output.alias != ir::Alias::kOwn)
      return refuse(instance, "an op with axes owns all of its results");
  LT_ASSIGN(Signature signature, expand(**pattern, instance, false));
  LT_RETURN_IF_ERROR(tie_results(instance, outputs, signature));
  couple_repeated(signature);
  return signature;
}

// As `axes` says; without it every dimension is an axis of its own, which nothing may split.
Result<Signature> opaque_axes(const Instance& instance) {
  LT_ASSIGN(const std::vector<OutputType> outputs, outputs_from_attributes(instance));
  if (has_attr(instance, "axes")) return said_axes(instance, outputs);
  Signature signature;
  const auto axis_for = [&](const Expr& extent) {
    return DimIndex{.axes = {signature.add_axis({.name = fmt::format("a{}", signature.axes.size()),
                                                 .coupled = true,
                                                 .extent = extent})}};
  };
  for (const std::optional<Type>& input : instance.inputs) {
    signature.inputs.emplace_back();
    if (!input) continue;
    signature.inputs.back().emplace();
    for (const Expr& dim : input->dims) signature.inputs.back()->push_back(axis_for(dim));
  }
  for (const OutputType& output : outputs) {
    signature.outputs.emplace_back();
    for (const Expr& dim : output.type.dims) signature.outputs.back().push_back(axis_for(dim));
  }
  return signature;
}

Status check_costs(const Instance& instance) {
  LT_ASSIGN(const double seconds, real_attr(instance, "seconds", 0.0));
  if (!(seconds >= 0 && seconds <= 1e9))
    return refuse(instance, fmt::format("seconds is {}, and must be from 0 to 1e9", seconds));
  for (const char* attr : {"flops", "workspace"}) {
    LT_ASSIGN(const int64_t count, int_attr(instance, attr, 0));
    if (count < 0) return refuse(instance, fmt::format("{} is {}, below 0", attr, count));
  }
  return {};
}

constexpr std::string_view kOpaqueAttrsAndAxes =
    "op:word types:word ranks:list dims:list aliases:word? offsets:list? layouts:word? "
    "strided:int? in_place:list? seconds:real? flops:int? workspace:int? axes:word?";
constexpr std::string_view kLast = " axes:word?";
constexpr std::string_view kOpaqueAttrs =
    kOpaqueAttrsAndAxes.substr(0, kOpaqueAttrsAndAxes.size() - kLast.size());

Row opaque_row(std::string_view kind, std::string_view attrs, Traits traits) {
  traits.opaque = true;
  return {.kind = kind,
          .compute = opaque_axes,
          .types = "* -> *",
          .layouts = "r -> r",
          .attrs = attrs,
          .part = PartRule::kGivenCost,
          .check = check_costs,
          .outputs = outputs_from_attributes,
          .traits = traits};
}

}  // namespace

std::span<const Row> opaque_rows() {
  static const std::vector<Row> rows = {
      opaque_row("Opaque", kOpaqueAttrsAndAxes, {}),
      opaque_row("OpaqueRandom", kOpaqueAttrs, {.recomputable = false, .random = true}),
      opaque_row("OpaqueEffect", kOpaqueAttrs, {.recomputable = false, .has_effect = true}),
  };
  return rows;
}

}  // namespace lowtide::ops

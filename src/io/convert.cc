// The walk over the nodes. A node whose inputs are all known is evaluated on the host; if that
// fails and the op also has a conversion, its inputs become constants of the graph and it runs
// there.
#include "io/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/element.h"
#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/onnx_branches.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"
#include "ops/keep_overwritten.h"
#include "ops/op_table.h"

namespace lowtide::io {
namespace {

using sym::Expr;

// The contents of a parameter: inline, from its file, or drawn. Running statistics that are not
// there start where PyTorch starts them: mean 0, variance 1.
ir::InitialValue initial_of(const OnnxModel& model, const OnnxTensor& tensor, TensorRole role) {
  using Kind = ir::InitialValue::Kind;
  ir::InitialValue initial;
  if (!tensor.external) {
    initial.kind = Kind::kInline;
    initial.bytes = tensor.bytes;
    return initial;
  }
  std::error_code code;
  if (!model.folder.empty() &&
      std::filesystem::exists(std::filesystem::path(model.folder) / tensor.file, code)) {
    initial.kind = Kind::kExternal;
    initial.file = tensor.file;
    initial.offset = tensor.offset;
    initial.length = tensor.length;
    return initial;
  }
  initial.kind = Kind::kSeeded;
  // The recipe of seeded values knows running statistics by PyTorch's names. Under other names they
  // start at 0 and 1, written out; a count that no network has (a hostile file) is not.
  constexpr int64_t kMostChannels = 1 << 20;
  const bool known = tensor.name.ends_with("running_var") || tensor.name.ends_with("running_mean");
  if (role == TensorRole::kTrained || !is_float(*tensor.dtype) || known) return initial;
  if (role != TensorRole::kVariance) {
    initial.kind = Kind::kZero;
  } else if (tensor.element_count() <= kMostChannels) {
    initial.kind = Kind::kInline;
    std::string one(static_cast<size_t>(size_bytes(*tensor.dtype)), '\0');
    write_real(*tensor.dtype, 1, one.data());
    for (int64_t i = 0; i < tensor.element_count(); ++i) initial.bytes += one;
  }
  return initial;
}

HostValue shape_of(const ir::Dims& dims, const OnnxNode& node) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  const auto clamp = [&](int64_t place) {
    return std::clamp<int64_t>(place < 0 ? place + rank : place, 0, rank);
  };
  const int64_t start = clamp(int_attr(node, "start", 0)), end = clamp(int_attr(node, "end", rank));
  if (start >= end) return host_vector({});
  return host_vector({dims.begin() + start, dims.begin() + end});
}

}  // namespace

Conversion::Conversion(const OnnxModel& model, const OnnxOptions& options)
    : model_(model), options_(options), roles_(tensor_roles(model)), done_(model.nodes.size()) {
  for (size_t n = 0; n < model.nodes.size(); ++n) {
    for (const std::string& input : model.nodes[n].inputs)
      if (!input.empty()) readers_[input].push_back(n);
    for (const std::string& output : model.nodes[n].outputs) slot(output);  // empty until made
  }
  for (const OnnxValueInfo& output : model.outputs) ++outputs_[output.name];
}

Slot& Conversion::slot(const std::string& name) {
  const auto [place, is_new] = slot_of_.try_emplace(name, slots_.size());
  if (is_new) slots_.emplace_back();
  return slots_[place->second];
}

const Slot* Conversion::find_slot(std::string_view name) const {
  const auto place = slot_of_.find(name);
  return place == slot_of_.end() ? nullptr : &slots_[place->second];
}

std::string Conversion::inner_name(std::string wanted) const {
  while (find_slot(wanted) != nullptr) wanted += '_';
  return wanted;
}

Result<ir::Graph> Conversion::run() {
  graph_.name = model_.name;
  graph_.producer = model_.producer;
  LT_RETURN_IF_ERROR(begin());
  for (size_t n = 0; n < model_.nodes.size(); ++n) {
    if (done_[n]) continue;
    auto status = convert(n);
    if (!status) return node_error(model_, model_.nodes[n], status.error());
  }
  LT_RETURN_IF_ERROR(check_declared());
  note_untold();
  LT_RETURN_IF_ERROR(mark_outputs());
  LT_ASSIGN(graph_, ops::keep_overwritten(std::move(graph_)));
  LT_RETURN_IF_ERROR(ir::check(graph_));
  return std::move(graph_);
}

Status Conversion::begin() {
  if (model_.outputs.empty())
    return error(ErrorCode::kInput,
                 fmt::format("{}: the graph has {} nodes and no outputs; it must name at least one",
                             model_.origin, model_.nodes.size()));
  LT_RETURN_IF_ERROR(add_inputs());
  add_initializers();
  return {};
}

std::vector<std::string> Conversion::dry_run() {
  std::vector<std::string> refusals;
  const auto refuse = [&](std::string message) {
    const std::string prefix = model_.origin + ": ";
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
    refusals.push_back(std::move(message));
  };
  if (auto status = begin(); !status) {
    refuse(status.error().message);
    return refusals;
  }
  std::set<std::string, std::less<>> unmade;
  for (size_t n = 0; n < model_.nodes.size(); ++n) {
    const OnnxNode& node = model_.nodes[n];
    if (done_[n]) continue;
    bool passed_over = !is_taken(node);
    for (const std::string& input : node.inputs) passed_over |= unmade.contains(input);
    const Status status = passed_over ? Status() : convert(n);
    if (!status) refuse(fmt::format("{}: {}", describe(node), status.error().message));
    if (!status || passed_over)
      for (const std::string& output : node.outputs)
        if (!output.empty()) unmade.insert(output);
  }
  if (auto status = check_declared(); !status) refuse(status.error().message);
  if (!unmade.empty() || !refusals.empty()) return refusals;
  if (auto status = mark_outputs(); !status) refuse(status.error().message);
  auto kept = ops::keep_overwritten(std::move(graph_));
  if (!kept) return {kept.error().message};
  graph_ = std::move(*kept);
  if (auto status = ir::check(graph_); !status) refuse(status.error().message);
  return refusals;
}

// Dim d of an input under the caller's numbers is a size.
Status Conversion::check_bound_dim(const OnnxValueInfo& input, size_t d, const Expr& dim,
                                   const Expr& bound) const {
  const auto number = bound.constant();
  if (!bound.poisoned() && (!number || *number >= 0)) return {};
  std::string flags;
  for (const std::string& symbol : dim.symbols())
    if (const auto given = options_.bindings.find(symbol); given != options_.bindings.end())
      flags += fmt::format("{} --dim {}={}", flags.empty() ? " with" : "", symbol, given->second);
  return error(ErrorCode::kUsage,
               fmt::format("{}: input '{}': dim {} ({}) {}{}; a size is at least 0", model_.origin,
                           input.name, d, sym::print(dim),
                           number ? fmt::format("is {}", *number) : "overflows 64 bits", flags));
}

Status Conversion::add_inputs() {
  std::set<std::string, std::less<>> initializers, symbols;
  for (const OnnxTensor& tensor : model_.initializers) initializers.insert(tensor.name);
  for (const OnnxValueInfo& input : model_.inputs) {
    if (initializers.contains(input.name)) continue;
    if (!input.is_tensor || !input.dtype)
      return error(
          ErrorCode::kInput,
          fmt::format("{}: input '{}' is {}; tensors of bool, integers of 8 to 64 bits and floats "
                      "of 16 to 64 bits are read",
                      model_.origin, input.name,
                      input.is_tensor ? onnx_type_name(input.type_code) : "not a tensor"));
    if (!input.has_shape)
      return error(
          ErrorCode::kInput,
          fmt::format("{}: input '{}' is declared without a shape; its rank must be in the "
                      "file (dims may be symbols)",
                      model_.origin, input.name));
    ir::Value value;
    value.name = input.name;
    value.dtype = *input.dtype;
    value.category = Category::kInput;
    for (size_t d = 0; d < input.dims.size(); ++d) {
      const Expr dim =
          input.dims[d] ? *input.dims[d] : Expr::symbol(fmt::format("{}_dim{}", input.name, d));
      for (const std::string& symbol : dim.symbols()) symbols.insert(symbol);
      value.dims.push_back(dim.substitute(options_.bindings));
      LT_RETURN_IF_ERROR(check_bound_dim(input, d, dim, value.dims.back()));
    }
    slot(input.name).value = graph_.add_value(std::move(value));
  }
  for (const auto& [symbol, number] : options_.bindings) {
    if (number < 1)
      return error(ErrorCode::kUsage, fmt::format("{}: --dim {}={}: a size is at least 1",
                                                  model_.origin, symbol, number));
    if (!symbols.contains(symbol) && !symbols.empty())
      return error(ErrorCode::kUsage,
                   fmt::format("{}: --dim {}={}: the model has no such dim, but {}", model_.origin,
                               symbol, number, fmt::join(symbols, ", ")));
    if (symbols.contains(symbol)) graph_.bindings[symbol] = number;
  }
  return {};
}

void Conversion::add_initializers() {
  for (const OnnxTensor& tensor : model_.initializers) {
    Slot& made = slot(tensor.name);
    made.initializer = &tensor;
    if (roles_.find(tensor.name)->second != TensorRole::kConstant) continue;
    if (auto host = host_from_tensor(tensor)) made.host = std::move(*host);
  }
}

Status Conversion::convert(size_t n) {
  const OnnxNode& node = model_.nodes[n];
  if (node.op_type == "Constant") {
    LT_ASSIGN(slot(node.outputs.at(0)).host, host_from_constant(node));
    return {};
  }
  if (is_if(node)) return note_condition(n);
  if (node.op_type == "Shape" || node.op_type == "Size") {
    if (node.inputs.size() != 1 || node.outputs.empty())
      return error(ErrorCode::kInput, "takes one input");
    NodeCall call(*this, n);
    const ir::Dims dims = call.dims(0);
    call.set_host(0, node.op_type == "Shape" ? shape_of(dims, node) : host_scalar(product(dims)));
    return {};
  }
  NodeCall call(*this, n);
  LT_RETURN_IF_ERROR(call.check_types());
  if (node.op_type == "Identity" && call.has(0) && call.wants(0)) {
    call.pass(0);  // also of what is known: one constant, not two
    return {};
  }
  LT_ASSIGN(const bool on_host, convert_on_host(node));
  if (on_host) return {};
  const ConvertRow* row = find_conversion(node.op_type);
  if (row == nullptr)
    return error(ErrorCode::kInput, "is read only where its inputs are known constants");
  for (size_t i = 0; i < row->min_inputs; ++i)
    if (!call.has(i)) return error(ErrorCode::kInput, fmt::format("input {} is missing", i));
  bool wanted = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) wanted |= call.wants(i);
  if (!wanted) return error(ErrorCode::kInput, "has no output");
  return row->convert(call);
}

// A condition that is known decides which branch is read (onnx_branches.h); any other is refused,
// since only one of the branches is to run.
Status Conversion::note_condition(size_t n) {
  const OnnxNode& node = model_.nodes[n];
  const std::string name = node.inputs.empty() ? "" : node.inputs[0];
  const Slot* condition = find_slot(name);
  if (condition == nullptr || !condition->host)
    return error(ErrorCode::kInput,
                 fmt::format("its condition '{}' is computed from data; it must be known when the "
                             "model is read",
                             name));
  LT_ASSIGN(const std::vector<int64_t> value, host_constants(*condition->host));
  if (value.size() != 1)
    return error(ErrorCode::kInput,
                 fmt::format("its condition '{}' has {} elements, not 1", name, value.size()));
  conditions_.emplace(n, value[0] != 0);
  return error(ErrorCode::kInternal, "its branch is not taken yet");
}

// Whether the node was evaluated. An op that has no conversion must be, so its obstacle is the
// error.
Result<bool> Conversion::convert_on_host(const OnnxNode& node) {
  if (!is_folded(node.op_type)) return false;
  std::vector<const HostValue*> inputs;
  bool any = false;
  for (const std::string& name : node.inputs) {
    const Slot* given = name.empty() ? nullptr : &slot(name);
    if (given != nullptr && !given->host) return false;
    inputs.push_back(given == nullptr ? nullptr : &*given->host);
    any |= given != nullptr;
  }
  if (!any) return false;
  auto folded = evaluate({node, inputs, model_.opset});
  if (!folded) {
    if (find_conversion(node.op_type) != nullptr) return false;
    return tl::unexpected<Error>(folded.error());
  }
  for (size_t i = 0; i < std::min(node.outputs.size(), folded->size()); ++i)
    if (!node.outputs[i].empty()) slot(node.outputs[i]).host = std::move((*folded)[i]);
  return true;
}

// A parameter or transposition need not become a value to tell its dims.
std::optional<ir::Dims> Conversion::dims_of(const Slot& slot) const {
  if (slot.value) return graph_.value(*slot.value).dims;
  if (slot.host) return slot.host->dims;
  ir::Dims dims;
  if (slot.initializer != nullptr) {
    dims.assign(slot.initializer->dims.begin(), slot.initializer->dims.end());
  } else if (slot.transposed) {
    for (size_t d : slot.perm) dims.push_back(graph_.value(*slot.transposed).dims[d]);
  } else {
    return std::nullopt;
  }
  return dims;
}

// What the file declares of a value against what follows from its node. Another rank is an error,
// as ONNX Runtime has it; another size is passed over with a note, since exporters leave sizes
// behind that were true of the example they traced. Symbols are not compared: they are named
// freely.
Status Conversion::check_declared() const {
  std::vector<std::string> stale;
  const auto check = [&](const OnnxValueInfo& info, const OnnxNode* maker) -> Status {
    const Slot* found = find_slot(info.name);
    const auto made = found == nullptr ? std::nullopt : dims_of(*found);
    if (!made || !info.has_shape) return {};
    const bool same_rank = made->size() == info.dims.size();
    bool fits = same_rank;
    for (size_t d = 0; fits && d < made->size(); ++d) {
      const auto declared = info.dims[d] ? info.dims[d]->constant() : std::nullopt;
      const auto inferred = (*made)[d].constant();
      fits = !declared || !inferred || *declared == *inferred;
    }
    if (fits) return {};
    std::vector<std::string> inferred;
    for (const Expr& dim : *made) inferred.push_back(sym::print(dim));
    std::string what = fmt::format("{}'{}' is declared as [{}], but its shape is [{}]",
                                   maker == nullptr ? "" : describe(*maker) + ": ", info.name,
                                   fmt::join(info.dim_text, ", "), fmt::join(inferred, ", "));
    if (!same_rank) return error(ErrorCode::kInput, fmt::format("{}: {}", model_.origin, what));
    stale.push_back(std::move(what));
    return {};
  };
  std::map<std::string_view, const OnnxValueInfo*> outputs;
  for (const OnnxValueInfo& output : model_.outputs) outputs.emplace(output.name, &output);
  for (const OnnxNode& node : model_.nodes)
    for (const std::string& name : node.outputs) {
      if (const auto info = model_.value_info.find(name); info != model_.value_info.end())
        LT_RETURN_IF_ERROR(check(info->second, &node));
      if (const auto info = outputs.find(name); info != outputs.end()) {
        LT_RETURN_IF_ERROR(check(*info->second, &node));
        outputs.erase(info);
      }
    }
  for (const auto& [name, info] : outputs) LT_RETURN_IF_ERROR(check(*info, nullptr));
  if (!stale.empty())
    note(fmt::format("{}{}; what the nodes make counts", stale[0],
                     stale.size() > 1 ? fmt::format(" (and {} more)", stale.size() - 1) : ""));
  return {};
}

void Conversion::note(std::string text) const {
  if (options_.notes != nullptr) options_.notes->push_back(std::move(text));
}

// Floats of which a file that names its parameters says nothing: an exporter that computes with
// parameters (1 + weight) leaves the result in their place.
void Conversion::note_untold() const {
  if (!options_.training) return;
  const std::vector<std::string> untold = untold_floats(model_, roles_);
  if (untold.empty()) return;
  const size_t shown = std::min<size_t>(untold.size(), 3);
  note(fmt::format(
      "{} initializers of floats are not said to be parameters and stay as they are ({}{}); if "
      "they "
      "were computed from parameters, export the model in training form",
      untold.size(),
      fmt::join(untold.begin(), untold.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      untold.size() > shown ? ", ..." : ""));
}

// The value that bears an output's name. What has another name (Identity, a Reshape that changes
// nothing) gets a view under it; a parameter gets a copy, since a training step overwrites it. An
// input or initializer that is an output is the result itself: it is there at the end of the step.
Result<ir::ValueId> Conversion::named_output(const std::string& name) {
  LT_ASSIGN(const ir::ValueId value, materialize(name));
  const ir::Value& made = graph_.value(value);
  if (made.name == name) return value;
  const auto first = graph_.find_value(name);
  if (first && graph_.value(*first).storage == made.storage) return *first;  // overwritten since
  if (first) return error(ErrorCode::kInternal, fmt::format("another value is called '{}'", name));
  const bool parameter = !made.producer.valid() && made.category == Category::kParameter;
  const ops::AppendOptions called = {.name = name, .module = {}, .output_names = {name}};
  LT_ASSIGN(const ir::OpId op,
            parameter || !made.layout.row_major()
                ? ops::append(graph_, "Copy", {value}, {}, called)
                : ops::append(graph_, "Reshape", {value}, {{"shape", list(made.dims)}}, called));
  return graph_.op(op).outputs[0];
}

Status Conversion::mark_outputs() {
  for (const OnnxValueInfo& output : model_.outputs) {
    const auto value = named_output(output.name);
    if (!value)
      return error(value.error().code, fmt::format("{}: output '{}': {}", model_.origin,
                                                   output.name, value.error().message));
    graph_.set_output(*value, true);
  }
  return {};
}

// ---- values ----

Result<ir::ValueId> Conversion::parameter(const OnnxTensor& tensor) {
  if (!tensor.dtype)
    return error(ErrorCode::kInput,
                 fmt::format("tensor '{}' has type {}, which is not computed with", tensor.name,
                             onnx_type_name(tensor.type_code)));
  const TensorRole role = roles_.find(tensor.name)->second;
  ir::Value value;
  value.name = graph_.fresh_name(tensor.name);
  value.dtype = *tensor.dtype;
  value.dims.assign(tensor.dims.begin(), tensor.dims.end());
  const bool fixed = role == TensorRole::kConstant || role == TensorRole::kBuffer;
  value.category = fixed ? Category::kInput : Category::kParameter;
  value.initial = initial_of(model_, tensor, role);
  return graph_.add_value(std::move(value));
}

Result<ir::ValueId> Conversion::materialize(const std::string& name) {
  if (name.empty()) return error(ErrorCode::kInput, "an operand that must be given is left out");
  Slot& asked = slot(name);
  if (asked.value) return *asked.value;
  if (asked.transposed) {
    const OnnxNode& node = model_.nodes[asked.transpose_node];
    std::vector<Expr> perm(asked.perm.size());
    for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(asked.perm[d]);
    LT_ASSIGN(const ir::OpId op, ops::append(graph_, "Transpose", {*asked.transposed},
                                             {{"perm", list(std::move(perm))}},
                                             {.name = node.name.empty() ? name : node.name,
                                              .module = node.module,
                                              .source = node.source,
                                              .output_names = {name}}));
    asked.value = graph_.op(op).outputs[0];
  } else if (asked.initializer != nullptr) {
    LT_ASSIGN(asked.value, parameter(*asked.initializer));
  } else if (asked.host) {
    LT_ASSIGN(asked.value, constant(*asked.host, name));
  } else {
    return error(ErrorCode::kInternal, fmt::format("'{}' was not made", name));
  }
  return *asked.value;
}

// A value with extents of 1 along dims where it does not vary; only for formulas.
Result<ir::ValueId> Conversion::materialize_narrow(const std::string& name) {
  Slot& asked = slot(name);
  if (asked.narrow) return *asked.narrow;
  if (asked.value || !asked.host || asked.host->form != HostValue::Form::kIndexed)
    return materialize(name);
  HostValue narrow = *asked.host;
  for (size_t d = 0; d < narrow.dims.size(); ++d) {
    bool varies =
        narrow.cell.integer.slope.size() > d && !(narrow.cell.integer.slope[d] == Expr(0));
    for (const Affine& condition : narrow.cell.conditions)
      varies |= !(condition.slope[d] == Expr(0));
    if (!varies) narrow.dims[d] = 1;
  }
  LT_ASSIGN(asked.narrow, constant(narrow, name));
  return *asked.narrow;
}

Result<ir::ValueId> Conversion::constant(const HostValue& host, const std::string& name) {
  const bool formula = host.form == HostValue::Form::kIndexed;
  if (formula && (!host.cell.conditions.empty() || is_large(host.dims))) {
    auto filled = is_float(host.dtype) ? fill(host, name) : fill_uniform(host, name);
    if (filled) return filled;
  }
  LT_ASSIGN(const HostValue dense, densify(host));
  ir::Value value;
  value.name = graph_.fresh_name(name);
  value.dtype = dense.dtype;
  value.dims = dense.dims;
  value.category = Category::kInput;
  value.initial.kind = ir::InitialValue::Kind::kInline;
  LT_ASSIGN(value.initial.bytes, host_bytes(dense));
  return graph_.add_value(std::move(value));
}

// An integer or truth value that is the same everywhere, as a Fill. Error: it is not.
Result<ir::ValueId> Conversion::fill_uniform(const HostValue& host, const std::string& name) {
  const auto truth_value = known_truth(host.cell.conditions);
  const auto number = host.dtype == DType::kBool
                          ? (truth_value ? std::optional<int64_t>(*truth_value) : std::nullopt)
                          : host.cell.integer.constant();
  if (!number) return error(ErrorCode::kInput, "not one number everywhere");
  HostValue uniform = host;
  uniform.cell.conditions.clear();
  uniform.cell.integer = flat(*number, host.dims.size());
  return fill(uniform, name);
}

// A formula as ops: one number everywhere is a Fill, a triangle of one number with 0 elsewhere a
// Trilu of it. So a causal mask needs no bytes in the plan and no numbers for its dims. Error: it
// is neither.
Result<ir::ValueId> Conversion::fill(const HostValue& host, const std::string& name) {
  const Cell& cell = host.cell;
  const size_t rank = host.dims.size();
  const auto emit = [&](std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                        const std::string& called) -> Result<ir::ValueId> {
    LT_ASSIGN(const ir::OpId op,
              ops::append(graph_, kind, std::move(inputs), std::move(attrs),
                          {.name = called, .module = {}, .output_names = {called}}));
    return graph_.op(op).outputs[0];
  };
  const bool triangle = !cell.conditions.empty();
  if (triangle &&
      (cell.conditions.size() != 1 || rank < 2 || (cell.real != 0 && cell.otherwise != 0)))
    return error(ErrorCode::kInput, "not a triangle");
  const bool inside = !triangle || cell.otherwise == 0;
  ir::Attrs attrs = {{"shape", list(host.dims)}, {"dtype", word(lowtide::name(host.dtype))}};
  if (is_float(host.dtype)) {
    attrs["value"] = inside ? cell.real : cell.otherwise;
  } else {
    attrs["value"] = cell.integer.constant().value_or(0);
  }
  if (!triangle) return emit("Fill", {}, attrs, name);
  // The condition s * (column - row) + base >= 0 with s = 1 (upper part) or -1 (lower part), or its
  // opposite.
  Affine condition = cell.conditions[0];
  if (!inside) {
    condition = scaled(condition, -1);
    condition.base = condition.base - 1;
  }
  const auto row = condition.slope[rank - 2].constant(),
             column = condition.slope[rank - 1].constant(), base = condition.base.constant();
  bool only_these = row && column && base && *row == -*column && (*column == 1 || *column == -1);
  for (size_t d = 0; d + 2 < rank; ++d) only_these &= condition.slope[d] == Expr(0);
  if (!only_these) return error(ErrorCode::kInput, "not a triangle");
  LT_ASSIGN(const ir::ValueId full, emit("Fill", {}, attrs, inner_name(name + "/full")));
  return emit("Trilu", {full},
              {{"upper", int64_t{*column == 1}}, {"k", *column == 1 ? -*base : *base}}, name);
}

}  // namespace lowtide::io

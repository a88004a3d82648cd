// One walk over the nodes. What tensors show, and what a write does to others, is in pt2_shown.h.
#include "io/pt2_lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "io/aten_call.h"
#include "io/onnx_peephole.h"
#include "io/pt2_shown.h"
#include "io/pt2_targets.h"

namespace lowtide::io {
namespace {

constexpr int64_t kOpset = 24;  // of the nodes that rows write
constexpr int kMostRegions = 32;
constexpr int64_t kMostInline = 1 << 20;  // bytes of a constant that is kept by itself

class Lowering : public AtenSink {
 public:
  Lowering(const Pt2Program& program, const LowerOptions& options)
      : program_(program), options_(options) {}

  Result<Lowered> run() {
    OnnxModel& model = out_.model;
    model.origin = program_.origin;
    model.folder = program_.folder;
    model.ir_version = kMaxIrVersion;
    model.opset = kOpset;
    model.producer = "pytorch " + program_.torch_version;
    for (const Pt2Input& input : program_.inputs)
      if (!input.path.empty()) names_.insert(input.path);
    LT_RETURN_IF_ERROR(add_inputs());
    LT_RETURN_IF_ERROR(walk(0, 0));
    LT_RETURN_IF_ERROR(add_outputs());
    for (auto& [target, refused] : not_taken_) out_.not_taken.push_back(std::move(refused));
    return std::move(out_);
  }

  // ---- AtenSink

  std::string read(const std::string& tensor, std::string& why) override {
    return shown_.read(tensor, why);
  }

  const Pt2Meta* meta(const std::string& tensor) const override {
    for (const Pt2Graph* graph : {graph_, program_.graphs.data()}) {
      const auto found = graph->tensors.find(tensor);
      if (found != graph->tensors.end()) return &found->second;
    }
    return nullptr;
  }

  std::string write(const std::string& tensor) override {
    const auto made = made_.find(tensor);
    if (made != made_.end()) return made->second;
    std::string name = tensor;
    while (!names_.insert(name).second) name += '_';
    if (const Pt2Meta* of = meta(tensor)) declare(name, *of);
    return made_[tensor] = name;
  }

  void add(OnnxNode node) override { out_.model.nodes.push_back(std::move(node)); }

  std::string add_constant(OnnxTensor tensor) override {
    tensor.constant_node = true;
    std::string name = tensor.name;
    out_.model.value_info[name].kind = "CONSTANT_TENSOR";
    out_.model.initializers.push_back(std::move(tensor));
    return name;
  }

  bool training() const override { return options_.training; }

  bool is_trained(const std::string& tensor) const override { return shown_.is_trained(tensor); }

  bool is_zero_row(const std::string& tensor, int64_t row) const override {
    const auto found = weight_of_.find(tensor);
    if (found == weight_of_.end()) return false;
    const Pt2Weight& weight = *found->second;
    const auto rows = weight.meta.dims.empty() ? std::nullopt : weight.meta.dims[0].constant();
    if (!rows || row < 0 || row >= *rows) return false;
    const int64_t length = weight.length / *rows;
    const std::string_view bytes =
        weight.mapped ? program_.contents.substr(static_cast<size_t>(weight.offset),
                                                 static_cast<size_t>(weight.length))
                      : std::string_view(weight.bytes);
    if (static_cast<int64_t>(bytes.size()) != weight.length) return false;
    const std::string_view part =
        bytes.substr(static_cast<size_t>(row * length), static_cast<size_t>(length));
    return std::all_of(part.begin(), part.end(), [](char c) { return c == 0; });
  }

 private:
  tl::unexpected<Error> fail(const std::string& what) const {
    return error(ErrorCode::kInput, fmt::format("{}: {}", program_.origin, what));
  }

  void declare(const std::string& name, const Pt2Meta& of) {
    OnnxValueInfo& info = out_.model.value_info[name];
    info.name = name;
    info.dtype = of.dtype;
    if (of.dtype) info.type_code = onnx_code(*of.dtype);
    info.is_tensor = info.has_shape = true;
    for (const sym::Expr& dim : of.dims) {
      info.dims.emplace_back(dim);
      info.dim_text.push_back(sym::print(dim));
    }
  }

  // ---- inputs and outputs

  Status add_inputs() {
    graph_ = program_.graphs.data();
    for (const Pt2Input& input : program_.inputs) {
      if (input.tensor.empty()) continue;
      if (input.kind == Pt2Input::Kind::kUser)
        LT_RETURN_IF_ERROR(add_fed(input));
      else
        LT_RETURN_IF_ERROR(add_weight(input));
    }
    return {};
  }

  Status add_fed(const Pt2Input& input) {
    const Pt2Meta* of = meta(input.tensor);
    if (of == nullptr) return fail(fmt::format("input '{}' has no type", input.tensor));
    if (!of->dtype)
      return fail(fmt::format("input '{}' is {}, which is not computed with", input.tensor,
                              pt2_type_name(of->type_code)));
    const std::string name = write(input.tensor);
    out_.model.inputs.push_back(out_.model.value_info[name]);
    shown_.show(input.tensor, {.name = name, .memory = shown_.new_memory()});
    return {};
  }

  Status add_weight(const Pt2Input& input) {
    const auto found = program_.weights.find(input.path);
    const Pt2Meta* of = meta(input.tensor);
    if (found == program_.weights.end() || of == nullptr)
      return fail(fmt::format("the archive has no contents for weight '{}'", input.path));
    const Pt2Weight& weight = found->second;
    if (weight.pickled)
      return fail(
          fmt::format("weight '{}' is only there as a pickle, which is not opened: save it "
                      "as a plain tensor",
                      input.path));
    if (!weight.meta.dtype)
      return fail(fmt::format("weight '{}' is {}, which is not computed with", input.path,
                              pt2_type_name(weight.meta.type_code)));
    const bool trained = input.kind == Pt2Input::Kind::kParameter && of->requires_grad &&
                         is_float(*weight.meta.dtype);
    weight_of_[input.tensor] = &weight;
    const auto key = std::make_tuple(weight.member, weight.offset, sizes_text(weight.meta));
    // Where weights were left out all of them are the same no bytes: which are tied is not told.
    const bool has_bytes = weight.mapped || !weight.bytes.empty();
    const auto tied = has_bytes ? tied_.find(key) : tied_.end();
    if (tied != tied_.end()) {
      shown_.show_same(input.tensor, tied->second);
      return {};
    }
    out_.model.initializers.push_back(tensor_of(input, weight));
    declare(input.path, weight.meta);
    out_.model.value_info[input.path].kind = trained ? "PARAMETER"
                                             : input.kind == Pt2Input::Kind::kConstant
                                                 ? "CONSTANT_TENSOR"
                                                 : "BUFFER";
    shown_.show(input.tensor,
                {.name = input.path, .memory = shown_.new_memory(), .trained = trained});
    tied_[key] = *shown_.find(input.tensor);
    return {};
  }

  static std::string sizes_text(const Pt2Meta& meta) {
    std::string text;
    for (const auto* list : {&meta.dims, &meta.strides})
      for (const sym::Expr& size : *list) text += sym::print(size) + " ";
    return text + sym::print(meta.storage_offset);
  }

  // Floats stay in the file; what shapes may be computed from, and small constants, come along.
  OnnxTensor tensor_of(const Pt2Input& input, const Pt2Weight& weight) const {
    OnnxTensor tensor;
    tensor.name = input.path;
    tensor.dtype = weight.meta.dtype;
    for (const sym::Expr& dim : weight.meta.dims) tensor.dims.push_back(dim.constant().value_or(0));
    const bool folded = input.kind == Pt2Input::Kind::kConstant || !is_float(*weight.meta.dtype);
    tensor.external = weight.bytes.empty() && weight.length > 0;
    if (tensor.external && weight.mapped && folded && weight.length <= kMostInline) {
      tensor.external = false;
      tensor.bytes = program_.contents.substr(static_cast<size_t>(weight.offset),
                                              static_cast<size_t>(weight.length));
    } else if (tensor.external && weight.mapped) {
      tensor.file = program_.file;
      tensor.offset = weight.offset;
      tensor.length = weight.length;
    } else if (!tensor.external) {
      tensor.bytes = weight.bytes;
    }
    return tensor;
  }

  Status add_outputs() {
    std::set<std::string> listed;
    graph_ = program_.graphs.data();
    for (const Pt2Output& output : program_.outputs) {
      if (output.tensor.empty()) continue;
      if (output.mutation) {
        note_mutation(output);
        continue;
      }
      std::string why;
      const std::string name = read(output.tensor, why);
      if (name.empty()) return fail("the program's result " + why);
      if (!listed.insert(name).second) continue;
      OnnxValueInfo info = out_.model.value_info[name];
      info.name = name;
      out_.model.outputs.push_back(std::move(info));
    }
    return {};
  }

  // Running statistics follow by themselves (BatchNormalization), counts are of no use here.
  void note_mutation(const Pt2Output& output) {
    const Pt2Meta* of = meta(output.tensor);
    const bool counts = of == nullptr || !of->dtype || !is_float(*of->dtype);
    const bool statistic =
        output.path.ends_with("running_mean") || output.path.ends_with("running_var");
    if (!counts && !statistic)
      out_.notes.push_back(
          fmt::format("the program changes '{}': what it becomes is not kept for "
                      "the next step",
                      output.path));
  }

  // ---- nodes

  // NOLINTNEXTLINE(misc-no-recursion): at most kMostRegions deep
  Status walk(size_t graph, int depth) {
    if (depth > kMostRegions)
      return fail(fmt::format("regions within regions, more than {} deep", kMostRegions));
    const Pt2Graph* around = graph_;
    for (const Pt2Node& node : program_.graphs[graph].nodes) {
      graph_ = &program_.graphs[graph];
      LT_RETURN_IF_ERROR(lower_node(called_apart(node), depth));
    }
    graph_ = around;
    return {};
  }

  // Regions have names of their own, which may be those of nodes outside.
  Pt2Node called_apart(Pt2Node node) {
    while (!labels_.insert(node.name).second) node.name += '_';
    for (const std::string& output : node.outputs) made_.erase(output);
    return node;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as walk
  Status lower_node(const Pt2Node& node, int depth) {
    if (is_passed_over(node.target)) return {};
    if (node.target == "higher_order.wrap_with_set_grad_enabled" ||
        node.target == "higher_order.wrap_with_autocast")
      return lower_region(node, depth);
    out_.ops[node.target].push_back(node.name);
    const std::optional<std::string> apart = written_apart(node.target);
    if (const AtenRow* row = find_aten(apart.value_or(node.target))) {
      const size_t nodes = out_.model.nodes.size(), tensors = out_.model.initializers.size();
      AtenCall call(*this, node, *row);
      row->lower(call);
      if (call.mistake().empty()) return note_results(node, apart.has_value());
      out_.model.nodes.resize(nodes);
      out_.model.initializers.resize(tensors);
      if (call.mistake().starts_with("reads '"))
        return fail(fmt::format("node '{}' ({}) {}", node.name, node.target, call.mistake()));
      return refuse(node, apart.has_value(), call.mistake());
    }
    return refuse(node, apart.has_value(), "");
  }

  Status refuse(const Pt2Node& node, bool in_place, const std::string& why) {
    NotTaken& refused = not_taken_[node.target];
    refused.target = node.target;
    if (refused.why.empty()) refused.why = why;
    refused.nodes.push_back(node.name);
    return add_opaque(node, in_place);
  }

  // What reads tensors and makes some, of which nothing else is known.
  Status add_opaque(const Pt2Node& node, bool in_place) {
    OnnxNode made;
    made.op_type = kOpaqueOp;
    made.domain = kPeepholeDomain;
    made.name = node.name;
    made.module = node.module;
    made.source = node.source;
    for (const auto& [name, argument] : node.inputs)
      for (const std::string& tensor : argument.tensors) {
        if (tensor.empty()) continue;
        std::string why;
        made.inputs.push_back(read(tensor, why));
        if (!why.empty())
          return fail(fmt::format("node '{}' ({}) {}", node.name, node.target, why));
      }
    for (const std::string& output : node.outputs) {
      const Pt2Meta* of = output.empty() ? nullptr : meta(output);
      if (of == nullptr) continue;
      if (!of->dtype)
        return fail(fmt::format("node '{}' ({}) makes {}, which is not computed with", node.name,
                                node.target, pt2_type_name(of->type_code)));
      made.outputs.push_back(write(output));
    }
    const bool effect = made.outputs.empty();
    made.attrs["op"].word = node.target;
    made.attrs["kind"].word = effect                         ? "OpaqueEffect"
                              : draws_at_random(node.target) ? "OpaqueRandom"
                                                             : "Opaque";
    if (effect) return {};  // nothing that memory or results depend on
    add(std::move(made));
    return note_results(node, in_place);
  }

  // What a node's outputs show.
  Status note_results(const Pt2Node& node, bool in_place) {
    const std::string* source = first_tensor(node);
    const bool trained = reads_trained(node);
    if (in_place && source != nullptr && !node.outputs.empty()) return note_write(node, *source);
    for (const std::string& output : node.outputs) {
      const auto made = made_.find(output);
      if (output.empty() || made == made_.end()) continue;
      const Pt2Meta* of = meta(output);
      Shown shown = memory_for(node, source);
      shown.name = made->second;
      shown.trained = trained && of != nullptr && of->dtype && is_float(*of->dtype) &&
                      base_name(node.target) != "detach";
      shown_.show(output, std::move(shown));
    }
    return {};
  }

  // The memory of the operand that the result may show, or one of its own.
  Shown memory_for(const Pt2Node& node, const std::string* source) {
    Shown shown;
    if (source != nullptr && may_show_operand(node.target)) {
      if (const auto from = shown_.find(*source)) {
        shown.memory = shown_.at(*from).memory;
        shown.version = shown_.at(*from).version;
        shown.range = range_of(node, *from);
        return shown;
      }
    }
    shown.memory = shown_.new_memory();
    return shown;
  }

  static const std::string* first_tensor(const Pt2Node& node) {
    if (node.inputs.empty()) return nullptr;
    const Pt2Argument& first = node.inputs[0].second;
    return first.kind == Pt2Argument::Kind::kTensor ? first.tensors.data() : nullptr;
  }

  bool reads_trained(const Pt2Node& node) const {
    for (const auto& [name, argument] : node.inputs)
      for (const std::string& tensor : argument.tensors)
        if (is_trained(tensor)) return true;
    return false;
  }

  static std::optional<sym::Expr> size_argument(const Pt2Node& node, std::string_view name) {
    for (const auto& [key, argument] : node.inputs)
      if (key == name && argument.sizes.size() == 1) return argument.sizes[0];
    return std::nullopt;
  }

  // Which places of its operand a slice or select shows; none: not known as such.
  std::optional<ShownRange> range_of(const Pt2Node& node, size_t whole) const {
    const std::string_view base = base_name(node.target);
    const Pt2Meta* of = meta(*first_tensor(node));
    if ((base != "slice" && base != "select") || of == nullptr || of->dims.empty())
      return std::nullopt;
    if (size_argument(node, "step").value_or(sym::Expr(1)) != sym::Expr(1)) return std::nullopt;
    const auto rank = static_cast<int64_t>(of->dims.size());
    auto axis = size_argument(node, "dim").value_or(sym::Expr(0)).constant();
    if (!axis || *axis < -rank || *axis >= rank) return std::nullopt;
    ShownRange range = {.whole = whole, .axis = *axis < 0 ? *axis + rank : *axis};
    const sym::Expr extent = of->dims[static_cast<size_t>(range.axis)];
    const auto placed = [&](const std::optional<sym::Expr>& given,
                            const sym::Expr& otherwise) -> sym::Expr {
      const auto number = given ? given->constant() : std::nullopt;
      if (number && *number == std::numeric_limits<int64_t>::max()) return extent;
      if (number && *number < 0) return extent + *given;
      return given.value_or(otherwise);
    };
    range.drops_axis = base == "select";
    range.begin = placed(size_argument(node, range.drops_axis ? "index" : "start"), 0);
    range.end = range.drops_axis ? range.begin + 1 : placed(size_argument(node, "end"), extent);
    return range;
  }

  // The node's output is what its first operand has become.
  Status note_write(const Pt2Node& node, const std::string& target) {
    const auto at = shown_.find(target);
    const auto made = made_.find(node.outputs[0]);
    if (!at || made == made_.end())
      return fail(
          fmt::format("node '{}' writes into '{}', and makes nothing of it", node.name, target));
    const bool trained = reads_trained(node);
    std::string now = made->second;
    shown_.begin_write(*at, now, node.name, trained);
    size_t part = *at;
    for (int depth = 0; shown_.at(part).range; ++depth) {
      const ShownRange range = *shown_.at(part).range;
      now = around(node, range, now, depth);
      part = range.whole;
      shown_.see_write(part, now, trained);
    }
    shown_.show_same(node.outputs[0], *at);
    if (shown_.brought_memory(part)) return {};
    return fail(
        fmt::format("node '{}' ({}) writes into '{}', a view whose places are not known: "
                    "export a functional program (run_decompositions)",
                    node.name, node.target, target));
  }

  // The whole again, with `part` where it belongs.
  std::string around(const Pt2Node& node, const ShownRange& range, const std::string& part,
                     int depth) {
    const AtenRow row = {node.target, nullptr};
    Pt2Node label = node;
    label.name = fmt::format("{}/whole{}", node.name, depth);
    AtenCall call(*this, label, row);
    const std::string whole = shown_.at(range.whole).name, axes = call.integer_list({range.axis});
    std::vector<std::string> pieces;
    if (!(range.begin == sym::Expr(0)))
      pieces.push_back(
          call.emit("Slice", {whole, call.integer_list({0}), call.size_list({range.begin}), axes}));
    pieces.push_back(range.drops_axis ? call.emit("Unsqueeze", {part, axes}) : part);
    pieces.push_back(
        call.emit("Slice", {whole, call.size_list({range.end}),
                            call.integer_list({std::numeric_limits<int64_t>::max()}), axes}));
    return call.emit("Concat", std::move(pieces), {{"axis", range.axis}});
  }

  // ---- regions

  // The body of torch.no_grad and the like: (enabled, body, operands...); of autocast
  // (device, type, enabled, whether it keeps casts, body, operands...). The first flag is meant.
  // NOLINTNEXTLINE(misc-no-recursion): as walk
  Status lower_region(const Pt2Node& node, int depth) {
    const bool autocast = node.target == "higher_order.wrap_with_autocast";
    std::optional<size_t> body;
    std::vector<std::string> operands;
    std::optional<bool> flag;
    for (const auto& [name, argument] : node.inputs) {
      if (argument.kind == Pt2Argument::Kind::kGraph) body = argument.subgraph;
      if (argument.kind == Pt2Argument::Kind::kTensor) operands.push_back(argument.tensors[0]);
      if (argument.kind == Pt2Argument::Kind::kFlag && !body && !flag)
        flag = argument.sizes[0] == sym::Expr(1);
    }
    const bool enabled = flag.value_or(true);
    const auto wrong = [&](std::string_view why) {
      return fail(fmt::format("node '{}' ({}) {}", node.name, node.target, why));
    };
    if (!body) return wrong("has no body");
    if (autocast && enabled)
      return wrong(
          "casts by itself: run run_decompositions on the program, which writes the casts");
    const Pt2Graph& inside = program_.graphs[*body];
    if (inside.inputs.size() != operands.size() || inside.outputs.size() < node.outputs.size())
      return wrong("has a body of other operands or results");
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto found = shown_.find(operands[i]);
      if (!found) return wrong(fmt::format("reads '{}', which nothing makes", operands[i]));
      shown_.show_same(inside.inputs[i], *found);
      if (const auto weight = weight_of_.find(operands[i]); weight != weight_of_.end())
        weight_of_[inside.inputs[i]] = weight->second;
    }
    const Pt2Graph* around = graph_;
    LT_RETURN_IF_ERROR(walk(*body, depth + 1));
    graph_ = around;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      LT_RETURN_IF_ERROR(
          leave_region(node, inside.outputs[i], node.outputs[i], !autocast && !enabled, i));
    return {};
  }

  Status leave_region(const Pt2Node& node, const std::string& inner, const std::string& outer,
                      bool cut, size_t i) {
    if (outer.empty()) return {};
    const auto found = shown_.find(inner);
    if (!found)
      return fail(fmt::format("node '{}' ({}): its body does not make result {}", node.name,
                              node.target, i));
    shown_.show_same(outer, *found);
    const Pt2Meta* of = meta(outer);
    Shown apart = shown_.at(*found);
    if (!cut || !options_.training || !apart.trained || of == nullptr || !of->dtype) return {};
    const AtenRow row = {node.target, nullptr};
    Pt2Node label = node;
    label.name = fmt::format("{}/result{}", node.name, i);
    AtenCall call(*this, label, row);
    apart.name = call.without_gradient(apart.name, *of->dtype);
    apart.trained = false;
    shown_.show(outer, std::move(apart));
    return {};
  }

  const Pt2Program& program_;
  const LowerOptions options_;
  Lowered out_;
  const Pt2Graph* graph_ = nullptr;  // whose nodes are being lowered
  ShownTensors shown_;
  std::map<std::string, std::string, std::less<>> made_;            // names that were written
  std::map<std::string, const Pt2Weight*, std::less<>> weight_of_;  // by the program's tensors
  std::map<std::tuple<std::string, int64_t, std::string>, size_t> tied_;
  std::set<std::string, std::less<>> names_, labels_;
  std::map<std::string, NotTaken> not_taken_;
};

}  // namespace

Result<Lowered> lower(const Pt2Program& program, const LowerOptions& options) {
  return Lowering(program, options).run();
}

}  // namespace lowtide::io

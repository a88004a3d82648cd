// Members of the JSON that are not known are passed over: minor versions of the schema add some.
#include "io/pt2_json.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/pt2_expr.h"
#include "io/source_line.h"
#include "plan/plan_fields.h"

namespace lowtide::io {
namespace {

using plan::Json;
using JsonPlace = plan::Place;
using ArgumentKind = Pt2Argument::Kind;

constexpr size_t kMostGraphs = 1 << 16;
constexpr int64_t kStridedLayout = 7;

class ProgramReader : private plan::FieldReader {
 public:
  ProgramReader(std::string_view origin, Pt2Program& out) : FieldReader(origin), out_(out) {}

  Status program(const Json& document);
  // What a config of weights says; members of the archive are not looked at.
  Status weights(const Json& document, std::string_view folder);

 private:
  using Sizes = std::map<std::string, sym::Expr, std::less<>>;

  // A member that must be there.
  Result<JsonPlace> at(const JsonPlace& place, std::string_view key) const;
  Status size_of(const JsonPlace& place, sym::Expr& out) const;
  Status sizes_of(const JsonPlace& place, std::vector<sym::Expr>& out) const;
  Status meta(const JsonPlace& place, Pt2Meta& out) const;
  Status graph(const JsonPlace& place, size_t into);
  Status node(const JsonPlace& place, const Sizes& sizes, Pt2Node& out);
  Status argument(const JsonPlace& place, const Sizes& sizes, Pt2Argument& out);
  Status simple(std::string_view key, const JsonPlace& place, Pt2Argument& out) const;
  Status named_size(const JsonPlace& place, const Sizes& sizes, sym::Expr& out) const;
  Status tensor_name(const JsonPlace& place, std::string& out) const;
  Status outputs_of(const JsonPlace& place, std::vector<std::string>& out) const;
  Status input_spec(const JsonPlace& place);
  Status output_spec(const JsonPlace& place);
  Status ranges(const JsonPlace& place);
  Status check_version(const JsonPlace& root) const;

  Pt2Program& out_;
};

Result<JsonPlace> ProgramReader::at(const JsonPlace& place, std::string_view key) const {
  if (!place.json->is_object()) return fail(place, "an object");
  const auto found = place.json->find(key);
  if (found == place.json->end()) return fail(place, fmt::format("a member '{}'", key));
  return JsonPlace{&*found, &place, key, 0};
}

// {"as_int": 8}, {"as_expr": {"expr_str": "...", "hint": {"as_int": 8}}}. The hint of a symbol
// alone is its size when the program was exported.
Status ProgramReader::size_of(const JsonPlace& place, sym::Expr& out) const {
  return object(place, {}, [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "as_int") {
      int64_t number = 0;
      LT_RETURN_IF_ERROR(integer(member, number));
      out = number;
      return {};
    }
    if (key != "as_expr") return fail(member, "'as_int' or 'as_expr'");
    LT_ASSIGN(const JsonPlace words, at(member, "expr_str"));
    std::string expression;
    LT_RETURN_IF_ERROR(text(words, expression));
    auto parsed = parse_sympy(expression);
    if (!parsed) return fail(words, fmt::format("a size ({})", parsed.error().message));
    out = std::move(*parsed);
    const auto hint = member.json->find("hint");
    if (hint == member.json->end() || !hint->is_object() || !hint->contains("as_int")) return {};
    const std::vector<std::string> symbols = out.symbols();
    if (symbols.size() != 1 || out != sym::Expr::symbol(symbols[0])) return {};
    const JsonPlace hint_place{&*hint, &member, "hint", 0};
    LT_ASSIGN(const JsonPlace number, at(hint_place, "as_int"));
    return integer(number, out_.ranges[symbols[0]].example.emplace());
  });
}

Status ProgramReader::sizes_of(const JsonPlace& place, std::vector<sym::Expr>& out) const {
  return array(place, [&](const JsonPlace& entry) { return size_of(entry, out.emplace_back()); });
}

Status ProgramReader::meta(const JsonPlace& place, Pt2Meta& out) const {
  const auto read = [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "dtype") return integer(member, out.type_code);
    if (key == "sizes") return sizes_of(member, out.dims);
    if (key == "strides") return sizes_of(member, out.strides);
    if (key == "storage_offset") return size_of(member, out.storage_offset);
    if (key == "requires_grad") return boolean(member, out.requires_grad);
    if (key != "layout") return {};
    int64_t layout = 0;
    LT_RETURN_IF_ERROR(integer(member, layout));
    return layout == kStridedLayout
               ? Status()
               : fail(member, "7, a strided tensor (sparse ones are not read)");
  };
  LT_RETURN_IF_ERROR(object(place, {"dtype", "sizes", "strides"}, read));
  out.dtype = pt2_dtype(out.type_code);
  if (out.strides.size() != out.dims.size())
    return fail(place, fmt::format("{} strides", out.dims.size()));
  return {};
}

Status ProgramReader::tensor_name(const JsonPlace& place, std::string& out) const {
  LT_ASSIGN(const JsonPlace name, at(place, "name"));
  return text(name, out);
}

// {"as_int": 8}, {"as_name": "sym_size_int"}.
Status ProgramReader::named_size(const JsonPlace& place, const Sizes& sizes, sym::Expr& out) const {
  return object(place, {}, [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key != "as_name") return size_of(place, out);
    std::string name;
    LT_RETURN_IF_ERROR(text(member, name));
    const auto found = sizes.find(name);
    if (found == sizes.end()) return fail(member, "the name of a size in sym_int_values");
    out = found->second;
    return {};
  });
}

// What needs neither the graph's sizes nor other graphs.
Status ProgramReader::simple(std::string_view key, const JsonPlace& place, Pt2Argument& out) const {
  const auto number = [&](ArgumentKind kind) -> Status {
    int64_t value = 0;
    LT_RETURN_IF_ERROR(integer(place, value));
    out.kind = kind;
    out.sizes = {sym::Expr(value)};
    return {};
  };
  // Python's writer has words of its own for what JSON has no digits for.
  const auto real_number = [&](const JsonPlace& entry) -> Status {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr std::array<std::pair<std::string_view, double>, 3> kWords = {
        {{"Infinity", kInfinity},
         {"-Infinity", -kInfinity},
         {"NaN", std::numeric_limits<double>::quiet_NaN()}}};
    double& out_real = out.reals.emplace_back();
    for (const auto& [word, value] : kWords)
      if (*entry.json == word) {
        out_real = value;
        return {};
      }
    return real_word(entry, out_real);
  };
  if (key == "as_int") return number(ArgumentKind::kInteger);
  if (key == "as_scalar_type") return number(ArgumentKind::kDType);
  if (key == "as_memory_format") return number(ArgumentKind::kFormat);
  if (key == "as_none") return {};
  if (key == "as_ints") {
    out.kind = ArgumentKind::kIntegers;
    return array(place, [&](const JsonPlace& entry) -> Status {
      int64_t value = 0;
      LT_RETURN_IF_ERROR(integer(entry, value));
      out.sizes.emplace_back(value);
      return {};
    });
  }
  if (key == "as_float") {
    out.kind = ArgumentKind::kReal;
    return real_number(place);
  }
  if (key == "as_floats") {
    out.kind = ArgumentKind::kReals;
    return array(place, real_number);
  }
  if (key == "as_bool") {
    bool flag = false;
    LT_RETURN_IF_ERROR(boolean(place, flag));
    out.kind = ArgumentKind::kFlag;
    out.sizes = {sym::Expr(flag ? 1 : 0)};
    return {};
  }
  out.kind = key == "as_string" ? ArgumentKind::kWord : ArgumentKind::kOther;
  out.word = key;
  return key == "as_string" ? text(place, out.word) : Status();
}

Status ProgramReader::argument(const JsonPlace& place, const Sizes& sizes, Pt2Argument& out) {
  if (!place.json->is_object() || place.json->size() != 1)
    return fail(place, "an object with one member, such as 'as_tensor'");
  const auto only = place.json->begin();
  const std::string& key = only.key();
  const JsonPlace member{&*only, &place, key, 0};
  if (key == "as_tensor") {
    out.kind = ArgumentKind::kTensor;
    return tensor_name(member, out.tensors.emplace_back());
  }
  if (key == "as_optional_tensor")
    return member.json->contains("as_tensor") ? argument(member, sizes, out) : Status();
  if (key == "as_tensors" || key == "as_optional_tensors") {
    out.kind = ArgumentKind::kTensors;
    return array(member, [&](const JsonPlace& entry) -> Status {
      std::string& name = out.tensors.emplace_back();
      if (key == "as_tensors") return tensor_name(entry, name);
      if (!entry.json->contains("as_tensor")) return {};
      LT_ASSIGN(const JsonPlace tensor, at(entry, "as_tensor"));
      return tensor_name(tensor, name);
    });
  }
  if (key == "as_sym_int") {
    out.kind = ArgumentKind::kInteger;
    return named_size(member, sizes, out.sizes.emplace_back());
  }
  if (key == "as_sym_ints") {
    out.kind = ArgumentKind::kIntegers;
    return array(member, [&](const JsonPlace& entry) {
      return named_size(entry, sizes, out.sizes.emplace_back());
    });
  }
  if (key != "as_graph") return simple(key, member, out);
  out.kind = ArgumentKind::kGraph;
  out.subgraph = out_.graphs.size();
  if (out.subgraph >= kMostGraphs) return fail(member, "fewer graphs");
  out_.graphs.emplace_back();
  LT_ASSIGN(const JsonPlace inside, at(member, "graph"));
  return graph(inside, out.subgraph);
}

// The names of tensors that arguments are; lists are written out.
Status ProgramReader::outputs_of(const JsonPlace& place, std::vector<std::string>& out) const {
  return array(place, [&](const JsonPlace& entry) -> Status {
    if (!entry.json->is_object()) return fail(entry, "an object");
    if (entry.json->contains("as_tensor")) {
      LT_ASSIGN(const JsonPlace tensor, at(entry, "as_tensor"));
      return tensor_name(tensor, out.emplace_back());
    }
    if (entry.json->contains("as_tensors")) {
      LT_ASSIGN(const JsonPlace tensors, at(entry, "as_tensors"));
      return array(tensors,
                   [&](const JsonPlace& each) { return tensor_name(each, out.emplace_back()); });
    }
    out.emplace_back();
    return {};
  });
}

// "L__self___fc,layers.0.fc,torch.nn.modules.linear.Linear": the path of the innermost entry.
std::string module_of(const Json& metadata) {
  const auto stack = metadata.is_object() ? metadata.find("nn_module_stack") : metadata.end();
  if (stack == metadata.end() || !stack->is_string()) return {};
  std::string_view entries = stack->get_ref<const std::string&>();
  if (const size_t last = entries.rfind(';'); last != std::string::npos)
    entries.remove_prefix(last + 1);
  const size_t begin = entries.find(',');
  if (begin == std::string::npos) return {};
  entries.remove_prefix(begin + 1);
  return std::string(entries.substr(0, entries.find(',')));
}

std::string source_of(const Json& metadata) {
  const auto trace = metadata.is_object() ? metadata.find("stack_trace") : metadata.end();
  if (trace == metadata.end() || !trace->is_string()) return {};
  return source_line(trace->get_ref<const std::string&>());
}

Status ProgramReader::node(const JsonPlace& place, const Sizes& sizes, Pt2Node& out) {
  const auto read = [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "target") return text(member, out.target);
    if (key == "name" && member.json->is_string()) return text(member, out.name);
    if (key == "outputs") return outputs_of(member, out.outputs);
    if (key == "metadata") {
      out.module = module_of(*member.json);
      out.source = source_of(*member.json);
    }
    if (key != "inputs") return {};
    return array(member, [&](const JsonPlace& entry) -> Status {
      LT_ASSIGN(const JsonPlace name, at(entry, "name"));
      LT_ASSIGN(const JsonPlace value, at(entry, "arg"));
      auto& [called, given] = out.inputs.emplace_back();
      LT_RETURN_IF_ERROR(text(name, called));
      return argument(value, sizes, given);
    });
  };
  LT_RETURN_IF_ERROR(object(place, {"target", "inputs", "outputs"}, read));
  constexpr std::string_view kPrefix = "torch.ops.";
  if (out.target.starts_with(kPrefix)) out.target.erase(0, kPrefix.size());
  if (out.name.empty())
    for (const std::string& output : out.outputs)
      if (out.name.empty()) out.name = output;
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion): parse_json limits the depth
Status ProgramReader::graph(const JsonPlace& place, size_t into) {
  Pt2Graph made;
  Sizes sizes;
  LT_ASSIGN(const JsonPlace tensors, at(place, "tensor_values"));
  LT_RETURN_IF_ERROR(object(tensors, {}, [&](std::string_view name, const JsonPlace& entry) {
    return meta(entry, made.tensors[std::string(name)]);
  }));
  if (place.json->contains("sym_int_values")) {
    LT_ASSIGN(const JsonPlace named, at(place, "sym_int_values"));
    LT_RETURN_IF_ERROR(object(named, {}, [&](std::string_view name, const JsonPlace& entry) {
      return size_of(entry, sizes[std::string(name)]);
    }));
  }
  LT_ASSIGN(const JsonPlace inputs, at(place, "inputs"));
  LT_RETURN_IF_ERROR(outputs_of(inputs, made.inputs));
  LT_ASSIGN(const JsonPlace outputs, at(place, "outputs"));
  LT_RETURN_IF_ERROR(outputs_of(outputs, made.outputs));
  LT_ASSIGN(const JsonPlace nodes, at(place, "nodes"));
  LT_RETURN_IF_ERROR(array(nodes, [&](const JsonPlace& entry) {
    return node(entry, sizes, made.nodes.emplace_back());
  }));
  out_.graphs[into] = std::move(made);
  return {};
}

Status ProgramReader::input_spec(const JsonPlace& place) {
  Pt2Input& input = out_.inputs.emplace_back();
  return object(place, {}, [&](std::string_view key, const JsonPlace& member) -> Status {
    using InputKind = Pt2Input::Kind;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPaths = {
        {{"parameter", "parameter_name"},
         {"buffer", "buffer_name"},
         {"tensor_constant", "tensor_constant_name"}}};
    for (size_t i = 0; i < kPaths.size(); ++i) {
      if (key != kPaths[i].first) continue;
      input.kind = static_cast<InputKind>(i + 1);
      LT_ASSIGN(const JsonPlace tensor, at(member, "arg"));
      LT_RETURN_IF_ERROR(tensor_name(tensor, input.tensor));
      LT_ASSIGN(const JsonPlace path, at(member, kPaths[i].second));
      return text(path, input.path);
    }
    input.kind = key == "user_input" ? InputKind::kUser : InputKind::kOther;
    if (key != "user_input") return {};
    LT_ASSIGN(const JsonPlace given, at(member, "arg"));
    if (!given.json->contains("as_tensor")) return {};
    LT_ASSIGN(const JsonPlace tensor, at(given, "as_tensor"));
    return tensor_name(tensor, input.tensor);
  });
}

Status ProgramReader::output_spec(const JsonPlace& place) {
  Pt2Output& output = out_.outputs.emplace_back();
  return object(place, {}, [&](std::string_view key, const JsonPlace& member) -> Status {
    LT_ASSIGN(const JsonPlace given, at(member, "arg"));
    if (key == "user_output") {
      if (!given.json->contains("as_tensor")) return {};
      LT_ASSIGN(const JsonPlace tensor, at(given, "as_tensor"));
      return tensor_name(tensor, output.tensor);
    }
    if (key != "loss_output") output.mutation = true;
    for (const char* path : {"buffer_name", "parameter_name", "user_input_name"})
      if (member.json->contains(path)) {
        LT_ASSIGN(const JsonPlace name, at(member, path));
        LT_RETURN_IF_ERROR(text(name, output.path));
      }
    return tensor_name(given, output.tensor);
  });
}

Status ProgramReader::ranges(const JsonPlace& place) {
  return object(place, {}, [&](std::string_view symbol, const JsonPlace& entry) {
    Pt2Range& range = out_.ranges[std::string(symbol)];
    return object(entry, {}, [&](std::string_view key, const JsonPlace& member) -> Status {
      if (member.json->is_null()) return {};
      if (key == "min_val") return integer(member, range.least.emplace());
      if (key == "max_val") return integer(member, range.most.emplace());
      return {};
    });
  });
}

Status ProgramReader::check_version(const JsonPlace& root) const {
  LT_ASSIGN(const JsonPlace version, at(root, "schema_version"));
  LT_ASSIGN(const JsonPlace major, at(version, "major"));
  if (*major.json == kPt2Schema) return {};
  return fail(major, fmt::format("schema version {} (PyTorch 2.7 to 2.13)", kPt2Schema));
}

Status ProgramReader::program(const Json& document) {
  const JsonPlace root{&document, nullptr, {}, 0};
  LT_RETURN_IF_ERROR(check_version(root));
  if (document.contains("torch_version")) {
    LT_ASSIGN(const JsonPlace version, at(root, "torch_version"));
    LT_RETURN_IF_ERROR(text(version, out_.torch_version));
  }
  LT_ASSIGN(const JsonPlace module, at(root, "graph_module"));
  LT_ASSIGN(const JsonPlace inside, at(module, "graph"));
  out_.graphs.emplace_back();
  LT_RETURN_IF_ERROR(graph(inside, 0));
  LT_ASSIGN(const JsonPlace signature, at(module, "signature"));
  LT_ASSIGN(const JsonPlace inputs, at(signature, "input_specs"));
  LT_RETURN_IF_ERROR(array(inputs, [&](const JsonPlace& entry) { return input_spec(entry); }));
  LT_ASSIGN(const JsonPlace outputs, at(signature, "output_specs"));
  LT_RETURN_IF_ERROR(array(outputs, [&](const JsonPlace& entry) { return output_spec(entry); }));
  if (!document.contains("range_constraints")) return {};
  LT_ASSIGN(const JsonPlace limits, at(root, "range_constraints"));
  return ranges(limits);
}

Status ProgramReader::weights(const Json& document, std::string_view folder) {
  const JsonPlace root{&document, nullptr, {}, 0};
  LT_ASSIGN(const JsonPlace config, at(root, "config"));
  return object(config, {}, [&](std::string_view path, const JsonPlace& entry) -> Status {
    Pt2Weight& weight = out_.weights[std::string(path)];
    return object(entry, {"path_name", "use_pickle"},
                  [&](std::string_view key, const JsonPlace& member) -> Status {
                    if (key == "path_name") {
                      LT_RETURN_IF_ERROR(text(member, weight.member));
                      weight.member = fmt::format("{}/{}", folder, weight.member);
                    }
                    if (key == "use_pickle") return boolean(member, weight.pickled);
                    if (key == "tensor_meta" && !member.json->is_null())
                      return meta(member, weight.meta);
                    return {};
                  });
  });
}

}  // namespace

Status read_program_json(const Json& document, const std::string& origin, Pt2Program& program) {
  return ProgramReader(origin, program).program(document);
}

Status read_weights_json(const Json& document, const std::string& origin, std::string_view folder,
                         Pt2Program& program) {
  return ProgramReader(origin, program).weights(document, folder);
}

}  // namespace lowtide::io

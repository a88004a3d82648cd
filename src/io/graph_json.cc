// The printer writes one record a line, as that of plans does, and leaves out members that hold
// their default. The reader takes every member with its type and range and refuses names that it
// does not know (plan/plan_fields.h); then it adds values and ops in the order of the values' ids,
// so that ids are what the text says or the text is refused.
#include "io/graph_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/json_text.h"
#include "io/graph_admission.h"
#include "plan/plan_fields.h"

namespace lowtide::io {
namespace {

using plan::Json;
using JsonPlace = plan::Place;

constexpr std::array<std::string_view, 4> kAliasWords = {"own", "view", "update", "pieces"};
constexpr std::array<std::string_view, 5> kContentsWords = {"fed", "seeded", "zero", "inline",
                                                            "external"};
constexpr size_t kMostGraphBytes = size_t{1} << 30;
constexpr size_t kMostDepth = 16;

// ---- printing

class JsonPrinter {
 public:
  explicit JsonPrinter(const ir::Graph& graph) : graph_(graph) {}

  std::string run() {
    out_ = fmt::format("{{\n\"format\": \"{}\",\n\"version\": {},\n\"name\": ", kGraphFormat,
                       kGraphVersion);
    text(graph_.name);
    out_ += ",\n\"producer\": ";
    text(graph_.producer);
    out_ += ",\n\"bindings\": [";
    for (const auto& [symbol, size] : graph_.bindings) {
      out_ += out_.back() == '[' ? "{\"symbol\": " : ", {\"symbol\": ";
      text(symbol);
      append(", \"size\": {}}}", size);
    }
    out_ += "],\n\"values\": [";
    for (const ir::ValueId id : graph_.values()) value(graph_.value(id));
    out_ += "\n],\n\"ops\": [";
    for (const ir::OpId id : graph_.ops()) op(graph_.op(id));
    return std::move(out_) + "\n]\n}\n";
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void start_record() { out_ += out_.back() == '[' ? "\n{" : ",\n{"; }
  void member(std::string_view name) { append("{}\"{}\": ", out_.back() == '{' ? "" : ", ", name); }

  // What is no UTF-8 is kept to the bit.
  void text(std::string_view words) {
    if (is_utf8(words))
      append_json_string(out_, words);
    else
      append("{{\"base64\": \"{}\"}}", to_base64(words));
  }

  void size(const sym::Expr& expr) {
    if (const auto number = expr.constant())
      append("{}", *number);
    else
      text(sym::print(expr));
  }

  void sizes(const ir::Dims& dims) {
    out_ += '[';
    for (const sym::Expr& dim : dims) {
      if (&dim != &dims.front()) out_ += ", ";
      size(dim);
    }
    out_ += ']';
  }

  template <class IdType>
  void ids(std::string_view name, const std::vector<IdType>& list) {
    member(name);
    out_ += '[';
    bool first = true;
    for (const IdType id : list) {
      append("{}{}", first ? "" : ", ", id.valid() ? fmt::format("{}", id.index()) : "null");
      first = false;
    }
    out_ += ']';
  }

  void value(const ir::Value& value) {
    start_record();
    member("name"), text(value.name);
    member("dtype"), text(lowtide::name(value.dtype));
    member("dims"), sizes(value.dims);
    member("category"), text(lowtide::name(value.category));
    if (value.layout != Layout{}) member("layout"), text(lowtide::print(value.layout));
    if (value.alias != ir::Alias::kOwn)
      member("alias"), text(kAliasWords[static_cast<size_t>(value.alias)]);
    if (value.base.valid()) member("base"), append("{}", value.base.index());
    if (!(value.offset_bytes == sym::Expr(0))) member("offset_bytes"), size(value.offset_bytes);
    member("storage"), append("{}", value.storage.index());
    if (value.is_output) member("is_output"), out_ += "true";
    if (value.output_rank != 0) member("output_rank"), append("{}", value.output_rank);
    if (!value.producer.valid()) member("initial"), contents(value.initial);
    out_ += '}';
  }

  void contents(const ir::InitialValue& initial) {
    out_ += '{';
    member("kind"), text(kContentsWords[static_cast<size_t>(initial.kind)]);
    if (!initial.bytes.empty()) member("base64"), text(to_base64(initial.bytes));
    if (!initial.file.empty()) member("file"), text(initial.file);
    if (initial.offset != 0) member("offset"), append("{}", initial.offset);
    if (initial.length != 0) member("length"), append("{}", initial.length);
    out_ += '}';
  }

  void op(const ir::Op& op) {
    start_record();
    member("kind"), text(op.kind);
    member("name"), text(op.name);
    if (!op.module.empty()) member("module"), text(op.module);
    if (!op.source.empty()) member("source"), text(op.source);
    member("phase"), text(lowtide::name(op.phase));
    if (!op.attrs.empty()) attributes(op.attrs);
    ids("inputs", op.inputs);
    ids("outputs", op.outputs);
    if (!op.control.empty()) ids("control", op.control);
    out_ += '}';
  }

  void attributes(const ir::Attrs& attrs) {
    member("attrs");
    out_ += '{';
    for (const auto& [key, attr] : attrs) {
      if (out_.back() != '{') out_ += ", ";
      append_json_string(out_, key);
      out_ += ": ";
      if (const auto* integer = std::get_if<int64_t>(&attr))
        append("{}", *integer);
      else if (const auto* number = std::get_if<double>(&attr))
        append_json_real(out_, *number);
      else if (const auto* word = std::get_if<std::string>(&attr))
        text(*word);
      else
        sizes(std::get<ir::Dims>(attr));
    }
    out_ += '}';
  }

  const ir::Graph& graph_;
  std::string out_;
};

// ---- reading

// A value and an op as declared: ids are not checked yet.
struct DeclaredValue {
  ir::Value value;
  bool given = false;
  std::optional<ir::StorageId> storage;
};
struct DeclaredOp {
  ir::Op op;
  std::vector<ir::ValueId> outputs;
};

class JsonReader : private plan::FieldReader {
 public:
  using FieldReader::FieldReader;

  Result<ir::Graph> graph(const Json& document);

 private:
  Status name_at(const JsonPlace& place, std::string& out) const;
  Status size_at(const JsonPlace& place, sym::Expr& out) const;
  Status sizes_at(const JsonPlace& place, ir::Dims& out) const;
  Status binding(const JsonPlace& place);
  Status contents(const JsonPlace& place, ir::InitialValue& out) const;
  Status value(const JsonPlace& place);
  Status value_member(std::string_view key, const JsonPlace& member, DeclaredValue& out) const;
  Status attribute(const JsonPlace& place, ir::AttrValue& out) const;
  Status op(const JsonPlace& place);
  Status assemble(const JsonPlace& values, const JsonPlace& ops);
  Status add_op(const JsonPlace& ops, size_t end);
  Status check_op(const JsonPlace& place, const DeclaredOp& op) const;
  Status check_output(const JsonPlace& place, const DeclaredOp& op, const ir::Value& value) const;
  Status check_storages(const JsonPlace& values) const;

  ir::Graph graph_;
  std::vector<DeclaredValue> values_;
  std::vector<DeclaredOp> ops_;
  size_t added_ops_ = 0;
  std::set<std::string, std::less<>> value_names_, op_names_;
};

// A string, or the bytes of one that is no UTF-8.
Status JsonReader::name_at(const JsonPlace& place, std::string& out) const {
  if (!place.json->is_object()) return text(place, out);
  return object(place, {"base64"}, [&](std::string_view key, const JsonPlace& member) -> Status {
    return key == "base64" ? bytes(member, out) : unknown(member);
  });
}

Status JsonReader::size_at(const JsonPlace& place, sym::Expr& out) const {
  if (place.json->is_number()) {
    int64_t number = 0;
    LT_RETURN_IF_ERROR(integer(place, number));
    out = number;
    return {};
  }
  std::string words;
  LT_RETURN_IF_ERROR(name_at(place, words));
  auto parsed = sym::parse_expr(words);
  if (!parsed) return fail(place, fmt::format("a size ({})", parsed.error().message));
  out = std::move(*parsed);
  return {};
}

Status JsonReader::sizes_at(const JsonPlace& place, ir::Dims& out) const {
  return array(place, [&](const JsonPlace& entry) { return size_at(entry, out.emplace_back()); });
}

Status JsonReader::binding(const JsonPlace& place) {
  std::string symbol;
  int64_t number = 0;
  const auto read = [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "symbol") return name_at(member, symbol);
    if (key == "size") return integer(member, number);
    return unknown(member);
  };
  LT_RETURN_IF_ERROR(object(place, {"symbol", "size"}, read));
  if (!graph_.bindings.emplace(std::move(symbol), number).second)
    return fail(place, "each symbol once");
  return {};
}

Status JsonReader::contents(const JsonPlace& place, ir::InitialValue& out) const {
  const auto read = [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "kind") return word(member, kContentsWords, out.kind);
    if (key == "base64") return bytes(member, out.bytes);
    if (key == "file") return name_at(member, out.file);
    if (key == "offset") return size(member, out.offset);
    if (key == "length") return size(member, out.length);
    return unknown(member);
  };
  LT_RETURN_IF_ERROR(object(place, {"kind"}, read));
  const bool external = out.kind == ir::InitialValue::Kind::kExternal;
  if (!external && (!out.file.empty() || out.offset != 0 || out.length != 0))
    return fail(place, "file, offset and length of kind 'external' alone");
  if (out.kind != ir::InitialValue::Kind::kInline && !out.bytes.empty())
    return fail(place, "base64 of kind 'inline' alone");
  return {};
}

Status JsonReader::value_member(std::string_view key, const JsonPlace& member,
                                DeclaredValue& out) const {
  ir::Value& value = out.value;
  if (key == "name") return name_at(member, value.name);
  if (key == "dtype") return word(member, parse_dtype, value.dtype, "a dtype such as 'f32'");
  if (key == "dims") return sizes_at(member, value.dims);
  if (key == "category")
    return word(member, parse_category, value.category, "a category such as 'activation'");
  if (key == "layout") {
    std::string words;
    LT_RETURN_IF_ERROR(text(member, words));
    if (!lowtide::parse(words, value.layout)) return fail(member, "a layout such as 'perm:0231'");
    return {};
  }
  if (key == "alias") return word(member, kAliasWords, value.alias);
  if (key == "base") return id(member, value.base);
  if (key == "offset_bytes") return size_at(member, value.offset_bytes);
  if (key == "storage") return id(member, out.storage.emplace());
  if (key == "is_output") return boolean(member, value.is_output);
  if (key == "output_rank") return size(member, value.output_rank);
  if (key == "initial") {
    out.given = true;
    return contents(member, value.initial);
  }
  return unknown(member);
}

Status JsonReader::value(const JsonPlace& place) {
  DeclaredValue out;
  const auto read = [&](std::string_view key, const JsonPlace& member) {
    return value_member(key, member, out);
  };
  LT_RETURN_IF_ERROR(object(place, {"name", "dtype", "dims", "category"}, read));
  if (!value_names_.insert(out.value.name).second)
    return fail(place, "a name that no other value has");
  const bool based = out.value.alias == ir::Alias::kView || out.value.alias == ir::Alias::kUpdate;
  if (based != out.value.base.valid())
    return fail(place, "a member 'base' of a view or update, and of nothing else");
  if (!based && !(out.value.offset_bytes == sym::Expr(0)))
    return fail(place, "a member 'offset_bytes' of a view or update, and of nothing else");
  if (out.given && out.value.alias != ir::Alias::kOwn)
    return fail(place, "alias 'own' of what is there before the step");
  if (!out.value.is_output && out.value.output_rank != 0)
    return fail(place, "a member 'output_rank' of an output, and of nothing else");
  values_.push_back(std::move(out));
  return {};
}

Status JsonReader::attribute(const JsonPlace& place, ir::AttrValue& out) const {
  const Json& json = *place.json;
  if (json.is_number_float()) {
    out = json.get<double>();
  } else if (json.is_number()) {
    LT_RETURN_IF_ERROR(integer(place, out.emplace<int64_t>()));
  } else if (json.is_array()) {
    LT_RETURN_IF_ERROR(sizes_at(place, out.emplace<ir::Dims>()));
  } else if (json.is_object() && json.contains("real")) {
    return object(place, {"real"}, [&](std::string_view key, const JsonPlace& member) -> Status {
      if (key != "real") return unknown(member);
      return real_word(member, out.emplace<double>());
    });
  } else {
    LT_RETURN_IF_ERROR(name_at(place, out.emplace<std::string>()));
  }
  return {};
}

Status JsonReader::op(const JsonPlace& place) {
  DeclaredOp out;
  const auto read = [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "kind") return name_at(member, out.op.kind);
    if (key == "name") return name_at(member, out.op.name);
    if (key == "module") return name_at(member, out.op.module);
    if (key == "source") return name_at(member, out.op.source);
    if (key == "phase")
      return word(member, parse_phase, out.op.phase, "'forward', 'backward' or 'update'");
    if (key == "attrs")
      return object(member, {}, [&](std::string_view name, const JsonPlace& entry) {
        return attribute(entry, out.op.attrs[std::string(name)]);
      });
    if (key == "inputs") return ids(member, out.op.inputs, true);
    if (key == "outputs") return ids(member, out.outputs);
    if (key == "control") return ids(member, out.op.control);
    return unknown(member);
  };
  LT_RETURN_IF_ERROR(object(place, {"kind", "name", "inputs", "outputs"}, read));
  if (!op_names_.insert(out.op.name).second) return fail(place, "a name that no other op has");
  ops_.push_back(std::move(out));
  return {};
}

// What add_op takes for granted.
Status JsonReader::check_op(const JsonPlace& place, const DeclaredOp& op) const {
  for (const ir::ValueId input : op.op.inputs)
    if (input.valid() && input.index() >= graph_.value_count())
      return fail(place, fmt::format("inputs below {}, the values that are there before this op "
                                     "runs, not {}",
                                     graph_.value_count(), input.index()));
  for (const ir::OpId before : op.op.control)
    if (!before.valid() || before.index() >= graph_.op_count())
      return fail(place, fmt::format("control edges from ops below {}", graph_.op_count()));
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    const size_t wanted = graph_.value_count() + o;
    if (op.outputs[o].index() != wanted || wanted >= values_.size() || values_[wanted].given)
      return fail(place, fmt::format("output {} to be value {}, a value without 'initial': values "
                                     "stand in the order in which ops make them",
                                     o, wanted));
    LT_RETURN_IF_ERROR(check_output(place, op, values_[wanted].value));
  }
  return {};
}

Status JsonReader::check_output(const JsonPlace& place, const DeclaredOp& op,
                                const ir::Value& value) const {
  if (value.alias == ir::Alias::kPieces && !graph_.may_join(op.op.inputs))
    return fail(place, "inputs that are all there and share no storage, as an output is 'pieces'");
  const bool reads =
      std::find(op.op.inputs.begin(), op.op.inputs.end(), value.base) != op.op.inputs.end();
  if (value.base.valid() && !reads)
    return fail(
        place, fmt::format("an input that is value {}, the base of an output", value.base.index()));
  return {};
}

// Adds the ops up to and with the next one whose outputs begin before value `end`; ops without
// outputs go with the next one that has some.
Status JsonReader::add_op(const JsonPlace& ops, size_t end) {
  while (added_ops_ < ops_.size()) {
    DeclaredOp& declared = ops_[added_ops_];
    const JsonPlace place{&(*ops.json)[added_ops_], &ops, {}, added_ops_};
    LT_RETURN_IF_ERROR(check_op(place, declared));
    std::vector<ir::Value> outputs;
    for (const ir::ValueId id : declared.outputs)
      outputs.push_back(std::move(values_[id.index()].value));
    graph_.add_op(std::move(declared.op), std::move(outputs));
    ++added_ops_;
    if (graph_.value_count() >= end) return {};
  }
  return {};
}

Status JsonReader::assemble(const JsonPlace& values, const JsonPlace& ops) {
  while (graph_.value_count() < values_.size()) {
    const size_t next = graph_.value_count();
    if (values_[next].given) {
      graph_.add_value(std::move(values_[next].value));
      continue;
    }
    LT_RETURN_IF_ERROR(add_op(ops, next + 1));
    if (graph_.value_count() == next)
      return fail(JsonPlace{&(*values.json)[next], &values, {}, next},
                  "a member 'initial', or an op that makes this value");
  }
  return add_op(ops, values_.size() + 1);  // those that are left make nothing
}

Status JsonReader::check_storages(const JsonPlace& values) const {
  for (const ir::ValueId id : graph_.values()) {
    const std::optional<ir::StorageId>& said = values_[id.index()].storage;
    const ir::StorageId storage = graph_.value(id).storage;
    if (!said || *said == storage) continue;
    const JsonPlace place{&(*values.json)[id.index()], &values, {}, id.index()};
    return fail(place, fmt::format("storage {}, which follows from alias and base, instead of {}",
                                   storage.index(), said->index()));
  }
  return {};
}

Result<ir::Graph> JsonReader::graph(const Json& document) {
  const JsonPlace root{&document, nullptr, {}, 0};
  if (!document.is_object() || document.value("format", Json()) != kGraphFormat)
    return fail(root, fmt::format("an object with the format '{}'", kGraphFormat));
  const Json version = document.value("version", Json());
  if (version != kGraphVersion)
    return fail(JsonPlace{&version, &root, "version", 0}, fmt::format("version {}", kGraphVersion));
  const auto read = [&](std::string_view key, const JsonPlace& member) -> Status {
    if (key == "name") return name_at(member, graph_.name);
    if (key == "producer") return name_at(member, graph_.producer);
    if (key == "bindings")
      return array(member, [&](const JsonPlace& entry) { return binding(entry); });
    if (key == "values") return array(member, [&](const JsonPlace& entry) { return value(entry); });
    if (key == "ops") return array(member, [&](const JsonPlace& entry) { return op(entry); });
    return key == "format" || key == "version" ? Status() : unknown(member);
  };
  LT_RETURN_IF_ERROR(object(root, {"values", "ops"}, read));
  const JsonPlace values{&document.at("values"), &root, "values", 0};
  LT_RETURN_IF_ERROR(assemble(values, JsonPlace{&document.at("ops"), &root, "ops", 0}));
  LT_RETURN_IF_ERROR(check_storages(values));
  if (Status status = ir::check(graph_); !status)
    return error(status.error().code, fmt::format("{}: {}", origin_, status.error().message));
  return std::move(graph_);
}

}  // namespace

std::string print_graph_json(const ir::Graph& graph) {
  return JsonPrinter(graph).run();
}

Result<ir::Graph> parse_graph_json(std::string_view text, const std::string& origin) {
  LT_ASSIGN(const Json document,
            plan::parse_json(text, origin, {.bytes = kMostGraphBytes, .depth = kMostDepth}));
  auto graph = JsonReader(origin).graph(document);
  if (!graph)  // names from the file may hold anything; messages are one line
    for (char& c : graph.error().message)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return graph;
}

Result<ir::Graph> read_graph_json(std::string_view text, const std::string& origin,
                                  const sym::Bindings& bindings) {
  LT_ASSIGN(const ir::Graph declared, parse_graph_json(text, origin));
  const GraphPlaces places = {
      .of_value = [](ir::ValueId id) { return fmt::format(" values[{}]", id.index()); },
      .of_op = [](ir::OpId id) { return fmt::format("ops[{}]", id.index()); }};
  return admit_graph(declared, origin, bindings, places);
}

}  // namespace lowtide::io

#include "io/aten_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/element.h"
#include "io/onnx_peephole.h"

namespace lowtide::io {
namespace {

using ArgumentKind = Pt2Argument::Kind;

// The integer type of a float's width.
DType bits_of(DType type) {
  switch (size_bytes(type)) {
    case 8:
      return DType::kI64;
    case 4:
      return DType::kI32;
    default:
      return DType::kI16;
  }
}

OnnxAttr attribute(AtenAttr value) {
  OnnxAttr attr;
  if (auto* integer = std::get_if<int64_t>(&value)) {
    attr.type = 2;
    attr.integer = *integer;
  } else if (auto* real = std::get_if<double>(&value)) {
    attr.type = 1;
    attr.real = *real;
  } else if (auto* word = std::get_if<std::string>(&value)) {
    attr.type = 3;
    attr.word = std::move(*word);
  } else {
    attr.type = 7;
    attr.integers = std::move(std::get<std::vector<int64_t>>(value));
  }
  return attr;
}

int category(DType type) {
  return type == DType::kBool ? 0 : is_float(type) ? 2 : 1;
}

// Two of one category. Halves of different kinds meet in f32.
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (size_bytes(a) != size_bytes(b)) return size_bytes(a) > size_bytes(b) ? a : b;
  if (is_float(a)) return DType::kF32;
  return DType::kI16;  // i8 and u8; PyTorch has no sum of the wider unsigned ones
}

const Pt2Meta kNoMeta;

}  // namespace

int32_t onnx_code(DType type) {
  for (int32_t code = 1; code <= 16; ++code)
    if (onnx_dtype(code) == type) return code;
  return 0;
}

DType promoted(DType a, bool a_has_dims, DType b, bool b_has_dims) {
  const int in_a = category(a), in_b = category(b);
  if (a_has_dims != b_has_dims) {
    const DType whole = a_has_dims ? a : b, scalar = a_has_dims ? b : a;
    return category(whole) >= category(scalar) ? whole : scalar;
  }
  return in_a == in_b ? wider(a, b) : in_a > in_b ? a : b;
}

std::vector<std::span<const AtenRow>> aten_families() {
  return {aten_elementwise_rows(), aten_movement_rows(), aten_indexing_rows(), aten_creation_rows(),
          aten_reduction_rows(),   aten_network_rows(),  aten_window_rows()};
}

const AtenRow* find_aten(std::string_view target) {
  static const auto* rows = [] {
    auto* made = new std::map<std::string_view, const AtenRow*>;
    for (const std::span<const AtenRow> family : aten_families())
      for (const AtenRow& row : family) made->emplace(row.target, &row);
    return made;
  }();
  const auto found = rows->find(target);
  return found == rows->end() ? nullptr : found->second;
}

// ---- arguments ----

const Pt2Argument* AtenCall::find(std::string_view name) const {
  for (const auto& [key, argument] : node_.inputs)
    if (key == name) return &argument;
  return nullptr;
}

const Pt2Argument* AtenCall::need(std::string_view name) {
  const Pt2Argument* found = find(name);
  if (found == nullptr || found->kind == ArgumentKind::kNone) {
    fail(fmt::format("its argument '{}' is missing", name));
    return nullptr;
  }
  return found;
}

bool AtenCall::has(std::string_view name) const {
  const Pt2Argument* found = find(name);
  return found != nullptr && found->kind != ArgumentKind::kNone;
}

bool AtenCall::is_tensor(std::string_view name) const {
  const Pt2Argument* found = find(name);
  return found != nullptr && found->kind == ArgumentKind::kTensor;
}

std::string AtenCall::tensor(std::string_view name) {
  const Pt2Argument* found = need(name);
  if (found == nullptr) return {};
  if (found->kind != ArgumentKind::kTensor) {
    fail(fmt::format("its argument '{}' is no tensor", name));
    return {};
  }
  std::string why;
  std::string read = sink_.read(found->tensors[0], why);
  if (read.empty()) fail(std::move(why));
  return read;
}

std::vector<std::string> AtenCall::tensors(std::string_view name) {
  const Pt2Argument* found = need(name);
  std::vector<std::string> read;
  if (found == nullptr) return read;
  if (found->kind != ArgumentKind::kTensors && found->kind != ArgumentKind::kTensor)
    fail(fmt::format("its argument '{}' is no list of tensors", name));
  for (const std::string& each : found->tensors) {
    std::string why;
    read.push_back(each.empty() ? std::string() : sink_.read(each, why));
    if (!why.empty()) fail(std::move(why));
  }
  return read;
}

std::string AtenCall::operand(std::string_view name, DType type) {
  const Pt2Argument* found = need(name);
  if (found == nullptr) return {};
  if (found->kind == ArgumentKind::kTensor) return cast(tensor(name), this->type(name), type);
  if (found->kind == ArgumentKind::kReal) return number(found->reals[0], type);
  if (found->kind == ArgumentKind::kInteger || found->kind == ArgumentKind::kFlag) {
    if (const auto value = found->sizes[0].constant())
      return is_float(type) ? number(static_cast<double>(*value), type)
                            : cast(size_number(*value), DType::kI64, type);
    return cast(size_number(found->sizes[0]), DType::kI64, type);
  }
  fail(fmt::format("its argument '{}' is neither a tensor nor a number", name));
  return {};
}

const Pt2Meta& AtenCall::meta(std::string_view name) {
  const Pt2Argument* found = need(name);
  if (found == nullptr) return kNoMeta;
  const Pt2Meta* meta =
      found->kind == ArgumentKind::kTensor || found->kind == ArgumentKind::kTensors
          ? sink_.meta(found->tensors.empty() ? "" : found->tensors[0])
          : nullptr;
  if (meta != nullptr) return *meta;
  if (found->kind == ArgumentKind::kTensor)
    fail(fmt::format("nothing is said of its argument '{}'", name));
  return kNoMeta;
}

std::vector<Pt2Meta> AtenCall::metas(std::string_view name) {
  std::vector<Pt2Meta> all;
  const Pt2Argument* found = need(name);
  if (found == nullptr) return all;
  for (const std::string& tensor : found->tensors) {
    const Pt2Meta* meta = tensor.empty() ? nullptr : sink_.meta(tensor);
    if (meta == nullptr && !tensor.empty()) fail(fmt::format("nothing is said of '{}'", tensor));
    all.push_back(meta == nullptr ? Pt2Meta() : *meta);
  }
  return all;
}

DType AtenCall::type(std::string_view name) {
  const Pt2Argument* found = need(name);
  if (found == nullptr) return DType::kF32;
  if (found->kind == ArgumentKind::kReal) return DType::kF32;
  if (found->kind == ArgumentKind::kInteger) return DType::kI64;
  if (found->kind == ArgumentKind::kFlag) return DType::kBool;
  const Pt2Meta& of = meta(name);
  if (!of.dtype)
    fail(fmt::format("its argument '{}' has type {}, which is not computed with", name,
                     pt2_type_name(of.type_code)));
  return of.dtype.value_or(DType::kF32);
}

int64_t AtenCall::integer(std::string_view name, int64_t otherwise) {
  if (!has(name)) return otherwise;
  const Pt2Argument& given = *find(name);
  if (given.kind == ArgumentKind::kReal) return truncated(DType::kI64, given.reals[0]);
  const auto number = given.sizes.size() == 1 ? given.sizes[0].constant() : std::nullopt;
  if (!number) fail(fmt::format("its argument '{}' must be a known integer", name));
  return number.value_or(otherwise);
}

double AtenCall::real(std::string_view name, double otherwise) {
  if (!has(name)) return otherwise;
  const Pt2Argument& given = *find(name);
  if (given.kind == ArgumentKind::kReal) return given.reals[0];
  return static_cast<double>(integer(name, 0));
}

bool AtenCall::flag(std::string_view name, bool otherwise) {
  return integer(name, otherwise ? 1 : 0) != 0;
}

std::string AtenCall::word(std::string_view name, std::string_view otherwise) const {
  const Pt2Argument* found = find(name);
  return std::string(found != nullptr && found->kind == ArgumentKind::kWord ? found->word
                                                                            : otherwise);
}

std::optional<DType> AtenCall::dtype(std::string_view name) {
  if (!has(name)) return std::nullopt;
  const Pt2Argument& given = *find(name);
  const auto code = given.sizes.size() == 1 ? given.sizes[0].constant() : std::nullopt;
  if (given.kind != ArgumentKind::kDType || !code || !pt2_dtype(*code)) {
    fail(fmt::format("its argument '{}' is {}, which is not computed with", name,
                     pt2_type_name(code.value_or(0))));
    return std::nullopt;
  }
  return pt2_dtype(*code);
}

std::vector<int64_t> AtenCall::integers(std::string_view name, std::vector<int64_t> otherwise) {
  if (!has(name)) return otherwise;
  std::vector<int64_t> numbers;
  for (const sym::Expr& size : sizes(name)) {
    const auto number = size.constant();
    if (!number) fail(fmt::format("its argument '{}' must be known integers", name));
    numbers.push_back(number.value_or(0));
  }
  return numbers;
}

std::vector<double> AtenCall::reals(std::string_view name) {
  if (!has(name)) return {};
  const Pt2Argument& given = *find(name);
  if (given.kind == ArgumentKind::kReal || given.kind == ArgumentKind::kReals) return given.reals;
  std::vector<double> numbers;
  for (const int64_t number : integers(name)) numbers.push_back(static_cast<double>(number));
  return numbers;
}

std::vector<sym::Expr> AtenCall::sizes(std::string_view name) {
  const Pt2Argument* found = need(name);
  if (found == nullptr) return {};
  if (found->kind != ArgumentKind::kInteger && found->kind != ArgumentKind::kIntegers)
    fail(fmt::format("its argument '{}' is no list of integers", name));
  return found->sizes;
}

int64_t AtenCall::axis(std::string_view name, int64_t otherwise, size_t rank) {
  const int64_t dims = std::max<int64_t>(static_cast<int64_t>(rank), 1);
  const int64_t given = integer(name, otherwise);
  if (given < -dims || given >= dims) {
    fail(fmt::format("its argument '{}' is dim {} of {}", name, given, rank));
    return 0;
  }
  return given < 0 ? given + dims : given;
}

// ---- results ----

const Pt2Meta& AtenCall::out(size_t i) {
  const Pt2Meta* meta = i < node_.outputs.size() ? sink_.meta(node_.outputs[i]) : nullptr;
  if (meta != nullptr) return *meta;
  fail(fmt::format("nothing is said of its output {}", i));
  return kNoMeta;
}

DType AtenCall::out_type(size_t i) {
  const Pt2Meta& meta = out(i);
  if (!meta.dtype)
    fail(fmt::format("makes {}, which is not computed with", pt2_type_name(meta.type_code)));
  return meta.dtype.value_or(DType::kF32);
}

// What ONNX's op has not: slopes at limits and ties (docs/ops.md). A node with one of these is not
// held against ONNX's signature.
constexpr std::string_view kSlopes[] = {"first", "norm", "open"};

OnnxNode AtenCall::make(std::string_view op, std::vector<std::string> inputs,
                        AtenAttrs attrs) const {
  OnnxNode node;
  node.op_type = op;
  node.name = node_.name;
  node.module = node_.module;
  node.source = node_.source;
  node.inputs = std::move(inputs);
  for (auto& [key, value] : attrs) {
    if (std::ranges::find(kSlopes, std::string_view(key)) != std::end(kSlopes))
      node.domain = kPeepholeDomain;
    node.attrs.emplace(key, attribute(std::move(value)));
  }
  return node;
}

std::string AtenCall::emit(std::string_view op, std::vector<std::string> inputs, AtenAttrs attrs) {
  OnnxNode node = make(op, std::move(inputs), std::move(attrs));
  std::string made = fmt::format("{}/{}", node_.name, inner_++);
  node.outputs = {made};
  sink_.add(std::move(node));
  return made;
}

void AtenCall::result(std::string_view op, std::vector<std::string> inputs, AtenAttrs attrs,
                      size_t outputs) {
  OnnxNode node = make(op, std::move(inputs), std::move(attrs));
  for (size_t i = 0; i < std::min(outputs, node_.outputs.size()); ++i)
    node.outputs.push_back(node_.outputs[i].empty() ? "" : sink_.write(node_.outputs[i]));
  if (node.outputs.empty()) fail("has no output");
  sink_.add(std::move(node));
}

void AtenCall::result_at(size_t output, std::string_view op, std::vector<std::string> inputs,
                         AtenAttrs attrs) {
  if (output >= node_.outputs.size() || node_.outputs[output].empty()) return;
  OnnxNode node = make(op, std::move(inputs), std::move(attrs));
  node.outputs = {sink_.write(node_.outputs[output])};
  sink_.add(std::move(node));
}

void AtenCall::result_as(const std::string& x, DType type) {
  const DType wanted = out_type();
  if (type == wanted)
    result("Identity", {x});
  else
    result("Cast", {x}, {{"to", int64_t{onnx_code(wanted)}}});
}

std::string AtenCall::cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  return emit("Cast", {x}, {{"to", int64_t{onnx_code(to)}}});
}

std::string AtenCall::number(double value, DType type) {
  OnnxTensor tensor;
  tensor.name = fmt::format("{}/{}", node_.name, inner_++);
  tensor.dtype = type;
  tensor.type_code = onnx_code(type);
  tensor.bytes.assign(static_cast<size_t>(size_bytes(type)), '\0');
  if (is_float(type))
    write_real(type, value, tensor.bytes.data());
  else
    write_integer(type, truncated(DType::kI64, value), tensor.bytes.data());
  return sink_.add_constant(std::move(tensor));
}

std::string AtenCall::integer_list(const std::vector<int64_t>& values) {
  return size_list({values.begin(), values.end()});
}

std::string AtenCall::size_list(const std::vector<sym::Expr>& values) {
  OnnxNode node = make(kSizesOp, {}, {});
  node.domain = kPeepholeDomain;
  OnnxAttr words;
  words.type = 8;
  for (const sym::Expr& value : values) words.words.push_back(sym::print(value));
  node.attrs.emplace("sizes", std::move(words));
  std::string made = fmt::format("{}/{}", node_.name, inner_++);
  node.outputs = {made};
  sink_.add(std::move(node));
  return made;
}

std::string AtenCall::size_number(const sym::Expr& value) {
  return emit("Squeeze", {size_list({value})});
}

std::string AtenCall::filled(double value, DType type, const std::vector<sym::Expr>& dims) {
  return emit("Expand", {number(value, type), size_list(dims)});
}

std::string AtenCall::without_gradient(const std::string& x, DType type) {
  if (!is_float(type)) return x;
  const std::string bits = emit("BitCast", {x}, {{"to", int64_t{onnx_code(bits_of(type))}}});
  return emit("BitCast", {bits}, {{"to", int64_t{onnx_code(type)}}});
}

bool AtenCall::is_trained(std::string_view name) {
  const Pt2Argument* found = find(name);
  return found != nullptr && found->kind == ArgumentKind::kTensor &&
         sink_.is_trained(found->tensors[0]);
}

bool AtenCall::is_zero_row(std::string_view name, int64_t row) {
  const Pt2Argument* found = find(name);
  return found != nullptr && found->kind == ArgumentKind::kTensor &&
         sink_.is_zero_row(found->tensors[0], row);
}

}  // namespace lowtide::io

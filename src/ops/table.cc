// Finding rows, and the checks that every use of a row shares: attributes against their list, types
// against their words. The words are short, so they are read where they are needed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/bytes.h"
#include "base/check.h"
#include "base/words.h"
#include "ops/bind.h"
#include "ops/row.h"
#include "ops/rows_indexing.h"
#include "ops/rows_opaque.h"
#include "ops/rows_recurrent.h"
#include "sym/product.h"

namespace lowtide::ops {
namespace {

const std::vector<const Row*>& sorted_rows() {
  static const std::vector<const Row*> rows = [] {
    std::vector<const Row*> made;
    for (std::span<const Row> family :
         {elementwise_rows(), product_rows(), normalisation_rows(), pooling_rows(), movement_rows(),
          resampling_rows(), indexing_rows(), recurrent_rows(), update_rows(), opaque_rows()})
      for (const Row& row : family) made.push_back(&row);
    std::sort(made.begin(), made.end(),
              [](const Row* a, const Row* b) { return a->kind < b->kind; });
    return made;
  }();
  return rows;
}

int parse_int(std::string_view text) {
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  LT_CHECK(code == std::errc() && end == text.data() + text.size(), text);
  return number;
}

bool has_type(const ir::AttrValue& value, std::string_view type) {
  if (type == "int") return std::holds_alternative<int64_t>(value);
  if (type == "real")
    return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
  if (type == "word") return std::holds_alternative<std::string>(value);
  LT_CHECK(type == "list", type);
  return std::holds_alternative<ir::Dims>(value);
}

// The types that the letters of a row stand for in one instance.
struct TypeVariables {
  std::optional<DType> same;
  int same_input = 0;
};

std::string_view wanted(std::string_view word) {
  switch (word[0]) {
    case 'T':
    case 'S':
      return "a float type";
    case 'N':
      return "a numeric type";
    case 'I':
      return "an integer type";
    case 'b':
      return "bool";
    case 'l':
      return "i64";
    case 'i':
      return "i64 or i32";
    case 'u':
      return "u8";
    default:
      return "any type";
  }
}

bool is_variable(std::string_view word) {
  return word == "T" || word == "N" || word == "U" || word == "I";
}

Result<DType> dtype_attr(const Instance& instance, std::string_view attr) {
  LT_ASSIGN(const std::string word, word_attr(instance, attr));
  if (const std::optional<DType> type = parse_dtype(word)) return *type;
  return error(ErrorCode::kInput,
               fmt::format("{}: attribute {} is {}, no element type", instance.kind, attr, word));
}

}  // namespace

tl::unexpected<Error> refuse(const Instance& instance, const std::string& why) {
  return error(ErrorCode::kInput, fmt::format("{}: {}", instance.kind, why));
}

bool accepts(std::string_view word, DType type) {
  switch (word[0]) {
    case 'T':
    case 'S':
      return is_float(type);
    case 'N':
      return type != DType::kBool;
    case 'I':
      return is_integer(type);
    case 'U':
    case '*':
      return true;
    case 'b':
      return type == DType::kBool;
    case 'l':
      return type == DType::kI64;
    case 'i':
      return type == DType::kI64 || type == DType::kI32;
    case 'u':
      return type == DType::kU8;
    default:
      return false;
  }
}

const Row* find(std::string_view kind) {
  const auto& rows = sorted_rows();
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), kind,
                       [](const Row* row, std::string_view k) { return row->kind < k; });
  return found != rows.end() && (*found)->kind == kind ? *found : nullptr;
}

std::vector<std::string_view> kinds() {
  std::vector<std::string_view> names;
  for (const Row* row : sorted_rows())
    if (!row->traits.opaque) names.push_back(row->kind);
  return names;
}

const Traits& traits(const Row& row) {
  return row.traits;
}

std::vector<std::pair<int, int>> parse_pairs(std::string_view text) {
  std::vector<std::pair<int, int>> pairs;
  for (std::string_view word : words_of(text)) {
    const size_t arrow = word.find("<-");
    LT_CHECK(arrow != std::string_view::npos, word);
    pairs.emplace_back(parse_int(word.substr(arrow + 2)), parse_int(word.substr(0, arrow)));
  }
  return pairs;
}

std::vector<int> parse_numbers(std::string_view text) {
  std::vector<int> numbers;
  for (std::string_view word : words_of(text)) numbers.push_back(parse_int(word));
  return numbers;
}

OperandWords parse_words(std::string_view text) {
  const size_t arrow = text.find("->");
  LT_CHECK(arrow != std::string_view::npos, text);
  return {words_of(text.substr(0, arrow)), words_of(text.substr(arrow + 2))};
}

std::string_view input_word(const OperandWords& words, size_t i) {
  LT_CHECK(!words.inputs.empty(), "an op with inputs has words for them");
  return words.inputs[std::min(i, words.inputs.size() - 1)];
}

void for_each_attr(const Row& row,
                   const std::function<void(std::string_view, std::string_view, bool)>& use) {
  for (std::string_view word : words_of(row.attrs)) {
    const size_t colon = word.find(':');
    std::string_view type = word.substr(colon + 1);
    const bool optional = type.ends_with('?');
    if (optional) type.remove_suffix(1);
    use(word.substr(0, colon), type, optional);
  }
}

std::vector<std::pair<int, std::string_view>> parse_positions(std::string_view text) {
  std::vector<std::pair<int, std::string_view>> positions;
  for (std::string_view word : words_of(text)) {
    const size_t colon = word.find(':');
    LT_CHECK(colon != std::string_view::npos, word);
    positions.emplace_back(parse_int(word.substr(0, colon)), word.substr(colon + 1));
  }
  return positions;
}

namespace {

// What is read out of a row's texts. A text that cannot be read is a bug of its row.
struct ParsedRow {
  Pattern pattern;  // of rows with a signature text
  RowWords words;
};

ParsedRow parse_row(const Row& row) {
  ParsedRow made;
  if (row.compute == nullptr) {
    Result<Pattern> pattern = parse_pattern(row.axes);
    LT_CHECK(pattern.has_value(), pattern.error().message);
    made.pattern = std::move(*pattern);
  }
  made.words.types = parse_words(row.types);
  made.words.layouts = parse_words(row.layouts);
  for_each_attr(row, [&](std::string_view name, std::string_view type, bool optional) {
    made.words.attrs.push_back({name, type, optional});
  });
  made.words.in_place = parse_pairs(row.in_place);
  made.words.updates = parse_pairs(row.updates);
  made.words.added = parse_numbers(row.added);
  made.words.adds_into = parse_numbers(row.adds_into);
  return made;
}

const ParsedRow& parsed(const Row& row) {
  static const std::unordered_map<const Row*, ParsedRow> rows = [] {
    std::unordered_map<const Row*, ParsedRow> made;
    for (const Row* each : sorted_rows()) made.emplace(each, parse_row(*each));
    return made;
  }();
  return rows.at(&row);
}

}  // namespace

const RowWords& words_of_row(const Row& row) {
  return parsed(row).words;
}

Status check_attrs(const Row& row, const Instance& instance) {
  size_t known = 0;
  for (const AttrWord& word : words_of_row(row).attrs) {
    if (!has_attr(instance, word.name)) {
      if (word.optional) continue;
      return error(ErrorCode::kInput,
                   fmt::format("{}: attribute {} is missing", row.kind, word.name));
    }
    ++known;
    if (!has_type(instance.attrs->find(word.name)->second, word.type))
      return error(ErrorCode::kInput, fmt::format("{}: attribute {} must be of type {}", row.kind,
                                                  word.name, word.type));
  }
  if (instance.attrs == nullptr || instance.attrs->size() == known) return {};
  for (const auto& [name, value] : *instance.attrs)
    if (fmt::format(" {}", row.attrs).find(fmt::format(" {}:", name)) == std::string::npos)
      return error(ErrorCode::kInput,
                   fmt::format("{}: has no attribute {}; it has: {}", row.kind, name, row.attrs));
  return {};
}

Result<std::vector<DType>> output_dtypes(const Row& row, const Instance& instance, size_t outputs) {
  const OperandWords& words = words_of_row(row).types;
  TypeVariables variables;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (!instance.inputs[i]) continue;
    const std::string_view word = input_word(words, i);
    const DType type = instance.inputs[i]->dtype;
    if (!accepts(word, type))
      return error(ErrorCode::kInput, fmt::format("{}: input {} has type {}, wanted {}", row.kind,
                                                  i, name(type), wanted(word)));
    if (word == "S" && variables.same && type != state_type(*variables.same))
      return error(
          ErrorCode::kInput,
          fmt::format("{}: input {} has type {}, but the state of {} is {}", row.kind, i,
                      name(type), name(*variables.same), name(state_type(*variables.same))));
    if (!is_variable(word)) continue;
    if (variables.same && *variables.same != type)
      return error(ErrorCode::kInput,
                   fmt::format("{}: input {} has type {}, but input {} has {}", row.kind, i,
                               name(type), variables.same_input, name(*variables.same)));
    if (!variables.same) variables = {type, static_cast<int>(i)};
  }
  std::vector<DType> types;
  for (size_t i = 0; i < outputs; ++i) {
    const std::string_view word = words.outputs[i];
    if (word[0] == '@') {
      LT_ASSIGN(const DType type, dtype_attr(instance, word.substr(1)));
      types.push_back(type);
    } else if (is_variable(word)) {
      types.push_back(*variables.same);
    } else if (word == "S") {
      types.push_back(state_type(*variables.same));
    } else {
      types.push_back(word == "b" ? DType::kBool : word == "l" ? DType::kI64 : DType::kU8);
    }
  }
  return types;
}

Result<Signature> signature_of(const Row& row, const Instance& instance) {
  if (row.compute != nullptr) return row.compute(instance);
  return expand(parsed(row).pattern, instance, row.broadcast);
}

namespace {

// A view has as many elements as its base.
void assume_whole(const Row& row, const Instance& instance, const Signature& signature,
                  Facts& facts) {
  if (row.view != ViewRule::kAlways) return;
  const sym::Expr before = sym::product(instance.inputs[0]->dims);
  const sym::Expr after = sym::product(dims_of(signature, signature.outputs[0]));
  if (!(before == after)) facts.emplace_back(before, after);
}

bool is_sized(const Type& type) {
  const sym::Expr bytes = sym::product(type.dims) * size_bytes(type.dtype);
  return !bytes.poisoned() && bytes.constant().value_or(0) <= kMaxBytes &&
         std::none_of(type.dims.begin(), type.dims.end(), [](const sym::Expr& dim) {
           return dim.poisoned() || dim.constant().value_or(0) < 0;
         });
}

// As a graph checks its values (ir/graph.cc), before anything is computed from the sizes. Of what
// an operand that is too large makes nothing is said here: the graph names the operand.
Status check_sizes(const Instance& instance, const std::vector<OutputType>& outputs) {
  for (const std::optional<Type>& input : instance.inputs)
    if (input && !is_sized(*input)) return {};
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!is_sized(outputs[i].type))
      return refuse(instance, fmt::format("output {} would be {}: sizes are from 0 to 2^62 bytes",
                                          i, print(outputs[i].type.dims)));
  return {};
}

Result<Bound> bind_row(const Row* row, const Instance& instance) {
  LT_RETURN_IF_ERROR(check_attrs(*row, instance));
  if (row->check != nullptr) LT_RETURN_IF_ERROR(row->check(instance));
  Bound bound;
  bound.row = row;
  Instance own = instance;
  own.inputs.resize(own_operands(*row, instance));
  LT_ASSIGN(bound.signature, signature_of(*row, own));
  LT_RETURN_IF_ERROR(ops::bind(bound.signature, own, &bound.facts));
  assume_whole(*row, own, bound.signature, bound.facts);
  for (const auto& [a, b] : bound.facts)
    if (a.poisoned() || b.poisoned())
      return error(ErrorCode::kInput, fmt::format("{}: a size overflows 64 bits: {} beside {}",
                                                  row->kind, sym::print(a), sym::print(b)));
  bound.outputs = outputs_of(bound, own);
  if (bound.outputs) LT_RETURN_IF_ERROR(check_sizes(instance, *bound.outputs));
  LT_RETURN_IF_ERROR(bind_accumulators(bound, instance));
  return bound;
}

}  // namespace

Result<Bound> bind_anew(const Instance& instance) {
  const Row* row = find(instance.kind);
  if (row == nullptr)
    return error(ErrorCode::kInput, fmt::format("there is no op of kind {}", instance.kind));
  if (!has_attr(instance, "into")) return bind_row(row, instance);
  const SliceOp own = slice_op(*row, instance);
  LT_ASSIGN(Bound bound, bind_row(row, own.instance(instance.kind)));
  LT_RETURN_IF_ERROR(take_destination(bound, instance));
  return bound;
}

}  // namespace lowtide::ops

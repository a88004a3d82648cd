#include "rewrite/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "rewrite/rules.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

template <class Holds>
bool all_of_them(const std::vector<ValueId>& values, const Holds& holds) {
  return std::all_of(values.begin(), values.end(), holds);
}

// ---- conditions ----

// Of the attributes of an op these say where its result lies, and not what it is.
constexpr std::string_view kPlacing[] = {"view", "layout"};

bool is_plain_op(const GraphEdit& edit, OpId id) {
  // Such a result is not what the kind makes, but a whole with that written into it
  // (ops/destinations.h).
  if (edit.op(id).attrs.contains("into")) return false;
  std::vector<std::string_view> attrs;
  for (const auto& [name, attr] : edit.op(id).attrs)
    if (std::find(std::begin(kPlacing), std::end(kPlacing), name) == std::end(kPlacing))
      attrs.push_back(name);
  return is_plain(edit, id, edit.op(id).kind, attrs);
}

// All ops of the match.
bool plain(const Arguments& a) {
  const auto& names = a.match.pattern->names;
  for (size_t n = 0; n < names.size(); ++n)
    if (names[n].sort == Sort::kOp || names[n].sort == Sort::kOps)
      for (ValueId made : a.match.bound[n])
        if (!is_plain_op(a.edit(), a.edit().value(made).producer)) return false;
  return true;
}

bool are_views(const Arguments& a) {
  return all_of_them(a.values(0), [&](ValueId v) { return is_view(a.edit(), v); });
}

bool are_copies(const Arguments& a) {
  return all_of_them(a.values(0), [&](ValueId v) { return !is_view(a.edit(), v); });
}

bool are_read_once(const Arguments& a) {
  return all_of_them(a.values(0), [&](ValueId v) { return is_read_once(a.edit(), v); });
}

bool are_views_or_read_once(const Arguments& a) {
  return all_of_them(a.values(0),
                     [&](ValueId v) { return is_view(a.edit(), v) || is_read_once(a.edit(), v); });
}

bool keep_only_themselves(const Arguments& a) {
  return all_of_them(a.values(0), [&](ValueId v) { return keeps_only_itself(a.edit(), v); });
}

bool stay_as_they_are(const Arguments& a) {
  return all_of_them(a.values(0), [&](ValueId v) {
    return all_of_them({a.edit().values_in(a.edit().value(v).storage).begin(),
                        a.edit().values_in(a.edit().value(v).storage).end()},
                       [&](ValueId m) { return a.edit().value(m).alias != ir::Alias::kUpdate; });
  });
}

bool lie_alike(const Arguments& a) {
  return all_of_them(a.values(1),
                     [&](ValueId was) { return lies_alike(a.edit(), a.value(0), was); });
}

bool several(const Arguments& a) {
  return a.values(0).size() > 1;
}

bool same_type(const Arguments& a) {
  const ir::Value& left = a.edit().value(a.value(0));
  const ir::Value& right = a.edit().value(a.value(1));
  return left.dtype == right.dtype && left.dims == right.dims && left.layout == right.layout;
}

constexpr ConditionWord kConditions[] = {
    // All ops: one result each that has no other destination, and no control edges.
    {"plain", "", plain},
    {"is_view", "V", are_views},
    {"is_copy", "V", are_copies},
    {"read_once", "V", are_read_once},  // by one op, and no result of the step
    {"view_or_read_once", "V", are_views_or_read_once},
    {"keeps_only_itself", "V", keep_only_themselves},
    {"not_overwritten", "V", stay_as_they_are},
    {"lies_alike", "vV", lie_alike},
    {"several", "V", several},
    {"same_type", "vv", same_type},
};

// ---- attributes ----

std::optional<ir::Attrs> as(const Arguments& a) {
  return a.edit().op(a.op(0)).attrs;
}

constexpr AttributesWord kAttributes[] = {{"as", "o", as}};

// ---- tables ----

template <class Word>
const Word* find(std::span<const Word> words, std::string_view word) {
  const auto found =
      std::find_if(words.begin(), words.end(), [&](const Word& row) { return row.word == word; });
  return found == words.end() ? nullptr : &*found;
}

template <class Word>
const Word* find_in(std::span<const Word> Words::*list, std::string_view word) {
  for (const Words& words : {general_words(), slice_words(), move_words()})
    if (const Word* found = find(words.*list, word)) return found;
  return nullptr;
}

bool fits(char letter, Sort sort) {
  switch (letter) {
    case 'v':
      return sort == Sort::kValue || sort == Sort::kOp;
    case 'o':
      return sort == Sort::kOp;
    case 'O':
      return sort == Sort::kOp || sort == Sort::kOps;
    default:
      return true;
  }
}

}  // namespace

Words general_words() {
  return {.conditions = kConditions, .attributes = kAttributes};
}

const ConditionWord* find_condition(std::string_view word) {
  return find_in(&Words::conditions, word);
}

const AttributesWord* find_attributes(std::string_view word) {
  return find_in(&Words::attributes, word);
}

const RelationWord* find_relation(std::string_view word) {
  return find_in(&Words::relations, word);
}

Status check_call(const Call& call, std::string_view takes, std::span<const Name> names) {
  if (call.names.size() != takes.size())
    return error(ErrorCode::kUsage, fmt::format("'{}' takes {} names, not {}", call.word,
                                                takes.size(), call.names.size()));
  for (size_t i = 0; i < takes.size(); ++i)
    if (!fits(takes[i], names[call.names[i]].sort))
      return error(ErrorCode::kUsage,
                   fmt::format("'{}' does not take '{}'", call.word, names[call.names[i]].text));
  return {};
}

bool is_view(const GraphEdit& edit, ValueId value) {
  return edit.value(value).alias == ir::Alias::kView;
}

bool lies_alike(const GraphEdit& edit, ValueId now, ValueId was) {
  return is_view(edit, now) == is_view(edit, was) &&
         (!is_view(edit, now) || edit.value(now).storage == edit.value(was).storage);
}

std::optional<std::vector<int64_t>> numbers(const ir::Dims& dims) {
  std::vector<int64_t> result;
  for (const sym::Expr& dim : dims) {
    const auto number = dim.constant();
    if (!number) return std::nullopt;
    result.push_back(*number);
  }
  return result;
}

}  // namespace lowtide::rewrite

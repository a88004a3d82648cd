// Words of rules about what is moved and cast: which dims a Transpose moves where, and what a Cast
// keeps of its operand.
#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "rewrite/words.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;

using Moves = std::vector<int64_t>;  // by dim of the result, that of the operand

std::optional<Moves> moves_of(const GraphEdit& edit, OpId transpose) {
  const ir::Attrs& attrs = edit.op(transpose).attrs;
  const auto found = attrs.find("perm");
  return found == attrs.end() ? std::nullopt : numbers(std::get<ir::Dims>(found->second));
}

std::optional<Moves> moves_of_both(const Arguments& a) {
  const auto inner = moves_of(a.edit(), a.op(0)), outer = moves_of(a.edit(), a.op(1));
  if (!inner || !outer) return std::nullopt;
  Moves both;
  for (const int64_t dim : *outer) both.push_back((*inner)[static_cast<size_t>(dim)]);
  return both;
}

bool stays(const std::optional<Moves>& moves) {
  return moves && std::is_sorted(moves->begin(), moves->end());
}

bool moves_nothing(const Arguments& a) {
  return stays(moves_of(a.edit(), a.op(0)));
}

bool moves_back(const Arguments& a) {
  return stays(moves_of_both(a));
}

std::optional<ir::Attrs> of_both_moves(const Arguments& a) {
  const auto moves = moves_of_both(a);
  if (!moves) return std::nullopt;
  return ir::Attrs{{"perm", ir::Dims(moves->begin(), moves->end())}};
}

// ---- casts ----

// Of an integer type or bool, how many binary digits its numbers have.
int digits(DType type) {
  if (type == DType::kBool) return 1;
  return static_cast<int>(8 * size_bytes(type)) - (is_unsigned(type) ? 0 : 1);
}

// Up to how many binary digits every integer is an element.
int digits_of_float(DType type) {
  switch (type) {
    case DType::kF64:
      return 53;
    case DType::kF32:
      return 24;
    case DType::kF16:
      return 11;
    default:
      return 8;  // bf16
  }
}

bool is_signed(DType type) {
  return is_integer(type) && !is_unsigned(type);
}

// Whether every element of one type is one of the other.
bool holds_all(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (is_float(narrow))
    return wide == DType::kF64 || (wide == DType::kF32 && size_bytes(narrow) == 2);
  if (wide == DType::kBool) return false;
  if (is_float(wide)) return digits(narrow) <= digits_of_float(wide);
  return digits(narrow) <= digits(wide) && (is_signed(wide) || !is_signed(narrow));
}

bool exact(const Arguments& a) {
  return holds_all(a.edit().value(a.value(0)).dtype, a.edit().value(a.value(1)).dtype);
}

// Whether what is cast on from both is cast in one way: a float and an integer that are equal may
// be rounded otherwise, or be out of another range. Of bool there is nothing to round.
bool same_numbers(const Arguments& a) {
  const DType now = a.edit().value(a.value(0)).dtype, was = a.edit().value(a.value(1)).dtype;
  return was == DType::kBool || is_float(now) == is_float(was);
}

constexpr ConditionWord kMoveConditions[] = {
    {"moves_nothing", "o", moves_nothing},
    {"moves_back", "oo", moves_back},      // inner, outer Transpose
    {"exact", "vv", exact},                // of the second, nothing was lost in the first
    {"same_numbers", "vv", same_numbers},  // both floats, or both none
};

constexpr AttributesWord kMoveAttributes[] = {{"of_both_moves", "oo", of_both_moves}};

}  // namespace

Words move_words() {
  return {.conditions = kMoveConditions, .attributes = kMoveAttributes};
}

}  // namespace lowtide::rewrite

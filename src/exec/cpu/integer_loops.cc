// Elementwise functions of integers of every width, and comparisons of booleans. Arithmetic wraps
// around as the type does (computed modulo 2^64, of which the lowest bits are the result). Division
// rounds towards zero; what would divide by zero gives 0 instead of a trap.
#include "exec/cpu/typed_map.h"

namespace lowtide::exec_cpu {
namespace {

template <class T>
using C = const Constants<T>&;

template <class T>
constexpr uint64_t wide(T x) {
  return static_cast<uint64_t>(x);
}

template <class T>
constexpr bool is_minus_one(T x) {
  return std::is_signed_v<T> && x == static_cast<T>(-1);
}

template <class T>
T divide(T a, T b) {
  if (b == 0) return 0;
  if (is_minus_one(b)) return static_cast<T>(0 - wide(a));  // the lowest number has no negative
  return static_cast<T>(a / b);
}

// With the sign of a.
template <class T>
T remainder(T a, T b) {
  return b == 0 || is_minus_one(b) ? T(0) : static_cast<T>(a % b);
}

// With the sign of b.
template <class T>
T modulo(T a, T b) {
  const T rest = remainder(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

template <class T>
T power(T base, T exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return is_minus_one(base) ? static_cast<T>(exponent % 2 == 0 ? 1 : -1) : T(0);
  }
  uint64_t result = 1, square = wide(base);
  for (uint64_t left = wide(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <class T>
void add_comparisons(std::vector<MapEntry>& maps, char c) {
  using U = uint8_t;
  maps.insert(
      maps.end(),
      {{"Equal", c, 'b', 2, typed_map2<[](T a, T b, C<T>) -> U { return a == b; }, T, U>},
       {"Less", c, 'b', 2, typed_map2<[](T a, T b, C<T>) -> U { return a < b; }, T, U>},
       {"LessOrEqual", c, 'b', 2, typed_map2<[](T a, T b, C<T>) -> U { return a <= b; }, T, U>},
       {"Greater", c, 'b', 2, typed_map2<[](T a, T b, C<T>) -> U { return (a > b); }, T, U>},
       {"GreaterOrEqual", c, 'b', 2,
        typed_map2<[](T a, T b, C<T>) -> U { return (a >= b); }, T, U>}});
}

template <class T>
void add_unary(std::vector<MapEntry>& maps, char c) {
  constexpr auto kNegate = [](T x, C<T>) { return static_cast<T>(0 - wide(x)); };
  constexpr auto kAbs = [](T x, C<T>) { return x < 0 ? static_cast<T>(0 - wide(x)) : x; };
  constexpr auto kSign = [](T x, C<T>) { return static_cast<T>((x > 0) - (x < 0)); };
  constexpr auto kRelu = [](T x, C<T>) { return x > 0 ? x : T(0); };
  constexpr auto kClip = [](T x, C<T> p) {
    const T raised = x < p.a ? p.a : x;
    return raised > p.b ? p.b : raised;
  };
  constexpr auto kAffine = [](T x, C<T> p) {
    return static_cast<T>(wide(p.a) * wide(x) + wide(p.b));
  };
  constexpr auto kPower = [](T x, C<T> p) { return power(x, p.a); };
  maps.insert(maps.end(), {{"Neg", c, c, 1, typed_map1<kNegate, T, T>},
                           {"Abs", c, c, 1, typed_map1<kAbs, T, T>},
                           {"Sign", c, c, 1, typed_map1<kSign, T, T>},
                           {"Relu", c, c, 1, typed_map1<kRelu, T, T>},
                           {"Clip", c, c, 1, typed_map1<kClip, T, T>},
                           {"AffineScalar", c, c, 1, typed_map1<kAffine, T, T>},
                           {"PowScalar", c, c, 1, typed_map1<kPower, T, T>}});
}

template <class T>
void add_bits(std::vector<MapEntry>& maps, char c) {
  using U = std::make_unsigned_t<T>;  // a negative number of places is a large one
  constexpr U kWidth = 8 * sizeof(T);
  constexpr auto kAnd = [](T a, T b, C<T>) { return static_cast<T>(a & b); };
  constexpr auto kOr = [](T a, T b, C<T>) { return static_cast<T>(a | b); };
  constexpr auto kXor = [](T a, T b, C<T>) { return static_cast<T>(a ^ b); };
  constexpr auto kLeft = [](T a, T b, C<T>) {
    return static_cast<U>(b) < kWidth ? static_cast<T>(wide(a) << b) : T(0);
  };
  constexpr auto kRight = [](T a, T b, C<T>) {
    return static_cast<U>(b) < kWidth ? static_cast<T>(static_cast<U>(a) >> b) : T(0);
  };
  maps.insert(maps.end(), {{"BitwiseAnd", c, c, 2, typed_map2<kAnd, T, T>},
                           {"BitwiseOr", c, c, 2, typed_map2<kOr, T, T>},
                           {"BitwiseXor", c, c, 2, typed_map2<kXor, T, T>},
                           {"ShiftLeft", c, c, 2, typed_map2<kLeft, T, T>},
                           {"ShiftRight", c, c, 2, typed_map2<kRight, T, T>}});
}

template <class T>
void add_integers(std::vector<MapEntry>& maps, char c) {
  constexpr auto kAdd = [](T a, T b, C<T>) { return static_cast<T>(wide(a) + wide(b)); };
  constexpr auto kSub = [](T a, T b, C<T>) { return static_cast<T>(wide(a) - wide(b)); };
  constexpr auto kMul = [](T a, T b, C<T>) { return static_cast<T>(wide(a) * wide(b)); };
  constexpr auto kDiv = [](T a, T b, C<T>) { return divide(a, b); };
  constexpr auto kMod = [](T a, T b, C<T>) { return modulo(a, b); };
  constexpr auto kFmod = [](T a, T b, C<T>) { return remainder(a, b); };
  constexpr auto kMax = [](T a, T b, C<T>) { return a > b ? a : b; };
  constexpr auto kMin = [](T a, T b, C<T>) { return a < b ? a : b; };
  constexpr auto kPow = [](T a, T b, C<T>) { return power(a, b); };
  maps.insert(maps.end(), {{"Add", c, c, 2, typed_map2<kAdd, T, T>},
                           {"Sub", c, c, 2, typed_map2<kSub, T, T>},
                           {"Mul", c, c, 2, typed_map2<kMul, T, T>},
                           {"Div", c, c, 2, typed_map2<kDiv, T, T>},
                           {"Mod", c, c, 2, typed_map2<kMod, T, T>},
                           {"Mod/fmod", c, c, 2, typed_map2<kFmod, T, T>},
                           {"Max", c, c, 2, typed_map2<kMax, T, T>},
                           {"Min", c, c, 2, typed_map2<kMin, T, T>},
                           {"Pow", c, c, 2, typed_map2<kPow, T, T>}});
  add_unary<T>(maps, c);
  add_bits<T>(maps, c);
  add_comparisons<T>(maps, c);
}

}  // namespace

void add_integer_maps(std::vector<MapEntry>& maps) {
  add_integers<int64_t>(maps, 'l');
  add_integers<int32_t>(maps, 'i');
  add_integers<int16_t>(maps, 's');
  add_integers<int8_t>(maps, 'a');
  add_integers<uint64_t>(maps, 'L');
  add_integers<uint32_t>(maps, 'I');
  add_integers<uint16_t>(maps, 'S');
  add_integers<uint8_t>(maps, 'A');
  add_comparisons<uint8_t>(maps, 'b');
}

}  // namespace lowtide::exec_cpu

// Casts between all types but the floats of 16 bits, which map_nest.h takes by way of f32. Integers
// keep their lowest bits; floats become integers as `truncated` of base/element.h says, which
// kernel_test.cc holds these against.
#include <limits>

#include "exec/cpu/typed_map.h"

namespace lowtide::exec_cpu {
namespace {

// One byte, 0 or 1: not C++'s bool, which must not hold anything else.
struct Truth {
  uint8_t byte;
};

// By way of the signed integer Via; what it cannot hold becomes its lowest number.
template <class Via, class Real>
Via through(Real x) {
  constexpr Real kLimit = -static_cast<Real>(std::numeric_limits<Via>::lowest());
  // Reals between the lowest number and the next below it are truncated to it as well.
  return x >= -kLimit && x < kLimit ? static_cast<Via>(x) : std::numeric_limits<Via>::lowest();
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<From, Truth>) {
    return convert<To>(static_cast<uint8_t>(x.byte != 0 ? 1 : 0));
  } else if constexpr (std::is_same_v<To, Truth>) {
    return Truth{static_cast<uint8_t>(x != From(0) ? 1 : 0)};
  } else if constexpr (std::is_floating_point_v<To> || !std::is_floating_point_v<From>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = static_cast<From>(0x1p63);
    if (!(x >= kHalf)) return static_cast<uint64_t>(through<int64_t>(x));
    return x < 2 * kHalf ? static_cast<uint64_t>(x) : 0;
  } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint32_t>) {
    return static_cast<To>(through<int64_t>(x));
  } else {
    return static_cast<To>(through<int32_t>(x));
  }
}

template <class From, class To>
void add_cast(std::vector<MapEntry>& maps, char in, char out) {
  constexpr auto kCast = [](From x, const auto&) { return convert<To>(x); };
  maps.push_back({"Cast", in, out, 1, typed_map1<kCast, From, To>});
}

template <class From>
void add_casts(std::vector<MapEntry>& maps, char in) {
  add_cast<From, float>(maps, in, 'f');
  add_cast<From, double>(maps, in, 'd');
  add_cast<From, int64_t>(maps, in, 'l');
  add_cast<From, int32_t>(maps, in, 'i');
  add_cast<From, int16_t>(maps, in, 's');
  add_cast<From, int8_t>(maps, in, 'a');
  add_cast<From, uint64_t>(maps, in, 'L');
  add_cast<From, uint32_t>(maps, in, 'I');
  add_cast<From, uint16_t>(maps, in, 'S');
  add_cast<From, uint8_t>(maps, in, 'A');
  add_cast<From, Truth>(maps, in, 'b');
}

}  // namespace

void add_cast_maps(std::vector<MapEntry>& maps) {
  add_casts<float>(maps, 'f');
  add_casts<double>(maps, 'd');
  add_casts<int64_t>(maps, 'l');
  add_casts<int32_t>(maps, 'i');
  add_casts<int16_t>(maps, 's');
  add_casts<int8_t>(maps, 'a');
  add_casts<uint64_t>(maps, 'L');
  add_casts<uint32_t>(maps, 'I');
  add_casts<uint16_t>(maps, 'S');
  add_casts<uint8_t>(maps, 'A');
  add_casts<Truth>(maps, 'b');
}

}  // namespace lowtide::exec_cpu

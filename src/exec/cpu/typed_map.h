// Loops over elements of any type for the functions that are compiled once, not per instruction
// set (typed_loops.cc, integer_loops.cc, cast_loops.cc). A function is a lambda on elements and the
// op's constants in the same type.
//
// Tests: typed_elementwise_test.cc.
#pragma once

#include <type_traits>
#include <vector>

#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {

template <class T>
struct Constants {
  T a{}, b{};
  explicit Constants([[maybe_unused]] const MapParams& p) {
    if constexpr (std::is_same_v<T, float>) {
      a = p.f[0], b = p.f[1];
    } else if constexpr (std::is_same_v<T, double>) {
      a = p.d[0], b = p.d[1];
    } else if constexpr (std::is_integral_v<T>) {
      a = static_cast<T>(p.i[0]), b = static_cast<T>(p.i[1]);
    }
  }
};

template <class T>
T element(const char* at) {
  return *reinterpret_cast<const T*>(at);
}

template <auto function, class In, class Out>
void typed_map1(const MapCall& call) {
  const Constants<In> constants(call.params);
  const int64_t n = call.n1, step = call.step1[1];
  for (int64_t row = 0; row < call.n0; ++row) {
    Out* y = reinterpret_cast<Out*>(call.out + row * call.step0[0]);
    const char* x = call.in[0] + row * call.step0[1];
    if (step == static_cast<int64_t>(sizeof(In))) {
      const In* xs = reinterpret_cast<const In*>(x);
      for (int64_t i = 0; i < n; ++i) y[i] = function(xs[i], constants);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = function(element<In>(x + i * step), constants);
    }
  }
}

template <auto function, class In, class Out>
void typed_map2(const MapCall& call) {
  const Constants<In> constants(call.params);
  const int64_t n = call.n1, sa = call.step1[1], sb = call.step1[2];
  constexpr int64_t kUnit = sizeof(In);
  for (int64_t row = 0; row < call.n0; ++row) {
    Out* y = reinterpret_cast<Out*>(call.out + row * call.step0[0]);
    const char* a = call.in[0] + row * call.step0[1];
    const char* b = call.in[1] + row * call.step0[2];
    if (sa == kUnit && sb == kUnit) {
      const In* as = reinterpret_cast<const In*>(a);
      const In* bs = reinterpret_cast<const In*>(b);
      for (int64_t i = 0; i < n; ++i) y[i] = function(as[i], bs[i], constants);
    } else {
      for (int64_t i = 0; i < n; ++i)
        y[i] = function(element<In>(a + i * sa), element<In>(b + i * sb), constants);
    }
  }
}

void add_integer_maps(std::vector<MapEntry>& maps);
void add_cast_maps(std::vector<MapEntry>& maps);

}  // namespace lowtide::exec_cpu

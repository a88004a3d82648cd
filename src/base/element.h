// One element of any type, in memory or as a number: for everything that reads or writes elements
// one by one (files, drawn values, comparisons, attributes). Loops of kernels have types of their
// own.
//
// Tests: base_test.cc.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace lowtide {

// The element at an address that need not be aligned. Integers beyond 2^53 lose digits as reals.
double read_real(DType dtype, const void* at);
// The same for integers and booleans (0 or 1); a u64 beyond 2^63 wraps around to a negative number.
int64_t read_integer(DType dtype, const void* at);

// Floats are rounded to nearest even (to 16 bits by way of f32, as everyone does); integers
// truncated, those out of range and NaN as by `truncated`; booleans tell whether it is not 0.
void write_real(DType dtype, double value, void* at);
// Integers keep their lowest bits; floats are rounded; booleans tell whether it is not 0.
void write_integer(DType dtype, int64_t value, void* at);

// What the element is after it was written and read again.
double rounded(DType dtype, double value);     // a float type
int64_t wrapped(DType dtype, int64_t number);  // an integer type or bool

// A real as an integer, towards zero; `wrapped` makes the element of it. C++ leaves open what a
// number out of range becomes. Here, as on the processors of the usual servers and in ONNX Runtime,
// it becomes the lowest number of the signed integer by way of which it is converted: 64 bits wide
// for i64, u64 and u32, otherwise 32 (so u8 and i16 get 0, and 300 becomes the u8 44). A u64 holds
// all of 0 to 2^64 - 1, and 0 for what is beyond. A NaN counts as out of range.
int64_t truncated(DType dtype, double value);
// The number of an integer type that is nearest to the real, rounded towards zero; 0 for a NaN. For
// limits and other constants of ops on integers.
int64_t saturated(DType dtype, double value);

}  // namespace lowtide

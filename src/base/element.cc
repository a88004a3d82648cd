#include "base/element.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"

namespace lowtide {
namespace {

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

double read_real(DType dtype, const void* at) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(load<float>(at));
    case DType::kF64:
      return load<double>(at);
    case DType::kF16:
      return static_cast<double>(f16_value(load<uint16_t>(at)));
    case DType::kBF16:
      return static_cast<double>(bf16_value(load<uint16_t>(at)));
    case DType::kU64:
      return static_cast<double>(load<uint64_t>(at));
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU32:
    case DType::kU16:
    case DType::kU8:
    case DType::kBool:
      return static_cast<double>(read_integer(dtype, at));
  }
  return 0;
}

int64_t read_integer(DType dtype, const void* at) {
  switch (dtype) {
    case DType::kI64:
    case DType::kU64:
      return load<int64_t>(at);
    case DType::kI32:
      return load<int32_t>(at);
    case DType::kU32:
      return load<uint32_t>(at);
    case DType::kI16:
      return load<int16_t>(at);
    case DType::kU16:
      return load<uint16_t>(at);
    case DType::kI8:
      return load<int8_t>(at);
    case DType::kU8:
      return load<uint8_t>(at);
    case DType::kBool:
      return load<uint8_t>(at) != 0 ? 1 : 0;
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  LT_CHECK(false, "an integer type");
  return 0;
}

void write_real(DType dtype, double value, void* at) {
  switch (dtype) {
    case DType::kF32:
      return store(at, static_cast<float>(value));
    case DType::kF64:
      return store(at, value);
    case DType::kF16:
      return store(at, f16_bits(static_cast<float>(value)));
    case DType::kBF16:
      return store(at, bf16_bits(static_cast<float>(value)));
    case DType::kBool:
      return store(at, static_cast<uint8_t>(value != 0 ? 1 : 0));
    case DType::kI64:
    case DType::kU64:
    case DType::kI32:
    case DType::kU32:
    case DType::kI16:
    case DType::kU16:
    case DType::kI8:
    case DType::kU8:
      return write_integer(dtype, truncated(dtype, value), at);
  }
}

void write_integer(DType dtype, int64_t value, void* at) {
  switch (dtype) {
    case DType::kF32:
      return store(at, static_cast<float>(value));
    case DType::kF64:
      return store(at, static_cast<double>(value));
    case DType::kF16:
      return store(at, f16_bits(static_cast<float>(value)));
    case DType::kBF16:
      return store(at, bf16_bits(static_cast<float>(value)));
    case DType::kBool:
      return store(at, static_cast<uint8_t>(value != 0 ? 1 : 0));
    case DType::kI64:
    case DType::kU64:
      return store(at, value);
    case DType::kI32:
    case DType::kU32:
      return store(at, static_cast<uint32_t>(value));
    case DType::kI16:
    case DType::kU16:
      return store(at, static_cast<uint16_t>(value));
    case DType::kI8:
    case DType::kU8:
      return store(at, static_cast<uint8_t>(value));
  }
}

double rounded(DType dtype, double value) {
  char raw[8];
  write_real(dtype, value, raw);
  return read_real(dtype, raw);
}

int64_t wrapped(DType dtype, int64_t number) {
  char raw[8];
  write_integer(dtype, number, raw);
  return read_integer(dtype, raw);
}

int64_t truncated(DType dtype, double value) {
  if (dtype == DType::kU64 && value >= 0x1p63)
    return value < 0x1p64 ? static_cast<int64_t>(static_cast<uint64_t>(value)) : 0;
  const bool wide = dtype == DType::kI64 || dtype == DType::kU64 || dtype == DType::kU32;
  const double limit = wide ? 0x1p63 : 0x1p31;
  const double whole = std::trunc(value);
  if (whole >= -limit && whole < limit) return static_cast<int64_t>(whole);  // false for NaN
  return wide ? INT64_MIN : INT32_MIN;
}

int64_t saturated(DType dtype, double value) {
  const int bits = static_cast<int>(8 * size_bytes(dtype)) - (is_unsigned(dtype) ? 0 : 1);
  const double above = std::ldexp(1, bits), least = is_unsigned(dtype) ? 0 : -above;
  if (std::isnan(value)) return 0;
  if (value < least) value = least;
  if (value < above) return truncated(dtype, value);
  return static_cast<int64_t>(~uint64_t{0} >> (64 - bits));
}

}  // namespace lowtide

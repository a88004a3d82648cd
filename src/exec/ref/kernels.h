// What the kernels of the reference executor share: the call they are given and the table they are
// entered in. A kernel is a function template over the number type in which floats are computed
// (float or double); outputs arrive typed and zeroed. Internal to this folder.
//
// Tests: interpreter_test.cc, fission_test.cc.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/element.h"
#include "exec/ref/interpreter.h"
#include "exec/ref/tensor.h"
#include "ir/graph.h"

namespace lowtide::ref {

// Attributes by name. Sizes are constant: evaluate() checked it. Integers may stand for reals.
class Attributes {
 public:
  explicit Attributes(const ir::Attrs& attrs) : attrs_(attrs) {}
  bool has(std::string_view name) const { return attrs_.contains(name); }
  int64_t integer(std::string_view name, int64_t absent = 0) const;
  double real(std::string_view name, double absent = 0) const;
  // A constant of an op on integers: an integer as it is, a real as by saturated().
  int64_t integer_of(DType dtype, std::string_view name, double absent) const;
  std::string word(std::string_view name) const;
  Sizes list(std::string_view name) const;  // empty when absent
  // `absent` repeated when absent.
  Sizes list(std::string_view name, size_t length, int64_t absent) const;

 private:
  const ir::Attrs& attrs_;
};

struct Call {
  std::string_view kind;
  Attributes attrs;
  std::vector<const Tensor*> in;  // null where an optional input is absent
  std::vector<Tensor> out;        // typed, zeroed
  const Context& context;
  std::string refused = {};  // what is wrong with the contents of an operand

  const Tensor* input(size_t i) const { return i < in.size() ? in[i] : nullptr; }
};

// Element e as the number type of the kernel.
template <class T>
T get(const Tensor& tensor, int64_t e) {
  return static_cast<T>(tensor.f[static_cast<size_t>(e)]);
}
template <class T>
void set(Tensor& tensor, int64_t e, T value) {
  tensor.f[static_cast<size_t>(e)] = static_cast<double>(value);
}
// Integers, whose sums and products wrap around: read as they are, brought back to the type's
// width.
template <>
inline uint64_t get<uint64_t>(const Tensor& tensor, int64_t e) {
  return static_cast<uint64_t>(tensor.i[static_cast<size_t>(e)]);
}
template <>
inline void set<uint64_t>(Tensor& tensor, int64_t e, uint64_t value) {
  tensor.i[static_cast<size_t>(e)] = wrapped(tensor.dtype, static_cast<int64_t>(value));
}
// Adds in the precision of T.
template <class T>
void add(Tensor& tensor, int64_t e, T value) {
  set<T>(tensor, e, get<T>(tensor, e) + value);
}
inline int64_t int_at(const Tensor& tensor, int64_t e) {
  return tensor.i[static_cast<size_t>(e)];
}
inline void set_int(Tensor& tensor, int64_t e, int64_t value) {
  tensor.i[static_cast<size_t>(e)] = value;
}
// Numbers of u64 above 2^63 are held as negative ones.
inline bool int_less(DType dtype, int64_t a, int64_t b) {
  return dtype == DType::kU64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

// The least and the greatest value of the element's type.
inline void set_lowest(Tensor& tensor, int64_t e) {
  const int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - 8 * size_bytes(tensor.dtype));
  if (tensor.real())
    set<double>(tensor, e, -std::numeric_limits<double>::infinity());
  else
    set_int(tensor, e, is_integer(tensor.dtype) && !is_unsigned(tensor.dtype) ? lowest : 0);
}
inline void set_highest(Tensor& tensor, int64_t e) {
  if (tensor.real())
    set<double>(tensor, e, std::numeric_limits<double>::infinity());
  else if (tensor.dtype == DType::kBool)
    set_int(tensor, e, 1);
  else
    set_int(tensor, e,
            is_unsigned(tensor.dtype)
                ? wrapped(tensor.dtype, -1)
                : std::numeric_limits<int64_t>::max() >> (64 - 8 * size_bytes(tensor.dtype)));
}

struct Kernel {
  void (*f32)(Call&) = nullptr;
  void (*f64)(Call&) = nullptr;
};
using KernelTable = std::map<std::string_view, Kernel>;

// K is a struct with `template <class T> static void run(Call&)`.
template <class K>
constexpr Kernel kernel() {
  return {&K::template run<float>, &K::template run<double>};
}

void add_elementwise(KernelTable& table);
void add_elementwise_gradients(KernelTable& table);
void add_products(KernelTable& table);
void add_norm(KernelTable& table);
void add_loss(KernelTable& table);
void add_pooling(KernelTable& table);
void add_reduce(KernelTable& table);
void add_move(KernelTable& table);
void add_resampling(KernelTable& table);
void add_local_norm(KernelTable& table);
void add_grid_sample(KernelTable& table);
void add_roi_align(KernelTable& table);
void add_random(KernelTable& table);
void add_update(KernelTable& table);

// A dimension split into what lies before an axis, the axis (or axes up to `last`), and what lies
// behind: element (o, a, i) is at (o * axis + a) * inner + i.
struct Around {
  int64_t outer = 1, axis = 1, inner = 1;
  int64_t at(int64_t o, int64_t a, int64_t i) const { return (o * axis + a) * inner + i; }
};
Around around(const Sizes& dims, int64_t axis);  // one axis; negative counts from the end
// All dims from `axis` on are the axis; inner is 1.
Around from_axis(const Sizes& dims, int64_t axis);

}  // namespace lowtide::ref

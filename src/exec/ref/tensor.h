// A tensor of the reference executor: logical dimensions and one element after another in row-major
// order, whatever layout the graph gives the value. Floats of every width are held as doubles,
// integers and booleans as int64; the kernels decide in which precision they compute. Plain and
// slow on purpose: this is what everything fast is compared with.
//
// Tests: interpreter_test.cc, fission_test.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace lowtide::ref {

using Sizes = std::vector<int64_t>;

struct Tensor {
  DType dtype = DType::kF32;
  Sizes dims;
  std::vector<double> f;   // the elements of a float tensor
  std::vector<int64_t> i;  // the elements of any other; booleans are 0 or 1

  bool real() const { return is_float(dtype); }
  int64_t count() const;
  bool operator==(const Tensor&) const = default;

  static Tensor zeros(DType dtype, Sizes dims);
  static Tensor of(DType dtype, Sizes dims, std::vector<double> values);   // floats
  static Tensor of(DType dtype, Sizes dims, std::vector<int64_t> values);  // integers, booleans
};

int64_t product(const Sizes& dims);
// Elements between neighbours along each dimension.
Sizes row_major_strides(const Sizes& dims);

// Copies element `from` of `source` to element `to` of `target`; both of the same kind of number.
void copy_element(Tensor& target, int64_t to, const Tensor& source, int64_t from);

// All indices of a box, the last dimension running fastest: for (Odometer at(dims); at.live();
// at.next()) use(at.index()).
class Odometer {
 public:
  explicit Odometer(Sizes dims);
  bool live() const { return flat_ < count_; }
  void next();
  const Sizes& index() const { return index_; }
  int64_t operator[](size_t dim) const { return index_[dim]; }
  int64_t flat() const { return flat_; }
  // The element this index addresses in a tensor with the given strides (one for each dimension; 0
  // repeats).
  int64_t dot(const Sizes& strides) const;

 private:
  Sizes dims_;
  Sizes index_;
  int64_t flat_ = 0;
  int64_t count_ = 0;
};

// Strides with which an operand of `dims` is read over a result of `target` dims, numpy's way:
// aligned at the last dimension, 0 where the operand is missing the dimension or has extent 1.
Sizes broadcast_strides(const Sizes& dims, const Sizes& target);

// Raw little-endian elements, as files and plans hold them. Error: kInput, when the number of bytes
// is not that of the dims.
Result<Tensor> from_bytes(DType dtype, const Sizes& dims, std::string_view bytes,
                          std::string_view what);

}  // namespace lowtide::ref

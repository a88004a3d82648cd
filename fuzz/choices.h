// The bytes of a fuzz input as a sequence of choices: what structured inputs are drawn from. Past
// the end every choice is 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lowtide::fuzz {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  // 0 to n-1, n at most 256.
  size_t below(size_t n) { return next_ < size_ ? data_[next_++] % n : 0; }
  bool live() const { return next_ < size_; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t next_ = 0;
};

}  // namespace lowtide::fuzz

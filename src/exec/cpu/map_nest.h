// Runs an elementwise loop (simd.h) over a nest with all threads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/cpu/nest.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {

class MapNest {
 public:
  // nest: operand 0 is the output (dense in its innermost dim); element_bytes per operand, at most
  // four.
  MapNest(const Nest& nest, MapLoop loop, std::vector<int64_t> element_bytes,
          std::array<float, 4> params = {});

  // pointers: output first.
  void run(char* out, const std::array<const char*, 3>& in) const;

 private:
  void run_rows(int64_t begin, int64_t end, char* out, const std::array<const char*, 3>& in) const;
  void run_columns(int64_t begin, int64_t end, char* out,
                   const std::array<const char*, 3>& in) const;

  MapLoop loop_;
  std::array<float, 4> params_;
  size_t operands_;
  std::vector<int64_t> dims_;                  // two or more: ..., n0, n1
  std::array<std::vector<int64_t>, 4> steps_;  // bytes
  int64_t rows_ = 1;                           // product of all dims but the last
};

}  // namespace lowtide::exec_cpu

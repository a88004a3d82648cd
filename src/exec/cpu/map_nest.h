// Runs an elementwise loop (simd.h) over a nest with all threads.
//
// Floats of 16 bits are computed as floats: blocks of a row that fit the cache are widened into
// buffers on the stack, the loop runs on those, and its result is rounded once on the way out.
//
// Tests: typed_elementwise_test.cc, strided_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/cpu/nest.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {

struct MapOperand {
  enum class Half : uint8_t { kNone, kF16, kBF16 };
  int64_t element_bytes = 0;
  Half half = Half::kNone;  // what the loop reads or writes as a float
};

class MapNest {
 public:
  // nest: operand 0 is the output (dense in its innermost dim); at most four operands.
  MapNest(const Nest& nest, MapLoop loop, const std::vector<MapOperand>& operands,
          const MapParams& params = {});

  // pointers: output first.
  void run(char* out, const std::array<const char*, 3>& in) const;

 private:
  void run_rows(int64_t begin, int64_t end, char* out, const std::array<const char*, 3>& in) const;
  void run_columns(int64_t begin, int64_t end, char* out,
                   const std::array<const char*, 3>& in) const;

  // The loop itself, or block by block where an operand is a float of 16 bits.
  void call(const MapCall& call) const;
  void call_widened(const MapCall& call) const;

  MapLoop loop_;
  MapParams params_;
  size_t operands_;
  std::array<MapOperand::Half, 4> halves_{};
  bool widens_ = false;
  std::vector<int64_t> dims_;                  // two or more: ..., n0, n1
  std::array<std::vector<int64_t>, 4> steps_;  // bytes
  int64_t rows_ = 1;                           // product of all dims but the last
};

}  // namespace lowtide::exec_cpu

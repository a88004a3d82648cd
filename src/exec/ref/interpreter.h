// The reference executor: an interpreter of ir::Graph that gives every value a buffer of its own
// and computes every op by the loops of its definition in docs/ops.md. No memory planning, no
// library, no layouts (values are logical), no tricks, so that it can be read and believed. It is
// the oracle of gradients (in double precision, against finite differences), of rewrites, of
// fission and of the CPU kernels.
//
//   Tensor x = Tensor::of(DType::kF32, {2}, {-1.0, 3.0});
//   evaluate("Relu", {}, {x}, {})  ->  {0, 3}
//
// Precision: kF32 computes float ops in float, with float accumulators; kF64 in double whatever the
// dtype of the values, which is what finite differences need. Integers and booleans are exact in
// both, and wrap around as their type does. Values of type f64 are always computed in double. With
// kF32 every result is rounded to its type: f16 and bf16 are computed as floats and rounded once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exec/ref/tensor.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::ref {

enum class Precision : uint8_t { kF32, kF64 };

struct Context {
  uint64_t seed = 0;  // of random ops and seeded parameters
  int64_t step = 1;   // counts from 1
  Precision precision = Precision::kF32;
  std::string model_folder = {};     // where external weight files lie
  int64_t integer_limit = 1;         // seeded integer inputs are below this
  bool seed_missing_inputs = false;  // draw fed values that are not given, instead of refusing
};

// The outputs of one op; every row of the op table has a kernel. Error: kInput (shapes that do not
// fit, symbolic sizes, a tensor that is not of the declared type, a label that is no class).
Result<std::vector<Tensor>> evaluate(const ops::Instance& instance,
                                     const std::vector<std::optional<Tensor>>& inputs,
                                     const Context& context = {});
// The same, with the instance made from the tensors.
Result<std::vector<Tensor>> evaluate(std::string_view kind, const ir::Attrs& attrs,
                                     const std::vector<std::optional<Tensor>>& inputs,
                                     const Context& context = {});

using Named = std::map<std::string, Tensor, std::less<>>;
using Values = std::map<ir::ValueId, Tensor>;

// Runs the ops of a graph in their order and keeps every value, so that a test can look at any of
// them. `given` overrides the contents of values without producer, by name; fed values must be
// given. Error: kInput, naming the op or value.
Result<Values> interpret(const ir::Graph& graph, const Named& given, const Context& context = {});

// The seeded contents of a parameter or input: the recipe of docs/formats.md, in (seed, name,
// element).
struct SeedOptions {
  // Parameters are scaled by what their name and dims say; inputs lie in [-1, 1).
  bool parameter = false;
  uint64_t seed = 0;
  int64_t integer_limit = 1;  // integers are below this
};
Tensor seeded(std::string_view name, DType dtype, const Sizes& dims, const SeedOptions& options);

}  // namespace lowtide::ref

// Small random instances of any op, for tests: the reference executor against definitions, kernels
// against the reference executor, parts against wholes. They are generated from the rows (axes get
// extents, dimensions follow), so a new row has them without further work unless its signature is
// computed. All sizes are constants, all layouts row-major.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "ops/op_table.h"

namespace lowtide::ops {

// What may stand in an input.
struct InputValues {
  enum class Kind : uint8_t {
    kReal,      // any number in [least, most], which is of moderate size
    kWhole,     // the same of an integer type, in [low, high)
    kPositive,  // in [0.25, 2]: divisors, variances, arguments of logarithms
    kInteger,   // in [low, high): labels, indices, taps
    kBool,
  };
  Kind kind = Kind::kReal;
  int64_t low = 0, high = 1;
  double least = -2, most = 2;
  std::vector<double> exact = {};  // the elements themselves, where they must fit one another
};

struct RandomInstance {
  std::string kind;
  ir::Attrs attrs;
  std::vector<std::optional<Type>> inputs;
  std::vector<InputValues> values;  // one per input

  Instance instance() const { return {.kind = kind, .attrs = &attrs, .inputs = inputs}; }
};

// The types that the operands of a kind which share one type may have; none where the row leaves no
// choice.
std::vector<DType> shared_types(std::string_view kind);

// A valid instance: infer() succeeds on it. `type` is that of the operands that share one, one of
// shared_types(); without it they are f32. Types that an attribute names and those of indices are
// drawn. Error: kInput, for a kind that the op table does not have.
Result<RandomInstance> random_instance(std::string_view kind, Rng& rng,
                                       std::optional<DType> type = std::nullopt);

// `count` elements as `values` says; integers and booleans as whole numbers. The first of several
// labels is never `low`, which may be the ignored one.
std::vector<double> random_values(const InputValues& values, int64_t count, Rng& rng);

}  // namespace lowtide::ops

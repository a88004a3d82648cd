// Elements of drawn operands.
#include "ops/testing/random_instance.h"

namespace lowtide::ops {

std::vector<double> random_values(const InputValues& values, int64_t count, Rng& rng) {
  if (!values.exact.empty()) return values.exact;
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) {
    switch (values.kind) {
      case InputValues::Kind::kReal:
        result.push_back(values.least + (values.most - values.least) * rng.uniform());
        break;
      case InputValues::Kind::kPositive:
        result.push_back(0.25 + 1.75 * rng.uniform());
        break;
      case InputValues::Kind::kWhole:
        result.push_back(static_cast<double>(rng.between(values.low, values.high - 1)));
        break;
      case InputValues::Kind::kBool:
        result.push_back(static_cast<double>(rng.below(2)));
        break;
      case InputValues::Kind::kInteger: {
        const int64_t low = i == 0 && values.high - values.low > 1 ? values.low + 1 : values.low;
        result.push_back(static_cast<double>(rng.between(low, values.high - 1)));
        break;
      }
    }
  }
  return result;
}

}  // namespace lowtide::ops

// What two computations of one step may differ by, and where they differ by more: of results,
// parameters and moments, by name (effects in small_steps.h).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace lowtide {

using Effects = std::map<std::string, std::vector<double>>;

// Of a value, so much of its largest number, or of `least` where that is larger; more of what the
// backward pass makes.
struct Tolerance {
  double share = 0, least = 1, backward = share;
  double of(double largest) const { return share * std::max(largest, least); }
  double of_gradient(double largest) const { return backward * std::max(largest, least); }
};
inline constexpr Tolerance kDouble = {1e-12, 1};

// Of the AdamW that these steps are trained by.
inline constexpr double kRate = 1e-3, kEpsilon = 1e-8;

// AdamW divides a gradient by its size, so where a gradient is nothing but rounding a parameter's
// change is, too. How far it goes for a gradient that differs by so much: at most its rate, either
// way, and 1 / epsilon for the smallest ones.
inline double change_by_adamw(double gradient, double off) {
  const double surely = std::max(std::abs(gradient) - off, 0.0) + kEpsilon;
  return kRate * std::min(2.0, off * kEpsilon / (surely * surely));
}

inline double largest_of(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  return largest;
}

// Nothing, or the first result that differs. First moments are a tenth of the gradients.
inline std::string difference(const Effects& ours, const Effects& wanted,
                              const Tolerance& tolerance = kDouble) {
  if (ours.size() != wanted.size())
    return fmt::format("{} results instead of {}", ours.size(), wanted.size());
  for (const auto& [name, exact] : wanted) {
    const auto found = ours.find(name);
    if (found == ours.end() || found->second.size() != exact.size())
      return fmt::format("'{}' is missing, or has another size", name);
    const double largest = largest_of(exact);
    const bool is_moment = name.starts_with("new/adam_");
    const double off = is_moment ? tolerance.of_gradient(largest) : tolerance.of(largest);
    const auto moments = wanted.find("new/adam_m/" + name.substr(std::min<size_t>(4, name.size())));
    const bool is_trained = moments != wanted.end();
    const double off_gradient =
        is_trained ? tolerance.of_gradient(10 * largest_of(moments->second)) : 0;
    for (size_t e = 0; e < exact.size(); ++e) {
      const double by_gradient =
          is_trained ? change_by_adamw(10 * moments->second[e], off_gradient) : 0;
      if (!(std::abs(found->second[e] - exact[e]) <= off + by_gradient))
        return fmt::format("'{}'[{}] is {} instead of {}", name, e, found->second[e], exact[e]);
    }
  }
  return {};
}

}  // namespace lowtide

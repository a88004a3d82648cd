#include "base/axis_taps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "base/check.h"

namespace lowtide {
namespace {

constexpr std::array<std::string_view, 3> kModes = {"nearest", "linear", "cubic"};
constexpr std::array<std::string_view, 7> kCoordinates = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
    "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
constexpr std::array<std::string_view, 5> kNearest = {"round_prefer_floor", "round_prefer_ceil",
                                                      "floor", "ceil", "simple"};

template <size_t n>
bool is_one_of(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <class T>
T scale_of(const ResampledLine& line) {
  if (line.scale > 0) return static_cast<T>(line.scale);
  return static_cast<T>(line.to) / static_cast<T>(line.from);
}

// Where position p of the result lies on the line, computed in T.
template <class T>
T place_of(std::string_view coordinates, const ResampledLine& line, int64_t p) {
  const T x = static_cast<T>(p), half = static_cast<T>(0.5), scale = scale_of<T>(line);
  const T from = static_cast<T>(line.from), to = static_cast<T>(line.to);
  if (coordinates == "asymmetric") return x / scale;
  if (coordinates == "tf_half_pixel_for_nn") return (x + half) / scale;
  if (coordinates == "align_corners") return line.to == 1 ? T{0} : x * (from - 1) / (to - 1);
  if (coordinates == "pytorch_half_pixel" && line.to == 1) return T{0};
  if (coordinates == "tf_crop_and_resize") {
    const T begin = static_cast<T>(line.roi_begin), end = static_cast<T>(line.roi_end);
    if (line.to == 1) return half * (begin + end) * (from - 1);
    return begin * (from - 1) + (x * (end - begin) * (from - 1)) / (to - 1);
  }
  if (coordinates == "half_pixel_symmetric") {
    const T offset = from / 2 * (1 - to / (scale * from));
    return static_cast<T>(static_cast<double>(offset) +
                          (static_cast<double>(x) + 0.5) / static_cast<double>(scale) - 0.5);
  }
  return (x + half) / scale - half;
}

int64_t nearest_of(const Resample& how, const ResampledLine& line, float place) {
  float rounded = 0;
  if (how.nearest == "round_prefer_ceil") {
    rounded = std::round(place);
  } else if (how.nearest == "floor") {
    rounded = std::floor(place);
  } else if (how.nearest == "ceil") {
    rounded = std::ceil(place);
  } else if (how.nearest == "simple") {
    rounded = scale_of<float>(line) < 1 ? std::ceil(place) : std::trunc(place);
  } else {
    const float below = std::floor(place);
    rounded = place - below <= 0.5f ? below : below + 1;
  }
  const auto last = static_cast<float>(line.from - 1);
  return static_cast<int64_t>(std::clamp(rounded, 0.0f, last));
}

// Keys' cubic convolution kernel; 1 - |x| for the linear one.
double filter(const Resample& how, double x) {
  x = std::abs(x);
  if (how.mode == "linear") return std::max(0.0, 1 - x);
  const double a = how.cubic_a;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * a - 4 * a;
  return 0;
}

// The taps of one position of a linear or cubic interpolation: those of the filter, as wide as a
// step where it smooths, around the place; elements outside stand for the edge unless excluded.
void add_filtered(AxisTaps& taps, const Resample& how, const ResampledLine& line, double place) {
  const double scale = scale_of<double>(line);
  const double step = how.antialias && scale < 1 ? 1 / scale : 1;
  const double reach = (how.mode == "linear" ? 1 : 2) * step;
  if (how.mode == "linear" && !how.antialias)
    place = std::clamp(place, 0.0, static_cast<double>(line.from - 1));
  const auto first = static_cast<int64_t>(std::floor(place - reach)) + 1;
  const auto last = static_cast<int64_t>(std::floor(place + reach));
  double sum = 0;
  for (int64_t i = first; i <= last; ++i)
    if (!how.exclude_outside || (i >= 0 && i < line.from))
      sum += filter(how, (static_cast<double>(i) - place) / step);
  if (sum == 0) sum = 1;
  for (int64_t i = first; i <= last; ++i) {
    if (how.exclude_outside && (i < 0 || i >= line.from)) continue;
    const double by = filter(how, (static_cast<double>(i) - place) / step) / sum;
    if (by != 0) taps.add(std::clamp<int64_t>(i, 0, line.from - 1), by);
  }
}

// The element of a line of n that stands at place p of the line continued on both sides.
int64_t continued(std::string_view mode, int64_t p, int64_t n) {
  if (mode == "edge") return std::clamp<int64_t>(p, 0, n - 1);
  const int64_t period = mode == "wrap" ? n : std::max<int64_t>(1, 2 * (n - 1));
  const int64_t place = (p % period + period) % period;
  return place < n ? place : period - place;
}

}  // namespace

void AxisTaps::add(int64_t from, double by) {
  const auto open = static_cast<size_t>(begin.back());
  if (index.size() > open && index.back() == from) {  // several taps beyond an edge
    weight.back() += by;
    return;
  }
  index.push_back(from);
  weight.push_back(by);
}

AxisTaps transposed(const AxisTaps& taps, int64_t extent) {
  AxisTaps result;
  result.begin.assign(static_cast<size_t>(extent) + 1, 0);
  for (int64_t from : taps.index) ++result.begin[static_cast<size_t>(from) + 1];
  for (size_t i = 1; i < result.begin.size(); ++i) result.begin[i] += result.begin[i - 1];
  std::vector<int64_t> next(result.begin.begin(), result.begin.end() - 1);
  result.index.resize(taps.index.size());
  result.weight.resize(taps.index.size());
  for (int64_t p = 0; p < taps.positions(); ++p)
    for (auto t = static_cast<size_t>(taps.begin[static_cast<size_t>(p)]);
         t < static_cast<size_t>(taps.begin[static_cast<size_t>(p) + 1]); ++t) {
      const auto to = static_cast<size_t>(next[static_cast<size_t>(taps.index[t])]++);
      result.index[to] = p;
      result.weight[to] = taps.weight[t];
    }
  return result;
}

Status check(const Resample& how) {
  const auto refuse = [](std::string_view what, std::string_view word) {
    return error(ErrorCode::kInput, fmt::format("{} '{}' is not known", what, word));
  };
  if (!is_one_of(kModes, how.mode)) return refuse("mode", how.mode);
  if (!is_one_of(kCoordinates, how.coordinates)) return refuse("coordinates", how.coordinates);
  if (!is_one_of(kNearest, how.nearest)) return refuse("nearest", how.nearest);
  if (how.mode == "nearest" && how.antialias)
    return error(ErrorCode::kInput, "antialias is for linear and cubic, not for nearest");
  return {};
}

AxisTaps resample_taps(const Resample& how, const ResampledLine& line) {
  LT_CHECK(line.from > 0 || line.to == 0, "an empty line is resized to an empty one");
  AxisTaps taps;
  for (int64_t p = 0; p < line.to; ++p) {
    const float place = place_of<float>(how.coordinates, line, p);
    const bool outside = how.coordinates == "tf_crop_and_resize" &&
                         (place < 0 || place > static_cast<float>(line.from - 1));
    if (!outside && how.mode == "nearest")
      taps.add(nearest_of(how, line, place), 1);
    else if (!outside)
      add_filtered(taps, how, line, place_of<double>(how.coordinates, line, p));
    taps.close();
  }
  return taps;
}

AxisTaps pad_taps(std::string_view mode, int64_t from, int64_t begin, int64_t end) {
  const int64_t cut = std::max<int64_t>(0, -begin);
  const int64_t left = from - cut - std::max<int64_t>(0, -end);
  AxisTaps taps;
  for (int64_t p = -std::max<int64_t>(0, begin); p < left + std::max<int64_t>(0, end); ++p) {
    LT_CHECK(left > 0, "there are elements to repeat");
    taps.add(cut + continued(mode, p, left), 1);
    taps.close();
  }
  return taps;
}

Result<std::vector<double>> parse_reals(std::string_view text) {
  std::vector<double> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    double number = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const bool ends = rest.empty(), goes_on = rest.size() > 1 && rest[0] == ',';
    if (code != std::errc() || (!ends && !goes_on) || !std::isfinite(number))
      return error(ErrorCode::kInput, fmt::format("'{}' is no list of numbers", text));
    if (goes_on) rest.remove_prefix(1);
    numbers.push_back(number);
  }
  return numbers;
}

std::string print_reals(std::span<const double> numbers) {
  std::string text;
  for (double number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ",", number);
  return text;
}

}  // namespace lowtide

#include "report/curve_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/bytes.h"
#include "report/stays.h"
#include "report/timeline.h"

namespace lowtide::report {
namespace {

constexpr int kLevels = 8;  // of a character
constexpr std::array<std::string_view, kLevels + 1> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                               "▅", "▆", "▇", "█"};
constexpr std::string_view kAtPeak = "\x1b[33m", kPlain = "\x1b[0m";

// How many eighths of the rows a column fills: of something at least one.
int eighths(int64_t bytes, int64_t most, int rows) {
  if (most <= 0 || bytes <= 0) return 0;
  const double share = static_cast<double>(bytes) / static_cast<double>(most);
  return std::clamp(static_cast<int>(std::lround(share * rows * kLevels)), 1, rows * kLevels);
}

std::string_view character(int filled, bool blocks) {
  const int level = std::clamp(filled, 0, kLevels);
  if (blocks) return kBlocks[static_cast<size_t>(level)];
  return level >= kLevels / 2 ? "#" : " ";
}

}  // namespace

std::vector<int64_t> sliced_curve(const plan::Plan& plan, int slices) {
  const Timeline timeline = timeline_of(plan);
  const std::vector<int64_t> bytes = bytes_of(plan, stays_of(plan));
  std::vector<int64_t> most(static_cast<size_t>(slices), 0);
  const double scale = timeline.end_seconds > 0 ? slices / timeline.end_seconds : 0;
  const auto slice = [&](double seconds) {
    return std::clamp(static_cast<int>(seconds * scale), 0, slices - 1);
  };
  int filled = 0;  // up to this slice something is known
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Moment when = timeline.steps[i];
    const int first = slice(when.begin);
    const int last =  // the slice that its end only touches is not its own
        when.end > when.begin
            ? std::clamp(static_cast<int>(std::ceil(when.end * scale)) - 1, first, slices - 1)
            : first;
    for (int at = first; at <= last; ++at)
      most[static_cast<size_t>(at)] = std::max(most[static_cast<size_t>(at)], bytes[i]);
    filled = std::max(filled, last + 1);
  }
  // Transfers may end after the last step.
  for (int at = filled; at < slices && !bytes.empty(); ++at)
    most[static_cast<size_t>(at)] = bytes.back();
  return most;
}

std::string curve_text(const plan::Plan& plan, const CurveStyle& style) {
  if (plan.steps.empty() || style.columns < 1 || style.rows < 1) return {};
  const std::vector<int64_t> slices = sliced_curve(plan, style.columns);
  const int64_t most = *std::max_element(slices.begin(), slices.end());
  const std::string label = format_bytes(most);
  std::string text;
  for (int row = style.rows - 1; row >= 0; --row) {
    text += fmt::format("{:>11} |", row == style.rows - 1 ? label : "");
    std::string line;
    for (const int64_t bytes : slices) {
      const std::string_view shown =
          character(eighths(bytes, most, style.rows) - row * kLevels, style.blocks);
      const bool marked = style.colours && bytes == most;
      if (marked) line += kAtPeak;
      line += shown;
      if (marked) line += kPlain;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  const Timeline timeline = timeline_of(plan);
  text += fmt::format("{:>11} +{} {:.1f} ms", 0, std::string(slices.size(), '-'),
                      timeline.end_seconds * 1e3);
  if (timeline.copying_seconds > 0)
    text += fmt::format(", and {:.1f} ms of copying", timeline.copying_seconds * 1e3);
  return text + "\n";
}

}  // namespace lowtide::report

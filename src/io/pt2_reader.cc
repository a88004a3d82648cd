#include "io/pt2_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "base/file.h"
#include "io/convert.h"
#include "io/pt2_model.h"

namespace lowtide::io {
namespace {

constexpr size_t kPt2NodesShown = 8;

std::string words_of(const Pt2Range& range) {
  const int64_t least = std::max<int64_t>(range.least.value_or(1), 1);
  return (range.most ? fmt::format("{} to {}", least, *range.most)
                     : fmt::format("{} and more", least)) +
         (range.example ? fmt::format(", exported with {}", *range.example) : "");
}

Status check_ranges(const Pt2Program& program, const sym::Bindings& bindings) {
  for (const auto& [symbol, number] : bindings) {
    const auto range = program.ranges.find(symbol);
    if (range == program.ranges.end()) continue;
    const int64_t least = std::max<int64_t>(range->second.least.value_or(1), 1);
    const int64_t most = range->second.most.value_or(std::numeric_limits<int64_t>::max());
    if (number >= least && number <= most) continue;
    return error(ErrorCode::kUsage,
                 fmt::format("{}: --dim {}={}: the program was exported for {}", program.origin,
                             symbol, number, words_of(range->second)));
  }
  return {};
}

Result<ir::Graph> read_program(std::string_view bytes, const std::string& origin,
                               const std::string& folder, const std::string& file,
                               const OnnxOptions& options) {
  LT_ASSIGN(Lowered lowered, lower_pt2(bytes, origin, folder, file, options));
  if (options.training && !lowered.not_taken.empty())
    return error(ErrorCode::kInput,
                 fmt::format("{}: unsupported ops, which have no gradients here: {}", origin,
                             print_not_taken(lowered.not_taken)));
  if (options.examples != nullptr) *options.examples = lowered.examples;
  if (options.notes != nullptr) {
    for (std::string& note : lowered.notes) options.notes->push_back(std::move(note));
    if (!lowered.not_taken.empty())
      options.notes->push_back(
          fmt::format("opaque, planned and not run: {}", print_not_taken(lowered.not_taken)));
  }
  return graph_of(std::move(lowered.model), options);
}

}  // namespace

std::string print_not_taken(const std::vector<NotTaken>& not_taken) {
  std::string text;
  for (const NotTaken& each : not_taken) {
    const size_t shown = std::min(each.nodes.size(), kPt2NodesShown);
    text += fmt::format(
        "{}{} {} ({}{}{}{})", text.empty() ? "" : ", ", each.target, each.nodes.size(),
        fmt::join(each.nodes.begin(), each.nodes.begin() + static_cast<std::ptrdiff_t>(shown), " "),
        shown < each.nodes.size() ? " ..." : "", each.why.empty() ? "" : ": ", each.why);
  }
  return text;
}

Result<Lowered> lower_pt2(std::string_view bytes, const std::string& origin,
                          const std::string& folder, const std::string& file,
                          const OnnxOptions& options) {
  LT_ASSIGN(const Pt2Program program, decode_pt2(bytes, origin, folder, file));
  LT_RETURN_IF_ERROR(check_ranges(program, options.bindings));
  LT_ASSIGN(Lowered lowered, lower(program, {.training = options.training}));
  for (const auto& [symbol, range] : program.ranges) {
    lowered.ranges[symbol] = words_of(range);
    if (range.example) lowered.examples[symbol] = *range.example;
  }
  return lowered;
}

Result<ir::Graph> read_pt2_bytes(std::string_view bytes, const std::string& origin,
                                 const OnnxOptions& options) {
  auto graph = read_program(bytes, origin, "", "", options);
  // Errors from below the door (an op's own checks, the graph's) do not know the file.
  if (!graph && !graph.error().message.starts_with(origin + ": "))
    return error(graph.error().code, origin + ": " + graph.error().message);
  return graph;
}

Result<ir::Graph> read_pt2(const std::string& path, const OnnxOptions& options) {
  LT_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::filesystem::path where(path);
  const std::string folder = where.parent_path().string();
  auto graph = read_program(file.bytes(), path, folder.empty() ? "." : folder,
                            where.filename().string(), options);
  if (!graph && !graph.error().message.starts_with(path + ": "))
    return error(graph.error().code, path + ": " + graph.error().message);
  return graph;
}

bool is_pt2_path(std::string_view path) {
  return path.ends_with(".pt2");
}

}  // namespace lowtide::io

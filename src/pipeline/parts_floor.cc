#include "pipeline/parts_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fission/scale.h"
#include "pipeline/more_cuts.h"
#include "pipeline/prepare.h"
#include "pipeline/query_blocks.h"
#include "pipeline/take_rewrites.h"
#include "rewrite/query_blocks.h"

namespace lowtide::pipeline {
namespace {

// What an op of the step makes in as many parts as it can run in.
struct NamedPart {
  std::string op;
  int64_t parts = 1, result_bytes = 0;
  int64_t bytes() const { return result_bytes / parts; }
};

// In the order of the step; nothing where nothing can be cut.
Result<std::optional<std::vector<NamedPart>>> named_parts(const ir::Graph& forward,
                                                          const OptimizeOptions& options) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, classes_to_cut(step));
  if (classes.empty()) return std::nullopt;
  std::vector<NamedPart> named;
  LT_ASSIGN(const std::vector<fission::LeastPart> parts, fission::least_parts(step));
  for (const fission::LeastPart& part : parts)
    named.push_back({step.op(part.op).name, part.parts, part.result_bytes});
  return named;
}

// Those that attention in blocks leaves as they are, in as many parts as either step lets them run.
Result<std::vector<NamedPart>> outside_of_blocks(const ir::Graph& forward, OptimizeOptions options,
                                                 std::vector<NamedPart> whole) {
  LT_ASSIGN(const auto report, rewrite::attention_in_blocks(forward, kQueryBlocks.most_blocks));
  if (report.ops == 0) return whole;
  options.query_blocks = kQueryBlocks.most_blocks;
  LT_ASSIGN(const std::optional<std::vector<NamedPart>> blocks, named_parts(forward, options));
  if (!blocks) return whole;
  std::map<std::string_view, const NamedPart*> by_name;
  for (const NamedPart& part : *blocks) by_name[part.op] = &part;
  std::vector<NamedPart> both;
  for (NamedPart& part : whole) {
    const auto other = by_name.find(part.op);
    if (other == by_name.end() || other->second->result_bytes != part.result_bytes) continue;
    part.parts = std::max(part.parts, other->second->parts);
    both.push_back(std::move(part));
  }
  return both;
}

}  // namespace

Result<plan::PartsFloor> floor_in_any_parts(const ir::Graph& forward,
                                            const OptimizeOptions& options) {
  OptimizeOptions whole = options;
  whole.split = {};
  LT_ASSIGN(const Prepared ready, pose(forward, whole));
  const plan::ScheduleProblem& problem = ready.view.problem;
  plan::PartsFloor floor{.bytes = problem.resident_bytes};
  if (options.schedule.transfers && problem.link)
    for (const plan::SchedResident& resident : problem.residents) floor.bytes -= resident.bytes;
  if (!options.cuts.empty()) return floor;  // what they cut may be smaller yet
  LT_ASSIGN(std::optional<std::vector<NamedPart>> parts, named_parts(forward, options));
  if (!parts) {
    floor.bytes = floor_of_view(ready.view, options.schedule.transfers).bytes;
    return floor;
  }
  if (options.query_blocks == 1) {
    LT_ASSIGN(parts, outside_of_blocks(forward, options, *std::move(parts)));
  }
  for (const NamedPart& part : *parts) {
    if (part.bytes() <= floor.part_bytes) continue;
    floor.op = part.op, floor.parts = part.parts, floor.part_bytes = part.bytes();
  }
  floor.bytes += floor.part_bytes;
  return floor;
}

Result<int64_t> least_bytes_in_parts(const ir::Graph& forward, const OptimizeOptions& options) {
  LT_ASSIGN(const plan::PartsFloor floor, floor_in_any_parts(forward, options));
  return floor.bytes;
}

std::string say(const plan::PartsFloor& floor) {
  std::string text = fmt::format("in whatever parts every schedule needs at least {} bytes ({})",
                                 floor.bytes, format_bytes(floor.bytes));
  if (!floor.op.empty())
    text +=
        fmt::format(": {} that stay and {} of op '{}' in {} part{}",
                    format_bytes(floor.bytes - floor.part_bytes), format_bytes(floor.part_bytes),
                    floor.op, floor.parts, floor.parts == 1 ? "" : "s");
  return text;
}

Status check_parts_floor(const OptimizeOptions& options) {
  const int64_t budget = *options.budget_bytes;
  if (options.parts_floor->op.empty() || budget >= options.parts_floor->bytes) return {};
  return error(ErrorCode::kInfeasible,
               fmt::format("--budget: {} bytes ({}) is too small: {}", budget, format_bytes(budget),
                           say(*options.parts_floor)));
}

}  // namespace lowtide::pipeline

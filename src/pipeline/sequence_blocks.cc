#include "pipeline/sequence_blocks.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fission/classes.h"
#include "fission/labels.h"
#include "ops/op_table.h"
#include "pipeline/more_cuts.h"
#include "pipeline/prepare.h"
#include "pipeline/query_blocks.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "rewrite/query_blocks.h"

namespace lowtide::pipeline {
namespace {

using ir::OpId;
using ir::StorageId;

constexpr const char* kBlocks = "query-blocks";
constexpr const char* kDirectSlices = "direct-slices";

bool is_named(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t bytes_of(const ir::Graph& graph, StorageId storage) {
  return ir::size_bytes(graph.value(graph.storage(storage).root)).constant().value_or(0);
}

// What an op needs at least: what it makes may lie where it reads.
int64_t needs_of(const ir::Graph& graph, OpId id) {
  int64_t most = 0;
  for (const auto* values : {&graph.op(id).inputs, &graph.op(id).outputs}) {
    std::set<StorageId> present;
    for (const ir::ValueId value : *values)
      if (value.valid()) present.insert(graph.value(value).storage);
    int64_t bytes = 0;
    for (const StorageId storage : present) bytes += bytes_of(graph, storage);
    most = std::max(most, bytes);
  }
  return most;
}

int64_t parameter_bytes(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (const StorageId storage : graph.storages())
    if (graph.value(graph.storage(storage).root).category == Category::kParameter)
      bytes += bytes_of(graph, storage);
  return bytes;
}

// The region of the nearest head that has the op, and its head; empty: no head has it.
std::pair<OpId, std::vector<OpId>> region_around(const ir::Graph& step,
                                                 const fission::AxisClass& axis_class,
                                                 const IdVector<OpId, OpId>& dominators, OpId id) {
  for (OpId head = dominators[id]; head.valid(); head = dominators[head]) {
    std::vector<OpId> region = fission::region_of(step, axis_class, dominators, head);
    if (std::binary_search(region.begin(), region.end(), id)) return {head, std::move(region)};
  }
  return {};
}

using Names = std::set<std::string, std::less<>>;

struct Largest {
  std::vector<OpId> ops;     // that need more than any other op, those that need most first
  int64_t others_bytes = 0;  // what that other one needs
};

// To be cut may be the ops of the class that a step without blocks has, too.
Largest largest_of(const ir::Graph& step, const fission::AxisClass& axis_class,
                   const Names& without_blocks) {
  IdVector<OpId, int64_t> needs(step.op_count(), 0);
  IdVector<OpId, char> may_be_cut(step.op_count(), 0);
  for (const fission::ClassAxis& axis : axis_class.axes)
    may_be_cut[axis.op] = without_blocks.contains(step.op(axis.op).name);
  Largest largest;
  for (const OpId id : step.ops()) {
    needs[id] = needs_of(step, id);
    if (may_be_cut[id])
      largest.ops.push_back(id);
    else
      largest.others_bytes = std::max(largest.others_bytes, needs[id]);
  }
  std::erase_if(largest.ops, [&](OpId id) { return needs[id] <= largest.others_bytes; });
  std::stable_sort(largest.ops.begin(), largest.ops.end(),
                   [&](OpId a, OpId b) { return needs[a] > needs[b]; });
  return largest;
}

// Each of those in so many parts, with the region around it.
fission::Labels labels_of(const ir::Graph& step, const fission::AxisClass& axis_class,
                          const std::vector<OpId>& largest, int64_t parts) {
  const IdVector<OpId, OpId> dominators = fission::immediate_dominators(step, axis_class);
  IdVector<OpId, OpId> head_of(step.op_count());  // of the region that an op is in
  std::vector<OpId> heads;
  for (const OpId id : largest) {
    if (head_of[id].valid()) continue;
    const auto [head, region] = region_around(step, axis_class, dominators, id);
    if (!head.valid()) continue;
    for (const OpId inside : region) {
      std::erase(heads, head_of[inside]);  // whose region lies in this one
      head_of[inside] = head;
    }
    heads.push_back(head);
  }
  fission::Labels labels;
  for (const OpId head : heads) labels.nests.push_back({step.op(head).name, parts});
  return labels;
}

OptimizeOptions in_blocks(OptimizeOptions options, int64_t blocks) {
  options.split = {};
  options.query_blocks = blocks;
  std::vector<std::string>& with = options.rewrites.with;
  if (!is_named(with, kDirectSlices) && !is_named(options.rewrites.without, kDirectSlices))
    with.emplace_back(kDirectSlices);
  return options;
}

bool may_move(const OptimizeOptions& options) {
  return options.schedule.transfers && !options.slow_tiers.empty();
}

// None: the budget was missed.
Result<std::optional<Optimized>> tried(const ir::Graph& forward, const OptimizeOptions& options) {
  Result<Optimized> made = optimize(forward, tried_only(options));
  if (!made && !is_about_budget(made.error())) return tl::unexpected(made.error());
  return made ? std::optional(std::move(*made)) : std::nullopt;
}

// Whether the class has the rows of one of attention's products: its queries.
Result<bool> walks_queries(const ir::Graph& step, const fission::AxisClass& axis_class,
                           const std::vector<std::string>& products) {
  const Names wanted(products.begin(), products.end());
  for (const fission::ClassAxis& member : axis_class.axes) {
    if (!wanted.contains(step.op(member.op).name)) continue;
    const ops::Instance product = ops::instance_of(step, member.op);
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(product));
    const auto makes_rows = [&](const ops::AxisUse& use) {
      const size_t rank = step.value(step.op(member.op).outputs[0]).dims.size();
      return use.is_output && use.axis == member.axis && use.dim + 2 == static_cast<int>(rank);
    };
    if (std::any_of(map.uses.begin(), map.uses.end(), makes_rows)) return true;
  }
  return false;
}

// The names of the step's ops in one block, where attention's rows are what its largest class cuts,
// each of whose ops can be in as many parts; none: they are not.
Result<std::optional<Names>> names_of_sequence(const ir::Graph& forward, OptimizeOptions options,
                                               const rewrite::QueryBlocksReport& attention) {
  options.query_blocks = 1;
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, classes_to_cut(step));
  if (classes.empty() || classes.front().least_extent < attention.most_rows)
    return std::optional<Names>();
  LT_ASSIGN(const bool is_sequence, walks_queries(step, classes.front(), attention.products));
  if (!is_sequence) return std::optional<Names>();
  Names names;
  for (const OpId id : step.ops()) names.insert(step.op(id).name);
  return std::optional(std::move(names));
}

// In so many blocks; none: the budget was missed, or nothing can be cut.
Result<std::optional<Optimized>> tried_in_blocks(const ir::Graph& forward,
                                                 const OptimizeOptions& options, const Names& names,
                                                 int64_t blocks) {
  OptimizeOptions some = in_blocks(options, blocks);
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, some));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, classes_to_cut(step));
  if (classes.empty()) return std::optional<Optimized>();
  const Largest largest = largest_of(step, classes.front(), names);
  const int64_t stays = may_move(options) ? 0 : parameter_bytes(step);
  // What an op needs has parameters in it, too.
  if (std::max(stays, largest.others_bytes) > *options.budget_bytes)
    return std::optional<Optimized>();
  some.split = labels_of(step, classes.front(), largest.ops, blocks);
  return tried(forward, some);
}

}  // namespace

Result<InBlocks> plan_in_blocks(const ir::Graph& forward, const OptimizeOptions& options,
                                int64_t least_blocks) {
  InBlocks result;
  if (is_named(options.rewrites.without, kBlocks)) return result;
  LT_ASSIGN(const rewrite::QueryBlocksReport report, rewrite::attention_in_blocks(forward, 2));
  if (report.ops == 0) return result;
  LT_ASSIGN(const std::optional<Names> names, names_of_sequence(forward, options, report));
  result.is_sequence = names.has_value();
  const bool is_given = options.query_blocks > 1;
  const int64_t least = is_given ? options.query_blocks : least_blocks;
  const int64_t most = is_given ? least : std::min(report.most_rows, kQueryBlocks.most_blocks);
  const auto start = Clock::now();
  OptimizeOptions one = options;
  one.split = {};
  for (const bool moves : {false, true}) {
    if (moves && !may_move(options)) break;
    one.schedule.transfers = moves;
    for (int64_t blocks = least; !result.made && blocks <= most; blocks *= 2) {
      const double spent = seconds_since(start);
      if (options.schedule.remat.limits.stop_after(spent)) return result;
      if (blocks > 1 && !names) break;
      const OptimizeOptions rest = after(one, spent);
      LT_ASSIGN(result.made, blocks == 1 ? tried(forward, rest)
                                         : tried_in_blocks(forward, rest, *names, blocks));
    }
  }
  return result;
}

}  // namespace lowtide::pipeline

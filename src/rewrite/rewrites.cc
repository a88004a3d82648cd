#include "rewrite/rewrites.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "rewrite/algebra.h"
#include "rewrite/batch_norm.h"
#include "rewrite/chunked_loss.h"
#include "rewrite/common_ops.h"
#include "rewrite/enlarged_kernels.h"
#include "rewrite/label_counts.h"
#include "rewrite/loss_classes.h"
#include "rewrite/query_blocks.h"
#include "rewrite/round_trips.h"
#include "rewrite/shared_operand.h"
#include "rewrite/slice_concat.h"

namespace lowtide::rewrite {
namespace {

Result<RewriteResult> merged(const ir::Graph& graph, const CommonOpsOptions& options) {
  LT_ASSIGN(CommonOpsReport report, merge_common_ops(graph, options));
  if (!report.changed()) return RewriteResult{};
  return RewriteResult{std::move(report.graph), report.removed + report.constants};
}

Result<RewriteResult> common_ops(const ir::Graph& graph, const RewriteContext& context) {
  return merged(graph, {.alignment_bytes = context.alignment_bytes});
}

Result<RewriteResult> all_common_ops(const ir::Graph& graph, const RewriteContext&) {
  return merged(graph, {.even_if_longer = true});
}

Result<RewriteResult> by_rules(const ir::Graph& graph, std::span<const Rule> rules) {
  LT_ASSIGN(RulesReport report, apply_rules(graph, rules));
  return RewriteResult{std::move(report.graph), report.changed};
}

Result<RewriteResult> round_trips(const ir::Graph& graph, const RewriteContext&) {
  return by_rules(graph, round_trip_rules());
}

Result<RewriteResult> slices(const ir::Graph& graph, const RewriteContext&) {
  return by_rules(graph, slice_concat_rules());
}

Result<RewriteResult> direct_slices(const ir::Graph& graph, const RewriteContext&) {
  return by_rules(graph, direct_slice_rules());
}

Result<RewriteResult> reassociate(const ir::Graph& graph, const RewriteContext&) {
  return by_rules(graph, algebra_rules());
}

Result<RewriteResult> joined_products(const ir::Graph& graph, const RewriteContext& context) {
  LT_ASSIGN(SharedOperandReport report, join_products(graph, context.seconds));
  return RewriteResult{std::move(report.graph), report.products};
}

Result<RewriteResult> parted_products(const ir::Graph& graph, const RewriteContext& context) {
  LT_ASSIGN(SharedOperandReport report, part_products(graph, context.seconds));
  return RewriteResult{std::move(report.graph), report.products};
}

Result<RewriteResult> enlarged_kernels(const ir::Graph& graph, const RewriteContext& context) {
  LT_ASSIGN(SharedOperandReport report, enlarge_kernels(graph, context.seconds));
  return RewriteResult{std::move(report.graph), report.products};
}

Result<RewriteResult> batch_norm(const ir::Graph& graph, const RewriteContext&) {
  LT_ASSIGN(BatchNormReport report, norm_in_passes(graph));
  if (report.ops == 0) return RewriteResult{};
  return RewriteResult{std::move(report.graph), report.ops};
}

Result<RewriteResult> label_counts(const ir::Graph& graph, const RewriteContext&) {
  LT_ASSIGN(LabelCountsReport report, count_labels_first(graph));
  if (report.ops == 0) return RewriteResult{};
  return RewriteResult{std::move(report.graph), report.ops};
}

Result<RewriteResult> chunked_loss(const ir::Graph& graph, const RewriteContext&) {
  LT_ASSIGN(ChunkedLossReport report, loss_in_chunks(graph));
  if (report.ops == 0) return RewriteResult{};
  return RewriteResult{std::move(report.graph), report.ops};
}

Result<RewriteResult> by_classes(const ir::Graph& graph, const RewriteContext&) {
  LT_ASSIGN(LossClassesReport report, loss_by_classes(graph));
  if (report.ops == 0) return RewriteResult{};
  return RewriteResult{std::move(report.graph), report.ops};
}

Result<RewriteResult> query_blocks(const ir::Graph& graph, const RewriteContext& context) {
  LT_ASSIGN(QueryBlocksReport report,
            attention_in_blocks(graph, std::max<int64_t>(2, context.query_blocks)));
  return RewriteResult{std::move(report.graph), report.ops};
}

constexpr Rewrite kRewrites[] = {
    {.name = "join-products",
     .on_forward = true,
     .on_step = true,
     .effect = "products that share an operand are one, where that is predicted to be faster; "
               "maybe more memory",
     .run = joined_products},
    {.name = "enlarge-kernels",
     .on_forward = true,
     .on_step = true,
     .effect = "convolutions of one input whose kernels differ in size are one, of kernels padded "
               "with zeros, where that is predicted to be faster; maybe more memory",
     .run = enlarged_kernels},
    {.name = "part-products",
     .on_forward = true,
     .on_step = true,
     .effect = "a product that only slices read is one for each of them, where that is predicted "
               "to be faster; maybe more memory",
     .run = parted_products},
    {.name = "round-trips",
     .by_default = false,
     .on_forward = true,
     .on_step = true,
     .effect = "what is moved or cast there and back, or not at all, is not; the same bits, never "
               "more memory or time",
     .run = round_trips},
    {.name = "slices",
     .by_default = true,
     .on_forward = true,
     .on_step = true,
     .effect = "what is cut and joined again, or joined and cut, is not; the same bits, never more "
               "memory or time",
     .run = slices},
    {.name = "reassociate",
     .on_forward = true,
     .on_step = true,
     .effect = "sums and products in canonical form, common factors taken out; rounds elsewhere, a "
               "few units in the last place of the largest term",
     .run = reassociate},
    {.name = "query-blocks",
     .in_blocks = true,
     .on_forward = true,
     .effect = "attention in blocks of queries, as many as --query-blocks says, each with the keys "
               "that a causal mask lets it see; runs by default with --query-blocks; less memory, "
               "of causal attention less time; sums may round otherwise",
     .run = query_blocks},
    {.name = "direct-slices",
     .on_step = true,
     .effect =
         "slices of slices are cut from the whole, so that each can be made again by itself; the "
         "same bits and time, less memory where ops run again, otherwise maybe more",
     .run = direct_slices},
    {.name = "common-ops",
     .by_default = true,
     .on_step = true,
     .effect = "equal ops run once; the same bits, never more memory or time",
     .run = common_ops},
    {.name = "all-common-ops",
     .on_step = true,
     .effect =
         "also where the result then lives longer; the same bits, less time, maybe more memory",
     .run = all_common_ops},
    {.name = "batch-norm-in-two-passes",
     .in_parts = true,
     .on_step = true,
     .effect = "batch norm's statistics are ops of their own, so that samples can be cut; runs by "
               "default with --split; more time, and sums may round otherwise",
     .run = batch_norm},
    {.name = "count-labels-first",
     .in_parts = true,
     .with_cuts = true,
     .on_step = true,
     .effect = "how many labels are not ignored is counted by an op of its own, so that rows of a "
               "loss can be cut; runs by default with --split or --cut; the same bits in one part",
     .run = label_counts},
    {.name = "chunked-loss",
     .on_step = true,
     .effect = "logits that are larger than their weights, their loss and gradients in chunks of "
               "rows; less memory, maybe more time, and sums may round otherwise",
     .run = chunked_loss},
    {.name = "loss-by-classes",
     .frees_axis = true,
     .on_step = true,
     .effect = "the log-sum-exp of a cross-entropy is an op of its own, so that its classes (a "
               "vocabulary) can be cut; sums may round otherwise",
     .run = by_classes},
};

// The names of the given values that results of the graph are computed from.
std::set<std::string> what_counts(const ir::Graph& graph) {
  std::set<std::string> found;
  IdVector<ir::ValueId, char> seen(graph.value_count(), 0);
  std::vector<ir::ValueId> open = graph.outputs();
  while (!open.empty()) {
    const ir::ValueId next = open.back();
    open.pop_back();
    if (std::exchange(seen[next], 1) != 0) continue;
    const ir::Value& value = graph.value(next);
    if (!value.producer.valid()) {
      found.insert(value.name);
      continue;
    }
    for (ir::ValueId input : graph.op(value.producer).inputs)
      if (input.valid()) open.push_back(input);
  }
  return found;
}

bool names(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Status check_names(const char* flag, const std::vector<std::string>& list) {
  std::string known;
  for (const Rewrite& rewrite : kRewrites)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", rewrite.name);
  for (const std::string& name : list)
    if (std::none_of(std::begin(kRewrites), std::end(kRewrites),
                     [&](const Rewrite& rewrite) { return rewrite.name == name; }))
      return error(ErrorCode::kUsage,
                   fmt::format("{}: there is no rewrite '{}' (known: {})", flag, name, known));
  return {};
}

}  // namespace

std::span<const Rewrite> rewrites() {
  return kRewrites;
}

Result<RewriteResult> run(const Rewrite& rewrite, RewriteStage stage, const ir::Graph& graph,
                          const RewriteContext& context) {
  LT_ASSIGN(RewriteResult result, rewrite.run(graph, context));
  if (result.ops > 0 && stage == RewriteStage::kForward &&
      what_counts(graph) != what_counts(result.graph))
    return RewriteResult{};
  return result;
}

Status check(const RewriteChoice& choice) {
  LT_RETURN_IF_ERROR(check_names("--rewrite", choice.with));
  LT_RETURN_IF_ERROR(check_names("--no-rewrite", choice.without));
  for (const std::string& name : choice.with)
    if (names(choice.without, name))
      return error(ErrorCode::kUsage,
                   fmt::format("--rewrite: '{}' is also named by --no-rewrite", name));
  return {};
}

bool is_chosen(const Rewrite& rewrite, const RewriteChoice& choice, const RewriteContext& context) {
  if (names(choice.without, rewrite.name)) return false;
  return rewrite.by_default || (rewrite.in_parts && context.in_parts) ||
         (rewrite.with_cuts && context.has_cuts) ||
         (rewrite.in_blocks && context.query_blocks > 1) || names(choice.with, rewrite.name);
}

}  // namespace lowtide::rewrite

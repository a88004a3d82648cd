#include "rewrite/rewrites.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rewrite/common_ops.h"

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

constexpr Rewrite kRewrites[] = {
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
};

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

Status check(const RewriteChoice& choice) {
  LT_RETURN_IF_ERROR(check_names("--rewrite", choice.with));
  LT_RETURN_IF_ERROR(check_names("--no-rewrite", choice.without));
  for (const std::string& name : choice.with)
    if (names(choice.without, name))
      return error(ErrorCode::kUsage,
                   fmt::format("--rewrite: '{}' is also named by --no-rewrite", name));
  return {};
}

bool is_chosen(const Rewrite& rewrite, const RewriteChoice& choice) {
  if (names(choice.without, rewrite.name)) return false;
  return rewrite.by_default || names(choice.with, rewrite.name);
}

}  // namespace lowtide::rewrite

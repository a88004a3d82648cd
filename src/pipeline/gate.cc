#include "pipeline/gate.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/new_folder.h"
#include "base/printable.h"
#include "ir/graph_text.h"
#include "plan/plan_text.h"
#include "plan/schedule_text.h"
#include "verify/parts.h"
#include "verify/sums.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

constexpr size_t kMostShown = 3;      // findings in the message; the folder has all
constexpr size_t kMostFinding = 300;  // bytes of one of them there

std::string parent_folder(const OptimizeOptions& options) {
  if (!options.dump_folder.empty()) return options.dump_folder;
  std::error_code failure;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(failure);
  return failure ? "." : temporary.string();
}

// One line for each finding; empty: the plan is right.
std::vector<std::string> all_findings(const plan::Plan& plan, const MadeFrom& from) {
  std::vector<std::string> lines;
  for (const verify::Finding& finding :
       verify::verify(plan, {.as_claimed = true, .first = from.floor_op}).findings)
    lines.push_back(fmt::format("{}: {}", verify::name(finding.kind), printable(finding.message)));
  if (!lines.empty()) return lines;
  if (from.whole != nullptr)
    for (const std::string& finding : verify::verify_parts(plan, *from.whole).findings)
      lines.push_back(fmt::format("parts: {}", printable(finding)));
  if (from.in_any_order != nullptr)
    for (const std::string& finding : verify::verify_sums(plan, *from.in_any_order))
      lines.push_back(fmt::format("sums: {}", printable(finding)));
  return lines;
}

Result<std::string> keep(const plan::Plan& plan, const std::vector<std::string>& findings,
                         const MadeFrom& from) {
  std::string lines;
  for (const std::string& finding : findings) lines += finding + '\n';
  std::vector<NamedContents> files = {
      {"findings.txt", lines},
      {"options.txt", print(from.options)},
      {"device.json", cost::print_device(from.options.device)},
      {"graph_before.txt", ir::print(from.before)},
      {"graph_after.txt", ir::print(from.after)},
      {"problem.txt", plan::print(from.problem)},
      {"plan.lt", plan::print_plan(plan)},
  };
  if (from.whole != nullptr) files.push_back({"graph_whole.txt", ir::print(*from.whole)});
  if (from.in_any_order != nullptr)
    files.push_back({"graph_in_any_order.txt", ir::print(*from.in_any_order)});
  if (from.options.costs) files.push_back({"costs.json", cost::print_costs(*from.options.costs)});
  return write_new_folder(parent_folder(from.options), "lowtide-refused-plan", files);
}

void print_training(const autodiff::TrainingOptions& training, std::string& text) {
  const autodiff::OptimizerOptions& optimizer = training.optimizer;
  const bool adam = optimizer.kind == autodiff::OptimizerKind::kAdamW;
  text += fmt::format("loss {}\n", autodiff::name(training.loss.kind));
  if (!training.loss.output.empty()) text += fmt::format("loss_output {}\n", training.loss.output);
  if (training.loss.ignore_index)
    text += fmt::format("ignore_index {}\n", *training.loss.ignore_index);
  text += fmt::format("optimizer {}\nlearning_rate {}\nweight_decay {}\n", adam ? "adamw" : "sgd",
                      optimizer.learning_rate, optimizer.weight_decay);
  if (adam)
    text += fmt::format("beta1 {}\nbeta2 {}\nepsilon {}\n", optimizer.beta1, optimizer.beta2,
                        optimizer.epsilon);
  else
    text += fmt::format("momentum {}\n", optimizer.momentum);
}

}  // namespace

std::string print(const OptimizeOptions& options) {
  std::string text = fmt::format("device {}\n", options.device.name);
  text += fmt::format("kernels {}\n", options.kernels != nullptr ? "yes" : "no");
  if (options.budget_bytes) text += fmt::format("budget_bytes {}\n", *options.budget_bytes);
  for (const SlowTierChoice& tier : options.slow_tiers)
    text +=
        fmt::format("slow_tier {} out {} in {} latency {} compute {} bytes {}\n", tier.name,
                    tier.link.bytes_per_second_out, tier.link.bytes_per_second_in,
                    tier.link.latency_seconds, tier.link.compute_seconds_per_byte, tier.link.bytes);
  text += fmt::format("train {}\n", options.training ? "yes" : "no");
  if (options.training) print_training(*options.training, text);
  text += fmt::format("pieces {}\nsums {}\nstrided_views {}\n", options.pieces, options.sums,
                      options.strided_views);
  for (const std::string& name : options.rewrites.with) text += fmt::format("rewrite {}\n", name);
  for (const std::string& name : options.rewrites.without)
    text += fmt::format("no_rewrite {}\n", name);
  for (const fission::CutRule& cut : options.cuts)
    text += fmt::format("cut {}\n", fission::print(cut));
  if (!options.split.whole()) text += fmt::format("split {}\n", fission::print(options.split));
  for (const LabelMutation& mutation : label_mutations())
    if (!(options.mutations.*mutation.member))
      text += fmt::format("no_mutation {}\n", mutation.name);
  OptimizeOptions asked = options;
  for (const SearchIdea& idea : search_ideas())
    if (!idea.of(asked)) text += fmt::format("without {}\n", idea.name);
  text += fmt::format("order_seed {}\norder_max_seconds {}\n", options.order.seed,
                      options.order.limits.max_seconds);
  text += fmt::format("pack_work_limit {}\npack_threads {}\npack_retries {}\n",
                      options.pack.limits.max_units, options.pack.threads, options.pack_retries);
  text += fmt::format("reorder {}\nrecompute {}\ntransfers {}\nswap_residents {}\n",
                      options.schedule.remat.reorder, options.schedule.recompute,
                      options.schedule.transfers, options.schedule.swap.spans.residents);
  text += fmt::format("schedule_seed {}\nschedule_max_units {}\nschedule_threads {}\n",
                      options.schedule.remat.seed, options.schedule.remat.limits.max_units,
                      options.schedule.remat.threads);
  return text + fmt::format("proof_units {}\n", options.proof_units);
}

Status pass_gate(const plan::Plan& plan, const MadeFrom& from) {
  const std::vector<std::string> findings = all_findings(plan, from);
  if (findings.empty()) return {};
  std::string what;
  for (size_t i = 0; i < findings.size() && i < kMostShown; ++i)
    what += fmt::format("{}{}", what.empty() ? "" : "; ", printable(findings[i], kMostFinding));
  if (findings.size() > kMostShown)
    what += fmt::format("; and {} more", findings.size() - kMostShown);
  const Result<std::string> folder = keep(plan, findings, from);
  return error(ErrorCode::kInternal,
               fmt::format("internal error: the plan that was made is refused by its verifier, so "
                           "there is none: {}; {}",
                           what,
                           folder ? fmt::format("what a bug report needs is in '{}'", *folder)
                                  : fmt::format("what a bug report needs could not be kept: {}",
                                                folder.error().message)));
}

}  // namespace lowtide::pipeline

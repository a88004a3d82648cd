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
  if (training.loss.class_axis) text += fmt::format("class_axis {}\n", *training.loss.class_axis);
  if (training.loss.keep_outputs) text += "keep_outputs true\n";
  if (!training.gradient.add_into_buffers) text += "add_into_buffers false\n";
  if (!training.update) text += "update false\n";
  for (const std::string& name : training.frozen)
    text += fmt::format("frozen {}\n", printable(name));
  text += fmt::format("optimizer {}\nlearning_rate {}\nweight_decay {}\n", adam ? "adamw" : "sgd",
                      optimizer.learning_rate, optimizer.weight_decay);
  if (adam)
    text += fmt::format("beta1 {}\nbeta2 {}\nepsilon {}\n", optimizer.beta1, optimizer.beta2,
                        optimizer.epsilon);
  else
    text += fmt::format("momentum {}\n", optimizer.momentum);
}

// A switch that is on unless somebody does without what it stands for.
template <typename Options>
struct Switch {
  const char* name;
  bool Options::*member;
};
constexpr Switch<order::OrderOptions> kOrderSwitches[] = {
    {"decompose", &order::OrderOptions::decompose},
    {"list_rules", &order::OrderOptions::list_rules},
    {"post_orders", &order::OrderOptions::post_orders},
    {"closure_greedy", &order::OrderOptions::closure_greedy},
    {"safe_moves", &order::OrderOptions::safe_moves},
    {"excursions", &order::OrderOptions::excursions},
    {"cut_bound", &order::OrderOptions::cut_bound},
    {"exact_search", &order::OrderOptions::exact_search},
    {"beam", &order::OrderOptions::beam},
};
// Those that the pipeline itself turns off, for plans that are to be there soon.
constexpr Switch<remat::RematOptions> kScheduleSwitches[] = {
    {"cut_start", &remat::RematOptions::cut_start},
    {"mixed_start", &remat::RematOptions::mixed_start},
    {"order_start", &remat::RematOptions::order_start},
    {"greedy_start", &remat::RematOptions::greedy_start},
    {"chain_start", &remat::RematOptions::chain_start},
    {"cut_bound", &remat::RematOptions::cut_bound},
    {"several_cuts", &remat::RematOptions::several_cuts},
};

template <typename Options, size_t kCount>
void print_switches(std::string_view of, const Switch<Options> (&switches)[kCount],
                    const Options& options, std::string& text) {
  for (const Switch<Options>& one : switches)
    if (!(options.*one.member)) text += fmt::format("{}_without {}\n", of, one.name);
}

template <typename Number>
void print_changed(std::string_view name, Number number, Number usual, std::string& text) {
  if (number != usual) text += fmt::format("{} {}\n", name, number);
}

void print_rewrites_and_parts(const OptimizeOptions& options, std::string& text) {
  for (const std::string& name : options.rewrites.with) text += fmt::format("rewrite {}\n", name);
  for (const std::string& name : options.rewrites.without)
    text += fmt::format("no_rewrite {}\n", name);
  print_changed<int64_t>("query_blocks", options.query_blocks, 1, text);
  for (const fission::CutRule& cut : options.cuts)
    text += fmt::format("cut {}\n", fission::print(cut));
  if (!options.split.whole()) text += fmt::format("split {}\n", fission::print(options.split));
  for (const LabelMutation& mutation : label_mutations())
    if (!(options.mutations.*mutation.member))
      text += fmt::format("no_mutation {}\n", mutation.name);
  OptimizeOptions asked = options;
  for (const SearchIdea& idea : search_ideas())
    if (!idea.of(asked)) text += fmt::format("without {}\n", idea.name);
  if (options.most_seconds) text += fmt::format("most_seconds {}\n", *options.most_seconds);
}

void print_order_and_pack(const OptimizeOptions& options, std::string& text) {
  const order::OrderOptions usual;
  text += fmt::format("order_seed {}\norder_max_seconds {}\n", options.order.seed,
                      options.order.limits.max_seconds);
  print_changed("order_max_units", options.order.limits.max_units, usual.limits.max_units, text);
  print_changed("order_idle_units", options.order.idle_units, usual.idle_units, text);
  print_changed("order_random_restarts", options.order.random_restarts, usual.random_restarts,
                text);
  print_switches("order", kOrderSwitches, options.order, text);
  text += fmt::format("pack_work_limit {}\npack_threads {}\npack_retries {}\n",
                      options.pack.limits.max_units, options.pack.threads, options.pack_retries);
}

void print_schedule(const OptimizeOptions& options, std::string& text) {
  const OptimizeOptions usual;
  const remat::RematOptions& remat = options.schedule.remat;
  text += fmt::format("reorder {}\nrecompute {}\ntransfers {}\nswap_residents {}\n", remat.reorder,
                      options.schedule.recompute, options.schedule.transfers,
                      options.schedule.swap.spans.residents);
  text += fmt::format("schedule_seed {}\nschedule_max_units {}\nschedule_threads {}\n", remat.seed,
                      remat.limits.max_units, remat.threads);
  print_changed("swap_max_units", options.schedule.swap.limits.max_units,
                usual.schedule.swap.limits.max_units, text);
  print_switches("schedule", kScheduleSwitches, remat, text);
  print_changed("schedules_packed", options.schedules_packed, usual.schedules_packed, text);
  for (const std::vector<std::string>& start : options.starts) {
    text += "start";
    for (const std::string& op : start) text += ' ' + printable(op);
    text += '\n';
  }
  text += fmt::format("proof_units {}\n", options.proof_units);
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
  print_rewrites_and_parts(options, text);
  print_order_and_pack(options, text);
  print_schedule(options, text);
  return text;
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

#include "api/planning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "api/budgets.h"
#include "api/costs.h"
#include "api/levers.h"
#include "api/running.h"
#include "api/whole_step.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/printable.h"
#include "exec/cpu/cpu.h"
#include "pipeline/least_memory.h"
#include "pipeline/prepare.h"

namespace lowtide {
namespace {

constexpr size_t kMostFloorReason = 1000;  // bytes of what sets the floor
constexpr size_t kMostNote = 2000;         // bytes of a note on how it was planned
constexpr int64_t kMostQueryBlocks = 4096;
constexpr size_t kMostNamed = 8;  // parameters in a note

// What would make the plan again; part of the plan file, so nothing here may differ from run to
// run.
std::map<std::string, std::string, std::less<>> provenance(
    const PlanOptions& options, const pipeline::OptimizeOptions& resolved, int threads,
    bool dropout) {
  std::map<std::string, std::string, std::less<>> facts;
  facts["lowtide"] = std::string(version());
  facts["device"] = resolved.device.name;
  facts["cost_model"] = std::string(cost::name(resolved.device.cost_model));
  if (resolved.kernels != nullptr) facts["threads"] = std::to_string(threads);
  facts["seed"] = std::to_string(options.seed);
  if (!options.split.empty()) facts["split"] = options.split;
  if (options.query_blocks > 1) facts["query_blocks"] = std::to_string(options.query_blocks);
  if (!options.cuts.empty()) facts["cuts"] = fmt::format("{}", fmt::join(options.cuts, " "));
  if (!options.rewrites.empty())
    facts["rewrites"] = fmt::format("{}", fmt::join(options.rewrites, " "));
  if (!options.no_rewrites.empty())
    facts["no_rewrites"] = fmt::format("{}", fmt::join(options.no_rewrites, " "));
  if (!options.no_mutations.empty())
    facts["no_mutations"] = fmt::format("{}", fmt::join(options.no_mutations, " "));
  if (!options.without.empty())
    facts["without"] = fmt::format("{}", fmt::join(options.without, " "));
  facts["train"] = options.train ? "yes" : "no";
  if (!options.train) return facts;
  if (!dropout) facts["dropout"] = "no";
  facts["loss"] = options.loss;
  if (!options.loss_output.empty()) facts["loss_output"] = options.loss_output;
  if (options.ignore_index) facts["ignore_index"] = fmt::format("{}", *options.ignore_index);
  if (options.keep_outputs) facts["keep_outputs"] = "yes";
  facts["optimizer"] = options.optimizer;
  facts["learning_rate"] = fmt::format("{}", options.learning_rate);
  facts["weight_decay"] = fmt::format("{}", options.weight_decay);
  if (options.optimizer == "sgd") facts["momentum"] = fmt::format("{}", options.momentum);
  return facts;
}

// What a training step leaves as it is, of the parameters. Empty: nothing.
std::string untrained_note(const plan::Plan& plan) {
  IdVector<plan::PlanStorageId, char> updated(plan.storages.size(), 0);
  for (const plan::PlanValue& value : plan.values)
    if (value.alias == plan::PlanAlias::kUpdate) updated[value.storage] = 1;
  std::vector<std::string> left;
  size_t parameters = 0;
  for (plan::PlanStorageId id : plan.storages.ids()) {
    const plan::PlanStorage& storage = plan.storages[id];
    if (!storage.resident || storage.category != Category::kParameter) continue;
    ++parameters;
    if (!updated[id]) left.push_back(fmt::format("'{}'", plan.values[storage.root].name));
  }
  if (left.empty()) return {};
  const size_t count = left.size();
  if (count > kMostNamed) {
    left.resize(kMostNamed);
    left.push_back(fmt::format("{} more", count - kMostNamed));
  }
  return printable(
      fmt::format(
          "{} of {} parameters stay as they are, because no gradient leads from the loss to "
          "them: {}",
          count, parameters, fmt::join(left, ", ")),
      kMostFloorReason);
}

report::PlanningFacts planning_facts(const pipeline::Optimized& optimized, double reading_seconds) {
  report::PlanningFacts facts;
  facts.order_status = optimized.order_status;
  facts.search_bound_bytes = optimized.search_bound_bytes;
  facts.pack_status = optimized.pack_status;
  facts.schedule_status = optimized.schedule_status;
  facts.floor_reason = printable(optimized.floor_reason, kMostFloorReason);
  for (const pipeline::RewriteWorth& one : optimized.rewrites)
    facts.rewrites.push_back({one.name, one.ops, one.peak_bytes, one.seconds});
  facts.query_blocks = optimized.query_blocks;
  for (const fission::CutRule& rule : optimized.cuts) facts.cuts.push_back(fission::print(rule));
  facts.parts = optimized.split.parts;
  facts.split = optimized.split.whole() ? "" : fission::print(optimized.split);
  facts.ops_in_parts = optimized.ops_in_parts;
  facts.whole_seconds = optimized.whole_seconds;
  facts.bound_of_one_order = optimized.bound_of_one_order;
  facts.cut_short = optimized.cut_short;
  if (optimized.more_memory)
    facts.more_memory = {optimized.more_memory->budget_bytes, optimized.more_memory->seconds,
                         optimized.more_memory->lower_bound_seconds};
  facts.order_units = optimized.order_work.units;
  facts.pack_units = optimized.pack_work.units;
  facts.schedule_units = optimized.schedule_work.units;
  for (const pipeline::Stage& stage : optimized.stages)
    facts.stages.emplace_back(stage.name, stage.seconds);
  facts.planning_seconds = optimized.planning_seconds;
  facts.reading_seconds = reading_seconds;
  return facts;
}

Status check_rates(const PlanOptions& options) {
  const auto refuse = [](const char* flag, double value, const char* wanted) {
    return error(ErrorCode::kUsage, fmt::format("{}: {} is not {}", flag, value, wanted));
  };
  if (!std::isfinite(options.learning_rate) || options.learning_rate <= 0)
    return refuse("--learning-rate", options.learning_rate, "a number above 0");
  if (!std::isfinite(options.weight_decay) || options.weight_decay < 0)
    return refuse("--weight-decay", options.weight_decay, "a number of at least 0");
  if (!(options.momentum >= 0 && options.momentum < 1))
    return refuse("--momentum", options.momentum, "a number of at least 0 and below 1");
  return {};
}

// "host=2GiB": a tier by its name, and the room in it if that is limited.
Result<pipeline::SlowTierChoice> parse_tier(std::string_view word) {
  pipeline::SlowTierChoice tier;
  const size_t at = word.find('=');
  tier.name = word.substr(0, at);
  if (tier.name.empty())
    return error(ErrorCode::kUsage,
                 "--swap: a slow tier has no name; it takes names between commas, each with its "
                 "room if that is limited, as in host=2GiB,file");
  if (at == std::string_view::npos) return tier;
  const std::string what = fmt::format("--swap: the room of '{}'", tier.name);
  LT_ASSIGN(tier.link.bytes, parse_bytes(word.substr(at + 1), what));
  if (tier.link.bytes < 1)
    return error(ErrorCode::kUsage, what + " is 0 bytes, so nothing could move there");
  return tier;
}

// Its speed as the device's profile has it. False: the profile does not know it.
bool rate_tier(const cost::DeviceProfile& device, pipeline::SlowTierChoice& tier) {
  for (const cost::SlowTierRate& rate : device.slow_tiers) {
    if (rate.name != tier.name) continue;
    tier.link = {rate.out_bytes_per_second, rate.in_bytes_per_second, rate.latency_seconds,
                 rate.compute_seconds_per_byte, tier.link.bytes};
    return true;
  }
  return false;
}

std::string known_tiers(const cost::DeviceProfile& device) {
  std::string known;
  for (const cost::SlowTierRate& tier : device.slow_tiers)
    known += (known.empty() ? "" : ", ") + tier.name;
  return known.empty() ? "none" : known;
}

Status check_link_speed(const PlanOptions& options) {
  if (!options.link_bytes_per_second) return {};
  if (!(*options.link_bytes_per_second > 0) || !std::isfinite(*options.link_bytes_per_second))
    return error(ErrorCode::kUsage,
                 fmt::format("--link: {} bytes per second is not above 0, so nothing could move",
                             *options.link_bytes_per_second));
  if (options.swap.find(',') != std::string::npos)
    return error(ErrorCode::kUsage,
                 fmt::format("--link: it is the speed of one slow tier, and --swap names several "
                             "('{}')",
                             options.swap));
  return {};
}

// The ways to slow memory that the options ask for.
Status find_slow_tiers(const PlanOptions& options, pipeline::OptimizeOptions& result) {
  if (options.swap.empty()) return {};
  LT_RETURN_IF_ERROR(check_link_speed(options));
  for (size_t from = 0; from <= options.swap.size();) {
    const size_t end = std::min(options.swap.find(',', from), options.swap.size());
    LT_ASSIGN(pipeline::SlowTierChoice tier,
              parse_tier(std::string_view(options.swap).substr(from, end - from)));
    from = end + 1;
    for (const pipeline::SlowTierChoice& other : result.slow_tiers)
      if (other.name == tier.name)
        return error(ErrorCode::kUsage,
                     fmt::format("--swap: slow tier '{}' is named twice", tier.name));
    const bool known = rate_tier(result.device, tier);
    if (options.link_bytes_per_second) {
      tier.link.bytes_per_second_out = tier.link.bytes_per_second_in =
          *options.link_bytes_per_second;
    } else if (!known) {
      return error(ErrorCode::kUsage,
                   fmt::format("--swap: the device '{}' has no slow tier '{}' (known: {}); give "
                               "its speed with --link",
                               result.device.name, tier.name, known_tiers(result.device)));
    }
    result.slow_tiers.push_back(std::move(tier));
  }
  return {};
}

Status choose_passes(const PlanOptions& options, pipeline::OptimizeOptions& result) {
  result.pieces = options.pieces;
  result.sums = options.sums;
  result.strided_views = options.strided_views;
  result.rewrites = {options.rewrites, options.no_rewrites};
  if (options.query_blocks < 1 || options.query_blocks > kMostQueryBlocks)
    return error(ErrorCode::kUsage, fmt::format("--query-blocks: {} is not from 1 to {}",
                                                options.query_blocks, kMostQueryBlocks));
  result.query_blocks = options.query_blocks;
  LT_RETURN_IF_ERROR(rewrite::check(result.rewrites));
  LT_ASSIGN(result.mutations, pipeline::mutations_without(options.no_mutations));
  for (const std::string& text : options.cuts) {
    LT_ASSIGN(result.cuts.emplace_back(), fission::parse_rule(text));
  }
  if (options.split.empty()) return {};
  LT_ASSIGN(result.split, fission::parse_labels(options.split));
  return {};
}

// Loss and optimizer of a training step.
Result<autodiff::TrainingOptions> training_options(const PlanOptions& options) {
  autodiff::TrainingOptions training;
  bool known = false;
  for (const auto kind : {autodiff::LossKind::kCrossEntropy, autodiff::LossKind::kMeanSquaredError,
                          autodiff::LossKind::kModelOutput}) {
    if (options.loss != autodiff::name(kind)) continue;
    training.loss.kind = kind;
    known = true;
  }
  if (!known)
    return error(ErrorCode::kUsage,
                 fmt::format("--loss: '{}' is not known; known are cross-entropy, mse, model",
                             options.loss));
  training.loss.output = options.loss_output;
  if (options.ignore_index && training.loss.kind != autodiff::LossKind::kCrossEntropy)
    return error(ErrorCode::kUsage,
                 fmt::format("--ignore-index is for --loss cross-entropy, and the loss is {}; a "
                             "model's own loss says itself which label it leaves out",
                             options.loss));
  training.loss.ignore_index = options.ignore_index;
  training.loss.keep_outputs = options.keep_outputs;
  if (options.optimizer == "adamw") {
    training.optimizer.kind = autodiff::OptimizerKind::kAdamW;
  } else if (options.optimizer == "sgd") {
    training.optimizer.kind = autodiff::OptimizerKind::kSgd;
  } else {
    return error(
        ErrorCode::kUsage,
        fmt::format("--optimizer: '{}' is not known; known are adamw, sgd", options.optimizer));
  }
  LT_RETURN_IF_ERROR(check_rates(options));
  training.optimizer.learning_rate = options.learning_rate;
  training.optimizer.weight_decay = options.weight_decay;
  training.optimizer.momentum = options.momentum;
  return training;
}

// `options` without levers by name.
Result<pipeline::OptimizeOptions> pipeline_options(const PlanOptions& options,
                                                   const cost::DeviceProfile& device) {
  pipeline::OptimizeOptions result;
  result.device = device;
  LT_RETURN_IF_ERROR(cost::choose_cost_model(result.device, options.cost_model));
  result.budget_bytes = options.budget_bytes;
  result.look_further = true;
  result.dump_folder = options.dump_folder;
  result.order.seed = options.seed;
  if (!(options.effort > 0 && options.effort <= 1e6))
    return error(ErrorCode::kUsage,
                 fmt::format("--effort: {} is not above 0 and at most 1e6", options.effort));
  LT_RETURN_IF_ERROR(pipeline::do_without(options.without, result));
  if (!(options.prove >= 0 && options.prove <= 1e6))
    return error(ErrorCode::kUsage, fmt::format("--prove: {} is not from 0 to 1e6", options.prove));
  result.proof_units = options.prove > 0 ? units_in(options.prove) : 0;
  result.schedule.recompute = options.recompute;
  LT_RETURN_IF_ERROR(choose_passes(options, result));
  const Limits limits{.max_seconds = options.time_limit_seconds, .cancel = options.cancel};
  const int64_t units = units_in(options.effort);
  result.order.limits = limits.with_units(result.order.limits.max_units);
  result.pack.limits = limits.with_units(units_in(options.effort));
  result.schedule.remat.limits = limits.with_units(units);
  if (!options.reorder) keep_given_order(result);
  result.schedule.swap.limits.max_units = units;
  result.schedule.swap.spans.residents = options.swap_residents;
  if (options.progress)
    result.progress = [report = options.progress](const plan::Progress& p) {
      report({p.budget_bytes, p.seconds, p.peak_bytes, p.lower_bound_seconds, p.share,
              p.unpacked_seconds, plan::name(p.stage)});
    };
  result.schedule.remat.seed = options.seed + 1;
  result.schedule.remat.threads = resolve_threads(options.threads);
  result.pack.threads = result.schedule.remat.threads;
  LT_RETURN_IF_ERROR(find_slow_tiers(options, result));
  if (!options.train) return result;
  LT_ASSIGN(result.training, training_options(options));
  return result;
}

}  // namespace

Result<Planning> prepare_planning(const Model& model, const PlanOptions& options) {
  Planning planning;
  pipeline::OptimizeOptions& resolved = planning.options;
  LT_ASSIGN(const cost::DeviceProfile device, cost::find_device(options.device));
  LT_ASSIGN(planning.asked, with_levers(options, device));
  LT_ASSIGN(resolved, pipeline_options(planning.asked, device));
  if (const auto open = model.free_dims(); !open.empty()) {
    const auto& examples = model.state().examples;
    const auto example = examples.find(open.front());
    return error(
        ErrorCode::kUsage,
        fmt::format("{}: the model has unbound dimensions: {}; give each a size, as in --dim {}={}",
                    model.state().origin, fmt::join(open, ", "), open.front(),
                    example != examples.end() ? example->second : 1));
  }
  const bool measured = options.threads == 0 && resolved.device.identity.has_value();
  planning.threads =
      resolve_threads(measured ? resolved.device.identity->threads : options.threads);
  // Profiles of other devices have no kernels here: such a plan knows no workspace and keeps the
  // layouts that came.
  if (resolved.device.kernels == "cpu")
    planning.kernels = exec_cpu::make_cpu_kernels({.threads = planning.threads});
  resolved.kernels = planning.kernels.get();
  if (options.costs_file.empty()) return planning;
  if (resolved.device.cost_model != cost::CostModel::kRoofline)
    return error(ErrorCode::kUsage,
                 fmt::format("--costs: measured times correct the roofline for shapes that were "
                             "not measured; --cost-model {} cannot be with them",
                             options.cost_model));
  if (planning.kernels == nullptr)
    return error(ErrorCode::kUsage,
                 fmt::format("--costs: device '{}' runs none of the kernels that a store has "
                             "times of; it needs a profile of this CPU",
                             resolved.device.name));
  LT_ASSIGN(resolved.costs, load_costs(options.costs_file, cpu_identity(planning.threads),
                                       options.costs_any_device));
  return planning;
}

namespace {

// Per cent are of the arena that the step needs in one part.
Result<int64_t> budget_of(const Model& model, const Amount& amount,
                          pipeline::OptimizeOptions options) {
  MemoryScale scale;
  if (amount.kind == Amount::Kind::kPercent) {
    options.split = {};
    options.dump_folder.clear();
    options.progress = {};
    LT_ASSIGN(const pipeline::Optimized whole, pipeline::optimize(model.state().graph, options));
    scale.unlimited_bytes = whole.plan.arena_bytes;
  }
  return bytes_of(amount, scale);
}

}  // namespace

namespace {

// Where levers are open and the budget was missed, the rest of the progress is that of all levers.
constexpr double kFirstShare = 0.5;

Status check_one_question(const PlanOptions& options) {
  if (options.slowdown && !(*options.slowdown >= 0 && std::isfinite(*options.slowdown)))
    return error(ErrorCode::kUsage,
                 fmt::format("--slowdown: {:.4g}% is below the least, 0%: each op once of the step "
                             "in one part",
                             100 * *options.slowdown));
  const int asked = (options.budget_bytes ? 1 : 0) + (options.budget.empty() ? 0 : 1) +
                    (options.slowdown ? 1 : 0);
  if (asked <= 1) return {};
  return error(ErrorCode::kUsage,
               "a budget and a slowdown are two questions: give the memory (budget_bytes or "
               "budget) or the time (slowdown)");
}

// Why a budget was missed, without the flag in front.
std::string_view reason_of(const Error& missed) {
  std::string_view reason = missed.message;
  constexpr std::string_view kFlag = "--budget: ";
  if (reason.starts_with(kFlag)) reason.remove_prefix(kFlag.size());
  return reason;
}

// The least arena that is found with the levers that are given, whatever time the step takes. The
// proven floor is a number of its plan: no schedule need reach it.
Result<Planned> least_found(const Model& model, Planning planning) {
  constexpr double kAnyTime = 1e9;  // times each op once
  LT_ASSIGN(auto made, pipeline::least_memory(model.state().graph, planning.options, kAnyTime));
  return Planned{std::move(made), std::move(planning)};
}

// With all levers, in the time that is left. What missed the budget before becomes a note.
Result<Planned> with_more_levers(const Model& model, PlanOptions options, int64_t budget_bytes,
                                 double seconds, const Error& missed, const Planning& before) {
  options.allow = all_levers(options, before.options.device);
  options.budget.clear();
  options.budget_bytes = budget_bytes;
  options.time_limit_seconds -= seconds;
  LT_ASSIGN(Planning planning, prepare_planning(model, options));
  planning.options.progress = plan::part_of(planning.options.progress, kFirstShare, 1);
  auto made = pipeline::optimize(model.state().graph, planning.options);
  if (!made) {
    // What cannot be cut does not make the model's file wrong.
    const bool is_input = made.error().code == ErrorCode::kInput;
    return error(is_input ? missed.code : made.error().code,
                 fmt::format("{}; recompute alone: {}", made.error().message, reason_of(missed)));
  }
  made->notes.push_back(fmt::format(
      "recompute alone did not keep the budget: {}; so all levers were used, as with --allow {}",
      reason_of(missed), options.allow));
  return Planned{std::move(*made), std::move(planning)};
}

}  // namespace

Result<Planned> plan_as_asked(const Model& model, const PlanOptions& options, Planning planning) {
  const auto start = Clock::now();
  LT_RETURN_IF_ERROR(check_one_question(options));
  const ir::Graph& graph = model.state().graph;
  if (options.slowdown) {
    LT_ASSIGN(auto made, pipeline::least_memory(graph, planning.options, *options.slowdown));
    return Planned{std::move(made), std::move(planning)};
  }
  pipeline::OptimizeOptions within = planning.options;
  if (!options.budget.empty()) {
    LT_ASSIGN(const Amount amount, parse_amount(options.budget, "--budget"));
    if (amount.kind == Amount::Kind::kFloor) return least_found(model, std::move(planning));
    LT_ASSIGN(within.budget_bytes, budget_of(model, amount, planning.options));
    within = pipeline::after(std::move(within), seconds_since(start));
  }
  const bool is_open = within.budget_bytes && leaves_levers_open(options);
  if (is_open) {
    within.find_smallest = false;  // that would be of levers that were not enough
    within.progress = plan::part_of(within.progress, 0, kFirstShare);
  }
  auto made = pipeline::optimize(graph, within);
  if (made) return Planned{std::move(*made), std::move(planning)};
  if (!within.budget_bytes || !pipeline::is_about_budget(made.error()))
    return tl::unexpected(made.error());
  const double seconds = seconds_since(start);
  if (is_open && !within.schedule.remat.limits.stop_after(seconds))
    return with_more_levers(model, options, *within.budget_bytes, seconds, made.error(), planning);
  if (within.schedule.remat.limits.cancelled()) return tl::unexpected(made.error());
  return error(made.error().code,
               made.error().message + missing_levers(graph, within, *within.budget_bytes));
}

std::unique_ptr<Plan::State> finish_plan(pipeline::Optimized optimized, const Planning& planning,
                                         const Model& model) {
  PlanOptions options = planning.asked;
  options.query_blocks = optimized.query_blocks;  // as it was chosen
  options.rewrites = optimized.asked_rewrites;
  options.cuts.clear();
  for (const fission::CutRule& rule : optimized.cuts) options.cuts.push_back(fission::print(rule));
  optimized.plan.provenance =
      provenance(options, planning.options, planning.threads, model.state().dropout);
  // What a step in parts is compared with, whose file `run --compare` looks for beside the plan.
  if (in_parts(optimized.plan))
    optimized.plan.provenance["model_file"] =
        std::filesystem::path(model.state().origin).filename().string();
  if (planning.options.costs)
    optimized.plan.provenance["costs"] =
        fmt::format("measured {}, on {}", cost::print(optimized.costs),
                    cost::print(planning.options.costs->device()));
  if (optimized.more_memory)
    optimized.plan.provenance["more_memory"] =
        fmt::format("{} {} {}", optimized.more_memory->budget_bytes, optimized.more_memory->seconds,
                    optimized.more_memory->lower_bound_seconds);
  auto state = std::make_unique<Plan::State>();
  state->facts = planning_facts(optimized, model.state().reading_seconds);
  state->facts.notes = model.state().notes;
  state->facts.unused_levers = unused_levers(planning.asked, planning.options);
  state->facts.all_levers = all_levers(planning.asked, planning.options.device);
  for (const std::string& note : optimized.notes)
    state->facts.notes.push_back(printable(note, kMostNote));
  for (const std::string& note : levers_without_effect(planning.asked, optimized))
    state->facts.notes.push_back(printable(note, kMostNote));
  if (planning.asked.train)
    if (const std::string note = untrained_note(optimized.plan); !note.empty())
      state->facts.notes.push_back(note);
  state->plan = std::move(optimized.plan);
  state->verified = true;  // the pipeline hands out no other
  return state;
}

tl::unexpected<Error> planning_error(const Model& model, const Error& failure) {
  return error(failure.code, fmt::format("{}: {}", model.state().origin, failure.message));
}

}  // namespace lowtide

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "api/costs.h"
#include "api/running.h"
#include "api/state.h"
#include "base/file.h"
#include "base/printable.h"
#include "exec/cpu/cpu.h"
#include "io/onnx_reader.h"
#include "lowtide/api.h"
#include "plan/plan_text.h"
#include "runtime/session.h"
#include "verify/verify.h"

namespace lowtide {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostFinding = 1000;  // bytes of a verifier's finding in an error

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What would make the plan again; part of the plan file, so nothing here may differ from run to
// run.
std::map<std::string, std::string, std::less<>> provenance(
    const PlanOptions& options, const pipeline::OptimizeOptions& resolved, int threads) {
  std::map<std::string, std::string, std::less<>> facts;
  facts["lowtide"] = std::string(version());
  facts["device"] = resolved.device.name;
  if (resolved.kernels != nullptr) facts["threads"] = std::to_string(threads);
  facts["seed"] = std::to_string(options.seed);
  facts["train"] = options.train ? "yes" : "no";
  if (!options.train) return facts;
  facts["loss"] = options.loss;
  facts["optimizer"] = options.optimizer;
  facts["learning_rate"] = fmt::format("{}", options.learning_rate);
  facts["weight_decay"] = fmt::format("{}", options.weight_decay);
  if (options.optimizer == "sgd") facts["momentum"] = fmt::format("{}", options.momentum);
  return facts;
}

report::PlanningFacts planning_facts(const pipeline::Optimized& optimized, double reading_seconds) {
  report::PlanningFacts facts;
  facts.order_status = optimized.order_status;
  facts.search_bound_bytes = optimized.search_bound_bytes;
  facts.pack_status = optimized.pack_status;
  facts.order_units = optimized.order_work.units;
  facts.pack_units = optimized.pack_work.units;
  for (const pipeline::Stage& stage : optimized.stages)
    facts.stages.emplace_back(stage.name, stage.seconds);
  facts.planning_seconds = optimized.planning_seconds;
  facts.reading_seconds = reading_seconds;
  return facts;
}

// Spells out what would steer a terminal in the names that a verdict shows.
void make_printable(plan::Plan& plan) {
  plan.model = printable(plan.model);
  for (plan::PlanValue& value : plan.values) value.name = printable(value.name);
  for (plan::PlanOp& op : plan.ops) {
    op.kind = printable(op.kind);
    op.name = printable(op.name);
    op.module = printable(op.module);
  }
  std::map<std::string, int64_t, std::less<>> bindings;
  for (const auto& [symbol, size] : plan.bindings) bindings.emplace(printable(symbol), size);
  plan.bindings = std::move(bindings);
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

}  // namespace

std::string_view version() {
  return LOWTIDE_VERSION;
}

// The way to slow memory that the options ask for.
Status find_link(const PlanOptions& options, pipeline::OptimizeOptions& result) {
  if (options.swap.empty()) return {};
  result.slow_tier_name = options.swap;
  if (options.link_bytes_per_second) {
    if (!(*options.link_bytes_per_second > 0) || !std::isfinite(*options.link_bytes_per_second))
      return error(ErrorCode::kUsage,
                   fmt::format("--link: {} bytes per second is not above 0, so nothing could move",
                               *options.link_bytes_per_second));
    result.link = plan::Link{*options.link_bytes_per_second, *options.link_bytes_per_second, 0};
    return {};
  }
  std::string known;
  for (const cost::SlowTierRate& tier : result.device.slow_tiers) {
    if (tier.name == options.swap)
      result.link =
          plan::Link{tier.out_bytes_per_second, tier.in_bytes_per_second, tier.latency_seconds};
    known += (known.empty() ? "" : ", ") + tier.name;
  }
  if (result.link) return {};
  return error(ErrorCode::kUsage,
               fmt::format("--swap: the device '{}' has no slow tier '{}' (known: {}); give its "
                           "speed with --link",
                           result.device.name, options.swap, known.empty() ? "none" : known));
}

Result<pipeline::OptimizeOptions> pipeline_options(const PlanOptions& options) {
  pipeline::OptimizeOptions result;
  LT_ASSIGN(result.device, cost::find_device(options.device));
  result.budget_bytes = options.budget_bytes;
  result.dump_folder = options.dump_folder;
  result.order.seed = options.seed;
  result.order.max_seconds = options.time_limit_seconds;
  result.pack.max_seconds = options.time_limit_seconds;
  constexpr double kUnitsPerSecond = 200e6;
  if (!(options.effort > 0 && options.effort <= 1e6))
    return error(ErrorCode::kUsage,
                 fmt::format("--effort: {} is not above 0 and at most 1e6", options.effort));
  result.schedule.recompute = options.recompute;
  result.schedule.remat.max_units = static_cast<int64_t>(options.effort * kUnitsPerSecond);
  result.schedule.remat.max_seconds = options.time_limit_seconds;
  result.schedule.remat.seed = options.seed + 1;
  result.schedule.remat.threads = resolve_threads(options.threads);
  LT_RETURN_IF_ERROR(find_link(options, result));
  if (!options.train) return result;
  autodiff::TrainingOptions training;
  if (options.loss == "cross-entropy") {
    training.loss.kind = autodiff::LossKind::kCrossEntropy;
  } else if (options.loss == "mse") {
    training.loss.kind = autodiff::LossKind::kMeanSquaredError;
  } else {
    return error(
        ErrorCode::kUsage,
        fmt::format("--loss: '{}' is not known; known are cross-entropy, mse", options.loss));
  }
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
  result.training = training;
  return result;
}

// ---- Model
// --------------------------------------------------------------------------------------------------------

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Result<Model> Model::read(const std::string& path, const ReadOptions& options) {
  const auto start = Clock::now();
  io::OnnxOptions door;
  door.bindings = {options.dims.begin(), options.dims.end()};
  door.training = options.training;
  door.dropout = options.dropout;
  auto state = std::make_unique<State>();
  LT_ASSIGN(state->graph, io::read_onnx(path, door));
  if (state->graph.name.empty() || state->graph.name == "main_graph")
    state->graph.name = std::filesystem::path(path).stem().string();
  state->origin = path;
  state->reading_seconds = seconds_since(start);
  return Model(std::move(state));
}

std::string Model::name() const {
  return state_->graph.name;
}
std::vector<std::string> Model::free_dims() const {
  return ir::free_symbols(state_->graph);
}

// ---- Plan
// ---------------------------------------------------------------------------------------------------------

Plan::Plan(std::unique_ptr<State> state) : state_(std::move(state)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

Result<Plan> Plan::make(const Model& model, const PlanOptions& options) {
  LT_ASSIGN(pipeline::OptimizeOptions resolved, pipeline_options(options));
  if (const auto open = model.free_dims(); !open.empty())
    return error(
        ErrorCode::kUsage,
        fmt::format("model '{}' has unbound dimensions: {}; give each a size, as in --dim {}=1",
                    model.name(), fmt::join(open, ", "), open.front()));
  // Profiles of other devices have no kernels here: such a plan knows no workspace and keeps the
  // layouts that came.
  const bool measured = options.threads == 0 && resolved.device.identity.has_value();
  const int threads =
      resolve_threads(measured ? resolved.device.identity->threads : options.threads);
  const auto kernels =
      resolved.device.kernels == "cpu" ? exec_cpu::make_cpu_kernels({.threads = threads}) : nullptr;
  resolved.kernels = kernels.get();
  if (!options.costs_file.empty()) {
    if (kernels == nullptr)
      return error(ErrorCode::kUsage,
                   fmt::format("--costs: device '{}' runs none of the kernels that a store has "
                               "times of; it needs a profile of this CPU",
                               resolved.device.name));
    LT_ASSIGN(resolved.costs,
              load_costs(options.costs_file, cpu_identity(threads), options.costs_any_device));
  }
  auto made = pipeline::optimize(model.state().graph, resolved);
  if (!made)
    return error(made.error().code,
                 fmt::format("{}: {}", model.state().origin, made.error().message));
  pipeline::Optimized optimized = std::move(*made);
  optimized.plan.provenance = provenance(options, resolved, threads);
  if (resolved.costs)
    optimized.plan.provenance["costs"] = fmt::format(
        "measured {}, on {}", cost::print(optimized.costs), cost::print(resolved.costs->device()));
  auto state = std::make_unique<State>();
  state->facts = planning_facts(optimized, model.state().reading_seconds);
  state->plan = std::move(optimized.plan);
  return Plan(std::move(state));
}

Result<Plan> Plan::load(const std::string& path) {
  LT_ASSIGN(const std::string text, read_file(path));
  auto state = std::make_unique<State>();
  LT_ASSIGN(state->plan, plan::read_plan(text, path));
  return Plan(std::move(state));
}

Status Plan::save(const std::string& path) const {
  return write_file_atomically(path, plan::print_plan(state_->plan));
}

Status Plan::verify() const {
  const verify::Report report = verify::verify(state_->plan);
  if (report.ok()) return {};
  std::string text;
  for (const verify::Finding& finding : report.findings)
    text += (text.empty() ? "" : "\n") + printable(finding.message, kMostFinding);
  return error(ErrorCode::kVerification, std::move(text));
}

int64_t Plan::peak_before_bytes() const {
  return state_->plan.claims.peak_before_bytes;
}
int64_t Plan::peak_bytes() const {
  return state_->plan.claims.peak_bytes;
}
int64_t Plan::lower_bound_bytes() const {
  return state_->plan.claims.lower_bound_bytes;
}
int64_t Plan::arena_bytes() const {
  return state_->plan.arena_bytes;
}
bool Plan::order_proven() const {
  return state_->plan.claims.order_proven;
}
std::string Plan::text() const {
  plan::Plan shown = state_->plan;
  make_printable(shown);
  std::string text = report::verdict_text(shown, state_->facts);
  if (const int64_t missing = seeded_weights(shown); missing > 0)
    text += fmt::format("{} weights are missing from the files of {}: drawn from the seed\n",
                        missing, shown.model);
  return text;
}
std::string Plan::json() const {
  return report::verdict_json(state_->plan, state_->facts);
}

// ---- Session
// ------------------------------------------------------------------------------------------------------

struct Session::State {
  std::unique_ptr<runtime::KernelFactory> kernels;
  runtime::Session session;
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Plan& plan, const RunOptions& options) {
  const int threads = threads_for(plan.state().plan, options.threads);
  auto kernels = exec_cpu::make_cpu_kernels({.threads = threads});
  runtime::SessionOptions resolved;
  resolved.seed = options.seed;
  resolved.model_folder = options.model_folder;
  resolved.unplanned = options.unplanned;
  LT_ASSIGN(resolved.slow_memory,
            slow_memory(options.slow_tier_folder, options.link_bytes_per_second));
  LT_ASSIGN(runtime::Session session, open_session(plan.state().plan, *kernels, threads,
                                                   options.seed_missing_weights, resolved));
  return Session(std::make_unique<State>(State{std::move(kernels), std::move(session)}));
}

namespace {

template <class Predicate>
std::vector<ValueInfo> list_values(const plan::Plan& plan, const Predicate& wanted) {
  std::vector<ValueInfo> values;
  for (const plan::PlanValue& value : plan.values)
    if (wanted(value))
      values.push_back({value.name, std::string(name(value.type.dtype)), value.type.dims});
  return values;
}

}  // namespace

std::vector<ValueInfo> Session::inputs() const {
  return list_values(state_->session.plan(), [](const plan::PlanValue& value) {
    return !value.producer.valid() && value.initial.kind == plan::PlanInitial::Kind::kFed;
  });
}

std::vector<ValueInfo> Session::parameters() const {
  const plan::Plan& plan = state_->session.plan();
  return list_values(plan, [&](const plan::PlanValue& value) {
    return !value.producer.valid() && plan.storages[value.storage].category == Category::kParameter;
  });
}

std::vector<ValueInfo> Session::outputs() const {
  return list_values(state_->session.plan(),
                     [](const plan::PlanValue& value) { return value.is_output; });
}

Status Session::set(std::string_view name, std::span<const std::byte> contents) {
  const Status status = state_->session.set(name, contents);
  // What does not fit is the caller's mistake here, not a file's.
  return status ? status : error(ErrorCode::kUsage, status.error().message);
}
Result<std::vector<std::byte>> Session::get(std::string_view name) const {
  return state_->session.get(name);
}
void Session::seed_inputs() {
  state_->session.seed_inputs(0);
}
Status Session::run() {
  return state_->session.run();
}
StepTransfers Session::transfers() const {
  const runtime::TransferTotals moved = state_->session.transfers();
  return {.stored_bytes = moved.stored_bytes,
          .loaded_bytes = moved.loaded_bytes,
          .transfer_seconds = moved.transfer_seconds,
          .exposed_seconds = moved.exposed_seconds,
          .hidden_share = moved.hidden_share()};
}
int64_t Session::arena_bytes() const {
  return state_->session.arena_bytes();
}

}  // namespace lowtide

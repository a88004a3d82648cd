#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "api/planning.h"
#include "api/running.h"
#include "api/state.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/printable.h"
#include "exec/cpu/cpu.h"
#include "io/graph_file.h"
#include "io/graph_json.h"
#include "io/onnx_reader.h"
#include "io/pt2_reader.h"
#include "ir/graph_text.h"
#include "lowtide/api.h"
#include "pipeline/graph_in_parts.h"
#include "plan/plan_text.h"
#include "runtime/session.h"
#include "verify/verify.h"

namespace lowtide {
namespace {

constexpr size_t kMostFinding = 1000;  // bytes of a verifier's finding in an error

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

}  // namespace

std::string_view version() {
  return LOWTIDE_VERSION;
}

// ---- Model ----

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Result<Model> Model::read(const std::string& path, const ReadOptions& options) {
  const auto start = Clock::now();
  if (io::is_graph_path(path)) {
    LT_ASSIGN(const std::string text, read_file(path));
    return parse(text, path, options);
  }
  io::OnnxOptions door;
  door.bindings = {options.dims.begin(), options.dims.end()};
  door.training = options.training;
  door.dropout = options.dropout;
  auto state = std::make_unique<State>();
  std::vector<std::string> notes;
  door.notes = &notes;
  door.examples = &state->examples;
  LT_ASSIGN(state->graph,
            io::is_pt2_path(path) ? io::read_pt2(path, door) : io::read_onnx(path, door));
  for (const std::string& note : notes) state->notes.push_back(printable(note, kMostFinding));
  if (state->graph.name.empty() || state->graph.name == "main_graph")
    state->graph.name = std::filesystem::path(path).stem().string();
  state->origin = path;
  state->dropout = options.dropout;
  state->reading_seconds = seconds_since(start);
  return Model(std::move(state));
}

Result<Model> Model::parse(std::string_view text, const std::string& origin,
                           const ReadOptions& options) {
  const auto start = Clock::now();
  auto state = std::make_unique<State>();
  LT_ASSIGN(state->graph,
            io::read_graph_text(text, origin, {options.dims.begin(), options.dims.end()}));
  if (state->graph.name.empty()) state->graph.name = std::filesystem::path(origin).stem().string();
  state->origin = origin;
  state->reading_seconds = seconds_since(start);
  return Model(std::move(state));
}

Result<Model> Model::in_parts(std::string_view labels) const {
  LT_ASSIGN(const fission::Labels read, fission::parse_labels(labels));
  auto state = std::make_unique<State>(*state_);
  LT_ASSIGN(state->graph, pipeline::graph_in_parts(state_->graph, read));
  return Model(std::move(state));
}

std::string Model::text() const {
  return ir::print(state_->graph);
}
std::string Model::json() const {
  return io::print_graph_json(state_->graph);
}
std::string Model::name() const {
  return state_->graph.name;
}
std::vector<std::string> Model::free_dims() const {
  return ir::free_symbols(state_->graph);
}

// ---- Plan ----

Plan::Plan(std::unique_ptr<State> state) : state_(std::move(state)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

Result<Plan> Plan::make(const Model& model, const PlanOptions& options) {
  LT_ASSIGN(Planning planning, prepare_planning(model, options));
  auto made = plan_as_asked(model, options, std::move(planning));
  if (!made) return planning_error(model, made.error());
  return Plan(finish_plan(std::move(made->optimized), made->planning, model));
}

Result<Plan> Plan::load(const std::string& path) {
  LT_ASSIGN(const std::string text, read_file(path));
  auto state = std::make_unique<State>();
  LT_ASSIGN(state->plan, plan::read_plan(text, path));
  state->facts = report::facts_in_file(state->plan);
  return Plan(std::move(state));
}

Status Plan::save(const std::string& path) const {
  if (!state_->verified) LT_RETURN_IF_ERROR(verify());
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

// ---- Session ----

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Plan& plan, const RunOptions& options) {
  if (!plan.state().verified) LT_RETURN_IF_ERROR(plan.verify());
  const int threads = threads_for(plan.state().plan, options.threads);
  auto kernels = exec_cpu::make_cpu_kernels({.threads = threads});
  runtime::SessionOptions resolved;
  resolved.seed = options.seed;
  resolved.model_folder = options.model_folder;
  resolved.unplanned = options.unplanned;
  resolved.lent = options.lent;
  LT_ASSIGN(resolved.slow_memory, slow_memory(plan.state().plan, options.slow_tier_folder,
                                              options.link_bytes_per_second));
  LT_ASSIGN(runtime::Session session, open_session(plan.state().plan, *kernels, threads,
                                                   options.seed_missing_weights, resolved));
  return Session(std::make_unique<State>(State{std::move(kernels), std::move(session)}));
}

namespace {

template <class Predicate>
std::vector<ValueInfo> list_values(const plan::Plan& plan, const Predicate& wanted) {
  std::vector<const plan::PlanValue*> found;
  for (const plan::PlanValue& value : plan.values)
    if (wanted(value)) found.push_back(&value);
  // What is no output has rank 0, so this sorts outputs alone.
  std::stable_sort(found.begin(), found.end(),
                   [](const auto* a, const auto* b) { return a->output_rank < b->output_rank; });
  std::vector<ValueInfo> values;
  for (const plan::PlanValue* value : found)
    values.push_back({value->name, std::string(name(value->type.dtype)), value->type.dims});
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

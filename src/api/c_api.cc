// The C ABI over the C++ API. Each handle is a struct that holds the C++ object and what its
// strings point into. Every function body runs inside `guarded`, which turns an exception (only
// memory exhaustion or a fault in a library: nothing of ours throws) into a status, so that none
// crosses into a caller that could not handle it.
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/c_handles.h"
#include "api/options_json.h"
#include "api/planning.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/result.h"
#include "lowtide/api.h"
#include "lowtide/lowtide.h"

struct lowtide_cancel {
  std::atomic<bool> raised{false};
};

namespace lowtide {
namespace {

thread_local std::string last_error;
thread_local const char* shown_error = "";

}  // namespace

lowtide_status fail(const Error& failure) {
  last_error = failure.message;
  shown_error = last_error.c_str();
  return exit_code(failure.code);
}

lowtide_status fail_without_memory(const char* what) {
  shown_error = what;
  return LOWTIDE_INTERNAL;
}

namespace {

// `options` as they stand in text, under watch.
Result<PlanOptions> watched(const char* text, lowtide_watcher watcher, void* user,
                            const lowtide_cancel* cancel) {
  LT_ASSIGN(PlanOptions options, parse_plan_options(text_of(text)));
  if (cancel != nullptr) options.cancel = &cancel->raised;
  if (watcher != nullptr)
    options.progress = [watcher, user](const PlanProgress& p) {
      const std::string stage(p.stage);
      const lowtide_progress progress = {p.budget_bytes,        p.seconds, p.peak_bytes,
                                         p.lower_bound_seconds, p.share,   p.unpacked_seconds,
                                         stage.c_str()};
      watcher(user, &progress);
    };
  return options;
}

lowtide_model* model_handle(Model model) {
  std::string name = model.name();
  std::vector<std::string> free_dims = model.free_dims();
  return new lowtide_model{std::move(model), std::move(name), std::move(free_dims), {}, {}};
}

int64_t index_or_none(std::optional<size_t> index) {
  return index ? static_cast<int64_t>(*index) : -1;
}

const std::vector<ValueInfo>* values_of(const lowtide_session* session, lowtide_role role) {
  if (session == nullptr || role < LOWTIDE_INPUTS || role > LOWTIDE_OUTPUTS) return nullptr;
  return &session->values[role];
}

size_t value_bytes(const ValueInfo& value) {
  const std::optional<DType> dtype = parse_dtype(value.dtype);
  LT_CHECK(dtype.has_value(), "values are described by the names of element types");
  auto bytes = static_cast<size_t>(size_bytes(*dtype));
  for (const int64_t dim : value.dims) bytes *= static_cast<size_t>(dim);
  return bytes;
}

}  // namespace
}  // namespace lowtide

using lowtide::ErrorCode;
using lowtide::Status;

extern "C" {

uint32_t lowtide_abi_version(void) {
  return LOWTIDE_ABI_VERSION;
}

const char* lowtide_version(void) {
  return lowtide::version().data();  // a literal
}

const char* lowtide_last_error(void) {
  return lowtide::shown_error;
}

// ---- models

lowtide_status lowtide_model_read(const char* path, const char* options, lowtide_model** model) {
  return lowtide::guarded([&]() -> Status {
    if (path == nullptr) return lowtide::missing("path");
    if (model == nullptr) return lowtide::missing("model");
    LT_ASSIGN(const auto reading, lowtide::parse_read_options(lowtide::text_of(options)));
    LT_ASSIGN(lowtide::Model read, lowtide::Model::read(path, reading));
    *model = lowtide::model_handle(std::move(read));
    return {};
  });
}

lowtide_status lowtide_model_parse(const char* text, const char* origin, const char* options,
                                   lowtide_model** model) {
  return lowtide::guarded([&]() -> Status {
    if (text == nullptr) return lowtide::missing("text");
    if (model == nullptr) return lowtide::missing("model");
    LT_ASSIGN(const auto reading, lowtide::parse_read_options(lowtide::text_of(options)));
    LT_ASSIGN(lowtide::Model parsed,
              lowtide::Model::parse(text, origin == nullptr ? "graph" : origin, reading));
    *model = lowtide::model_handle(std::move(parsed));
    return {};
  });
}

void lowtide_model_free(lowtide_model* model) {
  delete model;
}

const char* lowtide_model_text(lowtide_model* model) {
  if (model == nullptr) return nullptr;
  return lowtide::cached(model->text, [&] { return model->model.text(); });
}

const char* lowtide_model_json(lowtide_model* model) {
  if (model == nullptr) return nullptr;
  return lowtide::cached(model->json, [&] { return model->model.json(); });
}

lowtide_status lowtide_model_in_parts(const lowtide_model* model, const char* labels,
                                      lowtide_model** parted) {
  return lowtide::guarded([&]() -> Status {
    if (model == nullptr) return lowtide::missing("model");
    if (labels == nullptr) return lowtide::missing("labels");
    if (parted == nullptr) return lowtide::missing("parted");
    LT_ASSIGN(lowtide::Model made, model->model.in_parts(labels));
    *parted = lowtide::model_handle(std::move(made));
    return {};
  });
}

const char* lowtide_model_name(const lowtide_model* model) {
  return model == nullptr ? nullptr : model->name.c_str();
}

size_t lowtide_model_free_dim_count(const lowtide_model* model) {
  return model == nullptr ? 0 : model->free_dims.size();
}

const char* lowtide_model_free_dim(const lowtide_model* model, size_t index) {
  if (model == nullptr || index >= model->free_dims.size()) return nullptr;
  return model->free_dims[index].c_str();
}

// ---- plans

lowtide_status lowtide_plan_make(const lowtide_model* model, const char* options,
                                 lowtide_plan** plan) {
  return lowtide_plan_make_watched(model, options, nullptr, nullptr, nullptr, plan);
}

lowtide_status lowtide_plan_make_watched(const lowtide_model* model, const char* options,
                                         lowtide_watcher watcher, void* user,
                                         const lowtide_cancel* cancel, lowtide_plan** plan) {
  return lowtide::guarded([&]() -> Status {
    if (model == nullptr) return lowtide::missing("model");
    if (plan == nullptr) return lowtide::missing("plan");
    LT_ASSIGN(const auto planning, lowtide::watched(options, watcher, user, cancel));
    LT_ASSIGN(lowtide::Plan made, lowtide::Plan::make(model->model, planning));
    *plan = new lowtide_plan{std::move(made), {}, {}, {}};
    return {};
  });
}

lowtide_status lowtide_plan_load(const char* path, lowtide_plan** plan) {
  return lowtide::guarded([&]() -> Status {
    if (path == nullptr) return lowtide::missing("path");
    if (plan == nullptr) return lowtide::missing("plan");
    LT_ASSIGN(lowtide::Plan loaded, lowtide::Plan::load(path));
    *plan = new lowtide_plan{std::move(loaded), {}, {}, {}};
    return {};
  });
}

void lowtide_plan_free(lowtide_plan* plan) {
  delete plan;
}

lowtide_status lowtide_plan_save(const lowtide_plan* plan, const char* path) {
  return lowtide::guarded([&]() -> Status {
    if (plan == nullptr) return lowtide::missing("plan");
    if (path == nullptr) return lowtide::missing("path");
    return plan->plan.save(path);
  });
}

lowtide_status lowtide_plan_verify(const lowtide_plan* plan) {
  return lowtide::guarded([&]() -> Status {
    if (plan == nullptr) return lowtide::missing("plan");
    return plan->plan.verify();
  });
}

int64_t lowtide_plan_peak_before_bytes(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.peak_before_bytes();
}

int64_t lowtide_plan_peak_bytes(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.peak_bytes();
}

int64_t lowtide_plan_lower_bound_bytes(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.lower_bound_bytes();
}

int64_t lowtide_plan_arena_bytes(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.arena_bytes();
}

int32_t lowtide_plan_order_proven(const lowtide_plan* plan) {
  return plan != nullptr && plan->plan.order_proven() ? 1 : 0;
}

const char* lowtide_plan_text(lowtide_plan* plan) {
  if (plan == nullptr) return nullptr;
  return lowtide::cached(plan->text, [&] { return plan->plan.text(); });
}

const char* lowtide_plan_json(lowtide_plan* plan) {
  if (plan == nullptr) return nullptr;
  return lowtide::cached(plan->json, [&] { return plan->plan.json(); });
}

// ---- watching a search

lowtide_status lowtide_cancel_make(lowtide_cancel** cancel) {
  return lowtide::guarded([&]() -> Status {
    if (cancel == nullptr) return lowtide::missing("cancel");
    *cancel = new lowtide_cancel;
    return {};
  });
}

void lowtide_cancel_free(lowtide_cancel* cancel) {
  delete cancel;
}

void lowtide_cancel_raise(lowtide_cancel* cancel) {
  if (cancel != nullptr) cancel->raised = true;
}

int32_t lowtide_cancel_raised(const lowtide_cancel* cancel) {
  return cancel != nullptr && cancel->raised ? 1 : 0;
}

// ---- fronts

lowtide_status lowtide_front_make(const lowtide_model* model, const char* options,
                                  const char* sweep, lowtide_watcher watcher, void* user,
                                  const lowtide_cancel* cancel, lowtide_front** front) {
  return lowtide::guarded([&]() -> Status {
    if (model == nullptr) return lowtide::missing("model");
    if (front == nullptr) return lowtide::missing("front");
    LT_ASSIGN(const auto planning, lowtide::watched(options, watcher, user, cancel));
    LT_ASSIGN(const auto sweeping, lowtide::parse_sweep_options(lowtide::text_of(sweep)));
    LT_ASSIGN(lowtide::Front made, lowtide::Front::make(model->model, planning, sweeping));
    *front = new lowtide_front{std::move(made), {}, {}, {}};
    return {};
  });
}

void lowtide_front_free(lowtide_front* front) {
  delete front;
}

size_t lowtide_front_point_count(const lowtide_front* front) {
  return front == nullptr ? 0 : front->front.points().size();
}

lowtide_status lowtide_front_point(const lowtide_front* front, size_t index,
                                   lowtide_front_point_info* point) {
  return lowtide::guarded([&]() -> Status {
    if (front == nullptr) return lowtide::missing("front");
    if (point == nullptr) return lowtide::missing("point");
    const auto& points = front->front.points();
    LT_RETURN_IF_ERROR(lowtide::check_index(index, points.size()));
    const lowtide::FrontPoint& p = points[index];
    *point = {p.budget_bytes, p.status.c_str(), p.found ? 1 : 0,       p.arena_bytes,
              p.peak_bytes,   p.seconds,        p.lower_bound_seconds, p.reason.c_str()};
    return {};
  });
}

lowtide_status lowtide_front_plan(const lowtide_front* front, size_t index, lowtide_plan** plan) {
  return lowtide::guarded([&]() -> Status {
    if (front == nullptr) return lowtide::missing("front");
    if (plan == nullptr) return lowtide::missing("plan");
    const auto& points = front->front.points();
    LT_RETURN_IF_ERROR(lowtide::check_index(index, points.size()));
    const lowtide::Plan* found = front->front.plan(index);
    if (found == nullptr)
      return lowtide::error(ErrorCode::kUsage, "point " + std::to_string(index) +
                                                   " has no plan: " + points[index].reason);
    auto copy = std::make_unique<lowtide::Plan::State>(found->state());
    *plan = new lowtide_plan{lowtide::PlanAccess::wrap(std::move(copy)), {}, {}, {}};
    return {};
  });
}

int64_t lowtide_front_floor_bytes(const lowtide_front* front) {
  return front == nullptr ? 0 : front->front.floor_bytes();
}

int64_t lowtide_front_knee(const lowtide_front* front) {
  return front == nullptr ? -1 : lowtide::index_or_none(front->front.knee());
}

int64_t lowtide_front_chosen(const lowtide_front* front) {
  return front == nullptr ? -1 : lowtide::index_or_none(front->front.chosen());
}

const char* lowtide_front_text(lowtide_front* front) {
  if (front == nullptr) return nullptr;
  return lowtide::cached(front->text, [&] { return front->front.text(); });
}

const char* lowtide_front_json(lowtide_front* front) {
  if (front == nullptr) return nullptr;
  return lowtide::cached(front->json, [&] { return front->front.json(); });
}

const char* lowtide_front_lines(lowtide_front* front) {
  if (front == nullptr) return nullptr;
  return lowtide::cached(front->lines, [&] { return front->front.lines(); });
}

// ---- sessions

lowtide_status lowtide_session_open(const lowtide_plan* plan, const char* options,
                                    lowtide_session** session) {
  return lowtide::guarded([&]() -> Status {
    if (plan == nullptr) return lowtide::missing("plan");
    if (session == nullptr) return lowtide::missing("session");
    LT_ASSIGN(const auto running, lowtide::parse_run_options(lowtide::text_of(options)));
    LT_ASSIGN(lowtide::Session opened, lowtide::Session::open(plan->plan, running));
    auto made = std::make_unique<lowtide_session>(lowtide_session{std::move(opened), {}});
    made->values[LOWTIDE_INPUTS] = made->session.inputs();
    made->values[LOWTIDE_PARAMETERS] = made->session.parameters();
    made->values[LOWTIDE_OUTPUTS] = made->session.outputs();
    *session = made.release();
    return {};
  });
}

void lowtide_session_free(lowtide_session* session) {
  delete session;
}

size_t lowtide_session_value_count(const lowtide_session* session, lowtide_role role) {
  const auto* values = lowtide::values_of(session, role);
  return values == nullptr ? 0 : values->size();
}

lowtide_status lowtide_session_value(const lowtide_session* session, lowtide_role role,
                                     size_t index, lowtide_value* value) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (value == nullptr) return lowtide::missing("value");
    const auto* values = lowtide::values_of(session, role);
    if (values == nullptr)
      return lowtide::error(ErrorCode::kUsage, "role " + std::to_string(role) +
                                                   " is none of inputs 0, parameters 1, outputs 2");
    LT_RETURN_IF_ERROR(lowtide::check_index(index, values->size()));
    const lowtide::ValueInfo& info = (*values)[index];
    *value = {info.name.c_str(), info.dtype.c_str(), info.dims.data(), info.dims.size(),
              lowtide::value_bytes(info)};
    return {};
  });
}

lowtide_status lowtide_session_set(lowtide_session* session, const char* name, const void* contents,
                                   size_t bytes) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (name == nullptr) return lowtide::missing("name");
    if (contents == nullptr && bytes > 0) return lowtide::missing("contents");
    return session->session.set(name, {static_cast<const std::byte*>(contents), bytes});
  });
}

lowtide_status lowtide_session_get(const lowtide_session* session, const char* name, void* contents,
                                   size_t bytes) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (name == nullptr) return lowtide::missing("name");
    if (contents == nullptr && bytes > 0) return lowtide::missing("contents");
    LT_ASSIGN(const std::vector<std::byte> found, session->session.get(name));
    if (found.size() != bytes)
      return lowtide::error(ErrorCode::kUsage, std::string("value '") + name + "' has " +
                                                   std::to_string(found.size()) +
                                                   " bytes; room for " + std::to_string(bytes) +
                                                   " was given");
    if (bytes > 0) std::memcpy(contents, found.data(), bytes);
    return {};
  });
}

lowtide_status lowtide_session_seed_inputs(lowtide_session* session) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    session->session.seed_inputs();
    return {};
  });
}

lowtide_status lowtide_session_run(lowtide_session* session, size_t steps) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    for (size_t step = 0; step < steps; ++step) LT_RETURN_IF_ERROR(session->session.run());
    return {};
  });
}

int64_t lowtide_session_arena_bytes(const lowtide_session* session) {
  return session == nullptr ? 0 : session->session.arena_bytes();
}

}  // extern "C"

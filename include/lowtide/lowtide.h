// Lowtide's C ABI: what a program in another language calls. Opaque handles, plain pointers and
// sizes, UTF-8 strings; no exception leaves any function. The C++ API is lowtide/api.h.
//
//     lowtide_model* model = NULL;
//     lowtide_plan* plan = NULL;
//     lowtide_session* session = NULL;
//     const char* options = "{\"dims\": {\"batch\": 1, \"seq\": 64}, \"training\": true}";
//     if (lowtide_model_read("gpt2.onnx", options, &model) != LOWTIDE_OK ||
//         lowtide_plan_make(model, "{\"train\": true}", &plan) != LOWTIDE_OK ||
//         lowtide_session_open(plan, NULL, &session) != LOWTIDE_OK)
//       fprintf(stderr, "%s\n", lowtide_last_error());
//
// Options are a JSON object, or NULL or "" for the defaults; the keys stand at each function and
// are the fields of the struct of that name in lowtide/api.h. An unknown key or a wrong type is
// LOWTIDE_USAGE.
//
// A function that can fail answers a status, and on failure leaves its out-parameters as they were;
// lowtide_last_error() then says in one line what is wrong (verification: one line per finding).
// Each handle that was made is freed once; NULL may be freed. A plan needs its model only while it
// is made, a session needs its plan only while it is opened. Different handles may be used from
// different threads at once, one handle by one thread at a time. Strings that a handle gives belong
// to it and live as long as it does. A NULL handle is LOWTIDE_USAGE where a status is answered,
// else it gives NULL or 0.
//
// Within one LOWTIDE_ABI_VERSION functions are added, never changed or taken away. Compare it with
// lowtide_abi_version() of the library that was loaded.
#ifndef LOWTIDE_LOWTIDE_H
#define LOWTIDE_LOWTIDE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LOWTIDE_API __attribute__((visibility("default")))
#else
#define LOWTIDE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LOWTIDE_ABI_VERSION 1

// Who can mend what went wrong; the numbers are the exit codes of the command line.
typedef int32_t lowtide_status;
// NOLINTBEGIN(readability-identifier-naming): as C names its constants
enum {
  LOWTIDE_OK = 0,
  LOWTIDE_INTERNAL = 1,     // a bug of Lowtide's, or out of memory
  LOWTIDE_USAGE = 2,        // an argument that makes no sense
  LOWTIDE_INFEASIBLE = 3,   // cannot be, with proof
  LOWTIDE_INPUT = 4,        // a file that cannot be read or written, malformed or unsupported
  LOWTIDE_LIMIT = 5,        // a limit ended before there was an answer
  LOWTIDE_VERIFICATION = 6  // a plan that does not hold what it claims
};
// NOLINTEND(readability-identifier-naming)

typedef struct lowtide_model lowtide_model;
typedef struct lowtide_plan lowtide_plan;
typedef struct lowtide_front lowtide_front;
typedef struct lowtide_cancel lowtide_cancel;
typedef struct lowtide_session lowtide_session;

LOWTIDE_API uint32_t lowtide_abi_version(void);
LOWTIDE_API const char* lowtide_version(void);  // "0.1.0"

// What the last failed call of this thread said; "" before there was one. Valid until the thread's
// next failed call.
LOWTIDE_API const char* lowtide_last_error(void);

// ---- models

// Options: "dims" (object: name to size), "training", "dropout" (true or false).
LOWTIDE_API lowtide_status lowtide_model_read(const char* path, const char* options,
                                              lowtide_model** model);
// A graph as text or as JSON (docs/formats.md, "Graph text" and "Graph JSON": what begins with a
// brace is JSON) and what messages call it; the same options, of which only "dims" counts.
LOWTIDE_API lowtide_status lowtide_model_parse(const char* text, const char* origin,
                                               const char* options, lowtide_model** model);
LOWTIDE_API void lowtide_model_free(lowtide_model* model);
// Its graph as text, and as JSON. NULL if there is no memory for it.
LOWTIDE_API const char* lowtide_model_text(lowtide_model* model);
LOWTIDE_API const char* lowtide_model_json(lowtide_model* model);
// The same graph with its samples (the first dimension of what is fed) in parts, as labels say:
// "4", or "2,HEAD:8" for more of them behind an op. Parts are called OP/partK; Slice, Concat and
// Add join them. For who runs the ops himself: "axes" in docs/ops.md.
LOWTIDE_API lowtide_status lowtide_model_in_parts(const lowtide_model* model, const char* labels,
                                                  lowtide_model** parted);
LOWTIDE_API const char* lowtide_model_name(const lowtide_model* model);
// Symbolic dimensions that still need a size, sorted. NULL where `index` is too large.
LOWTIDE_API size_t lowtide_model_free_dim_count(const lowtide_model* model);
LOWTIDE_API const char* lowtide_model_free_dim(const lowtide_model* model, size_t index);

// ---- plans

// Options: "train", "loss", "loss_output", "ignore_index", "keep_outputs", "optimizer",
// "learning_rate", "weight_decay", "momentum", "device", "costs_file", "costs_any_device",
// "cost_model", "budget_bytes", "budget", "slowdown", "allow", "forbid", "more_levers",
// "recompute", "reorder", "pieces", "sums", "rewrites" and "no_rewrites" (lists of names), "cuts"
// (a list of "OPS:AXIS:PARTS", as `lowtide plan --help` has it), "split", "no_mutations" and
// "without" (lists of names), "query_blocks", "strided_views", "swap", "swap_residents",
// "link_bytes_per_second", "effort", "prove", "threads", "seed", "dump_folder",
// "time_limit_seconds". A budget that order and recompute miss is tried again with all levers,
// unless an option speaks of levers or "more_levers" is false (api.h).
LOWTIDE_API lowtide_status lowtide_plan_make(const lowtide_model* model, const char* options,
                                             lowtide_plan** plan);
LOWTIDE_API lowtide_status lowtide_plan_load(const char* path, lowtide_plan** plan);
LOWTIDE_API void lowtide_plan_free(lowtide_plan* plan);
// A plan that was loaded is verified first.
LOWTIDE_API lowtide_status lowtide_plan_save(const lowtide_plan* plan, const char* path);
// Recomputes every claim from the plan alone. lowtide_plan_make has done so already.
LOWTIDE_API lowtide_status lowtide_plan_verify(const lowtide_plan* plan);

LOWTIDE_API int64_t lowtide_plan_peak_before_bytes(const lowtide_plan* plan);
LOWTIDE_API int64_t lowtide_plan_peak_bytes(const lowtide_plan* plan);
LOWTIDE_API int64_t lowtide_plan_lower_bound_bytes(const lowtide_plan* plan);
LOWTIDE_API int64_t lowtide_plan_arena_bytes(const lowtide_plan* plan);
LOWTIDE_API int32_t lowtide_plan_order_proven(const lowtide_plan* plan);  // 1 or 0
// The verdict, for people and with stable keys (docs/formats.md). NULL if there is no memory for
// it.
LOWTIDE_API const char* lowtide_plan_text(lowtide_plan* plan);
LOWTIDE_API const char* lowtide_plan_json(lowtide_plan* plan);

// ---- watching a search

// Where a search under a budget stands. Later versions may append fields.
typedef struct lowtide_progress {
  int64_t budget_bytes;        // the one that is searched
  double seconds;              // predicted, of the best plan so far; 0: none yet
  int64_t peak_bytes;          // of that plan
  double lower_bound_seconds;  // proven for every schedule within the budget
  double share;                // of its work that is done, from 0 to 1
  double unpacked_seconds;     // of a faster schedule that has no addresses yet; 0: none
  const char* stage;           // "runs", "transfers", "parts", or "proof" that nothing is faster
} lowtide_progress;

// Called now and then from the thread that plans; `progress` is valid only until it returns.
typedef void (*lowtide_watcher)(void* user, const lowtide_progress* progress);

// A flag that stops a search, which then gives the best plan so far (its JSON says "cut_short"), or
// LOWTIDE_LIMIT if there is none. Any thread, a watcher and a signal handler may raise it; it stays
// up. It is freed after the searches that look at it.
LOWTIDE_API lowtide_status lowtide_cancel_make(lowtide_cancel** cancel);
LOWTIDE_API void lowtide_cancel_free(lowtide_cancel* cancel);
LOWTIDE_API void lowtide_cancel_raise(lowtide_cancel* cancel);
LOWTIDE_API int32_t lowtide_cancel_raised(const lowtide_cancel* cancel);  // 1 or 0

// lowtide_plan_make under watch. `watcher` gets `user`; it and `cancel` may be NULL.
LOWTIDE_API lowtide_status lowtide_plan_make_watched(const lowtide_model* model,
                                                     const char* options, lowtide_watcher watcher,
                                                     void* user, const lowtide_cancel* cancel,
                                                     lowtide_plan** plan);

// ---- fronts: plans of one model for many budgets, found together

// Options: those of lowtide_plan_make, but for "budget_bytes"; of the sweep "budgets" (such as
// "40%..100%:7,900MiB"), "points", "choose". A watcher and a flag as above, or NULL.
LOWTIDE_API lowtide_status lowtide_front_make(const lowtide_model* model, const char* options,
                                              const char* sweep, lowtide_watcher watcher,
                                              void* user, const lowtide_cancel* cancel,
                                              lowtide_front** front);
LOWTIDE_API void lowtide_front_free(lowtide_front* front);

// What became of one budget; the JSON says more.
typedef struct lowtide_front_point_info {
  int64_t budget_bytes;
  const char* status;  // "optimal", "feasible", "limit" or "infeasible"
  int32_t found;       // 1: there is a plan; then `reason` is ""
  int64_t arena_bytes, peak_bytes;
  double seconds;              // predicted, of a step
  double lower_bound_seconds;  // proven for every schedule within the budget
  const char* reason;          // why there is no plan
} lowtide_front_point_info;

// Points have budgets that descend. The pointers in `point` belong to the front.
LOWTIDE_API size_t lowtide_front_point_count(const lowtide_front* front);
LOWTIDE_API lowtide_status lowtide_front_point(const lowtide_front* front, size_t index,
                                               lowtide_front_point_info* point);
// A copy of a point's plan, to be freed by the caller. LOWTIDE_USAGE where the point has none.
LOWTIDE_API lowtide_status lowtide_front_plan(const lowtide_front* front, size_t index,
                                              lowtide_plan** plan);
LOWTIDE_API int64_t lowtide_front_floor_bytes(const lowtide_front* front);  // proven
// Points by their index: where memory begins to cost more, and the one that was asked for. -1:
// none.
LOWTIDE_API int64_t lowtide_front_knee(const lowtide_front* front);
LOWTIDE_API int64_t lowtide_front_chosen(const lowtide_front* front);
// A table for people, and with stable keys (docs/formats.md) as one object or a line for each
// point.
LOWTIDE_API const char* lowtide_front_text(lowtide_front* front);
LOWTIDE_API const char* lowtide_front_json(lowtide_front* front);
LOWTIDE_API const char* lowtide_front_lines(lowtide_front* front);

// ---- sessions: one arena, and the steps that run in it

// Options: "seed", "model_folder", "seed_missing_weights", "unplanned", "lent",
// "threads", "slow_tier_folder", "link_bytes_per_second". A plan that was loaded is verified first.
LOWTIDE_API lowtide_status lowtide_session_open(const lowtide_plan* plan, const char* options,
                                                lowtide_session** session);
LOWTIDE_API void lowtide_session_free(lowtide_session* session);

typedef int32_t lowtide_role;
// NOLINTBEGIN(readability-identifier-naming)
enum {
  LOWTIDE_INPUTS = 0,      // fed for every step
  LOWTIDE_PARAMETERS = 1,  // updated in place by a training step
  LOWTIDE_OUTPUTS = 2      // there after the first step
};
// NOLINTEND(readability-identifier-naming)

typedef struct lowtide_value {
  const char* name;
  const char* dtype;    // "f32", "i64", ...
  const int64_t* dims;  // `rank` of them
  size_t rank;
  size_t bytes;  // of its contents, row-major
} lowtide_value;

LOWTIDE_API size_t lowtide_session_value_count(const lowtide_session* session, lowtide_role role);
// The pointers in `value` belong to the session.
LOWTIDE_API lowtide_status lowtide_session_value(const lowtide_session* session, lowtide_role role,
                                                 size_t index, lowtide_value* value);

// Row-major contents; `bytes` must be the value's.
LOWTIDE_API lowtide_status lowtide_session_set(lowtide_session* session, const char* name,
                                               const void* contents, size_t bytes);
LOWTIDE_API lowtide_status lowtide_session_get(const lowtide_session* session, const char* name,
                                               void* contents, size_t bytes);
// Fills every input that was not set with seeded values.
LOWTIDE_API lowtide_status lowtide_session_seed_inputs(lowtide_session* session);
// LOWTIDE_INPUT: a label is no class. Where the message says "was refused" the session is as before
// that step; where it says "failed" it was the last one (as with moves to slow memory).
LOWTIDE_API lowtide_status lowtide_session_run(lowtide_session* session, size_t steps);
LOWTIDE_API int64_t lowtide_session_arena_bytes(const lowtide_session* session);

#ifdef __cplusplus
}
#endif

#endif  // LOWTIDE_LOWTIDE_H

// Lowtide's public C++ API: read a model, plan it, verify the plan, run steps inside one arena,
// read results back.
//
//     const lowtide::ReadOptions sizes = {.dims = {{"batch", 1}, {"seq", 64}}, .training = true};
//     auto model = lowtide::Model::read("gpt2.onnx", sizes);
//     auto plan = lowtide::Plan::make(*model, {.train = true});
//     auto session = lowtide::Session::open(*plan);
//     session->seed_inputs();
//     session->run();
//     auto loss = session->get("loss");
//
// Every function that can fail answers a Result (lowtide/result.h) whose error is one line. Objects
// are movable, not copyable, and not thread-safe; different objects may be used from different
// threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lowtide/result.h"

#if defined(__GNUC__)
#define LOWTIDE_API __attribute__((visibility("default")))
#else
#define LOWTIDE_API
#endif

namespace lowtide {

struct ReadOptions {
  // Sizes of the model's symbolic dimensions.
  std::map<std::string, int64_t, std::less<>> dims = {};
  bool training = false;  // BatchNormalization in its training form, Dropout active
  bool dropout = true;    // with training: false makes Dropout the identity
};

// A computation graph as a door read it. Symbolic dimensions that `dims` does not name stay
// symbolic.
class LOWTIDE_API Model {
 public:
  // An ONNX file, a program that torch.export.save wrote (".pt2"), or a graph as data (".graph",
  // ".json"), of which `training` and `dropout` change nothing. Error: kInput.
  static Result<Model> read(const std::string& path, const ReadOptions& options = {});
  // A graph as text or JSON (docs/formats.md); `origin` stands for its file in messages.
  static Result<Model> parse(std::string_view text, const std::string& origin,
                             const ReadOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::string name() const, text() const, json() const;   // text, json: its graph, for parse()
  std::vector<std::string> free_dims() const;             // symbols that still need a size, sorted
  Result<Model> in_parts(std::string_view labels) const;  // its samples cut, as `--split` has it

  struct State;
  const State& state() const { return *state_; }

 private:
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where a search under a budget stands.
struct PlanProgress {
  int64_t budget_bytes = 0;        // the one that is searched
  double seconds = 0;              // predicted, of the best plan so far; 0: none yet
  int64_t peak_bytes = 0;          // of that plan
  double lower_bound_seconds = 0;  // proven for every schedule within the budget
  double share = 0;                // of its work that is done, from 0 to 1
  // Predicted, of a faster schedule whose bytes keep the budget while it has no addresses yet,
  // which may need more; 0: none.
  double unpacked_seconds = 0;
  std::string_view stage = "runs";  // what is searched for: "runs", "transfers", "parts", a "proof"
};

struct PlanOptions {
  bool train = false;                  // append loss, gradients and updates
  std::string loss = "cross-entropy";  // or "mse", or "model": the output is the loss already
  std::string loss_output = {};        // what the loss is of; empty: the first output of floats
  std::optional<int64_t> ignore_index = {};  // the label that cross-entropy leaves out
  bool keep_outputs = false;                 // the model's outputs stay results of the step
  std::string optimizer = "adamw";           // or "sgd"
  double learning_rate = 1e-3, weight_decay = 0.01;
  double momentum = 0.9;                                // sgd
  std::string device = "cpu", cost_model = "roofline";  // a profile's name or file; or "tiles"
  std::string costs_file = {};  // measured kernel times (run --measure) in place of predicted ones
  bool costs_any_device = false;  // take them also where they were measured on another device
  std::optional<int64_t> budget_bytes = {};  // of the whole device; or one of these two:
  std::string budget = {};  // "60%" (of the arena that needs none), "floor" (least found), "2GiB"
  std::optional<double> slowdown = {};  // least memory in so much more time than each op once (0.1)
  int threads = 0;  // for which the CPU kernels are planned; 0: as many as the machine has
  // Levers. "split,recompute,swap,reorder,rewrite": only these, or all but these.
  std::string allow = {}, forbid = {};
  bool more_levers = true;  // Plan::make, where no option speaks of them: docs/formats.md
  // Under a budget: ops may run again; buffers may move to slow memory, if `swap` names a slow tier
  // of the device profile or `link` gives its speed ("host=2GiB,file": the best tier first).
  bool recompute = true, swap_residents = true;  // parameters, state and batch may move, too
  bool reorder = true;                           // off: ops stay in the given order
  bool pieces = true;         // a Concat copies nothing whose operands can lie where they belong
  bool strided_views = true;  // nor a Transpose, Expand or Slice, where that costs nothing
  bool sums = true;           // what contributes to a sum of gradients may come in any order
  std::vector<std::string> rewrites = {}, no_rewrites = {}, no_mutations = {}, without = {};
  // "OPS:AXIS:PARTS": ops in parts, as `lowtide plan --help` has it (of `without`, too).
  std::vector<std::string> cuts = {};
  std::string split = {};  // along the samples: "2"; "2,norm:8", in 8 behind op norm; best: "auto"
  int64_t query_blocks = 1;  // of each attention, so many rows of its scores after the other
  std::string swap = {};     // names of tiers, as above; empty: none
  std::optional<double> link_bytes_per_second = {};  // each way; only for a single tier
  double effort = 10;  // about in core seconds, counted in work; with parts beside trials
  // How hard to prove that no schedule within the budget is much faster, in the same measure, where
  // nothing may move. The proof becomes a part of the plan, up to some megabytes of it.
  double prove = 0;
  uint64_t seed = 0;                // of the planner's tie-breaking
  std::string dump_folder = {};     // write the bare problems here; empty: nowhere
  double time_limit_seconds = 1e9;  // wall time; then the best so far, and the verdict says so
  const std::atomic<bool>* cancel = nullptr;  // true: the same; any thread may set it
  // Called now and then from the planning thread; may be empty.
  std::function<void(const PlanProgress&)> progress = {};
};

class LOWTIDE_API Plan {
 public:
  // Plans for the kernels of this library's CPU runtime, or (any other device) for a profile
  // without kernels. It is verified before it is handed out. Error: kInput, kUsage, kInfeasible
  // (budget), kLimit, kInternal (the verifier refuses it: a bug; the message names the folder that
  // a bug report needs).
  static Result<Plan> make(const Model& model, const PlanOptions& options = {});
  static Result<Plan> load(const std::string& path);
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  // Verifies first what was loaded. Error: kVerification as verify(); the file's own otherwise.
  Status save(const std::string& path) const;
  // Recomputes every claim from the plan alone. Error: kVerification, with one line per finding.
  Status verify() const;

  int64_t peak_before_bytes() const;  // the ops in their given order
  int64_t peak_bytes() const;
  int64_t lower_bound_bytes() const;  // proven
  int64_t arena_bytes() const;
  bool order_proven() const;
  std::string text() const;  // the verdict, for people
  std::string json() const;  // the same, with stable keys (docs/formats.md)

  struct State;
  const State& state() const { return *state_; }

 private:
  friend class Front;
  friend struct PlanAccess;  // of this library's other folders
  explicit Plan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct SweepOptions {
  // Budgets, one by one or as ranges, separated by commas: "40%..100%", "600MiB..1GiB:5",
  // "floor..100%", "60%,80%,900MiB". Per cent are of the arena that needs no budget; "floor" is
  // what every schedule is proven to need. Where a range begins below the floor, its first budget
  // is kept, to be refused with the reason, and the others lie between the floor and its end.
  std::string budgets = "40%..100%";
  int points = 10;  // of a range that does not say how many, both ends included
  // One more budget, whose plan is the chosen one. Empty: the knee is chosen, or where there is
  // none the plan with the least arena.
  std::string choose = {};
};

// What became of one budget.
struct FrontPoint {
  int64_t budget_bytes = 0;
  std::string status;  // "optimal", "feasible", "limit" or "infeasible"
  bool found = false;  // there is a plan; what follows up to `reason` is about it
  int64_t arena_bytes = 0, peak_bytes = 0;
  double seconds = 0;                          // predicted, of a step
  double lower_bound_seconds = 0;              // proven for every schedule within the budget
  double extra = 0;                            // seconds over every op once, in one part, minus 1
  double bound_extra = 0;                      // the same of the bound
  double gap = 0;                              // seconds over the bound, minus 1
  int64_t reruns = 0;                          // runs of ops beyond the first of each
  int64_t stored_bytes = 0, loaded_bytes = 0;  // to and from slow memory
  double exposed_seconds = 0;                  // waited for that
  std::string reason, split = {};              // why there is no plan; in how many parts ops run
};

// Plans of one model for many budgets, found together. With less memory no plan is faster and none
// has a larger arena than with more.
class LOWTIDE_API Front {
 public:
  // `options.effort` and `options.time_limit_seconds` are those of each budget; it has no budget of
  // its own. Error: as Plan::make, but for single budgets that were missed; kInfeasible or kLimit
  // where all were missed.
  static Result<Front> make(const Model& model, const PlanOptions& options = {},
                            const SweepOptions& sweep = {});
  Front(Front&&) noexcept;
  Front& operator=(Front&&) noexcept;
  ~Front();

  const std::vector<FrontPoint>& points() const;  // budgets descending
  const Plan* plan(size_t point) const;           // null where none was found
  const Plan& unlimited() const;                  // without a budget
  int64_t peak_before_bytes() const;              // the ops in their given order
  int64_t floor_bytes() const;                    // proven: no schedule needs less
  double once_seconds() const;                    // predicted, of every op once
  // The point below which memory costs more than it did above; none where the front has no bend.
  std::optional<size_t> knee() const;
  // None where the budget that was to be chosen was missed.
  std::optional<size_t> chosen() const;
  std::string text() const;   // a table, for people
  std::string json() const;   // the same, with stable keys (docs/formats.md)
  std::string lines() const;  // JSON, one point a line

  struct State;
  const State& state() const { return *state_; }

 private:
  explicit Front(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A value of the plan that can be set or read by name.
struct ValueInfo {
  std::string name, dtype;  // "f32", "i64", ...
  std::vector<int64_t> dims;
};

struct RunOptions {
  uint64_t seed = 0;              // of parameters without weights, and of dropout
  std::string model_folder = {};  // where external weight files lie
  // Without a model folder: draw its weights from the seed; else such a plan is refused (kUsage).
  bool seed_missing_weights = false;
  bool unplanned = false;  // a buffer per value, freed after its last use, in the given order
  std::vector<std::string> lent = {};  // values whose memory the caller lends (lowtide/lending.h)
  int threads = 0;                     // 0: as many as the plan was made for
  // Where tensors go that the plan moves off the device: files without a name in this folder;
  // empty: host memory outside the arena. "file=FOLDER": only what the plan moves to its slow tier
  // 'file' goes there, the rest to memory.
  std::string slow_tier_folder = {};
  // Slows those moves down to this many bytes per second and direction; 0: as fast as they go.
  double link_bytes_per_second = 0;
};

// What a step moved between the arena and slow memory.
struct StepTransfers {
  int64_t stored_bytes = 0, loaded_bytes = 0;
  double transfer_seconds = 0;  // of both directions, from start to end of each move
  double exposed_seconds = 0;   // in which ops waited for them
  double hidden_share = 1;      // of transfer_seconds, from 0 to 1; 1 where nothing moved
};

// One arena and the steps that run in it.
class LOWTIDE_API Session {
 public:
  // A plan that was loaded is verified first. Error: kVerification, and what running it needs and
  // lacks.
  static Result<Session> open(const Plan& plan, const RunOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  std::vector<ValueInfo> inputs() const;  // fed for every step: data, labels
  std::vector<ValueInfo> parameters() const;
  std::vector<ValueInfo> outputs() const;  // in the order of the model

  // Row-major contents; the size must match. Error: kUsage, naming the value and both sizes.
  Status set(std::string_view name, std::span<const std::byte> contents);
  Result<std::vector<std::byte>> get(std::string_view name) const;
  template <class T>
  Status write(std::string_view name, const std::vector<T>& contents) {
    return set(name, std::as_bytes(std::span(contents)));
  }
  // Fills every input that was not set with seeded values.
  void seed_inputs();

  // One step. Error: a move to slow memory failed, or a label is no class (kInput). One that "was
  // refused" changed nothing; else it was the last, and get() gives what is whole, old or new.
  Status run();
  StepTransfers transfers() const;  // of the last step
  int64_t arena_bytes() const;      // unplanned: the high-water mark so far

  struct State;
  State& state() const { return *state_; }

 private:
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "0.1.0".
LOWTIDE_API std::string_view version();

}  // namespace lowtide

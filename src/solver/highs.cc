// One thread and a fixed seed. HiGHS never sees the clock: a callback looks at the allowance, at
// places that the search comes by in any case, so that it takes the same way with or without.

#include "solver/highs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "solver/sparse_columns.h"

namespace lowtide::solver {
namespace {

constexpr int kError = -1;                               // of calls
constexpr int kByColumn = 1, kMinimise = 1;              // of programs
constexpr int kSimplexInterrupt = 1, kMipInterrupt = 6;  // callbacks
constexpr int kOptimal = 7, kInfeasibleProgram = 8;      // of models
constexpr int kUnboundedOrInfeasible = 9, kUnboundedProgram = 10;
constexpr int kTimeLimit = 13, kIterationLimit = 14, kUnknown = 15, kSolutionLimit = 16,
              kInterrupted = 17;
constexpr int kFeasiblePoint = 2;  // of solutions; 0: there is none

struct Supervision {
  const HighsLibrary& library;
  Allowance& allowance;
};

void look(int type, const char* /*message*/, const void* data, HighsReply* reply, void* user) {
  const Supervision& watch = *static_cast<const Supervision*>(user);
  bool spent = !watch.allowance.work.look();
  if (type == kMipInterrupt) {
    const void* item = watch.library.callback_item(data, "mip_total_lp_iterations");
    if (item != nullptr)
      spent |= *static_cast<const int64_t*>(item) > watch.allowance.work.steps_remaining();
  }
  if (reply != nullptr && spent) reply->user_interrupt = 1;
}

// A model within HiGHS. Calls that fail are remembered.
class HighsModel {
 public:
  explicit HighsModel(const HighsLibrary& library)
      : library_(library), model_(library.create(), library.destroy) {}

  void* get() const { return model_.get(); }
  bool failed() const { return failed_; }
  void note(int status) { failed_ |= status == kError; }

  void set(const char* option, bool value) {
    note(library_.set_bool(get(), option, value ? 1 : 0));
  }
  void set(const char* option, int value) { note(library_.set_int(get(), option, value)); }
  void set(const char* option, double value) { note(library_.set_double(get(), option, value)); }
  void set(const char* option, const char* value) {
    note(library_.set_string(get(), option, value));
  }

  void load(const Program& program) {
    const SparseColumns a(program, kInfinity);
    std::vector<int> integer;
    for (const Column& column : program.columns) integer.push_back(column.integer ? 1 : 0);
    note(library_.pass_mip(get(), static_cast<int>(program.columns.size()),
                           static_cast<int>(program.rows.size()), static_cast<int>(a.row.size()),
                           kByColumn, kMinimise, program.constant, a.cost.data(), a.lower.data(),
                           a.upper.data(), a.row_lower.data(), a.row_upper.data(), a.start.data(),
                           a.row.data(), a.value.data(), integer.data()));
  }

  int status() const { return library_.model_status(get()); }
  int int_info(const char* name) const {
    int value = 0;
    library_.get_int(get(), name, &value);
    return value;
  }
  int64_t int64_info(const char* name) const {
    int64_t value = 0;
    library_.get_int64(get(), name, &value);
    return value;
  }
  double double_info(const char* name) const {
    double value = -kInfinity;
    library_.get_double(get(), name, &value);
    return value;
  }

 private:
  const HighsLibrary& library_;
  std::unique_ptr<void, void (*)(void*)> model_;
  bool failed_ = false;
};

void set_options(const Allowance& allowance, HighsModel& model) {
  model.set("output_flag", false);
  model.set("threads", 1);
  model.set("parallel", "off");
  model.set("random_seed", 0);
  model.set("solver", "simplex");
  model.set("simplex_iteration_limit", allowance.iterations());
  model.set("mip_max_nodes", allowance.nodes());
  model.set("mip_abs_gap", allowance.absolute_gap);
  model.set("mip_rel_gap", allowance.relative_gap);
}

Result<Answer::End> end_of(int status) {
  switch (status) {
    case kOptimal:
      return Answer::End::kDone;
    case kInfeasibleProgram:
      return Answer::End::kInfeasible;
    case kUnboundedOrInfeasible:
    case kUnboundedProgram:
      return Answer::End::kUnbounded;
    case kTimeLimit:
    case kIterationLimit:
    case kUnknown:
    case kSolutionLimit:
    case kInterrupted:
      return Answer::End::kStopped;
    default:
      return error(ErrorCode::kInternal,
                   fmt::format("HiGHS gave up on a program: its model status is {}", status));
  }
}

void read_solution(const HighsLibrary& library, const Program& program, const HighsModel& model,
                   Answer& answer) {
  std::vector<double> point(program.columns.size()), reduced(point.size());
  std::vector<double> sums(program.rows.size()), duals(sums.size());
  library.get_solution(model.get(), point.data(), reduced.data(), sums.data(), duals.data());
  answer.has_point = model.int_info("primal_solution_status") == kFeasiblePoint;
  if (answer.has_point) answer.point = std::move(point);
  if (program.has_integers()) {
    answer.bound = model.double_info("mip_dual_bound");
  } else if (model.int_info("dual_solution_status") != 0) {
    answer.duals = std::move(duals);
    answer.reduced_costs = std::move(reduced);
  }
}

}  // namespace

Result<Answer> solve_with_highs(const HighsLibrary& library, const Program& program,
                                Allowance& allowance) {
  Answer answer;
  if (!allowance.work.look() || allowance.work.steps_remaining() == 0) return answer;
  HighsModel model(library);
  set_options(allowance, model);
  model.load(program);
  if (!allowance.start.empty())
    model.note(
        library.set_solution(model.get(), allowance.start.data(), nullptr, nullptr, nullptr));
  Supervision watch{library, allowance};
  model.note(library.set_callback(model.get(), look, &watch));
  model.note(library.start_callback(model.get(), kSimplexInterrupt));
  model.note(library.start_callback(model.get(), kMipInterrupt));
  if (model.failed())
    return error(ErrorCode::kInternal,
                 fmt::format("HiGHS {} does not take the program or an option", library.version));
  library.run(model.get());
  const int iterations = model.int_info("simplex_iteration_count");
  allowance.work.spend(std::max(0, iterations));
  LT_ASSIGN(answer.end, end_of(model.status()));
  answer.nodes = std::max<int64_t>(0, model.int64_info("mip_node_count"));
  if (answer.end != Answer::End::kInfeasible && answer.end != Answer::End::kUnbounded)
    read_solution(library, program, model, answer);
  return answer;
}

}  // namespace lowtide::solver

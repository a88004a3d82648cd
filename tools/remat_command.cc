// remat: a bare problem under a byte budget. What fits is printed with its time and the proven
// bound; what cannot fit, with what stands in the way and the smallest peak that was found. By
// Lowtide's search, or by a published method (--method), which proves nothing.
#include "tools/remat_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "baselines/baselines.h"
#include "order/order.h"
#include "plan/remat_text.h"
#include "plan/schedule_text.h"
#include "plan/sequence_simulator.h"
#include "plan/sequence_text.h"
#include "remat/bounds/floor.h"
#include "remat/ideas.h"
#include "remat/joint.h"
#include "remat/remat.h"
#include "tools/flags.h"
#include "tools/remat_program.h"
#include "tools/watch.h"

namespace lowtide::tools {
namespace {

constexpr const char* kSearch = "search";  // --method: Lowtide's own

struct RematFlags {
  std::string problem, output, budget, method = kSearch;
  ProgramFlags program;
  remat::JointOptions options;
  bool has_unit_limit = false;  // by --max-units
  std::vector<std::string> without;
  double prove = 0;  // seconds
  bool json = false, progress = false;
};

using Solver = std::function<remat::RematOutcome(const plan::ScheduleProblem&)>;

Result<plan::ScheduleProblem> read_problem(const RematFlags& flags) {
  LT_ASSIGN(const std::string text, read_file(flags.problem));
  LT_ASSIGN(plan::ScheduleProblem problem, text.starts_with("lowtide-schedule")
                                               ? plan::parse_schedule_problem(text, flags.problem)
                                               : plan::parse_remat_file(text, flags.problem));
  if (!flags.budget.empty()) {
    LT_ASSIGN(problem.budget_bytes, parse_bytes(flags.budget, "--budget"));
  } else if (!problem.budget_bytes) {
    return error(ErrorCode::kUsage,
                 fmt::format("--budget is missing, and {} has none; give one such as 450MiB",
                             flags.problem));
  }
  return problem;
}

constexpr int kTries = 6;  // for the smallest peak, each with a share of the work

// The smallest peak that short searches find, between the floor and the best order's.
int64_t smallest_peak(plan::ScheduleProblem problem, int64_t floor, const Limits& limits,
                      const Solver& solve) {
  const plan::ScheduleOutcome order = order::solve(problem, {.limits = {.max_units = 32'000'000}});
  int64_t least = order.peak_bytes, below = floor - 1;
  for (int i = 0; i < kTries && below + 1 < least && !limits.cancelled(); ++i) {
    problem.budget_bytes = i == 0 ? floor : below + (least - below) / 2;
    const remat::RematOutcome outcome = solve(problem);
    if (outcome.sequence.empty()) {
      below = *problem.budget_bytes;
    } else {
      least = std::min(least, outcome.peak_bytes);
    }
  }
  return least;
}

Limits shortened(Limits limits) {
  limits.max_units = std::max<int64_t>(1, limits.max_units / (2 * kTries));
  limits.max_seconds /= 2 * kTries;
  return limits;
}

std::string label(std::string_view what, uint32_t index, const std::string& name) {
  return name.empty() ? fmt::format("{} {}", what, index) : fmt::format("'{}'", name);
}

// What stands in the way of a smaller budget.
struct Obstacle {
  remat::Floor floor;
  int64_t smallest_peak_bytes = 0;

  std::string op(const plan::ScheduleProblem& problem) const {
    return floor.op.valid() ? label("op", floor.op.index(), problem.ops[floor.op].name)
                            : std::string("no op, but what is resident");
  }
  // Values at the floor, largest first.
  std::vector<std::pair<std::string, int64_t>> tensors(const plan::ScheduleProblem& problem) const {
    std::vector<plan::SchedValueId> values = floor.present;
    values.insert(values.end(), floor.kept.begin(), floor.kept.end());
    std::stable_sort(values.begin(), values.end(), [&](auto a, auto b) {
      return problem.values[a].bytes > problem.values[b].bytes;
    });
    std::vector<std::pair<std::string, int64_t>> result;
    for (plan::SchedValueId v : values)
      result.emplace_back(label("value", v.index(), problem.values[v].name),
                          problem.values[v].bytes);
    return result;
  }
};

double percent_above(double value, double base) {
  return base > 0 ? 100 * (value - base) / base : 0;
}

void print_json(const RematFlags& flags, const plan::ScheduleProblem& problem,
                const remat::RematOutcome& outcome,
                const std::optional<plan::SequenceProfile>& profile, double once_seconds,
                const std::optional<Obstacle>& obstacle,
                const std::optional<SolvedProgram>& solved) {
  nlohmann::ordered_json out;
  out["status"] = plan::name(outcome.status);
  out["method"] = flags.method;
  out["budget_bytes"] = *problem.budget_bytes;
  if (profile) {
    out["peak_bytes"] = profile->peak_bytes;
    out["cost"] = profile->seconds;
    out["extra_percent"] = percent_above(profile->seconds, once_seconds);
    out["reruns"] = profile->reruns;
  }
  out["once_cost"] = once_seconds;
  out["lower_bound_cost"] = outcome.lower_bound_seconds;
  out["lower_bound_extra_percent"] = percent_above(outcome.lower_bound_seconds, once_seconds);
  if (profile && problem.link) {
    out["transfer_seconds"] = profile->transfer_seconds;
    out["exposed_seconds"] = profile->exposed_seconds;
    out["stored_bytes"] = profile->stored_bytes;
    out["loaded_bytes"] = profile->loaded_bytes;
  }
  if (obstacle) {
    out["floor_bytes"] = obstacle->floor.bytes;
    if (obstacle->floor.op.valid()) out["floor_op"] = obstacle->floor.op.index();
    out["smallest_peak_bytes"] = obstacle->smallest_peak_bytes;
  }
  if (solved) out["program"] = as_json(*solved);
  out["seconds"] = outcome.work.seconds;
  out["cut_short"] = outcome.cut_short;
  out["work_units"] = outcome.work.units;
  out["edits"] = outcome.edits;
  put(out.dump(2) + "\n");
}

void print_text(const plan::ScheduleProblem& problem, const remat::RematOutcome& outcome,
                const std::optional<plan::SequenceProfile>& profile, double once_seconds) {
  std::string text = fmt::format("{}: ", plan::name(outcome.status));
  if (profile) {
    const double extra = percent_above(profile->seconds, once_seconds);
    const double bound = percent_above(outcome.lower_bound_seconds, once_seconds);
    text += fmt::format("peak {} bytes of {}, {:.6f} s, {:.2f} % extra (at least {:.2f} %), ",
                        profile->peak_bytes, *problem.budget_bytes, profile->seconds, extra, bound);
    text += fmt::format("{} reruns, ", profile->reruns);
    if (profile->transfer_seconds > 0)
      text += fmt::format("{:.6f} s of transfers ({:.6f} s exposed), ", profile->transfer_seconds,
                          profile->exposed_seconds);
  }
  text += fmt::format("{:.3f} s, {} units of work{}\n", outcome.work.seconds, outcome.work.units,
                      outcome.cut_short ? ", cut short" : "");
  put(text);
}

bool without(const RematFlags& flags, std::string_view idea) {
  return std::find(flags.without.begin(), flags.without.end(), idea) != flags.without.end();
}

// What schedules may not do here, for messages about all of them.
std::string restriction(const RematFlags& flags) {
  std::string text;
  for (const char* idea : {"recompute", "transfers"})
    if (without(flags, idea))
      text += fmt::format("{}{}", text.empty() ? " without " : " and ", idea);
  return text;
}

Status as_status(const RematFlags& flags, const plan::ScheduleProblem& problem,
                 const remat::RematOutcome& outcome, const std::optional<Obstacle>& obstacle) {
  if (!obstacle) return {};
  std::string tensors;
  int listed = 0;
  for (const auto& [name, bytes] : obstacle->tensors(problem)) {
    if (++listed > 3) break;
    tensors += fmt::format("{}{} {}", tensors.empty() ? " with " : ", ", name, bytes);
  }
  const std::string found = fmt::format(
      "; every schedule needs at least {} bytes, for {}{}; the smallest peak found is {} bytes",
      obstacle->floor.bytes, obstacle->op(problem), tensors, obstacle->smallest_peak_bytes);
  if (outcome.status == plan::SolveStatus::kInfeasible)
    return error(ErrorCode::kInfeasible,
                 fmt::format("{}: no schedule{} fits in --budget {} bytes{}", flags.problem,
                             restriction(flags), *problem.budget_bytes, found));
  if (flags.method != kSearch)
    return error(
        ErrorCode::kLimit,
        fmt::format("{}: --method {} finds no schedule{} within --budget {} bytes{}", flags.problem,
                    flags.method, restriction(flags), *problem.budget_bytes, found));
  return error(ErrorCode::kLimit,
               fmt::format("{}: no schedule{} was found within --budget {} bytes, and none ruled "
                           "out{}; raise --max-units or the budget",
                           flags.problem, restriction(flags), *problem.budget_bytes, found));
}

remat::JointOptions search_options(const RematFlags& flags) {
  remat::JointOptions options = flags.options;
  for (const remat::NamedIdea& idea : remat::kIdeas)
    if (without(flags, idea.name)) idea.switch_off(options);
  if (flags.prove > 0) options.remat.proof_units = units_in(flags.prove);
  // The search spreads itself over its work, so a time alone says how much of it.
  Limits& limits = options.remat.limits;
  if (!flags.has_unit_limit && limits.max_seconds < 1e6)
    limits.max_units = units_in(limits.max_seconds);
  return options;
}

// By the search, with progress while it looks for the answer.
remat::RematOutcome search(const RematFlags& flags, const plan::ScheduleProblem& problem,
                           remat::JointOptions options) {
  ProgressLine line;
  if (flags.progress || line.terminal())
    options.remat.progress = [&line](const plan::Progress& p) {
      line.show({p.budget_bytes, p.seconds, p.peak_bytes, p.lower_bound_seconds, p.share,
                 p.unpacked_seconds, plan::name(p.stage)});
    };
  return remat::solve_joint(problem, options);
}

// By a published method. Each op once is all that is known of the time.
remat::RematOutcome by_method(const RematFlags& flags, const plan::ScheduleProblem& problem,
                              const Limits& limits) {
  const auto& names = baselines::kMethodNames;
  const auto method = std::find(names.begin(), names.end(), flags.method) - names.begin();
  const baselines::BaselineOutcome found =
      baselines::solve(problem, static_cast<baselines::Method>(method), {.limits = limits});
  remat::RematOutcome outcome;
  outcome.status = found.status;
  outcome.sequence = found.sequence;
  outcome.peak_bytes = found.peak_bytes;
  outcome.seconds = found.seconds;
  for (const plan::SchedOp& op : problem.ops) outcome.lower_bound_seconds += op.seconds;
  outcome.work = found.work;
  outcome.cut_short = found.work.timed_out;
  return outcome;
}

Limits method_limits(const RematFlags& flags, const Limits& limits) {
  if (flags.has_unit_limit || limits.max_seconds < 1e6) return limits;
  return limits.with_units(baselines::BaselineOptions().limits.max_units);
}

Status run_remat_command(const RematFlags& flags) {
  LT_ASSIGN(plan::ScheduleProblem problem, read_problem(flags));
  const InterruptGuard guard;
  remat::JointOptions options = search_options(flags);
  options.remat.limits.cancel = &guard.raised();
  ProgramFlags of_program = flags.program;
  of_program.problem = flags.problem;
  of_program.has_transfers = !without(flags, "transfers");
  LT_ASSIGN(const auto solved, take_program(of_program, problem, options.remat.limits));
  const bool is_search = flags.method == kSearch;
  if (!is_search) {
    options.remat.limits = method_limits(flags, options.remat.limits);
    if (without(flags, "transfers")) plan::forbid_transfers(problem);
  }
  remat::RematOutcome outcome =
      is_search ? search(flags, problem, options) : by_method(flags, problem, options.remat.limits);
  double once_seconds = 0;
  for (const plan::SchedOp& op : problem.ops) once_seconds += op.seconds;
  std::optional<plan::SequenceProfile> profile;
  std::optional<Obstacle> obstacle;
  if (!outcome.sequence.empty() ||
      (problem.ops.empty() && problem.resident_bytes <= *problem.budget_bytes)) {
    LT_ASSIGN(profile, plan::simulate_sequence(problem, outcome.sequence));
  } else {
    obstacle.emplace().floor = remat::floor_of(problem);
    if (obstacle->floor.bytes > *problem.budget_bytes)
      outcome.status = plan::SolveStatus::kInfeasible;
    options.remat.limits = shortened(options.remat.limits);
    options.remat.proof_units = 0;
    const auto solve = [&](const plan::ScheduleProblem& p) {
      return is_search ? remat::solve_joint(p, options) : by_method(flags, p, options.remat.limits);
    };
    obstacle->smallest_peak_bytes =
        smallest_peak(problem, obstacle->floor.bytes, options.remat.limits, solve);
  }
  if (flags.json) {
    print_json(flags, problem, outcome, profile, once_seconds, obstacle, solved);
  } else {
    print_text(problem, outcome, profile, once_seconds);
    if (solved) put(as_text(*solved));
  }
  if (profile && !flags.output.empty())
    LT_RETURN_IF_ERROR(write_file_atomically(flags.output, print(outcome.sequence) + "\n"));
  return as_status(flags, problem, outcome, obstacle);
}

// A published method takes a problem, a budget and limits; what speaks of the search is refused.
Status check_method(const CLI::App& command, const RematFlags& flags) {
  if (flags.method == kSearch) return {};
  for (const char* flag : {"--program", "--solve", "--prove", "--seed", "--threads", "--progress"})
    if (command.count(flag) > 0)
      return error(ErrorCode::kUsage, fmt::format("{} is of --method search; --method {} has none",
                                                  flag, flags.method));
  for (const std::string& idea : flags.without)
    if (idea != "transfers")
      return error(ErrorCode::kUsage,
                   fmt::format("--without {} is of --method search; --method {} can do without "
                               "transfers only",
                               idea, flags.method));
  return {};
}

}  // namespace

void add_remat_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RematFlags>();
  CLI::App* command = app.add_subcommand(
      "remat", "Solve a bare problem under a byte budget (.remat or a lowtide schedule problem)");
  command->add_option("problem", flags->problem, "problem file")->required()->check(file_name());
  command->add_option("--budget", flags->budget,
                      "bytes of the whole device, such as 450MiB; default: the problem's own");
  command->add_option("-o,--output", flags->output, "write the op numbers in the order run here")
      ->check(file_name());
  add_program_flags(command, flags->program);
  std::vector<std::string> methods{kSearch};
  methods.insert(methods.end(), baselines::kMethodNames.begin(), baselines::kMethodNames.end());
  command
      ->add_option("--method", flags->method,
                   "Lowtide's search, or a published method to compare with: chen (checkpoints of "
                   "segments), dtr (dynamic rematerialization), xla (its pass), pofo (a chain)")
      ->check(one_of(methods));
  CLI::Option* max_units =
      command->add_option("--max-units", flags->options.remat.limits.max_units, kMaxUnitsHelp);
  max_units->check(whole_number(1));
  command
      ->add_option("--time-limit", flags->options.remat.limits.max_seconds,
                   "of wall time; without --max-units, also how much work")
      ->type_name("SECONDS")
      ->default_str("none")
      ->check(real_number({.above = true}));
  command
      ->add_option("--prove", flags->prove,
                   "for about so many seconds of one core, after the search, that nothing is much "
                   "faster; without transfers")
      ->type_name("SECONDS")
      ->check(real_number({}));
  command->add_option("--seed", flags->options.remat.seed, "of the search")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()));
  command->add_option("--threads", flags->options.remat.threads, "searches at once; same answer")
      ->check(whole_number(1, kMostThreads));
  std::vector<std::string> ideas;
  for (const remat::NamedIdea& idea : remat::kIdeas) ideas.emplace_back(idea.name);
  command
      ->add_option("--without", flags->without,
                   fmt::format("ideas to switch off: {}", fmt::join(ideas, ", ")))
      ->type_name("IDEA")
      ->default_str("")
      ->delimiter(',')
      ->check(one_of(ideas));
  add_progress_flag(command, flags->progress);
  command->add_flag("--json", flags->json, "print the outcome as JSON");
  command->callback([flags, command, max_units, &action] {
    flags->has_unit_limit = max_units->count() > 0;
    action = [flags, command]() -> Status {
      LT_RETURN_IF_ERROR(check_method(*command, *flags));
      return run_remat_command(*flags);
    };
  });
}

}  // namespace lowtide::tools

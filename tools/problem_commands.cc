// order, pack, remat: bare problems, for people who bring their own.
#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/file.h"
#include "order/order.h"
#include "pack/pack.h"
#include "plan/pack_text.h"
#include "plan/schedule_text.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/remat_command.h"

namespace lowtide::tools {
namespace {

// `value` is absent where there is no solution.
void print_outcome(const char* measure, plan::SolveStatus status, std::optional<int64_t> value,
                   int64_t bound, const plan::SolveWork& work, bool json) {
  if (json) {
    nlohmann::ordered_json out;
    out["status"] = plan::name(status);
    if (value) out[fmt::format("{}_bytes", measure)] = *value;
    out["lower_bound_bytes"] = bound;
    out["seconds"] = work.seconds;
    out["work_units"] = work.units;
    put(out.dump(2) + "\n");
    return;
  }
  std::string text = fmt::format("{}: ", plan::name(status));
  if (value) text += fmt::format("{} {} bytes, ", measure, *value);
  text += fmt::format("lower bound {} bytes, ", bound);
  if (value && bound > 0)
    text += fmt::format("gap {:.2f} %, ",
                        100.0 * static_cast<double>(*value - bound) / static_cast<double>(bound));
  put(text + fmt::format("{:.3f} s, {} units of work\n", work.seconds, work.units));
}

// A proof that there is no solution, or a limit without one, has an exit code of its own.
Status as_status(plan::SolveStatus status, bool has_solution, std::string what) {
  if (status == plan::SolveStatus::kInfeasible)
    return error(ErrorCode::kInfeasible, std::move(what));
  if (!has_solution) return error(ErrorCode::kLimit, std::move(what));
  return {};
}

// ---- order ----

struct OrderFlags {
  std::string problem, output;
  order::OrderOptions options;
  bool json = false;
};

Status run_order_command(const OrderFlags& flags) {
  LT_ASSIGN(const std::string text, read_file(flags.problem));
  const bool own_format = text.starts_with("lowtide-schedule");
  LT_ASSIGN(const plan::ScheduleProblem problem,
            own_format ? plan::parse_schedule_problem(text, flags.problem)
                       : plan::parse_order_file(text, flags.problem));
  const plan::ScheduleOutcome outcome = order::solve(problem, flags.options);
  const bool found = outcome.sequence.size() == problem.ops.size();
  print_outcome("peak", outcome.status, found ? std::optional(outcome.peak_bytes) : std::nullopt,
                outcome.lower_bound_bytes, outcome.work, flags.json);
  if (found && !flags.output.empty()) {
    std::string sequence;
    for (plan::SchedOpId op : outcome.sequence)
      sequence += fmt::format("{}{}", sequence.empty() ? "" : " ", op.index());
    LT_RETURN_IF_ERROR(write_file_atomically(flags.output, sequence + "\n"));
  }
  return as_status(outcome.status, found, flags.problem + ": no order was found");
}

void add_order(CLI::App& app, Action& action) {
  auto flags = std::make_shared<OrderFlags>();
  CLI::App* command = app.add_subcommand(
      "order", "Solve a bare ordering problem (.order or a lowtide schedule problem)");
  command->add_option("problem", flags->problem, "problem file")->required()->check(file_name());
  command->add_option("-o,--output", flags->output, "write the op numbers in their new order here")
      ->check(file_name());
  command->add_option("--max-units", flags->options.limits.max_units, kMaxUnitsHelp)
      ->check(whole_number(1));
  command->add_option("--time-limit", flags->options.limits.max_seconds, "a safety stop")
      ->type_name("SECONDS")
      ->default_str("none")
      ->check(real_number({.above = true}));
  command->add_option("--seed", flags->options.seed, "of random tie-breaks")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()));
  command->add_option("--threads", flags->options.threads, "parts solved at once")
      ->check(whole_number(1, kMostThreads));
  command->add_flag("--json", flags->json, "print the outcome as JSON");
  command->callback([flags, &action] { action = [flags] { return run_order_command(*flags); }; });
}

// ---- pack ----

struct PackFlags {
  std::string problem, output, capacity;
  pack::PackOptions options;
  bool json = false;
};

Status run_pack_command(const PackFlags& flags) {
  LT_ASSIGN(const std::string text, read_file(flags.problem));
  LT_ASSIGN(plan::PackProblem problem, plan::parse_pack_csv(text, flags.problem));
  if (!flags.capacity.empty()) {
    LT_ASSIGN(problem.capacity_bytes, parse_bytes(flags.capacity, "--capacity"));
  }
  const plan::PackOutcome outcome = pack::solve(problem, flags.options);
  const bool found = outcome.offsets.size() == problem.buffers.size();
  print_outcome("height", outcome.status,
                found ? std::optional(outcome.height_bytes) : std::nullopt,
                outcome.lower_bound_bytes, outcome.work, flags.json);
  const bool fits =
      found && (!problem.capacity_bytes || outcome.height_bytes <= *problem.capacity_bytes);
  if (fits && !flags.output.empty())
    LT_RETURN_IF_ERROR(
        write_file_atomically(flags.output, plan::print_pack_csv(problem, &outcome.offsets)));
  if (!problem.capacity_bytes)
    return as_status(outcome.status, fits,
                     flags.problem + ": no packing exists: buffers with fixed offsets overlap");
  if (outcome.status == plan::SolveStatus::kLimit)
    return as_status(outcome.status, fits,
                     fmt::format("{}: the limit of work ended before a packing within {} bytes was "
                                 "found or ruled out; raise --max-units",
                                 flags.problem, *problem.capacity_bytes));
  return as_status(outcome.status, fits,
                   fmt::format("{}: no packing fits in {} bytes: every one has at least {} bytes",
                               flags.problem, *problem.capacity_bytes, outcome.lower_bound_bytes));
}

void add_pack(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PackFlags>();
  CLI::App* command =
      app.add_subcommand("pack", "Solve a bare packing problem (CSV: id,lower,upper,size)");
  command->add_option("problem", flags->problem, "CSV file")->required()->check(file_name());
  command
      ->add_option("--capacity", flags->capacity,
                   "size of the arena, as in 1.5GiB; without it the height is minimised")
      ->type_name("BYTES");
  command->add_option("-o,--output", flags->output, "write the CSV with an offset column here")
      ->check(file_name());
  command->add_option("--max-units", flags->options.limits.max_units, kMaxUnitsHelp)
      ->check(whole_number(1));
  command->add_option("--time-limit", flags->options.limits.max_seconds, "a safety stop")
      ->type_name("SECONDS")
      ->check(real_number({.above = true}));
  command->add_option("--threads", flags->options.threads, "static orders tried at once")
      ->check(whole_number(1, kMostThreads));
  command->add_flag("--json", flags->json, "print the outcome as JSON");
  command->callback([flags, &action] { action = [flags] { return run_pack_command(*flags); }; });
}

}  // namespace

void add_problem_commands(CLI::App& app, Action& action) {
  add_order(app, action);
  add_pack(app, action);
  add_remat_command(app, action);
}

}  // namespace lowtide::tools

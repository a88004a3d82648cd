#include "tools/sweep_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "api/budgets.h"
#include "api/front.h"
#include "api/state.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/result.h"
#include "lowtide/api.h"
#include "report/plot/pareto_plot.h"
#include "tools/flags.h"
#include "tools/output_files.h"
#include "tools/plan_flags.h"
#include "tools/report_files.h"
#include "tools/watch.h"

namespace lowtide::tools {
namespace {

struct SweepCommand {
  PlanFlags flags;
  SweepOptions sweep;
  std::string output, report;
  bool plans = false, json = false, quiet = false, progress = false;
};

// Budgets that cannot be read are refused before the model is read.
Status check_budgets(const SweepOptions& sweep) {
  const auto ranges = parse_budgets(sweep.budgets, sweep.points, "--budgets");
  if (!ranges) return tl::unexpected(ranges.error());
  if (sweep.choose.empty()) return {};
  const auto chosen = parse_amount(sweep.choose, "--choose");
  if (!chosen) return tl::unexpected(chosen.error());
  return {};
}

// What would fail after the search is refused before it.
Status check_output(const SweepCommand& given) {
  if (given.output.empty()) return {};
  if (!std::filesystem::path(given.output).has_filename())
    return error(ErrorCode::kUsage,
                 fmt::format("-o: '{}' is a folder; the files need a name, as in {}sweep",
                             printable(given.output), printable(given.output)));
  return {};
}

// All that has a name before the search; plans of single budgets have theirs after it.
std::vector<NamedPath> outputs_of(const SweepCommand& given) {
  std::vector<NamedPath> outputs;
  if (!given.output.empty())
    for (const char* end : {".txt", ".jsonl", ".svg", ".png", ".lt"})
      outputs.push_back({"-o", given.output + end});
  outputs.push_back({"--report", given.report});
  return outputs;
}

std::string title_of(const plan::Plan& plan) {
  std::string title = printable(plan.model);
  for (const auto& [symbol, size] : plan.bindings)
    title += fmt::format("  {}={}", printable(symbol), size);
  return title;
}

std::string subtitle_of(const plan::Plan& plan) {
  const auto fact = [&](const char* key) {
    const auto found = plan.provenance.find(key);
    return found == plan.provenance.end() ? std::string() : printable(found->second);
  };
  const std::string step = fact("train") == "yes"
                               ? fmt::format("training step with {}", fact("optimizer"))
                               : "inference";
  return fmt::format("{}, predicted for {}; every op once takes {:.1f} ms", step, fact("device"),
                     plan.claims.once_seconds * 1e3);
}

report::ParetoPlot plot_of(const Front& front) {
  report::ParetoPlot plot;
  plot.title = title_of(front.unlimited().state().plan);
  plot.subtitle = subtitle_of(front.unlimited().state().plan);
  plot.before_bytes = front.peak_before_bytes();
  plot.floor_bytes = front.floor_bytes();
  const auto& points = front.points();
  for (size_t i = points.size(); i-- > 0;) {
    if (!points[i].found) continue;
    if (front.chosen() == i) plot.chosen = plot.points.size();
    if (front.knee() == i) plot.knee = plot.points.size();
    plot.points.push_back(
        {points[i].budget_bytes, points[i].arena_bytes, points[i].extra, points[i].bound_extra});
  }
  return plot;
}

Result<std::vector<FileContents>> files_of(const Front& front, const SweepCommand& given) {
  const std::string& prefix = given.output;
  const report::ParetoPlot plot = plot_of(front);
  LT_ASSIGN(const std::string svg, report::draw_svg(plot));
  LT_ASSIGN(const std::string png, report::draw_png(plot));
  std::vector<FileContents> files = {{prefix + ".txt", front.text()},
                                     {prefix + ".jsonl", front.lines()},
                                     {prefix + ".svg", svg},
                                     {prefix + ".png", png}};
  const auto add = [&](const Plan& plan, const std::string& path) -> Status {
    LT_ASSIGN(FileContents file, file_of(plan, path));
    files.push_back(std::move(file));
    return {};
  };
  if (front.chosen()) LT_RETURN_IF_ERROR(add(*front.plan(*front.chosen()), prefix + ".lt"));
  for (size_t i = 0; given.plans && i < front.points().size(); ++i)
    if (front.plan(i) != nullptr)
      LT_RETURN_IF_ERROR(
          add(*front.plan(i), fmt::format("{}-{}.lt", prefix, front.points()[i].budget_bytes)));
  return files;
}

// Everything that was asked for, or nothing.
Status write_files(const Front& front, const SweepCommand& given) {
  std::vector<FileContents> files;
  if (!given.output.empty()) {
    LT_ASSIGN(files, files_of(front, given));
  }
  if (!given.report.empty()) {
    LT_ASSIGN(std::string page, front_report(front, given.output, given.plans));
    files.push_back({given.report, std::move(page)});
  }
  return write_files_atomically(files);
}

// Error: the budget that was to be chosen was missed.
Status check_choice(const Front& front, const std::string& asked) {
  if (front.chosen()) return {};
  LT_ASSIGN(const Amount amount, parse_amount(asked, "--choose"));
  const int64_t bytes = bytes_of(amount, {front.floor_bytes(), front.unlimited().arena_bytes()});
  for (const FrontPoint& point : front.points())
    if (point.budget_bytes == bytes)
      return error(point.status == "infeasible" ? ErrorCode::kInfeasible : ErrorCode::kLimit,
                   fmt::format("--choose: {}", point.reason));
  return error(ErrorCode::kInternal, fmt::format("--choose: {} bytes are no point", bytes));
}

Status run_sweep_command(const CLI::App& command, SweepCommand& given) {
  LT_RETURN_IF_ERROR(needs(command, "--plans", !given.output.empty() || !given.report.empty(),
                           "--output or --report"));
  LT_RETURN_IF_ERROR(check_budgets(given.sweep));
  LT_RETURN_IF_ERROR(check_output(given));
  LT_RETURN_IF_ERROR(check_page(given.report));
  LT_RETURN_IF_ERROR(check_outputs(outputs_of(given), inputs_of(given.flags)));
  LT_ASSIGN(const Model model, read_model(command, given.flags));
  std::optional<SearchWatch> watch(std::in_place, given.flags.options, given.progress);
  LT_ASSIGN(const Front front, Front::make(model, given.flags.options, given.sweep));
  watch.reset();
  LT_RETURN_IF_ERROR(write_files(front, given));
  if (!given.quiet) put(given.json ? front.json() : front.text());
  return check_choice(front, given.sweep.choose);
}

}  // namespace

void add_sweep_command(CLI::App& app, Action& action) {
  auto given = std::make_shared<SweepCommand>();
  CLI::App* command =
      app.add_subcommand("sweep",
                         "Plan a model for many budgets: what memory costs in time, by "
                         "order and recompute where no flag names more levers");
  add_model_flags(command, given->flags);
  command
      ->add_option("--budgets", given->sweep.budgets,
                   "ranges or single budgets, as in 600MiB..1GiB:5,80%; per cent are of the arena "
                   "that needs no budget, and 'floor' is what is proven to be needed")
      ->type_name("A..B");
  command->add_option("--points", given->sweep.points, "of a range that does not say how many")
      ->check(whole_number(2, kMostBudgets));
  command
      ->add_option("--choose", given->sweep.choose,
                   "one more budget, whose plan is the chosen one; default: the knee")
      ->type_name("BYTES");
  add_search_flags(command, given->flags);
  add_progress_flag(command, given->progress);
  command
      ->add_option("-o,--output", given->output,
                   "write PREFIX.txt, .jsonl, .svg, .png, and the chosen plan as PREFIX.lt")
      ->type_name("PREFIX")
      ->check(file_name());
  command
      ->add_option("--report", given->report,
                   "write a report of the chosen plan with the front here (.html)")
      ->check(file_name());
  command->add_flag("--plans", given->plans,
                    "write every plan, as PREFIX-<budget in bytes>.lt, and into the report");
  command->add_flag("--json", given->json, "print the front as JSON");
  command->add_flag("--quiet", given->quiet, "print nothing");
  command->callback([given, command, &action] {
    action = [given, command] { return run_sweep_command(*command, *given); };
  });
}

}  // namespace lowtide::tools

#include "tools/report_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/state.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/result.h"
#include "lowtide/api.h"
#include "report/data/trace.h"
#include "report/html/page.h"
#include "report/measured.h"
#include "report/sizes.h"
#include "report/verdict.h"
#include "tools/flags.h"
#include "tools/output_files.h"
#include "tools/report_files.h"

namespace lowtide::tools {
namespace {

struct ReportFlags {
  std::string plan, output, beside, front, trace, profile;
  bool json = false, unverified = false;
};

// What a report is made of, read once. Lists, as the request borrows from them.
struct ReportFiles {
  std::list<Plan> plans;
  report::SweptFront front;
  report::MeasuredStep measured;
  report::ReportRequest request;
};

// The name of a file without its folders: where it lies is nobody's business who reads the report.
std::string file_name_of(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

Status add_report_plan(const std::string& path, bool unverified, ReportFiles& files) {
  LT_ASSIGN(Plan plan, read_plan_to_show(path, unverified, files.request.findings));
  files.plans.push_back(std::move(plan));
  files.request.plans.push_back(
      {.plan = &files.plans.back().state().plan, .file = file_name_of(path)});
  return {};
}

Status add_beside(const ReportFlags& flags, ReportFiles& files) {
  if (flags.beside.empty()) return {};
  LT_RETURN_IF_ERROR(add_report_plan(flags.beside, flags.unverified, files));
  const std::string &ours = files.request.plans[0].plan->model,
                    &other = files.request.plans[1].plan->model;
  if (ours != other)
    return error(ErrorCode::kInput,
                 fmt::format("--beside: {} is a plan of model '{}', {} of '{}'; plans of one model "
                             "stand beside each other",
                             printable(flags.beside), printable(other), printable(flags.plan),
                             printable(ours)));
  const report::Sizes &our_sizes = files.request.plans[0].plan->bindings,
                      &other_sizes = files.request.plans[1].plan->bindings;
  if (our_sizes != other_sizes)
    return error(ErrorCode::kInput,
                 fmt::format("--beside: {} is a plan for{}, {} for{}; plans of one size stand "
                             "beside each other",
                             printable(flags.beside), report::spelled_sizes(other_sizes),
                             printable(flags.plan), report::spelled_sizes(our_sizes)));
  files.request.beside = true;
  return {};
}

// Whether a plan beside the front was made for this point of it.
bool is_of_point(const plan::Plan& plan, const plan::Plan& swept, const FrontPoint& point) {
  return plan.model == swept.model && plan.bindings == swept.bindings &&
         plan.claims.budget_bytes == point.budget_bytes && plan.arena_bytes == point.arena_bytes &&
         plan.claims.predicted_seconds == point.seconds;
}

// The points, and the plans that `sweep --plans` has written beside them.
Status add_front(const ReportFlags& flags, ReportFiles& files) {
  if (flags.front.empty()) return {};
  LT_ASSIGN(const std::string lines, read_file(flags.front));
  LT_ASSIGN(files.front, report::read_front(lines, flags.front, *files.request.plans.front().plan));
  files.request.front = &files.front;
  const std::filesystem::path prefix = std::filesystem::path(flags.front).replace_extension();
  std::string left_out;
  for (const FrontPoint& point : files.front.points) {
    if (!point.found) continue;
    const std::string path = fmt::format("{}-{}.lt", prefix.string(), point.budget_bytes);
    std::error_code unreachable;
    if (report::plan_of_point(files.request, point) < 0 &&
        std::filesystem::is_regular_file(path, unreachable)) {
      const size_t found = files.request.findings.size();
      LT_RETURN_IF_ERROR(add_report_plan(path, flags.unverified, files));
      const plan::Plan& added = *files.request.plans.back().plan;
      if (is_of_point(added, *files.request.plans.front().plan, point)) continue;
      left_out += (left_out.empty() ? "" : ", ") + printable(file_name_of(path));
      files.request.findings.resize(found);
      files.request.plans.pop_back();
      files.plans.pop_back();
    }
  }
  if (!left_out.empty())
    fmt::print(stderr,
               "lowtide: --front: left out, as plans of another model, of other sizes or of "
               "another sweep: {}\n",
               left_out);
  return {};
}

Status add_profile(const ReportFlags& flags, ReportFiles& files) {
  if (flags.profile.empty()) return {};
  LT_ASSIGN(const std::string text, read_file(flags.profile));
  LT_ASSIGN(files.measured,
            report::read_measured(text, flags.profile, *files.request.plans.front().plan));
  files.request.plans.front().measured = &files.measured;
  return {};
}

Status run_report_command(const ReportFlags& flags) {
  LT_RETURN_IF_ERROR(check_page(flags.output));
  LT_RETURN_IF_ERROR(check_outputs({{"-o", flags.output}, {"--trace", flags.trace}},
                                   {{"PLAN", flags.plan},
                                    {"--beside", flags.beside},
                                    {"--front", flags.front},
                                    {"--profile", flags.profile}}));
  ReportFiles files;
  LT_RETURN_IF_ERROR(add_report_plan(flags.plan, flags.unverified, files));
  LT_RETURN_IF_ERROR(add_beside(flags, files));
  LT_RETURN_IF_ERROR(add_front(flags, files));
  LT_RETURN_IF_ERROR(add_profile(flags, files));
  const plan::Plan& plan = *files.request.plans.front().plan;
  const std::vector<std::string>& findings = files.request.findings;
  std::vector<FileContents> outputs;
  if (!flags.trace.empty()) outputs.push_back({flags.trace, report::trace_of(plan, findings)});
  nlohmann::ordered_json data;
  if (!flags.output.empty() || flags.json) data = report::report_data(files.request);
  if (!flags.output.empty()) {
    LT_ASSIGN(std::string html, report::html_report(data, report::bundled_page()));
    outputs.push_back({flags.output, std::move(html)});
  }
  LT_RETURN_IF_ERROR(write_files_atomically(outputs));
  if (flags.json) put(report::print_report(data));
  if (outputs.empty() && !flags.json)
    put(unverified_lines(findings) + files.plans.front().text() +
        curve_for_terminal(files.plans.front()));
  return {};
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand(
      "report", "Show a plan: memory over time, every address, what was done and what it cost");
  const auto file = [&](const char* names, std::string& path, const char* help) {
    command->add_option(names, path, help)->check(file_name());
  };
  command->add_option("plan", flags->plan, "plan file (.lt)")->required()->check(file_name());
  file("-o,--output", flags->output, "write the report here, one HTML file that needs no network");
  file("--beside", flags->beside, "another plan of the same model, to compare with");
  file("--front", flags->front,
       "a front of the same model, as `sweep -o PREFIX` writes PREFIX.jsonl");
  file("--profile", flags->profile, "measured times, as `run --profile-out FILE` writes them");
  file("--trace", flags->trace,
       "write the step as Chrome trace events here, for Perfetto and chrome://tracing");
  command->add_flag("--unverified", flags->unverified,
                    "show a plan that does not verify, with what is wrong with it");
  command->add_flag("--json", flags->json, "print what the report shows as JSON");
  command->callback([flags, &action] { action = [flags] { return run_report_command(*flags); }; });
}

}  // namespace lowtide::tools

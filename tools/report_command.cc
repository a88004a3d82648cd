#include "tools/report_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/state.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/result.h"
#include "lowtide/api.h"
#include "report/data/trace.h"
#include "report/measured.h"
#include "report/verdict.h"
#include "tools/flags.h"
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
  files.request.beside = true;
  return {};
}

// The points, and the plans that `sweep --plans` has written beside them.
Status add_front(const ReportFlags& flags, ReportFiles& files) {
  if (flags.front.empty()) return {};
  LT_ASSIGN(const std::string lines, read_file(flags.front));
  LT_ASSIGN(files.front, report::read_front(lines, flags.front, *files.request.plans.front().plan));
  files.request.front = &files.front;
  const std::filesystem::path prefix = std::filesystem::path(flags.front).replace_extension();
  for (const FrontPoint& point : files.front.points) {
    if (!point.found) continue;
    const std::string path = fmt::format("{}-{}.lt", prefix.string(), point.budget_bytes);
    std::error_code unreachable;
    if (report::plan_of_point(files.request, point) < 0 &&
        std::filesystem::is_regular_file(path, unreachable))
      LT_RETURN_IF_ERROR(add_report_plan(path, flags.unverified, files));
  }
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

// An output that is an input would be lost.
Status check_outputs(const ReportFlags& flags) {
  const auto check = [&](const std::string& output, const char* flag) -> Status {
    for (const std::string* input : {&flags.plan, &flags.beside, &flags.front, &flags.profile}) {
      std::error_code unreachable;
      if (!output.empty() && !input->empty() &&
          std::filesystem::equivalent(output, *input, unreachable))
        return error(ErrorCode::kUsage, fmt::format("{}: '{}' is read for the report; give it "
                                                    "another name",
                                                    flag, printable(output)));
    }
    return {};
  };
  LT_RETURN_IF_ERROR(check(flags.output, "-o"));
  LT_RETURN_IF_ERROR(check(flags.trace, "--trace"));
  if (!flags.output.empty() && flags.output == flags.trace)
    return error(ErrorCode::kUsage, "-o and --trace name the same file");
  return check_report_file(flags.output, "-o");
}

Status run_report_command(const ReportFlags& flags) {
  LT_RETURN_IF_ERROR(check_outputs(flags));
  ReportFiles files;
  LT_RETURN_IF_ERROR(add_report_plan(flags.plan, flags.unverified, files));
  LT_RETURN_IF_ERROR(add_beside(flags, files));
  LT_RETURN_IF_ERROR(add_front(flags, files));
  LT_RETURN_IF_ERROR(add_profile(flags, files));
  const plan::Plan& plan = *files.request.plans.front().plan;
  if (!flags.trace.empty())
    LT_RETURN_IF_ERROR(write_file_atomically(flags.trace, report::trace_of(plan)));
  if (flags.output.empty() && !flags.json) {
    if (flags.trace.empty())
      put(files.plans.front().text() + curve_for_terminal(files.plans.front()));
    return {};
  }
  const nlohmann::ordered_json data = report::report_data(files.request);
  if (!flags.output.empty()) LT_RETURN_IF_ERROR(write_report(flags.output, data));
  if (flags.json) put(report::print_report(data));
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

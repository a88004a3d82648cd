#include "tools/explain_command.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/state.h"
#include "base/result.h"
#include "lowtide/api.h"
#include "report/explain.h"
#include "tools/flags.h"
#include "tools/report_files.h"

namespace lowtide::tools {
namespace {

struct ExplainFlags {
  std::string plan, tensor, op, module;
  bool json = false, unverified = false;
};

template <class Story>
Status tell(const Result<Story>& story, bool json, const std::vector<std::string>& findings) {
  if (!story) return tl::unexpected(story.error());
  using Json = nlohmann::ordered_json;
  if (!json) {
    put(unverified_lines(findings) + report::print(*story));
    return {};
  }
  Json told = report::to_json(*story);
  told["verified"] = findings.empty();
  told["findings"] = findings;
  put(told.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return {};
}

Status run_explain_command(const CLI::App& command, const ExplainFlags& flags) {
  size_t asked = 0;
  for (const char* flag : {"--tensor", "--op", "--module"})
    asked += command.get_option(flag)->count() > 0 ? 1 : 0;
  if (asked != 1)
    return error(ErrorCode::kUsage,
                 "explain: one of --tensor NAME, --op NAME and --module NAME is needed");
  std::vector<std::string> findings;
  LT_ASSIGN(const Plan loaded, read_plan_to_show(flags.plan, flags.unverified, findings));
  const plan::Plan& plan = loaded.state().plan;
  if (command.get_option("--tensor")->count() > 0)
    return tell(report::tensor_story(plan, flags.tensor), flags.json, findings);
  if (command.get_option("--op")->count() > 0)
    return tell(report::op_story(plan, flags.op), flags.json, findings);
  return tell(report::module_story(plan, flags.module), flags.json, findings);
}

}  // namespace

void add_explain_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command = app.add_subcommand(
      "explain", "Say where a tensor, op or module of a plan lies and when, and why");
  command->add_option("plan", flags->plan, "plan file (.lt)")->required()->check(file_name());
  command->add_option("--tensor", flags->tensor, "a value: its buffer, who makes and reads it")
      ->type_name("NAME");
  command->add_option("--op", flags->op, "an op: when it runs, with what")->type_name("NAME");
  command->add_option("--module", flags->module, "a module and what is below it")
      ->type_name("NAME");
  command->add_flag("--unverified", flags->unverified, "also of a plan that does not verify");
  command->add_flag("--json", flags->json, "print the answer as JSON");
  command->callback([flags, command, &action] {
    action = [flags, command] { return run_explain_command(*command, *flags); };
  });
}

}  // namespace lowtide::tools

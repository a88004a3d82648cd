// What the commands that make reports share: plans that are read and verified, and pages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lowtide/api.h"
#include "report/data/report_data.h"

namespace lowtide::tools {

// A plan from its file. One that does not verify is refused with its findings (kVerification),
// unless `unverified`; then they are added to `findings`, a line each.
Result<Plan> read_plan_to_show(const std::string& path, bool unverified,
                               std::vector<std::string>& findings);

// What stands above the text of a plan that does not verify: a line for each finding.
std::string unverified_lines(const std::vector<std::string>& findings);

// The findings of a plan as one error: a line that counts them, then one line each.
Error refusal(const std::string& path, const std::vector<std::string>& findings);

// Before a long search: kUsage where a report is asked for and lowtide was built without its page.
Status check_page(const std::string& report_path);

// Pages. Error: as html_report (report/html/page.h).
// Of a plan that was just made; `file` is what it is called.
Result<std::string> plan_report(const Plan& plan, const std::string& file);
// Of a front and its chosen plan, or where that budget was missed of the plan without one; with the
// other plans if `all_plans`. Plans are called as `sweep -o PREFIX --plans` writes them.
Result<std::string> front_report(const Front& front, const std::string& prefix, bool all_plans);

// A small memory curve behind a plan's verdict, where standard output is a terminal; else nothing.
std::string curve_for_terminal(const Plan& plan);

}  // namespace lowtide::tools

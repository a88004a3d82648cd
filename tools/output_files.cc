#include "tools/output_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "api/state.h"
#include "base/printable.h"
#include "plan/plan_text.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;

// Whether two paths name one file, there or not: "./p.lt" and "p.lt", a link and what it names.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  if (fs::equivalent(a, b, failed)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(a, failed), failed);
  const fs::path second = fs::weakly_canonical(fs::absolute(b, failed), failed);
  return !failed && first == second;
}

Status check_writable(const NamedPath& output) {
  const fs::path path(output.path);
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  std::error_code unreachable;
  if (!fs::is_directory(parent, unreachable))
    return error(ErrorCode::kInput,
                 fmt::format("{}: there is no folder '{}'", output.flag, printable(parent)));
  if (fs::exists(path, unreachable) && !fs::is_regular_file(path, unreachable))
    return error(ErrorCode::kInput, fmt::format("{}: '{}' is not a regular file", output.flag,
                                                printable(output.path)));
  if (::access(parent.c_str(), W_OK) != 0)
    return error(ErrorCode::kInput, fmt::format("{}: nothing can be written into the folder '{}'",
                                                output.flag, printable(parent)));
  return {};
}

}  // namespace

Status check_outputs(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedPath& output = outputs[i];
    if (output.path.empty()) continue;
    for (const NamedPath& input : inputs)
      if (!input.path.empty() && same_file(output.path, input.path))
        return error(ErrorCode::kUsage,
                     fmt::format("{}: '{}' is read ({}); give it another name", output.flag,
                                 printable(output.path), input.flag));
    for (size_t k = 0; k < i; ++k)
      if (!outputs[k].path.empty() && same_file(output.path, outputs[k].path))
        return error(ErrorCode::kUsage,
                     fmt::format("{} and {} name the same file, '{}'", outputs[k].flag, output.flag,
                                 printable(output.path)));
    LT_RETURN_IF_ERROR(check_writable(output));
  }
  return {};
}

Result<FileContents> file_of(const Plan& plan, const std::string& path) {
  if (!plan.state().verified) LT_RETURN_IF_ERROR(plan.verify());
  return FileContents{path, plan::print_plan(plan.state().plan)};
}

}  // namespace lowtide::tools

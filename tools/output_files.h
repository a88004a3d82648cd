// What a command writes, looked at before it begins: a search of minutes must not end with a file
// that cannot be written, nor replace what it was made from.
//
// Tests: tests/python/test_outputs.py.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "lowtide/api.h"

namespace lowtide::tools {

struct NamedPath {
  std::string flag;  // as in "--report"
  std::string path;  // empty: not asked for
};

// Error: kUsage where an output is also read or is another output, by whatever name; kInput where
// it cannot be written: its folder is not there, it is no regular file, or rights are missing.
Status check_outputs(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs);

// The file of a plan. Error: kVerification, as Plan::save.
Result<FileContents> file_of(const Plan& plan, const std::string& path);

}  // namespace lowtide::tools

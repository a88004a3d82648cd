// A folder with its files, in one piece: they are written into a folder of a temporary name beside
// it, synced, and the folder is renamed. Whoever finds it finds all of it, and nothing that is
// there is touched.
//
// Tests: src/pipeline/gate_test.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide {

struct NamedContents {
  std::string name;  // no folder in it
  std::string contents;
};

// The path of the new folder: `parent`/`name`, or with -2, -3, ... behind it where that is taken.
// Error: kInput, naming the path and the system's reason; nothing is left then.
Result<std::string> write_new_folder(const std::string& parent, std::string_view name,
                                     const std::vector<NamedContents>& files);

}  // namespace lowtide

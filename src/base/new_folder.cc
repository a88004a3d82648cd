#include "base/new_folder.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace lowtide {
namespace {

constexpr int kMostNames = 10000;

// The first name that is free. A rename never replaces a folder with something in it, so of two
// programs that choose the same name only one has it.
Result<std::string> rename_to_free(const std::string& from, const std::string& wanted) {
  for (int n = 1; n <= kMostNames; ++n) {
    const std::string path = n == 1 ? wanted : fmt::format("{}-{}", wanted, n);
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) continue;
    if (::rename(from.c_str(), path.c_str()) == 0) return path;
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
      return system_error(path, "rename into place");
  }
  return error(ErrorCode::kInput,
               fmt::format("{}: {} folders of this name are there already", wanted, kMostNames));
}

}  // namespace

Result<std::string> write_new_folder(const std::string& parent, std::string_view name,
                                     const std::vector<NamedContents>& files) {
  const std::string wanted = (std::filesystem::path(parent) / name).string();
  std::string temporary = wanted + ".tmp.XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr) return system_error(wanted, "create");
  Status written;
  for (const NamedContents& file : files)
    if (written) written = write_file_atomically(temporary + "/" + file.name, file.contents);
  Result<std::string> path =
      written ? rename_to_free(temporary, wanted) : tl::unexpected(written.error());
  if (!path) {
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
  }
  return path;
}

}  // namespace lowtide

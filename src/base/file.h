// Whole files in and out. Writing goes to a temporary name beside the target, is synced and
// renamed, so that a reader sees either the old file or the new one and a full disk leaves nothing
// half-written.
//
// Tests: base_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide {

// Error: kInput, naming the path and the system's reason.
Result<std::string> read_file(const std::string& path);

// "PATH: cannot DOING: " and the reason in errno, kInput.
tl::unexpected<Error> system_error(const std::string& path, const char* doing);

// Writes through a symbolic link to what it names and keeps the rights of a file that is there.
// Error: kUsage for an empty path; kInput, naming the path and the system's reason, also where the
// target is there and is no regular file (a device, a pipe, a folder). The old file, if any, is
// untouched then.
Status write_file_atomically(const std::string& path, std::string_view contents);

struct FileContents {
  std::string path;
  std::string contents;
};

// Several files, all or none: each is written beside its target before the first is renamed. Errors
// as above.
Status write_files_atomically(const std::vector<FileContents>& files);

// A read-only mapping of a file; unmapped when destroyed. Movable.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  static Result<MappedFile> open(const std::string& path);
  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lowtide

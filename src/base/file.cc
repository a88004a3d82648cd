#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace lowtide {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Where a file is to be written once symbolic links are followed, and the access rights of the file
// that is there now.
struct Target {
  std::string path;
  mode_t mode = 0644;
  bool exists = false;
};

Result<Target> find_target(const std::string& path) {
  if (path.empty())
    return error(ErrorCode::kUsage, "an empty name was given for a file to write; give it a name");
  std::filesystem::path resolved = path;
  constexpr int kMostLinks = 40;  // the system's own limit
  for (int links = 0;; ++links) {
    struct stat info {};
    if (::lstat(resolved.c_str(), &info) != 0) {
      if (errno != ENOENT) return system_error(path, "inspect");
      return Target{.path = resolved.string()};
    }
    if (S_ISREG(info.st_mode))
      return Target{
          .path = resolved.string(), .mode = info.st_mode & mode_t{07777}, .exists = true};
    if (!S_ISLNK(info.st_mode))
      return error(ErrorCode::kInput,
                   fmt::format("{}: cannot write: it is there and is not a regular file", path));
    std::error_code failure;
    const std::filesystem::path next = std::filesystem::read_symlink(resolved, failure);
    if (failure || links == kMostLinks)
      return error(
          ErrorCode::kInput,
          fmt::format("{}: cannot follow the symbolic link: {}", path,
                      failure ? failure.message() : std::string("too many levels of links")));
    resolved = resolved.parent_path() / next;  // an absolute `next` replaces it all
  }
}

// A new file beside the target, never one that somebody else put there; its name goes to
// `temporary`. Negative on failure, with errno.
int create_beside(const Target& target, std::string& temporary) {
  constexpr int kMostNames = 100;
  int fd = -1;
  for (int i = 0; i < kMostNames && fd < 0; ++i) {
    temporary = fmt::format("{}.tmp.{}.{}", target.path, ::getpid(), i);
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) return fd;
  }
  if (fd >= 0 && target.exists) ::fchmod(fd, target.mode);  // rights are kept where that is allowed
  return fd;
}

}  // namespace

tl::unexpected<Error> system_error(const std::string& path, const char* doing) {
  return error(ErrorCode::kInput,
               fmt::format("{}: cannot {}: {}", path, doing, std::strerror(errno)));
}

Result<std::string> read_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(path, "open");
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "read");
    if (n == 0) return contents;
    contents.append(buffer, static_cast<size_t>(n));
  }
}

namespace {

// A file that is written, synced and closed beside its target; gone again unless it is renamed.
class PendingFile {
 public:
  PendingFile() = default;
  ~PendingFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  Status write(const std::string& path, std::string_view contents) {
    path_ = path;
    LT_ASSIGN(target_, find_target(path));
    std::string temporary;
    Descriptor file(create_beside(target_, temporary));
    if (file.get() < 0) return system_error(path, "create");
    temporary_ = temporary;
    if (!write_all(file.get(), contents)) return system_error(path, "write");
    if (::fsync(file.get()) != 0) return system_error(path, "sync");
    if (file.close() != 0) return system_error(path, "close");
    return {};
  }

  Status rename() {
    if (::rename(temporary_.c_str(), target_.path.c_str()) != 0)
      return system_error(path_, "rename into place");
    temporary_.clear();
    const std::filesystem::path parent = std::filesystem::path(target_.path).parent_path();
    Descriptor folder(
        ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // The rename itself; file systems without it refuse harmlessly.
    if (folder.get() >= 0) ::fsync(folder.get());
    return {};
  }

  // Takes a new file away again. One that took an older one's place stays: it is whole.
  void take_back() const {
    if (!target_.exists) ::unlink(target_.path.c_str());
  }

 private:
  std::string path_, temporary_;
  Target target_;
};

}  // namespace

Status write_file_atomically(const std::string& path, std::string_view contents) {
  PendingFile file;
  LT_RETURN_IF_ERROR(file.write(path, contents));
  return file.rename();
}

Status write_files_atomically(const std::vector<FileContents>& files) {
  std::vector<PendingFile> pending(files.size());
  for (size_t i = 0; i < files.size(); ++i)
    LT_RETURN_IF_ERROR(pending[i].write(files[i].path, files[i].contents));
  for (size_t i = 0; i < files.size(); ++i) {
    const Status renamed = pending[i].rename();
    if (renamed) continue;
    for (size_t before = 0; before < i; ++before) pending[before].take_back();
    return renamed;
  }
  return {};
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without waiting: opening a pipe that nobody writes to would never come back.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return system_error(path, "open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(path, "inspect");
  if (!S_ISREG(info.st_mode))
    return error(ErrorCode::kInput, fmt::format("{}: not a regular file", path));
  MappedFile mapped;
  if (info.st_size == 0) return mapped;
  void* data =
      ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return system_error(path, "map");
  mapped.data_ = static_cast<const char*>(data);
  mapped.size_ = static_cast<size_t>(info.st_size);
  return mapped;
}

}  // namespace lowtide

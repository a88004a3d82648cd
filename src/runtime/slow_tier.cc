#include "runtime/slow_tier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "runtime/buffers.h"

namespace lowtide::runtime {
namespace {

// What one system call is asked to move at most; below the limit of every system.
constexpr size_t kMostAtOnce = size_t{1} << 30;

void check_range(const SlowTier& tier, int64_t at, size_t bytes) {
  LT_CHECK(at >= 0 && at <= tier.bytes() && static_cast<int64_t>(bytes) <= tier.bytes() - at,
           "a transfer leaves its slow tier");
}

class MemoryTier final : public SlowTier {
 public:
  MemoryTier(Arena memory, std::string described)
      : memory_(std::move(memory)), described_(std::move(described)) {}
  int64_t bytes() const override { return memory_.bytes(); }
  const std::string& described() const override { return described_; }
  Moved write(int64_t at, std::span<const std::byte> from) override {
    check_range(*this, at, from.size());
    if (!from.empty()) std::memcpy(memory_.data() + at, from.data(), from.size());
    return {.bytes = static_cast<int64_t>(from.size())};
  }
  Moved read(int64_t at, std::span<std::byte> to) override {
    check_range(*this, at, to.size());
    if (!to.empty()) std::memcpy(to.data(), memory_.data() + at, to.size());
    return {.bytes = static_cast<int64_t>(to.size())};
  }

 private:
  Arena memory_;
  std::string described_;
};

class FileTier final : public SlowTier {
 public:
  FileTier(int descriptor, int64_t bytes, std::string described)
      : descriptor_(descriptor), bytes_(bytes), described_(std::move(described)) {}
  ~FileTier() override { ::close(descriptor_); }
  FileTier(const FileTier&) = delete;
  FileTier& operator=(const FileTier&) = delete;

  int64_t bytes() const override { return bytes_; }
  const std::string& described() const override { return described_; }
  Moved write(int64_t at, std::span<const std::byte> from) override {
    check_range(*this, at, from.size());
    return move_all(from.size(), [&](size_t done, size_t most) {
      return ::pwrite(descriptor_, from.data() + done, most, at + static_cast<int64_t>(done));
    });
  }
  Moved read(int64_t at, std::span<std::byte> to) override {
    check_range(*this, at, to.size());
    return move_all(to.size(), [&](size_t done, size_t most) {
      return ::pread(descriptor_, to.data() + done, most, at + static_cast<int64_t>(done));
    });
  }

 private:
  // The system may move less than it is asked to; then it is asked for the rest.
  template <class Call>
  static Moved move_all(size_t bytes, const Call& call) {
    size_t done = 0;
    while (done < bytes) {
      const ssize_t moved = call(done, std::min(bytes - done, kMostAtOnce));
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0)
        return {.bytes = static_cast<int64_t>(done), .error_number = moved < 0 ? errno : 0};
      done += static_cast<size_t>(moved);
    }
    return {.bytes = static_cast<int64_t>(done)};
  }

  int descriptor_;
  int64_t bytes_;
  std::string described_;
};

// A new file in the folder that has no name any more; negative on failure, with errno.
int open_nameless(const std::string& folder) {
  const int nameless = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return nameless;
  // Not every file system can make one at once.
  std::string path = folder + "/lowtide-slow-tier-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

// 0, or why the file cannot have that many bytes.
int reserve(int descriptor, int64_t bytes) {
  if (bytes == 0) return 0;
  const int refused = ::posix_fallocate(descriptor, 0, bytes);
  if (refused != EINVAL && refused != EOPNOTSUPP) return refused;
  return ::ftruncate(descriptor, bytes) == 0 ? 0 : errno;
}

Result<std::unique_ptr<SlowTier>> open_file(const SlowTierOptions& options) {
  const auto refuse = [&](const char* doing, int reason) {
    return error(ErrorCode::kInput,
                 fmt::format("slow tier '{}': cannot {} in '{}': {}", options.name, doing,
                             options.folder, std::strerror(reason)));
  };
  struct stat info {};
  if (::stat(options.folder.c_str(), &info) != 0) return refuse("make a file", errno);
  if (!S_ISDIR(info.st_mode)) return refuse("make a file", ENOTDIR);
  const int descriptor = open_nameless(options.folder);
  if (descriptor < 0) return refuse("make a file", errno);
  auto tier =
      slow_tier_on_file(descriptor, options.bytes,
                        fmt::format("slow tier '{}' (file in '{}')", options.name, options.folder));
  if (const int reason = reserve(descriptor, options.bytes); reason != 0)
    return refuse(
        fmt::format("reserve {} bytes ({})", options.bytes, format_bytes(options.bytes)).c_str(),
        reason);
  return tier;
}

}  // namespace

std::unique_ptr<SlowTier> slow_tier_on_file(int descriptor, int64_t bytes, std::string described) {
  return std::make_unique<FileTier>(descriptor, bytes, std::move(described));
}

Result<std::unique_ptr<SlowTier>> open_slow_tier(const SlowTierOptions& options) {
  LT_CHECK(options.bytes >= 0 && options.bytes <= kMaxBytes, "a slow tier's size");
  if (!options.folder.empty()) return open_file(options);
  auto memory = Arena::make(options.bytes);
  if (!memory)
    return error(ErrorCode::kInternal,
                 fmt::format("slow tier '{}': {}", options.name, memory.error().message));
  return std::make_unique<MemoryTier>(std::move(*memory),
                                      fmt::format("slow tier '{}' (memory)", options.name));
}

Error transfer_error(const SlowTier& tier, const TransferWords& words, const Moved& moved) {
  const bool out = words.direction == CopyDirection::kOut;
  std::string reason = moved.error_number != 0 ? std::strerror(moved.error_number)
                       : out                   ? "the system wrote no more"
                                               : "the file ends there; it was made shorter";
  return {ErrorCode::kInput,
          fmt::format("{}: only {} of {} bytes of '{}' could be {}: {}", tier.described(),
                      moved.bytes, words.bytes, words.storage, out ? "stored" : "loaded", reason)};
}

Status store_bytes(SlowTier& tier, int64_t at, std::span<const std::byte> from,
                   std::string_view storage) {
  const Moved moved = tier.write(at, from);
  const int64_t bytes = static_cast<int64_t>(from.size());
  if (moved.bytes == bytes) return {};
  return tl::unexpected<Error>(transfer_error(tier, {CopyDirection::kOut, storage, bytes}, moved));
}

Status load_bytes(SlowTier& tier, int64_t at, std::span<std::byte> to, std::string_view storage) {
  const Moved moved = tier.read(at, to);
  const int64_t bytes = static_cast<int64_t>(to.size());
  if (moved.bytes == bytes) return {};
  return tl::unexpected<Error>(transfer_error(tier, {CopyDirection::kIn, storage, bytes}, moved));
}

}  // namespace lowtide::runtime

// minizip reads through callbacks; these read from memory. It has no way to say where in the file a
// member's bytes begin but to open the member, so each is opened once.
#include "io/pt2_archive.h"

#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

namespace lowtide::io {
namespace {

constexpr uint64_t kMostMembers = 1 << 20;
constexpr size_t kMostName = 4096;
constexpr uLong kEncrypted = 1;  // of a member's flags
constexpr uLong kStored = 0, kDeflated = 8;

// ---- a file in memory, as minizip wants one

struct Stream {
  std::string_view bytes;
  uint64_t at = 0;
};

void* open_stream(void* opaque, const void* /*name*/, int /*mode*/) {
  return opaque;
}

uLong read_stream(void* /*opaque*/, void* stream, void* out, uLong size) {
  auto& from = *static_cast<Stream*>(stream);
  if (from.at >= from.bytes.size()) return 0;
  const size_t count = std::min<size_t>(size, from.bytes.size() - from.at);
  std::memcpy(out, from.bytes.data() + from.at, count);
  from.at += count;
  return static_cast<uLong>(count);
}

uLong write_stream(void* /*opaque*/, void* /*stream*/, const void* /*from*/, uLong /*size*/) {
  return 0;
}

ZPOS64_T tell_stream(void* /*opaque*/, void* stream) {
  return static_cast<Stream*>(stream)->at;
}

long seek_stream(void* /*opaque*/, void* stream, ZPOS64_T offset, int origin) {
  auto& in = *static_cast<Stream*>(stream);
  const uint64_t from = origin == ZLIB_FILEFUNC_SEEK_CUR   ? in.at
                        : origin == ZLIB_FILEFUNC_SEEK_END ? in.bytes.size()
                                                           : 0;
  if (offset > in.bytes.size() - std::min<uint64_t>(from, in.bytes.size())) return -1;
  in.at = from + offset;
  return 0;
}

int close_stream(void* /*opaque*/, void* /*stream*/) {
  return 0;
}
int stream_error(void* /*opaque*/, void* /*stream*/) {
  return 0;
}

struct CloseZip {
  void operator()(void* zip) const { unzClose(zip); }
};
using Zip = std::unique_ptr<void, CloseZip>;

Zip open_zip(Stream& stream) {
  zlib_filefunc64_def functions = {};
  functions.zopen64_file = open_stream;
  functions.zread_file = read_stream;
  functions.zwrite_file = write_stream;
  functions.ztell64_file = tell_stream;
  functions.zseek64_file = seek_stream;
  functions.zclose_file = close_stream;
  functions.zerror_file = stream_error;
  functions.opaque = &stream;
  return Zip(unzOpen2_64("", &functions));
}

tl::unexpected<Error> broken(const std::string& origin, std::string_view why) {
  return error(ErrorCode::kInput, fmt::format("{}: {}", origin, why));
}

// The member that the directory is at, and its name.
Result<ArchiveMember> current_member(void* zip, const Archive& archive, std::string& name) {
  unz_file_info64 info = {};
  std::array<char, kMostName + 1> buffer = {};
  if (unzGetCurrentFileInfo64(zip, &info, buffer.data(), kMostName, nullptr, 0, nullptr, 0) !=
      UNZ_OK)
    return broken(archive.origin, "the archive's directory is damaged");
  if (info.size_filename > kMostName)
    return broken(archive.origin, fmt::format("a member's name has {} bytes; at most {} are read",
                                              info.size_filename, kMostName));
  name.assign(buffer.data(), info.size_filename);
  if ((info.flag & kEncrypted) != 0)
    return broken(archive.origin, fmt::format("member '{}' is encrypted", name));
  if (info.compression_method != kStored && info.compression_method != kDeflated)
    return broken(archive.origin, fmt::format("member '{}' is compressed by method {}; stored and "
                                              "deflated members are read",
                                              name, info.compression_method));
  ArchiveMember member;
  member.stored = info.compression_method == kStored;
  if (unzOpenCurrentFile(zip) != UNZ_OK)
    return broken(archive.origin, fmt::format("member '{}' is damaged, or cut short", name));
  const uint64_t offset = unzGetCurrentFileZStreamPos64(zip);
  unzCloseCurrentFile(zip);
  const uint64_t size = archive.bytes.size();
  if (offset > size || info.compressed_size > size - offset ||
      (member.stored && info.compressed_size != info.uncompressed_size))
    return broken(archive.origin, fmt::format("member '{}' has {} bytes at {}; the file has {}",
                                              name, info.compressed_size, offset, size));
  if (info.uncompressed_size > (uint64_t{1} << 62))
    return broken(archive.origin, fmt::format("member '{}' says that it has {} bytes", name,
                                              info.uncompressed_size));
  member.bytes = static_cast<int64_t>(info.uncompressed_size);
  member.offset = static_cast<int64_t>(offset);
  return member;
}

}  // namespace

Result<Archive> open_archive(std::string_view bytes, const std::string& origin) {
  Archive archive;
  archive.bytes = bytes;
  archive.origin = origin;
  Stream stream{bytes};
  const Zip zip = open_zip(stream);
  unz_global_info64 all = {};
  if (zip == nullptr || unzGetGlobalInfo64(zip.get(), &all) != UNZ_OK)
    return broken(origin, "no zip archive, or cut short: it has no directory at its end");
  if (all.number_entry > kMostMembers)
    return broken(origin, fmt::format("an archive of {} members; at most {} are read",
                                      all.number_entry, kMostMembers));
  int state = all.number_entry == 0 ? UNZ_END_OF_LIST_OF_FILE : unzGoToFirstFile(zip.get());
  for (int64_t place = 0; state == UNZ_OK; ++place, state = unzGoToNextFile(zip.get())) {
    std::string name;
    LT_ASSIGN(ArchiveMember member, current_member(zip.get(), archive, name));
    member.place = place;
    const size_t root = name.find('/');
    if (root != std::string::npos) name.erase(0, root + 1);
    if (name.empty() || name.ends_with('/')) continue;  // a folder
    if (!archive.members.emplace(name, member).second)
      return broken(origin, fmt::format("two members are called '{}'", name));
  }
  if (state != UNZ_END_OF_LIST_OF_FILE) return broken(origin, "the archive's directory is damaged");
  return archive;
}

Result<std::string> read_member(const Archive& archive, const std::string& name, int64_t most) {
  const auto found = archive.members.find(name);
  if (found == archive.members.end())
    return broken(archive.origin, fmt::format("the archive has no member '{}'", name));
  const ArchiveMember& member = found->second;
  if (member.bytes > most)
    return broken(archive.origin, fmt::format("member '{}' has {} bytes; at most {} are read", name,
                                              member.bytes, most));
  Stream stream{archive.bytes};
  const Zip zip = open_zip(stream);
  bool there = zip != nullptr && unzGoToFirstFile(zip.get()) == UNZ_OK;
  for (int64_t i = 0; there && i < member.place; ++i) there = unzGoToNextFile(zip.get()) == UNZ_OK;
  if (!there || unzOpenCurrentFile(zip.get()) != UNZ_OK)
    return broken(archive.origin, fmt::format("member '{}' is damaged", name));
  std::string contents;
  std::array<char, 1 << 16> buffer = {};
  int count = 0;
  do {
    count = unzReadCurrentFile(zip.get(), buffer.data(), buffer.size());
    if (count > 0) contents.append(buffer.data(), static_cast<size_t>(count));
  } while (count > 0 && static_cast<int64_t>(contents.size()) <= member.bytes);
  // Closing compares the checksum, once all has been read.
  const bool whole = unzCloseCurrentFile(zip.get()) == UNZ_OK && count == 0 &&
                     static_cast<int64_t>(contents.size()) == member.bytes;
  if (!whole)
    return broken(archive.origin,
                  fmt::format("member '{}' is damaged: its contents do not have the checksum or "
                              "size that the archive says",
                              name));
  return contents;
}

}  // namespace lowtide::io

// The zip archive that a .pt2 file is: its members by name, where their bytes lie, and small ones
// read. PyTorch stores members as they are, aligned, so that weights can be mapped from the file;
// what another program deflated is read all the same. minizip is seen by pt2_archive.cc alone.
//
// Names are those behind the archive's one root folder: "models/model.json" of
// "resnet/models/model.json".
//
// Tests: pt2_reader_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lowtide::io {

struct ArchiveMember {
  int64_t bytes = 0;    // of its contents
  bool stored = false;  // as they are, at `offset` of the file; else deflated
  int64_t offset = 0;
  int64_t place = 0;  // in the archive's directory, for read_member
};

struct Archive {
  std::string_view bytes;  // the whole file; must live as long as the archive is read
  std::string origin;
  std::map<std::string, ArchiveMember, std::less<>> members;
};

// Error: kInput, naming `origin`: no zip archive, cut short, encrypted, members outside the file or
// with one name. Survives any bytes.
Result<Archive> open_archive(std::string_view bytes, const std::string& origin);

// The contents of a member, checked against their checksum. Error: kInput, naming the member: it is
// damaged, or has more than `most` bytes.
Result<std::string> read_member(const Archive& archive, const std::string& name, int64_t most);

}  // namespace lowtide::io

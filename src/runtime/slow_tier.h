// A slow tier: where a plan puts storages that leave the arena for a while, or live outside it. It
// is a row of bytes; the plan gives every storage that is ever moved its slot in it. Two kinds:
// host memory outside the arena, and a file in a folder that the user names.
//
// The file has no name: it is unlinked as soon as it is open, so that it cannot vanish or be
// changed by others while a step runs, and is gone when the program ends, however it ends. Its
// disk space is reserved when it is made, so that a full disk is an error before the first step and
// not within one.
//
// Moving bytes answers how many were moved, and the system's reason where that is not all of them;
// transfer_error() makes the line for people from that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lowtide::runtime {

// Fewer bytes than asked for is a failure: `error_number` is the system's reason (errno), 0 where
// the file ended.
struct Moved {
  int64_t bytes = 0;
  int error_number = 0;
};

class SlowTier {
 public:
  virtual ~SlowTier() = default;
  virtual int64_t bytes() const = 0;
  // "slow tier 'host' (memory)", "slow tier 'disk' (file in '/data')": for messages.
  virtual const std::string& described() const = 0;
  // Both directions may be used at once, by different threads, on slots that do not overlap. The
  // range must lie within the tier.
  virtual Moved write(int64_t at, std::span<const std::byte> from) = 0;
  virtual Moved read(int64_t at, std::span<std::byte> to) = 0;
};

struct SlowTierOptions {
  std::string name = "host";
  int64_t bytes = 0;
  std::string folder = {};  // empty: memory
};

// Error: kInternal (no memory); kInput (no such folder, no rights, a full disk), naming the folder,
// the bytes wanted and the system's reason.
Result<std::unique_ptr<SlowTier>> open_slow_tier(const SlowTierOptions& options);

// A tier on a file that is open already; takes the descriptor over.
std::unique_ptr<SlowTier> slow_tier_on_file(int descriptor, int64_t bytes, std::string described);

enum class CopyDirection : uint8_t { kOut, kIn };

// What was to be moved, for people.
struct TransferWords {
  CopyDirection direction = CopyDirection::kOut;
  std::string_view storage;  // its name
  int64_t bytes = 0;
};

// One line: the tier, the storage, how many of its bytes were moved, and why not the others. Code
// kInput.
Error transfer_error(const SlowTier& tier, const TransferWords& words, const Moved& moved);

// Whole transfers outside a step, with that error.
Status store_bytes(SlowTier& tier, int64_t at, std::span<const std::byte> from,
                   std::string_view storage);
Status load_bytes(SlowTier& tier, int64_t at, std::span<std::byte> to, std::string_view storage);

}  // namespace lowtide::runtime

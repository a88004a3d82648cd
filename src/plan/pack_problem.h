// PackProblem: which buffer lies where in one arena, as plain data (dynamic storage allocation;
// MODeL section 4, minimalloc). Two buffers whose lives overlap in time must not overlap in
// address. Both axes are half-open.
//
// Tied buffers lie at fixed distances: pieces of one tensor, which somebody reads as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/interval.h"
#include "base/result.h"
#include "plan/outcome.h"

namespace lowtide::plan {

struct BufferTag;
using BufferId = Id<BufferTag>;

// Buffers of one group, which have one alignment: offset - at is the same for all of them.
struct Tie {
  int32_t group = 0;
  int64_t at = 0;  // bytes, >= 0
  bool operator==(const Tie&) const = default;
};

struct Buffer {
  std::string name;                     // the id column of the CSV form; for people
  Interval live;                        // [first step, one past the last step); never empty
  int64_t size_bytes = 0;               // >= 0
  int64_t alignment_bytes = 1;          // the offset is a multiple of this
  std::optional<int64_t> fixed_offset;  // where it must lie, if somebody else decided
  std::optional<Tie> tie = std::nullopt;
  bool operator==(const Buffer&) const = default;
};

struct PackProblem {
  IdVector<BufferId, Buffer> buffers;
  std::optional<int64_t> capacity_bytes;  // the arena's size, if it is given
  bool operator==(const PackProblem&) const = default;
};

struct PackOutcome {
  SolveStatus status = SolveStatus::kLimit;
  IdVector<BufferId, int64_t> offsets;  // empty when there is no solution
  int64_t height_bytes = 0;             // max over buffers of offset + size
  int64_t lower_bound_bytes = 0;        // proven; at least the max load
  SolveWork work;
};

// Checks lives, sizes, alignments (> 0), fixed offsets; sums at most kMaxBytes; that tied buffers
// have bytes and no fixed offset, that their distances keep the alignments and that they never
// overlap. Error: kInput, naming the buffer.
Status check(const PackProblem& problem);

}  // namespace lowtide::plan

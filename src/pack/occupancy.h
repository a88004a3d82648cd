// Which places are taken when: the placed buffers, looked up by time.
//
// Time is cut into windows. Each window keeps all placed buffers that are alive in it, by rising
// offset. There are levels of windows, each four times as long as those of the level below; windows
// of a level overlap by half. So a life lies within one window that is at most eight times as long
// (or of the lowest level), and the buffers that coexist with it are found by walking one list. A
// list is kept in chunks, so that an entry in the middle of a long one moves few others.
//
// Tests: pack_scale_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pack/instance.h"

namespace lowtide::pack {

struct Placed {
  int64_t low;
  int64_t high;
  int32_t begin;
  int32_t end;
};

// A list of places by rising offset; of equal ones, the first entered comes first.
class PlacedList {
 public:
  // Returns how many entries it moved.
  int64_t insert(const Placed& placed);
  // The list, chunk after chunk; none of them is empty.
  std::span<const std::vector<Placed>> chunks() const { return chunks_; }

 private:
  std::vector<std::vector<Placed>> chunks_;
};

class Occupancy {
 public:
  // Chooses windows for the lives of `part` and takes the places of its obstacles.
  explicit Occupancy(const Part& part);
  // Returns about how many entries it had to move.
  int64_t insert(const Placed& placed);
  // By rising offset: all that coexist with [begin, end), and others.
  const PlacedList& around(int32_t begin, int32_t end) const;

 private:
  struct Level {
    int32_t stride;  // window k is the sections [k * stride, (k + 2) * stride)
    std::vector<PlacedList> windows;
  };
  std::vector<Level> levels_;
};

}  // namespace lowtide::pack

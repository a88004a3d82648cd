// Labels: in how many parts each op of an axis class runs (MAGIS's F-Tree, section 4.3, as
// numbers).
//
//     4                    every op of the largest class in 4 parts
//     2,norm:8             the same in 2, and what lies behind op `norm` in 8: 4 in each of the 2
//     1,block7:2,norm:8    three levels
//
// A level is a region of the class: what an op, its head, dominates (every way from the inputs goes
// through it), without what is dominated by what the region hands to others of the class. In a
// training step this is what comes after the head in the forward pass and before its gradient in
// the backward pass, so regions lie in each other like the layers of an onion around the loss. Each
// op runs in the parts of the innermost region that it is in. Any labels are right (expand.h); good
// ones pass pieces on.
//
// Dominators by intersection of the predecessors' dominators in one pass, as the graph has no
// cycles (Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm").
//
// Tests: labels_test.cc, tests/split_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "ir/graph.h"

namespace lowtide::fission {

// What the op named `head` dominates runs in so many parts.
struct Nest {
  std::string head;
  int64_t parts = 0;
  bool operator==(const Nest&) const = default;
};

struct Labels {
  int64_t parts = 1;  // of the whole class; 0: not decided
  std::vector<Nest> nests = {};
  bool operator==(const Labels&) const = default;
  bool whole() const { return parts == 1 && nests.empty(); }
  bool chosen() const { return parts == 0; }  // by whoever plans: "auto"
};

// In any of its levels.
int64_t most_parts(const Labels& labels);

std::string print(const Labels& labels);
// Its inverse: "N[,HEAD:M]..." or "auto". Error: kUsage, naming the text.
Result<Labels> parse_labels(std::string_view text);

// By op of the class: the op that dominates it and is dominated by all others that do; none: only
// the inputs of the class do. Operands from outside of the class are not looked at.
IdVector<ir::OpId, ir::OpId> immediate_dominators(const ir::Graph& graph,
                                                  const AxisClass& axis_class);

// The region of a head, ascending; without the head. Empty, if nothing is behind it.
std::vector<ir::OpId> region_of(const ir::Graph& graph, const AxisClass& axis_class,
                                const IdVector<ir::OpId, ir::OpId>& dominators, ir::OpId head);

// Labels as a graph has them.
struct Levels {
  struct Level {
    int parent = -1;     // of level 0, which is the whole class
    ir::OpId head = {};  // likewise none
    int64_t parts = 1;   // in all, a multiple of the parent's
    size_t ops = 0;      // whose innermost level it is
  };
  static constexpr int kOutside = -1;
  std::vector<Level> levels;         // parents first
  IdVector<ir::OpId, int> level_of;  // the innermost; kOutside: not in the class

  // The innermost level that has both.
  int common(int one, int other) const;
};

// Reads labels of one class. What lies behind a head is found once for all labels that name it.
class LabelReader {
 public:
  // Both must stay.
  LabelReader(const ir::Graph& graph, const AxisClass& axis_class);

  // Error: kInput, where a head is no op of the class or nothing is behind it, where the regions of
  // two heads overlap but neither lies in the other, or where the parts of one are no multiple of
  // those around it.
  // Several threads may ask at once.
  Result<Levels> levels(const Labels& labels);

 private:
  struct Region {
    ir::OpId head;
    std::vector<ir::OpId> ops;
  };
  Result<const Region*> region(const Nest& nest);

  const ir::Graph& graph_;
  const AxisClass& axis_class_;
  std::mutex mutex_;  // of what is remembered
  std::optional<IdVector<ir::OpId, ir::OpId>> dominators_;
  std::map<std::string, Region> regions_;  // by the head's name
};

// By a reader of its own.
Result<Levels> levels_of(const ir::Graph& graph, const AxisClass& axis_class, const Labels& labels);

// Each level's parts divide those of the level around it. An op whose extent has not so many stays
// with the parts of the level around, and one of whose parts some would read nothing but padding
// stays whole.
Cuts cuts_of(const ir::Graph& graph, const AxisClass& axis_class, const Levels& levels);

// The level of each op by the parts that it has; kOutside where it stays whole.
IdVector<ir::OpId, int> levels_as_cut(const Levels& levels, const Cuts& cuts);

// Whether in the parts of a level but the first no op runs, or they are no more than those around
// it: the same labels are there without it. `as_cut`: levels_as_cut.
bool has_idle_level(const Levels& levels, const IdVector<ir::OpId, int>& as_cut);

// Whether an op between two of a level runs in the parts around it, as its extent has not so many:
// 32 samples between 16,384 rows and 640 heads in 64 parts. It needs all parts of what is before
// it, and all parts behind it wait for it, so they are no loop: what a level is judged by
// (scale.h) says too little. `as_cut`: levels_as_cut.
bool has_broken_loop(const ir::Graph& graph, const Levels& levels,
                     const IdVector<ir::OpId, int>& as_cut);

// All ops of the class in so many parts, as equal as they can be, the larger ones first; where an
// op's extent is a multiple of the class's least one (rows of flattened samples), its parts are
// those of whole units. Nothing for ops whose extent is smaller. `parts` >= 2.
Cuts cut_class(const ir::Graph& graph, const AxisClass& axis_class, int64_t parts);

}  // namespace lowtide::fission

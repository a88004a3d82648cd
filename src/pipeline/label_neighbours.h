// Labels that differ from given ones in one level: MAGIS's four mutations of an F-Tree (section
// 5.1). A region gets parts of its own (enable), in any of several numbers at once; loses them
// (disable); hands them to the region around it (lift); has more or fewer (mutate). Beside them
// the whole class runs in more or fewer parts (outer).
//
// Tests: label_neighbours_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fission/labels.h"
#include "fission/regions.h"
#include "ir/graph.h"
#include "pipeline/label_mutations.h"

namespace lowtide::pipeline {

// Numbers of even parts that differ enough to be looked at: 2, 3, 4, 6, 8, 12 and so on, and the
// most there can be.
std::set<int64_t> even_numbers(int64_t most_parts);

class LabelNeighbours {
 public:
  // `regions` of the class, the largest first; it is cut into at most `most_parts`, a level into at
  // most `most_of_level`. `factors`: the parts that a level may have, by those around it.
  LabelNeighbours(const ir::Graph& step, std::span<const fission::Region> regions,
                  int64_t most_parts, int64_t most_of_level, std::span<const int64_t> factors);

  // The same more than once where several mutations lead to it.
  std::vector<fission::Labels> of(const fission::Labels& labels,
                                  const LabelMutations& may = {}) const;

 private:
  std::optional<fission::Labels> with_parts(fission::Labels labels, int64_t parts) const;
  void mutate(const fission::Labels& labels, size_t region, const LabelMutations& may,
              std::vector<fission::Labels>& made) const;
  int64_t parts_around(const fission::Labels& labels, size_t region) const;
  void add(fission::Labels with, size_t region, int64_t parts,
           std::vector<fission::Labels>& made) const;

  int64_t most_parts_, most_of_level_;
  std::vector<int64_t> factors_;
  std::vector<std::string> heads_;             // by region
  std::vector<std::optional<size_t>> around_;  // by region: the least one that contains it
};

}  // namespace lowtide::pipeline

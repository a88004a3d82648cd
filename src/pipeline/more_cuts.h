// Cuts beside the labels of the largest axis class: what makes the most bytes in more parts than
// the rest of that class, and other classes (rows, heads, channels, a vocabulary) in parts: in
// place of the labels' parts of their ops, or within them.
//
// Those within the labels' parts are states of the label search, too, which estimates what they are
// worth (label_search.h). The others are proposals that nothing estimates: whoever asks plans with
// each.
//
// Tests: more_cuts_test.cc, tests/split_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "fission/classes.h"
#include "fission/rules.h"
#include "ir/graph.h"

namespace lowtide::pipeline {

// The classes of a step that may be cut. Error: as fission::axis_classes.
Result<std::vector<fission::AxisClass>> classes_to_cut(const ir::Graph& step);

// At most so many, the most promising first.
std::vector<fission::CutRule> more_cuts(const ir::Graph& step,
                                        std::span<const fission::AxisClass> classes, size_t most);

// Of these the ones within the labels' parts: an op's parts along the labels' axis are cut along
// that of another class.
std::vector<fission::CutRule> cuts_within(const ir::Graph& step,
                                          std::span<const fission::AxisClass> classes);

// What counts as large beside something of so many bytes.
int64_t large_beside(int64_t largest_bytes);

// Of one class, in each of these numbers of parts that there can be: in place of the labels' parts
// of its ops, or within them.
std::vector<fission::CutRule> cuts_of_class(const ir::Graph& step,
                                            const fission::AxisClass& axis_class, bool instead,
                                            std::span<const int64_t> numbers);

}  // namespace lowtide::pipeline

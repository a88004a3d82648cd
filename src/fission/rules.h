// Cuts by rule: which ops run in parts, said by name.
//
//     layer*:m:4      every op whose name begins with "layer", along axis m, in 4 parts
//     conv1:n*:4      op conv1 along axis n, and with it all ops of that axis's class (classes.h)
//     conv1:n*:4>64   of that class those that make at least 64 bytes along it
//     conv1:n*:4!     in place of what labels and the rules before it say of these ops
//
// Labels come first, then rules in their order. Along different axes of one op they hold together:
// its parts along the first are cut along the second, kMostAxes at most. Of two rules along one
// axis the later one decides.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fission/expand.h"
#include "ir/graph.h"

namespace lowtide::fission {

struct CutRule {
  std::string ops;   // a pattern of op names (fnmatch: *, ?, [...])
  std::string axis;  // as the op's row names it
  int64_t parts = 0;
  bool whole_class = false;
  int64_t least_bytes = 0;  // of the class: ops that make less along the axis stay as they are
  bool instead = false;     // of what labels and the rules before it say of these ops
  bool operator==(const CutRule&) const = default;
};

// Whether the op is one of those that the rule names.
bool names(const CutRule& rule, const ir::Op& op);

std::string print(const CutRule& rule);
// Its inverse: "OPS:AXIS:PARTS[!]" or "OPS:AXIS*:PARTS[>BYTES][!]". Error: kUsage, naming the text
// and what is wrong with it.
Result<CutRule> parse_rule(std::string_view text);

// Parts as equal as they can be, the larger ones first; those of the labels outermost. Where a rule
// and the labels speak of one axis, the more parts of the two are taken. Error: kInput, where a
// rule speaks of no op, or of one that has no such axis, or cannot be cut along it so often, or not
// together with what cuts it already; it names both and says what the op can be cut along. Of a
// class only the ops named must have so many parts, and others stay as they are where rules do not
// go together.
Result<NestedCuts> cuts_of(const ir::Graph& graph, std::span<const CutRule> rules,
                           const Cuts& labels);
Result<NestedCuts> cuts_of(const ir::Graph& graph, std::span<const CutRule> rules);

}  // namespace lowtide::fission

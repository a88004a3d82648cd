// Cuts by rule: which ops run in parts, said by name.
//
//     layer*:m:4      every op whose name begins with "layer", along axis m, in 4 parts
//     conv1:n*:4      op conv1 along axis n, and with it all ops of that axis's class (classes.h)
//     conv1:n*:4>64   of that class those that make at least 64 bytes along it
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
  bool operator==(const CutRule&) const = default;
};

std::string print(const CutRule& rule);
// Its inverse: "OPS:AXIS:PARTS" or "OPS:AXIS*:PARTS[>BYTES]". Error: kUsage, naming the text and
// what is wrong with it.
Result<CutRule> parse_rule(std::string_view text);

// Parts as equal as they can be, the larger ones first. A later rule decides where several speak of
// an op. Error: kInput, where a rule speaks of no op, or of one that has no such axis, or cannot be
// cut along it so often; it names both and says what the op can be cut along. Of a class only the
// ops named must have so many parts.
Result<Cuts> cuts_of(const ir::Graph& graph, std::span<const CutRule> rules);

}  // namespace lowtide::fission

// Local rules: what one op and those before it can be exchanged for. A rule is a named value: the
// kind of op at its root, pattern and result in words for people, and a function that holds the
// guard and builds the replacement. Whoever applies rules (apply_rules) does the rest: readers are
// moved, what nobody reads any more goes, names stay, and what the graph does not allow is taken
// back. Edits keep the order of a graph valid (ir/edit.h), so no rule can close a cycle.
//
// A rule must end: it removes ops, or moves one nearer to the values that no op makes. It must not
// raise the least peak of all orders; its guard says why it does not.
//
// Tests: slice_concat_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "ir/edit.h"

namespace lowtide::rewrite {

struct Rule {
  std::string_view name;
  std::string_view root;  // a kind of op, with one result
  std::string_view pattern, result;
  // What is to be read in place of the root's result: a value that is there, or one that new ops
  // before the root make. Nothing where the guard refuses; what was added until then is taken back.
  std::optional<ir::ValueId> (*replacement)(ir::GraphEdit& edit, ir::OpId root) = nullptr;
};

struct RulesReport {
  ir::Graph graph;
  int64_t changed = 0;                               // ops: those that gave way
  std::map<std::string_view, int64_t> by_rule = {};  // how often each was applied
};

// Applies them everywhere until none fits. A graph with wholes (Join) is given back as it was.
// Error: kInput, where what was made fails ir::check.
Result<RulesReport> apply_rules(const ir::Graph& graph, std::span<const Rule> rules);

// What is to be read in place of the result of an op, as Rule::replacement.
using Replacement = std::function<std::optional<ir::ValueId>(ir::GraphEdit& edit, ir::OpId root)>;

// The same of these ops of the graph, each with one result, once. by_rule stays empty. Error: as
// apply_rules.
Result<RulesReport> replace_at(const ir::Graph& graph, std::span<const ir::OpId> roots,
                               const Replacement& replacement);

// ---- for guards ----

// A storage of the graph is made of pieces.
bool has_wholes(const ir::Graph& graph);
// An op of this kind with these attributes at most, which no control edge names.
bool is_plain(const ir::GraphEdit& edit, ir::OpId op, std::string_view kind,
              std::span<const std::string_view> attrs);
// The op that makes a value, if it is such a one.
std::optional<ir::OpId> plain_maker(const ir::GraphEdit& edit, ir::ValueId value,
                                    std::string_view kind, std::span<const std::string_view> attrs);
// Read by one op, once, and no result of the step.
bool is_read_once(const ir::GraphEdit& edit, ir::ValueId value);
// Keeping the value keeps no bytes but its own, or such as are there all the time.
bool keeps_only_itself(const ir::GraphEdit& edit, ir::ValueId value);

}  // namespace lowtide::rewrite

// Local rules: what one op and those before it can be exchanged for. A rule is data: a pattern
// (pattern.h), conditions on what it matches, and a result, which is built from the match. What
// conditions say, and where the attributes of new ops come from, are words of a table (words.h).
//
//     {"slice-of-slice", "Slice:outer(Slice:inner(x))",
//      "plain, is_view(inner), lies_alike(result, outer)", "Slice[of_both(inner, outer)](x)"}
//
// Conditions hold all of them; `!` in front of one is its contrary. What names `result` (what is
// read now) or an op of the result is asked once the result is there. Of several matches the first
// one counts whose conditions hold. Several rows with one name are the cases of one rule.
//
// Whoever applies rules (apply_rules) does the rest: readers are moved, what nobody reads any more
// goes, names stay, and what the graph does not allow is taken back. Edits keep the order of a
// graph valid (ir/edit.h), so no rule can close a cycle.
//
// A rule must end: it removes ops, or moves one nearer to the values that no op makes. It must not
// raise the least peak of all orders; its conditions say why it does not.
//
// What no local pattern describes is a function: canonical forms of whole trees (algebra.h), whose
// rows have a pattern for the root alone. No rules at all are passes whose ops do not lie behind
// each other or whose numbers are free: equal ops wherever they stand (common_ops.h), products side
// by side that share an operand (shared_operand.h), regions in as many chunks or blocks as sizes
// ask for (chunked_loss.h, query_blocks.h), ops with several results (batch_norm.h,
// loss_classes.h, label_counts.h).
//
// Tests: rules_test.cc, slice_concat_test.cc, round_trips_test.cc.
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
  std::string_view pattern;  // its root has one result
  std::string_view conditions = {};
  std::string_view result = {};  // an op, or a value of the pattern
  // Where the result is no text: what is to be read in place of the root's result, a value that is
  // there, or one that new ops before the root make. Nothing where it refuses; what was added until
  // then is taken back. It does not see the match, but is only called where the conditions hold of
  // one.
  std::optional<ir::ValueId> (*replacement)(ir::GraphEdit& edit, ir::OpId root) = nullptr;
};

// Whether its texts can be read and all words are known. Error: kUsage.
Status check(const Rule& rule);

struct RulesReport {
  ir::Graph graph;
  int64_t changed = 0;                               // ops: those that gave way
  std::map<std::string_view, int64_t> by_rule = {};  // how often each was applied
};

// Applies them everywhere until none fits; their texts must be right. A graph with wholes (Join) is
// given back as it was. Error: kInput, where what was made fails ir::check.
Result<RulesReport> apply_rules(const ir::Graph& graph, std::span<const Rule> rules);

// One rule at those of these ops of the graph that are still there, once each: also one that would
// not end. Error: as apply_rules.
Result<RulesReport> apply_rule_at(const ir::Graph& graph, std::span<const ir::OpId> roots,
                                  const Rule& rule);

// What is to be read in place of the result of an op, as Rule::replacement.
using Replacement = std::function<std::optional<ir::ValueId>(ir::GraphEdit& edit, ir::OpId root)>;

// The same of these ops of the graph, each with one result, once. by_rule stays empty. Error: as
// apply_rules.
Result<RulesReport> replace_at(const ir::Graph& graph, std::span<const ir::OpId> roots,
                               const Replacement& replacement);

// ---- for conditions ----

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

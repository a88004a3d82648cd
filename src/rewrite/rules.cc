#include "rewrite/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/edit.h"
#include "ops/op_table.h"
#include "rewrite/pattern.h"
#include "rewrite/words.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

// ---- rules, read ----

struct ReadCondition {
  const ConditionWord* word = nullptr;
  Call call;
};

struct ReadRule {
  const Rule* rule = nullptr;
  Pattern pattern;
  std::optional<Pattern> result;             // none: a function makes it
  std::vector<ReadCondition> before, after;  // the result is there
  std::string_view root() const { return pattern.root().kind; }
};

Status check_relations(const Pattern& pattern) {
  for (const Term& term : pattern.terms)
    if (!term.relation.empty() && find_relation(term.relation) == nullptr)
      return error(ErrorCode::kUsage, fmt::format("there is no relation '{}'", term.relation));
  return {};
}

Status check_attributes(const Pattern& result) {
  for (const Term& term : result.terms) {
    if (!term.attributes) continue;
    const AttributesWord* word = find_attributes(term.attributes->word);
    if (word == nullptr || term.attributes->negated)
      return error(ErrorCode::kUsage,
                   fmt::format("there are no attributes '{}'", term.attributes->word));
    LT_RETURN_IF_ERROR(check_call(*term.attributes, word->takes, result.names));
  }
  return {};
}

// The names that conditions may use: those of pattern and result, then `result`.
std::vector<Name> names_of(const ReadRule& rule) {
  std::vector<Name> names = rule.result ? rule.result->names : rule.pattern.names;
  names.push_back({"result", Sort::kValue});
  return names;
}

Status read_conditions(ReadRule& rule) {
  const std::vector<Name> names = names_of(rule);
  LT_ASSIGN(std::vector<Call> calls, parse_calls(rule.rule->conditions, names));
  for (Call& call : calls) {
    const ConditionWord* word = find_condition(call.word);
    if (word == nullptr)
      return error(ErrorCode::kUsage, fmt::format("there is no condition '{}'", call.word));
    LT_RETURN_IF_ERROR(check_call(call, word->takes, names));
    const bool is_after = std::any_of(call.names.begin(), call.names.end(), [&](size_t name) {
      return name >= rule.pattern.names.size();
    });
    (is_after ? rule.after : rule.before).push_back({word, std::move(call)});
  }
  return {};
}

Result<ReadRule> read(const Rule& rule) {
  ReadRule made{.rule = &rule, .pattern = {}, .result = {}, .before = {}, .after = {}};
  LT_ASSIGN(made.pattern, parse_pattern(rule.pattern));
  LT_RETURN_IF_ERROR(check_relations(made.pattern));
  if (rule.replacement == nullptr) {
    LT_ASSIGN(made.result, parse_result(rule.result, made.pattern.names));
    LT_RETURN_IF_ERROR(check_attributes(*made.result));
  }
  LT_RETURN_IF_ERROR(read_conditions(made));
  return made;
}

bool hold(std::span<const ReadCondition> conditions, const Match& match) {
  return std::all_of(conditions.begin(), conditions.end(), [&](const ReadCondition& condition) {
    return condition.word->holds({match, condition.call.names}) != condition.call.negated;
  });
}

bool related(std::string_view relation, const GraphEdit& edit, OpId reader, ValueId left,
             ValueId right) {
  return find_relation(relation)->holds(edit, reader, left, right);
}

ops::AppendOptions named_after(const ir::Op& op) {
  ops::AppendOptions options;
  options.name = op.name;
  options.module = op.module;
  options.source = op.source;
  options.phase = op.phase;
  if (op.phase != Phase::kForward) options.category = Category::kTemporary;
  return options;
}

// The ops of a result before the root, called after it. What its names stand for is added to the
// match. Nothing where there is no such op.
std::optional<ValueId> build(GraphEdit& edit, const Pattern& result, Match& match, OpId root) {
  const ops::AppendOptions options = named_after(edit.op(root));
  match.bound.resize(result.names.size());
  std::vector<std::vector<ValueId>> made;  // by term
  for (const Term& term : result.terms) {
    made.push_back(term.form == Term::Form::kAbsent ? std::vector{ValueId()}
                                                    : match.bound[term.name]);
    if (term.form != Term::Form::kOp) continue;
    std::vector<ValueId> inputs;
    for (size_t operand : term.operands)
      inputs.insert(inputs.end(), made[operand].begin(), made[operand].end());
    std::optional<ir::Attrs> attrs = ir::Attrs();
    if (term.attributes)
      attrs = find_attributes(term.attributes->word)->of({match, term.attributes->names});
    if (!attrs) return std::nullopt;
    const auto op = ops::append(edit, ir::Place::before(root), term.kind, std::move(inputs),
                                std::move(*attrs), options);
    if (!op) return std::nullopt;
    made.back() = match.bound[term.name] = {edit.op(*op).outputs[0]};
  }
  return made.back()[0];
}

// ---- rules, applied ----

class Application {
 public:
  explicit Application(const ir::Graph& graph) : old_(graph), edit_(graph) {}

  Result<RulesReport> run(std::span<const Rule> rules) {
    read_all(rules);
    for (bool again = true; again;) {
      again = false;
      for (OpId next = edit_.first_op(); next.valid();) {
        const OpId root = next;
        next = edit_.next_op(root);
        // What follows is not before the root, so it stays.
        again |= try_rules(root);
      }
    }
    return made();
  }

  Result<RulesReport> run_once(std::span<const OpId> roots, const Rule& rule) {
    read_all({&rule, 1});
    for (const OpId root : roots)
      if (edit_.alive(root) && try_rule(rules_[0], root)) ++report_.by_rule[rule.name];
    return made();
  }

  Result<RulesReport> run(std::span<const OpId> roots, const Replacement& replacement) {
    for (const OpId root : roots) try_one(replacement, root);
    return made();
  }

 private:
  void read_all(std::span<const Rule> rules) {
    for (const Rule& rule : rules) {
      Result<ReadRule> made = read(rule);
      LT_CHECK(made.has_value(), fmt::format("rule {}: {}", rule.name, made.error().message));
      rules_.push_back(std::move(*made));
    }
  }

  Result<RulesReport> made() {
    if (report_.changed == 0) return RulesReport{old_};
    report_.graph = edit_.compact().graph;
    LT_RETURN_IF_ERROR(ir::check(report_.graph));
    return std::move(report_);
  }

  // The first rule that fits; again at what it made, where it may have more to do with other
  // operands.
  bool try_rules(OpId root) {
    const ReadRule* applied = nullptr;
    for (bool again = true; again && root.valid();) {
      again = false;
      for (const ReadRule& rule : rules_) {
        if (applied != nullptr && rule.rule->name != applied->rule->name) continue;
        const std::optional<OpId> now = try_rule(rule, root);
        if (!now) continue;
        ++report_.by_rule[rule.rule->name];
        applied = &rule;
        again = rule.result.has_value();
        root = *now;
        break;
      }
    }
    return applied != nullptr;
  }

  // The new op that makes what is read in place of the root's result, or none: a value that was
  // there. Nothing where the rule does not fit.
  std::optional<OpId> try_rule(const ReadRule& rule, OpId root) {
    if (rule.root() != edit_.op(root).kind || !may_give_way(root)) return std::nullopt;
    const size_t ops_before = edit_.op_slots();
    std::optional<ValueId> now;
    bool done = false;
    const auto visit = [&](const Match& found) {
      const auto make = [&](GraphEdit& edit, OpId op) {
        return now = replace(rule, edit, op, found);
      };
      const bool is_met = hold(rule.before, found);
      done = is_met && try_one(make, root);
      // A function sees the root alone: once is enough, where no condition depends on the match.
      return done || (!rule.result && is_met && rule.after.empty());
    };
    for_each_match(edit_, rule.pattern, root, visit, related);
    if (!done) return std::nullopt;
    const OpId maker = edit_.value(*now).producer;
    return maker.valid() && maker.index() >= ops_before ? maker : OpId();
  }

  static std::optional<ValueId> replace(const ReadRule& rule, GraphEdit& edit, OpId root,
                                        const Match& found) {
    Match match = found;
    const auto now =
        rule.result ? build(edit, *rule.result, match, root) : rule.rule->replacement(edit, root);
    if (!now) return std::nullopt;
    if (rule.result) match.pattern = &*rule.result;
    match.bound.push_back({*now});
    return hold(rule.after, match) ? now : std::nullopt;
  }

  bool may_give_way(OpId root) const {
    const ir::Op& op = edit_.op(root);
    return op.outputs.size() == 1 && op.control.empty() && edit_.waiting(root).empty();
  }

  template <class Replace>
  bool try_one(const Replace& replacement, OpId root) {
    if (!may_give_way(root)) return false;
    const GraphEdit::Mark before = edit_.mark();
    const int64_t changed = report_.changed;
    if (apply(replacement, root)) {
      edit_.commit();
      return true;
    }
    edit_.rollback(before);
    report_.changed = changed;
    return false;
  }

  template <class Replace>
  bool apply(const Replace& replacement, OpId root) {
    const size_t values_before = edit_.value_slots();
    const std::optional<ValueId> now = replacement(edit_, root);
    if (!now) return false;
    const ValueId old = edit_.op(root).outputs[0];
    const ir::Value was = edit_.value(old);
    // An update of a copy would become one of what was copied.
    for (ValueId member : edit_.values_in(was.storage))
      if (edit_.value(member).alias == ir::Alias::kUpdate) return false;
    const bool is_new = now->index() >= values_before;
    if (was.is_output && !is_new) return false;  // the result would lose its name
    if (!edit_.replace_reads(old, *now)) return false;
    if (was.is_output) edit_.set_output(old, false);
    if (!remove_with_what_only_it_read(root)) return false;
    if (!is_new) {
      if (was.category == Category::kGradient) mark_gradient(*now);
      return true;
    }
    edit_.keep_output(*now, was);
    if (edit_.value(*now).alias == ir::Alias::kOwn) edit_.set_category(*now, was.category);
    return edit_.rename(*now, was.name).has_value();
  }

  // What is read in place of a gradient is one.
  void mark_gradient(ValueId id) {
    for (bool is_view = true; is_view;) {
      const ir::Value value = edit_.value(id);
      if (!value.producer.valid() || edit_.op(value.producer).phase != Phase::kBackward) return;
      edit_.set_category(id, Category::kGradient);
      is_view = value.alias == ir::Alias::kView;
      id = value.base;
    }
  }

  bool is_unread(OpId id) const {
    const ir::Op& op = edit_.op(id);
    const ops::Row* row = ops::find(op.kind);
    if (row == nullptr || ops::traits(*row).has_effect || !edit_.waiting(id).empty()) return false;
    return std::all_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return edit_.readers(v).empty() && !edit_.value(v).is_output &&
             edit_.value(v).alias != ir::Alias::kUpdate;
    });
  }

  bool remove_with_what_only_it_read(OpId root) {
    std::vector<OpId> open = {root};
    while (!open.empty()) {
      const OpId gone = open.back();
      open.pop_back();
      const std::vector<ValueId> inputs = edit_.op(gone).inputs;
      if (!edit_.remove_op(gone)) return false;
      ++report_.changed;
      for (ValueId input : inputs) {
        if (!input.valid() || !edit_.alive(input)) continue;
        const OpId maker = edit_.value(input).producer;
        if (maker.valid() && std::find(open.begin(), open.end(), maker) == open.end() &&
            is_unread(maker))
          open.push_back(maker);
      }
    }
    return true;
  }

  const ir::Graph& old_;
  GraphEdit edit_;
  std::vector<ReadRule> rules_;
  RulesReport report_;
};

}  // namespace

Status check(const Rule& rule) {
  LT_RETURN_IF_ERROR(read(rule));
  return {};
}

bool has_wholes(const ir::Graph& graph) {
  return std::any_of(graph.storages().begin(), graph.storages().end(),
                     [&](ir::StorageId s) { return !graph.storage(s).pieces.empty(); });
}

Result<RulesReport> apply_rules(const ir::Graph& graph, std::span<const Rule> rules) {
  if (has_wholes(graph)) return RulesReport{graph};
  return Application(graph).run(rules);
}

Result<RulesReport> apply_rule_at(const ir::Graph& graph, std::span<const OpId> roots,
                                  const Rule& rule) {
  if (has_wholes(graph)) return RulesReport{graph};
  return Application(graph).run_once(roots, rule);
}

Result<RulesReport> replace_at(const ir::Graph& graph, std::span<const OpId> roots,
                               const Replacement& replacement) {
  if (has_wholes(graph)) return RulesReport{graph};
  return Application(graph).run(roots, replacement);
}

bool is_plain(const GraphEdit& edit, OpId id, std::string_view kind,
              std::span<const std::string_view> attrs) {
  const ir::Op& op = edit.op(id);
  return op.kind == kind && op.outputs.size() == 1 && op.control.empty() &&
         edit.waiting(id).empty() &&
         std::all_of(op.attrs.begin(), op.attrs.end(), [&](const auto& attr) {
           return std::find(attrs.begin(), attrs.end(), attr.first) != attrs.end();
         });
}

std::optional<OpId> plain_maker(const GraphEdit& edit, ValueId value, std::string_view kind,
                                std::span<const std::string_view> attrs) {
  const OpId maker = edit.value(value).producer;
  if (!maker.valid() || !is_plain(edit, maker, kind, attrs)) return std::nullopt;
  return maker;
}

bool is_read_once(const GraphEdit& edit, ValueId value) {
  if (edit.value(value).is_output || edit.readers(value).size() != 1) return false;
  const std::vector<ValueId>& inputs = edit.op(edit.readers(value)[0]).inputs;
  return std::count(inputs.begin(), inputs.end(), value) == 1;
}

bool keeps_only_itself(const GraphEdit& edit, ValueId value) {
  const ir::Value& root = edit.value(edit.storage(edit.value(value).storage).root);
  return !root.producer.valid() || ir::size_bytes(root) == ir::size_bytes(edit.value(value));
}

}  // namespace lowtide::rewrite

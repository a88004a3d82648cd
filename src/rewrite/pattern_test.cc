#include "rewrite/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;
using Values = std::vector<ValueId>;
using Bound = std::vector<Values>;

Pattern pattern_of(std::string_view text) {
  auto pattern = parse_pattern(text);
  EXPECT_TRUE(pattern.has_value()) << (pattern ? "" : pattern.error().message);
  return pattern ? *pattern : Pattern();
}

// Neighbours in a run were made in that order.
bool made_in_order(std::string_view relation, const GraphEdit&, OpId, ValueId left, ValueId right) {
  EXPECT_EQ(relation, "rising");
  return left < right;
}

std::vector<Bound> matches(const GraphEdit& edit, const Pattern& pattern, OpId root) {
  std::vector<Bound> found;
  for_each_match(
      edit, pattern, root,
      [&](const Match& match) {
        found.push_back(match.bound);
        return false;
      },
      made_in_order);
  return found;
}

// ---- the oracle: all assignments, each judged by what a match is ----

class AllAssignments {
 public:
  AllAssignments(const GraphEdit& edit, const ir::Graph& graph, const Pattern& pattern)
      : edit_(edit), pattern_(pattern), candidates_(pattern.names.size()) {
    std::set<Values> lists = {{}};
    for (OpId id : graph.ops()) {
      const Values inputs = trimmed(graph.op(id).inputs);
      add_sublists(inputs, lists);
      if (commutes(graph.op(id).kind)) add_sublists(Values(inputs.rbegin(), inputs.rend()), lists);
    }
    for (size_t n = 0; n < candidates_.size(); ++n) {
      const Sort sort = pattern.names[n].sort;
      if (sort == Sort::kValues || sort == Sort::kOps) {
        candidates_[n].assign(lists.begin(), lists.end());
      } else {
        for (ValueId v : graph.values()) candidates_[n].push_back({v});
      }
    }
    for (const Term& term : pattern.terms)
      if (term.form == Term::Form::kOp || term.form == Term::Form::kRun)
        std::erase_if(candidates_[term.name], [&](const Values& values) {
          return !std::all_of(values.begin(), values.end(),
                              [&](ValueId v) { return made_by(v, term.kind) != nullptr; });
        });
  }

  std::set<Bound> matches(ValueId root) {
    std::set<Bound> found;
    candidates_[pattern_.root().name] = {{root}};
    std::vector<size_t> choice(candidates_.size(), 0);
    Bound bound(choice.size());
    if (std::any_of(candidates_.begin(), candidates_.end(),
                    [](const auto& c) { return c.empty(); }))
      return found;
    while (true) {
      for (size_t n = 0; n < choice.size(); ++n) bound[n] = candidates_[n][choice[n]];
      if (is_match(bound)) found.insert(bound);
      size_t n = 0;
      while (n < choice.size() && ++choice[n] == candidates_[n].size()) choice[n++] = 0;
      if (n == choice.size()) return found;
    }
  }

 private:
  static void add_sublists(const Values& values, std::set<Values>& lists) {
    for (auto begin = values.begin(); begin != values.end(); ++begin)
      for (auto end = begin + 1; (end - 1)->valid(); ++end) {
        lists.insert(Values(begin, end));
        if (end == values.end()) break;
      }
  }

  static Values trimmed(Values values) {
    while (!values.empty() && !values.back().valid()) values.pop_back();
    return values;
  }

  // What the terms of an op stand for, one behind the other.
  Values operands_of(const Term& term, const Bound& bound) const {
    Values all;
    for (size_t t : term.operands) {
      const Term& operand = pattern_.terms[t];
      if (operand.form == Term::Form::kAbsent)
        all.emplace_back();
      else
        all.insert(all.end(), bound[operand.name].begin(), bound[operand.name].end());
    }
    return trimmed(all);
  }

  const ir::Op* made_by(ValueId value, std::string_view kind) const {
    if (!value.valid() || !edit_.value(value).producer.valid()) return nullptr;
    const ir::Op& op = edit_.op(edit_.value(value).producer);
    return op.kind == kind && op.outputs[0] == value ? &op : nullptr;
  }

  bool is_in_run(const Term& run, ValueId value, const Bound& bound) const {
    const ir::Op* op = made_by(value, run.kind);
    return op != nullptr && trimmed(op->inputs) == operands_of(run, bound);
  }

  // The run is as long as it can be among these operands, from this one on.
  bool is_longest(const Term& run, const Values& operands, size_t begin, const Bound& bound) const {
    const Values& members = bound[run.name];
    const auto follows = [&](size_t right) {
      return is_in_run(run, operands[right - 1], bound) && is_in_run(run, operands[right], bound) &&
             (run.relation.empty() || operands[right - 1] < operands[right]);
    };
    if (members.empty() || !is_in_run(run, members[0], bound)) return false;
    for (size_t i = 1; i < members.size(); ++i)
      if (!follows(begin + i)) return false;
    const size_t end = begin + members.size();
    return (begin == 0 || !follows(begin)) && (end >= operands.size() || !follows(end));
  }

  bool fits(const Term& term, const Values& operands, const Bound& bound) const {
    if (operands_of(term, bound) != operands) return false;
    size_t at = 0;
    for (size_t t : term.operands) {
      const Term& operand = pattern_.terms[t];
      if (operand.form == Term::Form::kRun && !is_longest(operand, operands, at, bound))
        return false;
      at += operand.form == Term::Form::kAbsent ? 1 : bound[operand.name].size();
    }
    return true;
  }

  bool is_match(const Bound& bound) const {
    return std::all_of(pattern_.terms.begin(), pattern_.terms.end(), [&](const Term& term) {
      if (term.form != Term::Form::kOp) return true;
      const ir::Op* op = made_by(bound[term.name][0], term.kind);
      if (op == nullptr) return false;
      const Values inputs = trimmed(op->inputs);
      const bool swaps = commutes(term.kind) && inputs.size() == 2;
      return fits(term, inputs, bound) || (swaps && fits(term, {inputs[1], inputs[0]}, bound));
    });
  }

  const GraphEdit& edit_;
  const Pattern& pattern_;
  std::vector<std::vector<Values>> candidates_;  // by name
};

// A few ops of these kinds on matrices of two columns.
class FewOps : public GraphWriter {
 public:
  FewOps(uint64_t seed, int ops, std::vector<std::string> kinds)
      : rng_(seed), kinds_(std::move(kinds)) {
    pool_ = {given("x", {2, 2}), given("y", {2, 2})};
    for (int i = 0; i < ops; ++i) pool_.push_back(grow());
  }

 private:
  ValueId any() { return pool_[rng_.below(pool_.size())]; }
  ValueId like(ValueId x) {
    Values same;
    for (ValueId v : pool_)
      if (graph_.value(v).dims == graph_.value(x).dims) same.push_back(v);
    return same[rng_.below(same.size())];
  }
  ValueId grow() {
    const std::string& kind = kinds_[rng_.below(kinds_.size())];
    const ValueId x = any();
    if (kind == "Tanh") return op(kind, {x});
    if (kind == "MatMul") {
      const bool has_bias = rng_.below(4) == 0;
      return op(kind, {x, like(pool_[0]), has_bias ? given("bias", {2}) : ValueId()});
    }
    if (kind != "Concat") return op(kind, {x, like(x)});
    Values parts = {x};
    while (parts.size() < 4 && rng_.below(4) > 0)
      parts.push_back(rng_.below(3) == 0 ? parts[0] : any());
    return op(kind, parts, {{"axis", int64_t{0}}});
  }
  Rng rng_;
  std::vector<std::string> kinds_;
  Values pool_;
};

constexpr const char* kTexts[] = {
    "Tanh(x)",
    "Tanh:outer(Tanh:inner(x))",
    "Add(x, x)",
    "Add(x, y)",
    "Sub(x, y)",
    "Add(xs..)",
    "Add(x, Mul(x, y))",
    "Add(Mul(a, b), c)",
    "Add(Mul(a, b), Mul(a, c))",
    "Add(Mul:m(a, b), m)",
    "Add(m, Mul:m(a, b))",
    "Mul(Add(a, b), a)",
    "Sub(Tanh:t(x), t)",
    "MatMul(a, b)",
    "MatMul(a, b, -)",
    "MatMul(a, b, bias)",
    "MatMul(MatMul(b, a), a, -, -)",
    "Concat()",
    "Concat(x)",
    "Concat(x, y, z)",
    "Concat(.., x, ..)",
    "Concat(x, .., x)",
    "Concat(xs.., xs..)",
    "Concat(x.., Tanh(y), ..)",
    "Concat:c(.., Concat:d(ys..), ..)",
    "Concat(Concat(xs..), xs..)",
    "Concat(Tanh:parts(x)..)",
    "Concat(.., Tanh:parts(x).., ..)",
    "Concat(.., Tanh:parts(x)..{rising}, ..)",
    "Concat(y, Tanh:parts(x)..{rising}, z)",
    "Concat(.., Sub:parts(x, y)..)",
    "Tanh(Concat(.., MatMul:parts(x, y, -)..{rising}))",
};

std::vector<std::string> kinds_of(const Pattern& pattern) {
  std::vector<std::string> kinds;
  for (const Term& term : pattern.terms)
    if (!term.kind.empty()) kinds.push_back(term.kind);
  return kinds;
}

TEST(Pattern, MatchesAreWhatAllAssignmentsSay) {
  for (const char* text : kTexts) {
    SCOPED_TRACE(text);
    const Pattern pattern = pattern_of(text);
    size_t count = 0;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(seed);
      const FewOps few(seed, 5, kinds_of(pattern));
      const GraphEdit edit(few.graph());
      AllAssignments all(edit, few.graph(), pattern);
      for (OpId root : few.graph().ops()) {
        if (few.graph().op(root).kind != pattern.root().kind) continue;
        const std::vector<Bound> found = matches(edit, pattern, root);
        const std::set<Bound> once(found.begin(), found.end());
        ASSERT_EQ(once.size(), found.size());
        ASSERT_EQ(once, all.matches(few.graph().op(root).outputs[0]));
        count += found.size();
      }
    }
    std::cout << text << ": " << count << "\n";
    EXPECT_EQ(count > 0, std::string_view(text) != "Concat()");
  }
}

// ---- order, and what a visitor may do ----

struct Joined : GraphWriter {
  ValueId a = given("a", {2, 2}), b = given("b", {2, 2});
  ValueId t = op("Tanh", {a}), u = op("Tanh", {a});
  OpId concat(const Values& parts) {
    return graph_.value(op("Concat", parts, {{"axis", int64_t{0}}})).producer;
  }
};

TEST(Pattern, MatchesComeFromLeftToRight) {
  Joined w;
  const OpId root = w.concat({w.a, w.t, w.b});
  const Pattern pattern = pattern_of("Concat(.., x, ..)");
  const size_t x = 2;
  ASSERT_EQ(pattern.names[x].text, "x");
  const std::vector<Bound> found = matches(GraphEdit(w.graph()), pattern, root);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0][x], Values{w.a});
  EXPECT_EQ(found[1][x], Values{w.t});
  EXPECT_EQ(found[2][x], Values{w.b});
}

TEST(Pattern, TheOrderAsWrittenComesFirst) {
  Joined w;
  const ValueId sum = w.op("Add", {w.a, w.b});
  const std::vector<Bound> found =
      matches(GraphEdit(w.graph()), pattern_of("Add:s(x, y)"), w.graph().value(sum).producer);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], (Bound{{sum}, {w.a}, {w.b}}));
  EXPECT_EQ(found[1], (Bound{{sum}, {w.b}, {w.a}}));
}

TEST(Pattern, ARunIsAsLongAsItCanBe) {
  Joined w;
  const OpId root = w.concat({w.t, w.u, w.t, w.b, w.u});
  const std::vector<Bound> found =
      matches(GraphEdit(w.graph()), pattern_of("Concat:c(.., Tanh:parts(x)..{rising}, ..)"), root);
  ASSERT_EQ(found.size(), 3U);
  const size_t parts = 2;
  EXPECT_EQ(found[0][parts], (Values{w.t, w.u}));
  EXPECT_EQ(found[1][parts], (Values{w.t}));
  EXPECT_EQ(found[2][parts], (Values{w.u}));
}

TEST(Pattern, AVisitorEndsTheSearchAndMayTakeBackWhatItDid) {
  Joined w;
  const OpId root = w.concat({w.a, w.t, w.b, w.u});
  GraphEdit edit(w.graph());
  int seen = 0;
  const auto visit = [&](const Match& match) {
    const auto before = edit.mark();
    EXPECT_TRUE(edit.set_input(match.op(0), 0, w.u).has_value());
    edit.rollback(before);
    return ++seen == 3;
  };
  EXPECT_TRUE(for_each_match(edit, pattern_of("Concat(.., x, ..)"), root, visit));
  EXPECT_EQ(seen, 3);
}

// ---- texts ----

TEST(Pattern, TextsAreRead) {
  const Pattern pattern = pattern_of(" Concat:c( .. , Slice:parts(x)..{follow},ys.. , - ) ");
  ASSERT_EQ(pattern.names.size(), 5U);
  EXPECT_EQ(pattern.names[0].text, "c");
  EXPECT_EQ(pattern.names[1].text, "..0");
  EXPECT_EQ(pattern.names[2].sort, Sort::kOps);
  EXPECT_EQ(pattern.root().operands.size(), 4U);
  EXPECT_EQ(pattern.terms[pattern.root().operands[1]].relation, "follow");
  EXPECT_EQ(pattern.terms[pattern.root().operands[3]].form, Term::Form::kAbsent);
  const auto result = parse_result("Concat[as(c)]:made(ys.., .., parts..)", pattern.names);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->names.size(), 6U);
  EXPECT_EQ(result->root().attributes->word, "as");
  EXPECT_EQ(result->root().attributes->names, std::vector<size_t>{0});
  const auto calls = parse_calls("plain, !is_all(c, x)", pattern.names);
  ASSERT_TRUE(calls.has_value()) << calls.error().message;
  ASSERT_EQ(calls->size(), 2U);
  EXPECT_TRUE((*calls)[1].negated);
  EXPECT_EQ((*calls)[1].names, (std::vector<size_t>{0, 3}));
}

TEST(Pattern, WrongTextsAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "a kind, a name, '..' or '-' is wanted at character 0"},
      {"x", "an op is wanted at character 1"},
      {"xs..", "an op is wanted at character 4"},
      {"Nothing(x)", "a kind of op, not 'Nothing', is wanted at character 7"},
      {"Tanh x", "'(' is wanted at character 5"},
      {"Tanh(x", "',' or ')' is wanted at character 6"},
      {"Tanh(x) y", "the end is wanted at character 8"},
      {"Tanh(x,)", "a kind, a name, '..' or '-' is wanted at character 7"},
      {"Tanh[as(x)](x)", "'(' is wanted at character 4"},
      {"Tanh(x)..", "the end is wanted at character 7"},
      {"Add(x, x..)", "'x' as before is wanted at character 10"},
      {"Sub(Tanh:t(x), Tanh:t(y))", "another name than 't' before this is wanted at character 21"},
      {"Concat(Add:r(x, y)..)",
       "a run of ops that do not commute, of values alone, before this is wanted at character 20"},
      {"Concat(Tanh:r(Tanh(x))..)",
       "a run of ops that do not commute, of values alone, before this is wanted at character 24"},
      {"Concat(r, Tanh:r(x)..)", "a new name of a run before this is wanted at character 21"},
      {"Concat(Tanh:r(x)..{}, r)", "the name of a relation and '}' is wanted at character 19"},
  };
  for (const auto& [text, message] : wrong) {
    const auto pattern = parse_pattern(text);
    ASSERT_FALSE(pattern.has_value()) << text;
    EXPECT_EQ(pattern.error().message, "pattern '" + std::string(text) + "': " + message);
  }
}

TEST(Pattern, WrongResultsAndConditionsAreRefused) {
  const Pattern pattern = pattern_of("Concat:c(.., ys..)");
  const std::pair<const char*, const char*> wrong[] = {
      {"x", "a name of the pattern, not 'x', is wanted at character 1"},
      {"ys", "'ys' as before is wanted at character 2"},
      {"ys..", "an op or a value is wanted at character 4"},
      {"Concat(.., ..)", "a name of the pattern, not '..1', is wanted at character 13"},
      {"Concat[as(d)](c)", "a known name, not 'd', is wanted at character 11"},
      {"Concat[as(c)]:c(c)", "another name than 'c' before this is wanted at character 15"},
  };
  for (const auto& [text, message] : wrong) {
    const auto result = parse_result(text, pattern.names);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().message, "result '" + std::string(text) + "': " + message);
  }
  EXPECT_FALSE(parse_calls("plain is_view(c)", pattern.names).has_value());
  const auto open = parse_calls("plain(", pattern.names);
  ASSERT_FALSE(open.has_value());
  EXPECT_EQ(open.error().message,
            "condition 'plain(': a known name, not '', is wanted at character 6");
  EXPECT_FALSE(parse_calls("!", pattern.names).has_value());
  EXPECT_TRUE(parse_calls("", pattern.names)->empty());
}

}  // namespace
}  // namespace lowtide::rewrite

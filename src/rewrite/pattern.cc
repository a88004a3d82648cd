#include "rewrite/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;
using Form = Term::Form;

// At most as deep as the brackets of a text. NOLINTBEGIN(misc-no-recursion)

// ---- texts ----

// One text from left to right.
class PatternReader {
 public:
  // `what` is read: a pattern, result or condition.
  PatternReader(std::string_view text, std::span<const Name> known, std::string_view what)
      : text_(text), what_(what), is_result_(what == "result") {
    pattern_.text = text;
    pattern_.names.assign(known.begin(), known.end());
    skip();
  }

  Result<Pattern> pattern() {
    LT_RETURN_IF_ERROR(term(true));
    if (at_ < text_.size()) return wrong("the end");
    const Form form = pattern_.root().form;
    if (form != Form::kOp && !(is_result_ && form == Form::kValue))
      return wrong(is_result_ ? "an op or a value" : "an op");
    return std::move(pattern_);
  }

  Result<std::vector<Call>> calls() {
    std::vector<Call> calls;
    while (at_ < text_.size()) {
      if (!calls.empty() && !take(",")) return wrong("','");
      LT_ASSIGN(Call next, call());
      calls.push_back(std::move(next));
    }
    return calls;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    skip();
    return true;
  }
  std::string word() {
    const auto belongs = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    const size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    std::string found(text_.substr(begin, at_ - begin));
    skip();
    return found;
  }
  tl::unexpected<Error> wrong(std::string_view wanted) const {
    return error(ErrorCode::kUsage,
                 fmt::format("{} '{}': {} is wanted at character {}", what_, text_, wanted, at_));
  }

  Result<size_t> finish(Term term) {
    pattern_.terms.push_back(std::move(term));
    return pattern_.terms.size() - 1;
  }

  // Of a term, and what stands behind it.
  Result<size_t> term(bool is_root) {
    if (take("..")) return list(fmt::format("..{}", lists_++));
    if (take("-")) return finish({.form = Form::kAbsent});
    const std::string first = word();
    if (first.empty()) return wrong("a kind, a name, '..' or '-'");
    if (std::isupper(static_cast<unsigned char>(first[0])) != 0) return op(first, is_root);
    if (take("..")) return list(first);
    LT_ASSIGN(const size_t name, name_of(first, Sort::kValue));
    return finish({.form = Form::kValue, .name = name});
  }

  Result<size_t> list(const std::string& text) {
    LT_ASSIGN(const size_t name, name_of(text, Sort::kValues));
    return finish({.form = Form::kList, .name = name});
  }

  Result<size_t> op(const std::string& kind, bool is_root) {
    if (ops::find(kind) == nullptr) return wrong(fmt::format("a kind of op, not '{}',", kind));
    Term term{.form = Form::kOp, .kind = kind};
    if (is_result_ && take("[")) {
      LT_ASSIGN(term.attributes, call());
      if (!take("]")) return wrong("']'");
    }
    const std::string called = take(":") ? word() : "";
    const size_t number = pattern_.names.size();
    LT_ASSIGN(term.name, op_name(called));
    if (!take("(")) return wrong("'('");
    while (!take(")")) {
      if (!term.operands.empty() && !take(",")) return wrong("',' or ')'");
      LT_ASSIGN(const size_t operand, this->term(false));
      term.operands.push_back(operand);
    }
    if (is_root || is_result_ || !take("..")) return finish(std::move(term));
    if (term.name != number) return wrong("a new name of a run before this");
    return run(std::move(term));
  }

  // What was read as an op is one of a run.
  Result<size_t> run(Term term) {
    term.form = Form::kRun;
    pattern_.names[term.name].sort = Sort::kOps;
    if (take("{")) {
      term.relation = word();
      if (term.relation.empty() || !take("}")) return wrong("the name of a relation and '}'");
    }
    const bool is_flat = std::all_of(term.operands.begin(), term.operands.end(), [&](size_t t) {
      return pattern_.terms[t].form == Form::kValue || pattern_.terms[t].form == Form::kAbsent;
    });
    if (!is_flat || commutes(term.kind))
      return wrong("a run of ops that do not commute, of values alone, before this");
    return finish(std::move(term));
  }

  // Of an op that has none, or is called so: in a pattern it may have been read already.
  Result<size_t> op_name(const std::string& text) {
    const auto found = text.empty() ? std::nullopt : find(text);
    if (found && (is_result_ || pattern_.names[*found].sort != Sort::kValue))
      return wrong(fmt::format("another name than '{}' before this", text));
    if (found) {
      pattern_.names[*found].sort = Sort::kOp;
      return *found;
    }
    pattern_.names.push_back({text, Sort::kOp});
    return pattern_.names.size() - 1;
  }

  std::optional<size_t> find(std::string_view text) const {
    for (size_t n = 0; n < pattern_.names.size(); ++n)
      if (pattern_.names[n].text == text) return n;
    return std::nullopt;
  }

  // What a name stands for as an operand: one value, or several.
  Result<size_t> name_of(const std::string& text, Sort sort) {
    const bool several = sort == Sort::kValues;
    if (const auto found = find(text)) {
      const Sort has = pattern_.names[*found].sort;
      if (several != (has == Sort::kValues || has == Sort::kOps) ||
          (has == Sort::kOps && !is_result_))
        return wrong(fmt::format("'{}' as before", text));
      return *found;
    }
    if (is_result_) return wrong(fmt::format("a name of the pattern, not '{}',", text));
    pattern_.names.push_back({text, sort});
    return pattern_.names.size() - 1;
  }

  Result<Call> call() {
    Call call;
    call.negated = take("!");
    call.word = word();
    if (call.word.empty()) return wrong("a word");
    if (!take("(")) return call;
    do {
      const std::string name = word();
      const auto found = name.empty() ? std::nullopt : find(name);
      if (!found) return wrong(fmt::format("a known name, not '{}',", name));
      call.names.push_back(*found);
    } while (take(","));
    if (!take(")")) return wrong("')'");
    return call;
  }

  std::string_view text_, what_;
  bool is_result_;
  size_t at_ = 0, lists_ = 0;
  Pattern pattern_;
};

// ---- matches ----

class Matcher {
 public:
  Matcher(const GraphEdit& edit, const Pattern& pattern,
          const std::function<bool(const Match&)>& visit, const Related& related)
      : edit_(edit), pattern_(pattern), visit_(visit), related_(related) {
    match_.edit = &edit;
    match_.pattern = &pattern;
    match_.bound.resize(pattern.names.size());
    is_bound_.resize(pattern.names.size(), 0);
  }

  bool at(OpId root) {
    const auto& made = edit_.op(root).outputs;
    return !made.empty() && value(pattern_.root(), made[0], nullptr);
  }

 private:
  // What is still to be matched: operands of a term from one on, to operands of an op; then others.
  struct Rest {
    const Term* term = nullptr;
    OpId op;
    bool swapped = false;  // two operands
    size_t operand = 0, input = 0;
    const Rest* next = nullptr;
  };

  // Edits may come and go in between, so nothing of them is kept.
  size_t inputs_of(OpId op) const {
    const std::vector<ValueId>& inputs = edit_.op(op).inputs;
    size_t n = inputs.size();
    while (n > 0 && !inputs[n - 1].valid()) --n;
    return n;
  }
  ValueId input_of(const Rest& rest, size_t i) const {
    if (i >= inputs_of(rest.op)) return {};
    return edit_.op(rest.op).inputs[rest.swapped ? 1 - i : i];
  }

  template <class Then>
  bool with(size_t name, const std::vector<ValueId>& values, const Then& then) {
    if (is_bound_[name] != 0) return match_.bound[name] == values && then();
    is_bound_[name] = 1;
    match_.bound[name] = values;
    const bool done = then();
    is_bound_[name] = 0;
    match_.bound[name].clear();
    return done;
  }

  std::optional<OpId> maker(const Term& term, ValueId value) const {
    if (!value.valid()) return std::nullopt;
    const OpId op = edit_.value(value).producer;
    if (!op.valid() || edit_.op(op).kind != term.kind || edit_.op(op).outputs[0] != value)
      return std::nullopt;
    return op;
  }

  bool value(const Term& term, ValueId value, const Rest* rest) {
    if (term.form == Form::kAbsent) return !value.valid() && operands(rest);
    if (!value.valid()) return false;
    if (term.form == Form::kValue) return with(term.name, {value}, [&] { return operands(rest); });
    const auto op = maker(term, value);
    if (!op) return false;
    return with(term.name, {value}, [&] {
      Rest inner{.term = &term, .op = *op, .next = rest};
      if (operands(&inner)) return true;
      if (!may_swap(term, *op)) return false;
      inner.swapped = true;
      return operands(&inner);
    });
  }

  bool may_swap(const Term& term, OpId op) const {
    const std::vector<ValueId>& inputs = edit_.op(op).inputs;
    return commutes(term.kind) && inputs.size() == 2 && inputs[0] != inputs[1];
  }

  bool operands(const Rest* rest) {
    if (rest == nullptr) return visit_(match_);
    const size_t inputs = inputs_of(rest->op);
    if (rest->operand == rest->term->operands.size())
      return rest->input >= inputs && operands(rest->next);
    const Term& term = pattern_.terms[rest->term->operands[rest->operand]];
    Rest next = *rest;
    ++next.operand;
    if (term.form == Form::kList) return list(term, next, inputs);
    if (term.form == Form::kRun) return run(term, next);
    ++next.input;
    return value(term, input_of(*rest, rest->input), &next);
  }

  bool list(const Term& term, Rest next, size_t inputs) {
    const bool is_last = next.operand == next.term->operands.size();
    std::vector<ValueId> values;
    while (true) {
      const bool fits = !is_last || next.input >= inputs;
      if (fits && with(term.name, values, [&] { return operands(&next); })) return true;
      const ValueId more = input_of(next, next.input);
      if (!more.valid()) return false;
      values.push_back(more);
      ++next.input;
    }
  }

  // Whether an operand is an op of the run, with what its names stand for; binds those that are
  // free and notes them.
  bool fits_run(const Term& term, ValueId value, std::vector<size_t>& bound_here) {
    const auto op = maker(term, value);
    if (!op || inputs_of(*op) > term.operands.size()) return false;
    for (size_t i = 0; i < term.operands.size(); ++i) {
      const Term& operand = pattern_.terms[term.operands[i]];
      const ValueId input = input_of({.op = *op}, i);
      if (operand.form == Form::kAbsent ? input.valid() : !input.valid()) return false;
      if (!input.valid()) continue;
      if (is_bound_[operand.name] == 0) {
        is_bound_[operand.name] = 1;
        match_.bound[operand.name] = {input};
        bound_here.push_back(operand.name);
      } else if (match_.bound[operand.name] != std::vector{input}) {
        return false;
      }
    }
    return true;
  }

  bool follows(const Term& term, OpId reader, ValueId left, ValueId right) const {
    return term.relation.empty() || !related_ ||
           related_(term.relation, edit_, reader, left, right);
  }

  bool run(const Term& term, const Rest& first) {
    std::vector<size_t> bound_here;
    const bool done = run(term, first, bound_here);
    for (size_t name : bound_here) {
      is_bound_[name] = 0;
      match_.bound[name].clear();
    }
    return done;
  }

  bool run(const Term& term, Rest next, std::vector<size_t>& bound_here) {
    const ValueId begin = input_of(next, next.input);
    if (!fits_run(term, begin, bound_here)) return false;
    if (next.input > 0) {
      const ValueId before = input_of(next, next.input - 1);
      if (fits_run(term, before, bound_here) && follows(term, next.op, before, begin)) return false;
    }
    std::vector<ValueId> values;
    for (ValueId v = begin; v.valid(); v = input_of(next, next.input)) {
      if (!values.empty() &&
          !(fits_run(term, v, bound_here) && follows(term, next.op, values.back(), v)))
        break;
      values.push_back(v);
      ++next.input;
    }
    return with(term.name, values, [&] { return operands(&next); });
  }

  const GraphEdit& edit_;
  const Pattern& pattern_;
  const std::function<bool(const Match&)>& visit_;
  const Related& related_;
  Match match_;
  std::vector<char> is_bound_;  // by name
};

// NOLINTEND(misc-no-recursion)

}  // namespace

bool commutes(std::string_view kind) {
  constexpr std::string_view kKinds[] = {"Add",        "Mul",       "Max",       "Min",
                                         "Equal",      "And",       "Or",        "Xor",
                                         "BitwiseAnd", "BitwiseOr", "BitwiseXor"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

Result<Pattern> parse_pattern(std::string_view text) {
  return PatternReader(text, {}, "pattern").pattern();
}

Result<Pattern> parse_result(std::string_view text, std::span<const Name> known) {
  return PatternReader(text, known, "result").pattern();
}

Result<std::vector<Call>> parse_calls(std::string_view text, std::span<const Name> known) {
  return PatternReader(text, known, "condition").calls();
}

bool for_each_match(const GraphEdit& edit, const Pattern& pattern, OpId root,
                    const std::function<bool(const Match&)>& visit, const Related& related) {
  return Matcher(edit, pattern, visit, related).at(root);
}

}  // namespace lowtide::rewrite

// Einsum of any equation, as the ops that it stands for. Each operand is brought down to one
// dimension per letter (a repeated letter is a diagonal: every (n + 1)-th element of the two
// dimensions joined) and letters that nobody else has are summed. Then operands are joined from the
// left, two at a time. With B the letters of both that are still wanted, K those of both that are
// not, and L and R those of one side:
//
//   K not empty:  [B, L, K] x [B, K, R] -> [B, L, R], one matrix product
//   K empty:      [B, L, 1] * [B, 1, R], broadcast
//
// A letter is wanted while the result or a later operand has it. Dimensions of extent 1 stand for
// any extent, as in numpy; the dimensions of an ellipsis are letters of their own, aligned at the
// right. Integers have no matrix product: they are multiplied and summed. Transpositions of the
// last two dimensions are attributes of the product; those that change nothing are left out.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "io/convert_indexing.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

// A letter, or a dimension of the ellipsis: -1 is its last one.
using Labels = std::vector<int>;

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct Term {
  ValueId value;
  Labels labels;
};

struct Equation {
  std::vector<Labels> operands;
  Labels result;
};

// ---- reading the equation ----

// The labels of one side of a comma; the ellipsis stands for `rest` dims.
Result<Labels> labels_of(std::string_view text, size_t rest) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      for (size_t d = rest; d > 0; --d) labels.push_back(-static_cast<int>(d));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else {
      return error(ErrorCode::kInput,
                   fmt::format("the equation has '{}' where a letter was expected", text[i]));
    }
  }
  return labels;
}

size_t letters_in(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  }));
}

// Without "->": the ellipsis, then letters that occur once, in the alphabet's order.
Labels implied_result(const std::vector<Labels>& operands) {
  std::map<int, int> counts;
  size_t rest = 0;
  for (const Labels& labels : operands)
    for (int label : labels) {
      ++counts[label];
      if (label < 0) rest = std::max(rest, static_cast<size_t>(-label));
    }
  Labels result;
  for (size_t d = rest; d > 0; --d) result.push_back(-static_cast<int>(d));
  for (const auto& [label, count] : counts)
    if (label >= 0 && count == 1) result.push_back(label);
  return result;
}

Result<Equation> read_equation(NodeCall& call) {
  std::string text = word_attr(call.node(), "equation", "");
  std::erase_if(text, [](char c) { return c == ' '; });
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Equation equation;
  size_t most = 0;
  for (size_t i = 0; i < call.inputs(); ++i) {
    const size_t comma = std::min(left.find(','), left.size());
    const std::string_view part = left.substr(0, comma);
    const size_t rank = call.dims(i).size(), letters = letters_in(part);
    const bool ellipsis = part.find("...") != std::string_view::npos;
    if (letters > rank || (!ellipsis && letters != rank) ||
        (comma == left.size()) != (i + 1 == call.inputs()))
      return error(ErrorCode::kInput,
                   fmt::format("equation '{}' does not fit {} inputs, input {} of rank {}", text,
                               call.inputs(), i, rank));
    LT_ASSIGN(Labels labels, labels_of(part, rank - letters));
    most = std::max(most, rank - letters);
    equation.operands.push_back(std::move(labels));
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
  if (arrow == std::string::npos) {
    equation.result = implied_result(equation.operands);
    return equation;
  }
  LT_ASSIGN(equation.result, labels_of(std::string_view(text).substr(arrow + 2), most));
  for (size_t k = 0; k < equation.result.size(); ++k) {
    const int label = equation.result[k];
    const bool known = std::any_of(equation.operands.begin(), equation.operands.end(),
                                   [&](const Labels& labels) { return has(labels, label); });
    if (!known || std::count(equation.result.begin(), equation.result.end(), label) > 1)
      return error(
          ErrorCode::kInput,
          fmt::format("equation '{}': result dim {} occurs twice or in no input", text, k));
  }
  return equation;
}

// ---- one operand ----

class Contraction {
 public:
  explicit Contraction(NodeCall& call) : call_(call) {}

  Status run() {
    LT_ASSIGN(const Equation equation, read_equation(call_));
    result_ = equation.result;
    later_ = equation.operands;
    std::optional<Term> so_far;
    for (size_t i = 0; i < equation.operands.size(); ++i) {
      LT_ASSIGN(const ValueId value, call_.value(i));
      Term term{value, equation.operands[i]};
      later_[i].clear();
      LT_RETURN_IF_ERROR(take_diagonals(term));
      LT_RETURN_IF_ERROR(sum_unshared(term, so_far ? so_far->labels : Labels()));
      if (so_far) {
        LT_RETURN_IF_ERROR(join(*so_far, std::move(term)));
      } else {
        so_far = std::move(term);
      }
    }
    LT_RETURN_IF_ERROR(arrange(*so_far, result_));
    call_.set(0, so_far->value);
    return {};
  }

 private:
  const ir::Dims& dims(const Term& term) const { return call_.of(term.value).dims; }
  const Expr& extent(const Term& term, int label) const {
    const auto at = std::find(term.labels.begin(), term.labels.end(), label);
    return dims(term)[static_cast<size_t>(at - term.labels.begin())];
  }
  bool wanted(int label) const {
    return has(result_, label) || std::any_of(later_.begin(), later_.end(),
                                              [&](const Labels& l) { return has(l, label); });
  }

  Status reshape(Term& term, ir::Dims shape) {
    if (shape == dims(term)) return {};
    LT_ASSIGN(term.value, call_.emit("Reshape", {term.value}, {{"shape", list(std::move(shape))}}));
    return {};
  }

  // Brings the dims into the order of `labels`, which are the term's.
  Status arrange(Term& term, const Labels& labels) {
    if (labels == term.labels) return {};
    std::vector<int64_t> perm;
    for (int label : labels)
      perm.push_back(std::find(term.labels.begin(), term.labels.end(), label) -
                     term.labels.begin());
    LT_ASSIGN(term.value, call_.emit("Transpose", {term.value}, {{"perm", list(perm)}}));
    term.labels = labels;
    return {};
  }

  // Of a letter that stands twice, the elements at which both indices are equal.
  Status take_diagonals(Term& term) {
    for (size_t a = 0; a < term.labels.size(); ++a)
      for (size_t b = term.labels.size(); b-- > a + 1;)
        if (term.labels[a] == term.labels[b]) LT_RETURN_IF_ERROR(take_diagonal(term, a, b));
    return {};
  }

  Status take_diagonal(Term& term, size_t a, size_t b) {
    const auto n = dims(term)[a].constant(), other = dims(term)[b].constant();
    if (!n || n != other)
      return error(
          ErrorCode::kInput,
          fmt::format("'{}' stands for {} and {}; a repeated letter needs two equal numbers",
                      static_cast<char>(term.labels[a]), sym::print(dims(term)[a]),
                      sym::print(dims(term)[b])));
    Labels order;
    ir::Dims shape;
    std::vector<int64_t> perm;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (d == a || d == b) continue;
      perm.push_back(static_cast<int64_t>(d));
      order.push_back(term.labels[d]);
      shape.push_back(dims(term)[d]);
    }
    perm.insert(perm.end(), {static_cast<int64_t>(a), static_cast<int64_t>(b)});
    order.push_back(term.labels[a]);
    if (!std::is_sorted(perm.begin(), perm.end())) {
      LT_ASSIGN(term.value, call_.emit("Transpose", {term.value}, {{"perm", list(perm)}}));
    }
    shape.emplace_back(*n * *n);
    LT_RETURN_IF_ERROR(reshape(term, shape));
    ir::Dims sizes = shape;
    sizes.back() = *n;
    std::vector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
    steps.back() = *n + 1;
    LT_ASSIGN(
        term.value,
        call_.emit("Slice", {term.value},
                   {{"starts", list(starts)}, {"sizes", list(sizes)}, {"steps", list(steps)}}));
    term.labels = std::move(order);
    return {};
  }

  Status sum(Term& term, const Labels& away) {
    std::vector<int64_t> axes;
    Labels left;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (has(away, term.labels[d]))
        axes.push_back(static_cast<int64_t>(d));
      else
        left.push_back(term.labels[d]);
    }
    if (axes.empty()) return {};
    LT_ASSIGN(term.value, call_.emit("ReduceSum", {term.value},
                                     {{"axes", list(axes)}, {"keepdims", int64_t{0}}}));
    term.labels = std::move(left);
    return {};
  }

  // Sums letters that neither the result nor any other operand has.
  Status sum_unshared(Term& term, const Labels& earlier) {
    Labels away;
    for (int label : term.labels)
      if (!wanted(label) && !has(earlier, label)) away.push_back(label);
    return sum(term, away);
  }

  // ---- two operands ----

  struct Groups {
    Labels batch, left, right, summed;
  };

  static Labels joined(std::initializer_list<const Labels*> parts) {
    Labels all;
    for (const Labels* part : parts) all.insert(all.end(), part->begin(), part->end());
    return all;
  }

  ir::Dims extents(const Term& term, const Labels& labels) const {
    ir::Dims result;
    for (int label : labels) result.push_back(extent(term, label));
    return result;
  }

  // Sums what one side has only once of a letter that is to be summed; then both have it alike, or
  // one of them no more.
  Status level(Term& a, Term& b) {
    for (Term* one : {&a, &b}) {
      Term& other = one == &a ? b : a;
      Labels away;
      for (int label : one->labels)
        if (!wanted(label) && has(other.labels, label) && extent(*one, label) == Expr(1))
          away.push_back(label);
      LT_RETURN_IF_ERROR(sum(*one, away));
      LT_RETURN_IF_ERROR(sum_unshared(other, one->labels));
    }
    return {};
  }

  Status join(Term& a, Term b) {
    LT_RETURN_IF_ERROR(level(a, b));
    Groups groups;
    for (int label : a.labels) {
      const bool shared = has(b.labels, label);
      (!shared ? groups.left : wanted(label) ? groups.batch : groups.summed).push_back(label);
    }
    for (int label : b.labels)
      if (!has(a.labels, label)) groups.right.push_back(label);
    const bool product = !groups.summed.empty() && is_float(call_.of(a.value).dtype);
    LT_RETURN_IF_ERROR(product ? multiply_matrices(a, std::move(b), groups)
                               : multiply_elements(a, std::move(b), groups));
    return {};
  }

  // Whether a term's letters stand in the order batch, second, first and not batch, first, second.
  static bool is_swapped(const Term& term, const Groups& groups, const Labels& first,
                         const Labels& second) {
    return term.labels != joined({&groups.batch, &first, &second}) &&
           term.labels == joined({&groups.batch, &second, &first});
  }

  Status multiply_matrices(Term& a, Term b, const Groups& groups) {
    const bool trans_a = is_swapped(a, groups, groups.left, groups.summed);
    const bool trans_b = is_swapped(b, groups, groups.summed, groups.right);
    if (!trans_a)
      LT_RETURN_IF_ERROR(arrange(a, joined({&groups.batch, &groups.left, &groups.summed})));
    if (!trans_b)
      LT_RETURN_IF_ERROR(arrange(b, joined({&groups.batch, &groups.summed, &groups.right})));
    const ir::Dims left = extents(a, groups.left), right = extents(b, groups.right);
    const Expr m = product(left), n = product(right), k = product(extents(a, groups.summed));
    LT_ASSIGN(ir::Dims result, broadcast(extents(a, groups.batch), extents(b, groups.batch)));
    ir::Dims shape_a = extents(a, groups.batch), shape_b = extents(b, groups.batch);
    shape_a.insert(shape_a.end(), {trans_a ? k : m, trans_a ? m : k});
    shape_b.insert(shape_b.end(), {trans_b ? n : k, trans_b ? k : n});
    LT_RETURN_IF_ERROR(reshape(a, std::move(shape_a)));
    LT_RETURN_IF_ERROR(reshape(b, std::move(shape_b)));
    LT_ASSIGN(a.value, call_.emit("MatMul", {a.value, b.value},
                                  {{"trans_a", int64_t{trans_a}}, {"trans_b", int64_t{trans_b}}}));
    a.labels = joined({&groups.batch, &groups.left, &groups.right});
    result.insert(result.end(), left.begin(), left.end());
    result.insert(result.end(), right.begin(), right.end());
    return reshape(a, std::move(result));
  }

  Status multiply_elements(Term& a, Term b, const Groups& groups) {
    const Labels both = joined({&groups.batch, &groups.summed});
    LT_RETURN_IF_ERROR(arrange(a, joined({&groups.batch, &groups.summed, &groups.left})));
    LT_RETURN_IF_ERROR(arrange(b, joined({&groups.batch, &groups.summed, &groups.right})));
    ir::Dims shape = extents(a, a.labels);
    shape.insert(shape.end(), groups.right.size(), Expr(1));
    LT_RETURN_IF_ERROR(reshape(a, std::move(shape)));
    ir::Dims narrow = extents(b, both);
    const ir::Dims right = extents(b, groups.right);
    narrow.insert(narrow.end(), groups.left.size(), Expr(1));
    narrow.insert(narrow.end(), right.begin(), right.end());
    LT_RETURN_IF_ERROR(reshape(b, std::move(narrow)));
    LT_ASSIGN(a.value, call_.emit("Mul", {a.value, b.value}));
    a.labels = joined({&both, &groups.left, &groups.right});
    return sum(a, groups.summed);
  }

  NodeCall& call_;
  Labels result_;
  std::vector<Labels> later_;  // of operands that are not joined yet
};

Status einsum(NodeCall& call) {
  return Contraction(call).run();
}

constexpr ConvertRow kEinsumRows[] = {{"Einsum", 1, einsum}};

}  // namespace

std::span<const ConvertRow> einsum_conversions() {
  return kEinsumRows;
}

}  // namespace lowtide::io

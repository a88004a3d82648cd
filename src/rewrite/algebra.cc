#include "rewrite/algebra.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/edit.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

// Tuning; each value beside half and twice of it: docs/tuning.md. What is beyond stays as it is.
struct AlgebraTuning {
  size_t most_terms = 64;        // products of a polynomial
  size_t most_factors = 16;      // values of a product
  size_t most_ops = 256;         // of a tree
  int64_t most_times = 1 << 20;  // that a polynomial has one product
};
constexpr AlgebraTuning kAlgebra;

using Product = std::vector<size_t>;            // leaves, ascending
using Polynomial = std::map<Product, int64_t>;  // how often each product is added

// ---- trees ----

bool same_type(const ir::Value& a, const ir::Value& b) {
  return a.dtype == b.dtype && a.dims == b.dims;
}

// An Add or Mul of two floats of the type of its result.
bool is_algebra(const GraphEdit& edit, OpId id) {
  if (!is_plain(edit, id, "Add", {}) && !is_plain(edit, id, "Mul", {})) return false;
  const ir::Op& op = edit.op(id);
  const ir::Value& result = edit.value(op.outputs[0]);
  return is_float(result.dtype) && result.alias == ir::Alias::kOwn && op.inputs.size() == 2 &&
         std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
           return input.valid() && same_type(edit.value(input), result);
         });
}

// The ops of the tree with this root, which may share nodes, in order: all that only ops of the
// tree read. Empty where there are too many.
std::vector<OpId> tree_of(const GraphEdit& edit, OpId root) {
  std::set<OpId> inside = {root};
  const auto belongs = [&](ValueId value) {
    const OpId maker = edit.value(value).producer;
    if (!maker.valid() || inside.contains(maker) || edit.value(value).is_output) return false;
    const auto readers = edit.readers(value);
    return is_algebra(edit, maker) &&
           std::all_of(readers.begin(), readers.end(), [&](OpId r) { return inside.contains(r); });
  };
  for (bool grows = true; grows && inside.size() <= kAlgebra.most_ops;) {
    grows = false;
    for (OpId id : std::vector<OpId>(inside.begin(), inside.end()))
      for (ValueId input : edit.op(id).inputs)
        if (belongs(input)) grows |= inside.insert(edit.value(input).producer).second;
  }
  if (inside.size() > kAlgebra.most_ops) return {};
  std::vector<OpId> ops(inside.begin(), inside.end());
  std::sort(ops.begin(), ops.end(), [&](OpId a, OpId b) { return edit.before(a, b); });
  return ops;
}

// What the tree reads, in an order that does not depend on how it is written: given values by name,
// then the others as they are made.
std::vector<ValueId> leaves_of(const GraphEdit& edit, std::span<const OpId> tree) {
  std::set<ValueId> found;
  for (OpId id : tree)
    for (ValueId input : edit.op(id).inputs) found.insert(input);
  for (OpId id : tree) found.erase(edit.op(id).outputs[0]);
  std::vector<ValueId> leaves(found.begin(), found.end());
  std::sort(leaves.begin(), leaves.end(), [&](ValueId left, ValueId right) {
    const ir::Value& a = edit.value(left);
    const ir::Value& b = edit.value(right);
    if (a.producer.valid() != b.producer.valid()) return b.producer.valid();
    if (!a.producer.valid()) return a.name < b.name;
    if (a.producer != b.producer) return edit.before(a.producer, b.producer);
    const auto& made = edit.op(a.producer).outputs;
    return std::find(made.begin(), made.end(), left) < std::find(made.begin(), made.end(), right);
  });
  return leaves;
}

// Whether the op lies inside of the tree of a later one.
bool is_inside(const GraphEdit& edit, OpId id) {
  OpId root = id;
  for (size_t steps = 0; steps < kAlgebra.most_ops; ++steps) {
    const ValueId made = edit.op(root).outputs[0];
    const auto readers = edit.readers(made);
    if (edit.value(made).is_output || readers.empty() ||
        !std::all_of(readers.begin(), readers.end(),
                     [&](OpId reader) { return is_algebra(edit, reader); }))
      break;
    root = *std::max_element(readers.begin(), readers.end(),
                             [&](OpId a, OpId b) { return edit.before(a, b); });
  }
  if (root == id) return false;
  const std::vector<OpId> ops = tree_of(edit, root);
  return std::find(ops.begin(), ops.end(), id) != ops.end();
}

// ---- polynomials ----

std::optional<Polynomial> sum_of(Polynomial a, const Polynomial& b) {
  for (const auto& [product, times] : b)
    if ((a[product] += times) > kAlgebra.most_times) return std::nullopt;
  return a.size() <= kAlgebra.most_terms ? std::optional(std::move(a)) : std::nullopt;
}

std::optional<Polynomial> product_of(const Polynomial& a, const Polynomial& b) {
  if (a.size() * b.size() > kAlgebra.most_terms * kAlgebra.most_terms) return std::nullopt;
  Polynomial result;
  for (const auto& [left, m] : a)
    for (const auto& [right, n] : b) {
      if (left.size() + right.size() > kAlgebra.most_factors || m > kAlgebra.most_times / n)
        return std::nullopt;
      Product both;
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
      if ((result[both] += m * n) > kAlgebra.most_times || result.size() > kAlgebra.most_terms)
        return std::nullopt;
    }
  return result;
}

std::optional<Polynomial> polynomial_of(const GraphEdit& edit, std::span<const OpId> tree,
                                        std::span<const ValueId> leaves) {
  std::map<ValueId, Polynomial> known;
  for (size_t i = 0; i < leaves.size(); ++i) known[leaves[i]] = {{{i}, 1}};
  const auto of = [&](ValueId value) { return known.at(value); };
  for (OpId id : tree) {
    const ir::Op& op = edit.op(id);
    auto made = op.kind == "Add" ? sum_of(of(op.inputs[0]), of(op.inputs[1]))
                                 : product_of(of(op.inputs[0]), of(op.inputs[1]));
    if (!made) return std::nullopt;
    known[op.outputs[0]] = std::move(*made);
  }
  return tree.empty() ? std::nullopt : std::optional(known[edit.op(tree.back()).outputs[0]]);
}

// ---- trees from polynomials ----

// Nodes, operands first; equal ones are one.
class Formula {
 public:
  struct Node {
    std::string_view kind = {};  // empty: a leaf
    size_t left = 0, right = 0;
    size_t leaf = 0;
  };

  explicit Formula(const Polynomial& polynomial) { root_ = build(polynomial); }

  const std::vector<Node>& nodes() const { return nodes_; }
  size_t root() const { return root_; }
  size_t op_count() const { return ops_; }

  std::optional<size_t> find_leaf(size_t leaf) const {
    const auto found = leaves_.find(leaf);
    return found == leaves_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<size_t> find(std::string_view kind, size_t left, size_t right) const {
    const auto found = index_.find({kind, left, right});
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  size_t leaf(size_t number) {
    const auto [found, is_new] = leaves_.emplace(number, nodes_.size());
    if (is_new) nodes_.push_back({.leaf = number});
    return found->second;
  }
  size_t node(std::string_view kind, size_t left, size_t right) {
    const auto [found, is_new] = index_.emplace(std::tuple(kind, left, right), nodes_.size());
    if (is_new) nodes_.push_back({kind, left, right});
    ops_ += is_new;
    return found->second;
  }

  // n equal operands by doubling.
  size_t times(std::string_view kind, size_t operand, int64_t n) {
    std::optional<size_t> sum;
    for (size_t power = operand;; power = node(kind, power, power)) {
      if (n % 2 != 0) sum = sum ? node(kind, *sum, power) : power;
      n /= 2;
      if (n == 0) return *sum;
    }
  }

  size_t product(const Product& factors) {
    std::optional<size_t> all;
    for (size_t begin = 0; begin < factors.size();) {
      size_t end = begin;
      while (end < factors.size() && factors[end] == factors[begin]) ++end;
      const size_t power = times("Mul", leaf(factors[begin]), static_cast<int64_t>(end - begin));
      all = all ? node("Mul", *all, power) : power;
      begin = end;
    }
    return *all;
  }

  // What most products of several factors share; none where no two share any.
  static std::optional<size_t> most_shared(const Polynomial& polynomial) {
    std::map<size_t, int> shared;
    for (const auto& [product, times] : polynomial)
      if (product.size() > 1)
        for (size_t factor : std::set<size_t>(product.begin(), product.end())) ++shared[factor];
    std::optional<size_t> most;
    for (const auto& [factor, count] : shared)
      if (count > 1 && (!most || count > shared[*most])) most = factor;
    return most;
  }

  // At most as deep as there are factors and terms. NOLINTNEXTLINE(misc-no-recursion)
  size_t build(const Polynomial& polynomial) {
    std::vector<std::pair<size_t, size_t>> terms;  // by the last leaf that each waits for
    Polynomial rest = polynomial;
    if (const auto shared = most_shared(polynomial)) {
      Polynomial inner;
      size_t last = *shared;
      for (const auto& [product, times] : polynomial) {
        const auto found = std::find(product.begin(), product.end(), *shared);
        if (product.size() < 2 || found == product.end()) continue;
        last = std::max(last, product.back());
        Product without(product.begin(), found);
        without.insert(without.end(), found + 1, product.end());
        inner[without] = times;
        rest.erase(product);
      }
      const size_t factor = leaf(*shared);
      terms.emplace_back(last, node("Mul", build(inner), factor));
      if (!rest.empty() && most_shared(rest)) {
        size_t last_of_rest = *shared;
        for (const auto& [product, times] : rest)
          last_of_rest = std::max(last_of_rest, product.back());
        terms.emplace_back(last_of_rest, build(rest));
        rest.clear();
      }
    }
    for (const auto& [factors, n] : rest)
      terms.emplace_back(factors.back(), times("Add", product(factors), n));
    std::stable_sort(terms.begin(), terms.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t sum = terms[0].second;
    for (size_t t = 1; t < terms.size(); ++t) sum = node("Add", sum, terms[t].second);
    return sum;
  }

  std::vector<Node> nodes_;
  std::map<size_t, size_t> leaves_;
  std::map<std::tuple<std::string_view, size_t, size_t>, size_t> index_;
  size_t root_ = 0, ops_ = 0;
};

// Whether the tree is the formula already.
bool is_formula(const GraphEdit& edit, std::span<const OpId> tree, std::span<const ValueId> leaves,
                const Formula& formula) {
  if (tree.size() != formula.op_count()) return false;
  std::map<ValueId, std::optional<size_t>> node;
  for (size_t i = 0; i < leaves.size(); ++i) node[leaves[i]] = formula.find_leaf(i);
  const auto of = [&](ValueId value) { return node.at(value); };
  for (OpId id : tree) {
    const ir::Op& op = edit.op(id);
    const auto left = of(op.inputs[0]), right = of(op.inputs[1]);
    const auto found = left && right ? formula.find(op.kind, *left, *right) : std::nullopt;
    if (!found) return false;
    node[op.outputs[0]] = *found;
  }
  return node[edit.op(tree.back()).outputs[0]] == formula.root();
}

std::optional<ValueId> canonical(GraphEdit& edit, OpId root) {
  if (!is_algebra(edit, root) || is_inside(edit, root)) return std::nullopt;
  const std::vector<OpId> tree = tree_of(edit, root);
  const std::vector<ValueId> leaves = leaves_of(edit, tree);
  const auto polynomial = polynomial_of(edit, tree, leaves);
  if (!polynomial) return std::nullopt;
  const Formula formula(*polynomial);
  if (formula.op_count() > tree.size() || is_formula(edit, tree, leaves, formula))
    return std::nullopt;
  ops::AppendOptions options;
  options.name = edit.op(root).name;
  options.module = edit.op(root).module;
  options.source = edit.op(root).source;
  options.phase = edit.op(root).phase;
  options.category = edit.value(edit.op(root).outputs[0]).category;
  std::vector<ValueId> made;
  for (const Formula::Node& node : formula.nodes()) {
    made.push_back(leaves[node.leaf]);
    if (node.kind.empty()) continue;
    const auto op = ops::append(edit, ir::Place::before(root), node.kind,
                                {made[node.left], made[node.right]}, {}, options);
    if (!op) return std::nullopt;
    made.back() = edit.op(*op).outputs[0];
  }
  return made[formula.root()];
}

// A tree has no bound, and what becomes of it depends on all of it.
constexpr Rule kAlgebraRules[] = {
    {.name = "canonical-sum", .pattern = "Add:root(a, b)", .replacement = canonical},
    {.name = "canonical-product", .pattern = "Mul:root(a, b)", .replacement = canonical},
};

}  // namespace

std::span<const Rule> algebra_rules() {
  return kAlgebraRules;
}

}  // namespace lowtide::rewrite

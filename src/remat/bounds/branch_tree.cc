#include "remat/bounds/branch_tree.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct BranchTuning {
  size_t candidates = 12;        // variables that are compared for a split
  int reliable = 3;              // rises that are remembered, before they are relied on
  int trial_iterations = 60;     // for each side of a candidate
  int node_iterations = 50'000;  // of a node
  size_t most_nodes = 50'000;    // for the memory that they take, some 20 KB each
  double whole = 1e-4;           // nearer to 0 or 1 than this is not fractional
  double least_gain = 1e-4, most_gain = 0.5;  // percent, as far as sides are compared
};
constexpr BranchTuning kBranch;

}  // namespace

BranchTree::BranchTree(const MultiCutProgram& program, std::vector<double> weights,
                       WorkBudget& work)
    : program_(program), weights_(std::move(weights)), work_(work), lp_(program) {
  fixed_.assign(program.variables.size(), kFree);
  records_.resize(program.variables.size());
  BranchNode root;
  solve(kBranch.node_iterations);
  root.multipliers = lp_.multipliers();
  root.bound_ticks = program.bound(root.multipliers, fixed_);
  read_leaf(root);
  nodes_.push_back(std::move(root));
  lowest_.emplace(nodes_[0].bound_ticks, 0);
}

void BranchTree::solve(int64_t iterations) {
  lp_.solve(work_.left().with_units(lp_.units_of(iterations)), work_);
}

void BranchTree::fix(size_t node) {
  std::fill(fixed_.begin(), fixed_.end(), kFree);
  for (int at = static_cast<int>(node); nodes_[static_cast<size_t>(at)].parent != BranchNode::kNone;
       at = nodes_[static_cast<size_t>(at)].parent) {
    const BranchNode& n = nodes_[static_cast<size_t>(at)];
    fixed_[n.variable] = n.value;
  }
}

std::vector<std::vector<std::pair<uint32_t, int8_t>>> BranchTree::lowest_cases(size_t count) const {
  std::vector<std::vector<std::pair<uint32_t, int8_t>>> result;
  for (const auto& [bound, leaf] : lowest_) {
    if (result.size() == count) break;
    auto& fixed = result.emplace_back();
    for (size_t at = leaf; nodes_[at].parent != BranchNode::kNone;
         at = static_cast<size_t>(nodes_[at].parent))
      fixed.emplace_back(nodes_[at].variable, nodes_[at].value);
  }
  return result;
}

void BranchTree::read_leaf(BranchNode& node) const {
  node.basis = lp_.basis();
  const auto x = lp_.variables();
  for (size_t j = 0; j < x.size(); ++j)
    if (x[j] > kBranch.whole && x[j] < 1 - kBranch.whole)
      node.fractional.emplace_back(static_cast<uint32_t>(j), x[j]);
}

bool BranchTree::grow(int64_t goal_ticks, int64_t splits) {
  for (int64_t i = 0; i < splits && bound_ticks() < goal_ticks && work_.look(); ++i) {
    const size_t node = lowest_.begin()->second;
    if (nodes_[node].fractional.empty() || nodes_.size() > kBranch.most_nodes) return false;
    const uint32_t variable = choose(node);
    lowest_.erase(lowest_.begin());
    nodes_[node].children = static_cast<int>(nodes_.size());
    for (const int8_t value : {int8_t{0}, int8_t{1}}) add_child(node, variable, value);
    nodes_[node].basis = {};
    nodes_[node].fractional = {};
  }
  return bound_ticks() < goal_ticks;
}

// Percent that the relaxation of a side of `x` rises by: what it did before where that is known,
// else what a few iterations show.
double BranchTree::rise(size_t node, double x, uint32_t variable, int8_t value) {
  Record& record = records_[variable][static_cast<size_t>(value)];
  const double distance = value == 1 ? 1 - x : x;
  if (record.count >= kBranch.reliable) return record.sum / record.count * distance;
  fixed_[variable] = value;
  lp_.set_fixed(fixed_);
  fixed_[variable] = kFree;
  lp_.set_basis(nodes_[node].basis);
  solve(kBranch.trial_iterations);
  const double percent = 100 * static_cast<double>(nodes_[node].bound_ticks) /
                         static_cast<double>(std::max<int64_t>(1, program_.once_ticks));
  const double rise =
      lp_.infeasible() ? kBranch.most_gain : std::max(0.0, lp_.objective() - percent);
  record.sum += std::min(rise, kBranch.most_gain) / distance;
  ++record.count;
  return rise;
}

uint32_t BranchTree::choose(size_t node) {
  std::vector<std::tuple<double, uint32_t, double>> candidates;  // heaviest first
  for (const auto& [variable, x] : nodes_[node].fractional)
    candidates.emplace_back(-std::min(x, 1 - x) * weights_[variable], variable, x);
  std::sort(candidates.begin(), candidates.end());
  if (candidates.size() > kBranch.candidates) candidates.resize(kBranch.candidates);
  fix(node);
  const auto gain = [](double rise) {
    return std::clamp(rise, kBranch.least_gain, kBranch.most_gain);
  };
  double best = -1;
  uint32_t chosen = std::get<1>(candidates[0]);
  for (const auto& [weight, variable, x] : candidates) {
    if (candidates.size() == 1 || work_.exhausted()) break;
    const double score = gain(rise(node, x, variable, 0)) * gain(rise(node, x, variable, 1));
    if (score <= best) continue;
    best = score;
    chosen = variable;
  }
  return chosen;
}

void BranchTree::add_child(size_t parent, uint32_t variable, int8_t value) {
  BranchNode child;
  child.parent = static_cast<int>(parent);
  child.variable = variable;
  child.value = value;
  fix(parent);
  fixed_[variable] = value;
  lp_.set_fixed(fixed_);
  lp_.set_basis(nodes_[parent].basis);
  solve(kBranch.node_iterations);
  child.multipliers = lp_.multipliers();
  child.bound_ticks = program_.bound(child.multipliers, fixed_);
  const int64_t inherited = program_.bound(nodes_[parent].multipliers, fixed_);
  if (child.bound_ticks <= inherited) {
    child.multipliers = nodes_[parent].multipliers;
    child.bound_ticks = inherited;
  }
  read_leaf(child);
  if (lp_.infeasible()) child.fractional.clear();
  lowest_.emplace(child.bound_ticks, nodes_.size());
  nodes_.push_back(std::move(child));
}

}  // namespace lowtide::remat

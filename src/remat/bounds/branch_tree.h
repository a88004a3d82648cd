// Branch and bound, the lowest leaf first, on the integer program of a multi-cut: a tree whose
// leaves together cover every schedule.
//
// The linear relaxation may store half of a value at each of two moments that bind, which no
// schedule can. A node that has fractional variables is split into "0" and "1" of one of them; the
// bound of the whole is that of its lowest leaf. Always the lowest is split, at the variable whose
// two sides rise most, of those that weigh most. How far is found by a few steps of the dual
// simplex (strong branching, Applegate, Bixby, Chvatal and Cook 1995), until some rises are
// remembered that tell (reliability branching, Achterberg, Koch and Martin 2005). Every leaf keeps
// its multipliers, which prove its bound in whole numbers.
//
// Tests: branch_cut_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/work.h"
#include "remat/bounds/linear_program.h"
#include "remat/bounds/multi_cut_program.h"

namespace lowtide::remat {

struct BranchNode {
  static constexpr int kNone = -1;

  int parent = kNone;
  uint32_t variable = 0;  // what sets it apart from its sibling
  int8_t value = kFree;
  int children = kNone;  // the index of the first of two
  int64_t bound_ticks = 0;
  std::vector<CutMultiplier> multipliers;
  LinearProgram::Basis basis;                           // of leaves
  std::vector<std::pair<uint32_t, double>> fractional;  // variables of leaves, and their values
};

class BranchTree {
 public:
  // Borrows `program` and `work`. `weights`, by variable: what fixing it may be worth.
  BranchTree(const MultiCutProgram& program, std::vector<double> weights, WorkBudget& work);

  const std::vector<BranchNode>& nodes() const { return nodes_; }  // parents before children
  // In ticks, beyond each op once, of every schedule.
  int64_t bound_ticks() const { return lowest_.begin()->first; }
  // What is fixed in the lowest leaves, up to so many.
  std::vector<std::vector<std::pair<uint32_t, int8_t>>> lowest_cases(size_t count) const;
  // Splits up to so many leaves, until the bound is the goal. False: no more can be gained.
  bool grow(int64_t goal_ticks, int64_t splits);

 private:
  using Place = std::pair<int64_t, size_t>;  // bound, node
  struct Record {
    double sum = 0;  // of percent that a side rose by, for each unit that the variable moved
    int count = 0;
  };

  void solve(int64_t iterations);  // at most, and within the work left
  void fix(size_t node);
  uint32_t choose(size_t node);
  double rise(size_t node, double x, uint32_t variable, int8_t value);
  void add_child(size_t parent, uint32_t variable, int8_t value);
  void read_leaf(BranchNode& node) const;

  const MultiCutProgram& program_;
  std::vector<double> weights_;
  WorkBudget& work_;
  LinearProgram lp_;
  std::vector<BranchNode> nodes_;
  std::set<Place> lowest_;  // leaves
  std::vector<int8_t> fixed_;
  std::vector<std::array<Record, 2>> records_;  // by variable and side
};

}  // namespace lowtide::remat

// Bounds by branching against the truth: any multipliers of the rows of any multi-cut in any case
// that holds the best schedule, and what the search proves, on small random problems; the proof
// written out; captured steps.
#include "remat/bounds/branch_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/branch_tree.h"
#include "remat/bounds/testing/cut_test_problems.h"
#include "remat/bounds/testing/remat_oracle.h"
#include "support/long_checks.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::ScheduleProblem;

// Within a budget between what one op needs and what the given order does.
ScheduleProblem some_problem(int i, Rng& rng) {
  RandomSchedule shape{.min_ops = 4, .max_ops = 6};
  if (i % 2) shape.reader_rate = 0.5, shape.in_place_rate = 0.6;
  if (i % 3 == 0) shape.control_rate = 0.12, shape.rerun_rate = 1;
  ScheduleProblem problem = random_schedule_problem(shape, rng);
  problem.budget_bytes = some_budget(problem, rng);
  return problem;
}

std::vector<CutMultiplier> random_multipliers(const MultiCutProgram& program, Rng& rng) {
  std::vector<CutMultiplier> result;
  const auto most = static_cast<int64_t>(program.once_ticks / program.unit_ticks / 4);
  for (size_t r = 0; r < program.rows.size(); ++r)
    if (rng.below(2) == 0) {
      const int64_t value = counts_bytes(program.rows[r].name) ? most * 20'000 : most;
      result.push_back({static_cast<uint32_t>(r),
                        static_cast<int32_t>(rng.between(0, std::min<int64_t>(value, 1 << 30)))});
    }
  return result;
}

// What a sequence makes of the variables.
class Reading {
 public:
  Reading(const CutSegments& segments, const std::vector<plan::SchedAction>& sequence)
      : segments_(segments), graph_(*segments.graph) {
    size_t segment = 0;
    for (size_t i = 0; i < sequence.size(); ++i) {
      if (segment < segments.size() && segments.cuts[segment] == sequence[i].op) ++segment;
      ops_.push_back(sequence[i].op), of_.push_back(segment);
    }
  }

  bool holds(const CutVariable& x) const {
    const auto begin = static_cast<size_t>(std::lower_bound(of_.begin(), of_.end(), x.cut) -
                                           of_.begin());  // of segment x.cut: t_k's first run
    if (x.kind == CutVariableKind::kStay) return stays(SchedValueId(x.id), begin);
    for (size_t i = begin; i < ops_.size(); ++i)
      if (ops_[i] == SchedOpId(x.id) && (x.kind == CutVariableKind::kAgain || of_[i] == x.cut))
        return true;
    return false;
  }

 private:
  // In memory while the run at `at` goes on, and afterwards: read before it is made again, or by
  // nobody but there. A value that nobody reads any more may count as gone.
  bool stays(SchedValueId v, size_t at) const {
    const plan::SchedValue& value = graph_.problem->values[v];
    const auto made = [&](size_t i) { return ops_[i] == value.producer; };
    bool before = false;
    for (size_t i = 0; i < at; ++i) before |= made(i);
    if (!before) return false;
    for (size_t i = at + 1; i < ops_.size(); ++i) {
      if (std::find(value.readers.begin(), value.readers.end(), ops_[i]) != value.readers.end())
        return true;
      if (made(i)) return false;
    }
    return value.is_output;
  }

  const CutSegments& segments_;
  const StepGraph& graph_;
  std::vector<SchedOpId> ops_;
  std::vector<size_t> of_;  // segments
};

TEST(MultiCutProgram, BestSchedulesSatisfyEveryRow) {
  Rng rng(31);
  int64_t rows = 0, tight = 0;
  for (int i = 0; i < 1200; ++i) {
    const ScheduleProblem problem = some_problem(i, rng);
    const auto best = RematOracle(problem).fastest();
    if (!best) continue;
    const StepGraph graph(problem);
    for (int k = 0; k < 4; ++k) {
      const auto cuts = random_multi_cut(graph, rng);
      if (cuts.empty()) continue;
      const CutSegments segments(graph, cuts);
      const MultiCutProgram program(segments, 0);
      const Reading reading(segments, best->sequence);
      for (const CutRow& row : program.rows) {
        int64_t sum = 0;
        for (const CutTerm& term : row.terms)
          sum += reading.holds(program.variables[term.variable]) ? term.coefficient : 0;
        ++rows;
        tight += sum == row.least;
        ASSERT_GE(sum, row.least) << i << ": kind " << static_cast<int>(row.name.kind) << " cut "
                                  << row.name.cut << " divisor " << row.name.divisor;
      }
    }
  }
  EXPECT_GT(rows, 10'000);
  EXPECT_GT(tight, 2'000);
}

TEST(MultiCutProgram, AnyMultipliersInACaseThatHoldsTheOptimumStayBelowIt) {
  Rng rng(32);
  int64_t checked = 0, positive = 0;
  for (int i = 0; i < 1200; ++i) {
    const ScheduleProblem problem = some_problem(i, rng);
    const auto best = RematOracle(problem).fastest();
    if (!best) continue;
    const StepGraph graph(problem);
    for (int k = 0; k < 8; ++k) {
      const auto cuts = random_multi_cut(graph, rng);
      if (cuts.empty()) continue;
      const CutSegments segments(graph, cuts);
      const MultiCutProgram program(segments, 0);
      const Reading reading(segments, best->sequence);
      std::vector<int8_t> fixed(program.variables.size(), kFree);
      for (size_t j = 0; j < fixed.size(); ++j)
        if (rng.below(4) == 0) fixed[j] = reading.holds(program.variables[j]) ? 1 : 0;
      const int64_t ticks = program.bound(random_multipliers(program, rng), fixed);
      ++checked;
      positive += ticks > 0;
      EXPECT_LE(graph.scale.seconds(ticks), best->seconds - once_seconds(problem) + 1e-9) << i;
    }
  }
  EXPECT_GT(checked, 1'000);
  EXPECT_GT(positive, 10);
}

// The ticks of the whole step that a written proof shows, evaluated from its nodes.
int64_t shown(const ScheduleProblem& problem, const BranchCutResult& result, int64_t small_bytes) {
  using ProofNode = plan::ProofNodeOf<plan::ProblemIds>;
  const StepGraph graph(problem);
  const std::vector<ProofNode>& nodes = result.certificate.cases->nodes;
  const CutSegments segments(graph, result.certificate.cases->cuts);
  const MultiCutProgram program(segments, small_bytes);
  std::vector<int> children(nodes.size(), 0);
  for (const ProofNode& node : nodes)
    if (node.parent >= 0) ++children[static_cast<size_t>(node.parent)];
  int64_t least = int64_t{1} << 60;
  for (size_t leaf = 0; leaf < nodes.size(); ++leaf) {
    if (children[leaf] > 0) continue;
    std::vector<int8_t> fixed(program.variables.size(), kFree);
    std::vector<int32_t> value(program.rows.size(), -1);
    for (int at = static_cast<int>(leaf); at >= 0; at = nodes[static_cast<size_t>(at)].parent) {
      const ProofNode& node = nodes[static_cast<size_t>(at)];
      if (node.parent >= 0) {
        const CutVariable named{node.variable, static_cast<size_t>(node.cut),
                                static_cast<size_t>(node.id)};
        const auto x = std::find(program.variables.begin(), program.variables.end(), named);
        fixed[static_cast<size_t>(x - program.variables.begin())] = node.value ? 1 : 0;
      }
      for (const auto& m : node.multipliers) {
        const CutRowName named{m.row, static_cast<size_t>(m.cut), m.op, m.storage, m.divisor};
        for (size_t r = 0; r < program.rows.size(); ++r)
          if (program.rows[r].name == named && value[r] < 0)
            value[r] = static_cast<int32_t>(m.value);
      }
    }
    std::vector<CutMultiplier> multipliers;
    for (size_t r = 0; r < value.size(); ++r)
      if (value[r] > 0) multipliers.push_back({static_cast<uint32_t>(r), value[r]});
    least = std::min(least, program.bound(multipliers, fixed));
  }
  return graph.once_ticks + least;
}

TEST(BranchCut, LiesBetweenTheClosureCutAndTheOptimum) {
  Rng rng(33);
  int feasible = 0, higher = 0, reached = 0;
  for (int i = 0; i < 3000; ++i) {
    const ScheduleProblem problem = some_problem(i, rng);
    const auto best = RematOracle(problem).fastest();
    const CutBoundResult single = closure_cut(problem);
    const BranchCutResult result =
        branch_cut(problem, single, {.limits = {.max_units = 20'000'000}});
    if (!best) continue;
    EXPECT_GE(result.bound_seconds, single.bound_seconds);
    ++feasible;
    EXPECT_LE(result.lower_bound_seconds, best->seconds * (1 + 1e-9)) << i;
    if (!result.certificate.cases) continue;
    higher += result.bound_seconds > single.bound_seconds + 1e-9;
    reached += result.lower_bound_seconds > best->seconds - 1e-6;
    EXPECT_EQ(shown(problem, result, single.capacity_bytes / 200), result.bound_ticks) << i;
  }
  EXPECT_GT(feasible, 300);
  EXPECT_GT(higher, 20);
  EXPECT_GT(reached, 10);
}

ScheduleProblem captured(const std::string& name, int64_t budget_mib) {
  const std::string path = (captured_steps() / "remat" / name).string();
  auto problem = plan::parse_remat_file(read_file(path).value(), path);
  problem->budget_bytes = budget_mib << 20;
  return *problem;
}

TEST(BranchCut, TheTopOfATreeProvesLess) {
  if (!long_checks()) GTEST_SKIP() << "a long check (LOWTIDE_LONG)";
  const ScheduleProblem problem = captured("unet_2.remat", 600);
  const CutBoundResult single = closure_cut(problem);
  BranchCutOptions options{.limits = {.max_units = 400'000'000}};
  const BranchCutResult whole = branch_cut(problem, single, options);
  ASSERT_TRUE(whole.certificate.cases);
  const size_t splits = whole.certificate.cases->nodes.size() / 2;
  ASSERT_GT(splits, 8u);
  double below = whole.bound_seconds;
  for (const size_t most : {splits, splits / 2, splits / 4, size_t{1}}) {
    options.most_splits = most;
    const BranchCutResult top = branch_cut(problem, single, options);
    EXPECT_LE(top.bound_seconds, below);
    if (top.certificate.cases) {
      EXPECT_LE(top.certificate.cases->nodes.size(), 2 * most + 1);
      EXPECT_EQ(shown(problem, top, single.capacity_bytes / 200), top.bound_ticks);
    }
    below = top.bound_seconds;
  }
  EXPECT_LT(below, whole.bound_seconds);
}

TEST(BranchCut, StopsAtTheFlagAndAtItsGoal) {
  Rng rng(34);
  const std::atomic<bool> cancel{true};
  int seen = 0;
  for (int i = 0; i < 600; ++i) {
    const ScheduleProblem problem = some_problem(i, rng);
    const CutBoundResult single = closure_cut(problem);
    if (!single.feasible || !single.op) continue;
    ++seen;
    const BranchCutResult stopped = branch_cut(problem, single, {.limits = {.cancel = &cancel}});
    EXPECT_TRUE(stopped.cut_short);
    EXPECT_GE(stopped.bound_seconds, single.bound_seconds);
    const double goal = single.lower_bound_seconds;
    const BranchCutResult reached = branch_cut(problem, single, {.goal_seconds = goal});
    EXPECT_GE(reached.lower_bound_seconds, goal);
    if (reached.certificate.cases) {
      EXPECT_LE(reached.certificate.cases->nodes.size(), 41u);  // of the first multi-cut
    }
  }
  EXPECT_GT(seen, 20);
}

TEST(BranchCut, TellsWhatIsProvenAndHowMuchWorkIsLeft) {
  Rng rng(35);
  int seen = 0, told_more = 0;
  for (int i = 0; i < 600; ++i) {
    const ScheduleProblem problem = some_problem(i, rng);
    const CutBoundResult single = closure_cut(problem);
    if (!single.feasible || !single.op) continue;
    ++seen;
    double proven = single.lower_bound_seconds, spent = 0;
    int times = 0;
    const auto hear = [&](double lower_bound_seconds, double share) {
      EXPECT_GE(lower_bound_seconds, proven);
      EXPECT_GE(share, spent);
      EXPECT_LE(share, 1);
      proven = lower_bound_seconds;
      spent = share;
      ++times;
    };
    const BranchCutOptions options{.limits = {.max_units = 200'000}, .write_proof = false};
    BranchCutOptions watched = options;
    watched.progress = hear;
    const BranchCutResult result = branch_cut(problem, single, watched);
    EXPECT_EQ(result.lower_bound_seconds, proven);
    EXPECT_EQ(result.bound_ticks, branch_cut(problem, single, options).bound_ticks);
    told_more += times > 2;
  }
  EXPECT_GT(seen, 20);
  EXPECT_GT(told_more, 5);
}

TEST(BranchCut, CapturedStepsGainPoints) {
  struct Case {
    const char* file;
    int64_t budget_mib;
    double least, most;  // percent; a schedule with `most` is known
    int64_t work;
  };
  for (const Case& c : {Case{"resnet50_8.remat", 450, 16.3, 18.7, 700'000'000},
                        Case{"unet_2.remat", 600, 12.0, 12.95, 900'000'000}}) {
    if (c.work > 700'000'000 && !long_checks()) continue;
    const ScheduleProblem problem = captured(c.file, c.budget_mib);
    const CutBoundResult single = closure_cut(problem);
    const BranchCutOptions options{.limits = {.max_units = c.work}};
    const BranchCutResult result = branch_cut(problem, single, options);
    const double percent = 100 * result.bound_seconds / once_seconds(problem);
    EXPECT_GE(percent, c.least) << c.file;
    EXPECT_LE(percent, c.most) << c.file;
    if (!long_checks()) continue;
    const BranchCutResult again = branch_cut(problem, single, options);
    EXPECT_EQ(again.bound_seconds, result.bound_seconds);
    EXPECT_EQ(again.certificate, result.certificate);
  }
}

}  // namespace
}  // namespace lowtide::remat

#include "remat/bounds/branch_cut.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "remat/bounds/branch_tree.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// What the whole proves: "Captured steps", the table of proofs by cases.
struct BranchCutTuning {
  size_t most_cuts = 9;
  size_t looked_at = 400;        // ops that need most, of which cuts are chosen
  size_t most_places = 24;       // ops that may be cuts
  int64_t least_distance = 4;    // ops between them, in ancestors
  int64_t distances = 120;       // the same, as a part of all ops
  int64_t parts = 64;            // of the most bytes that an op needs; less is no difference
  size_t cases = 4;              // in which ops are compared: the lowest
  size_t idle_trials = 8;        // that are no better, before no more are made
  double least_rise = 1e-3;      // percent, to be worth a cut
  double most_rise = 1;          // percent, of one case
  int most_iterations = 50'000;  // of a trial
  int64_t first_splits = 10;     // of a multi-cut of two, compared with larger ones
  int most_failures = 2;         // of larger multi-cuts that prove less
  int64_t small_share = 200;     // values below that part of the capacity are left out
  double run_weight = 0.15, again_weight = 0.3;  // of an op's time, against what bytes cost
  int deepest = 500;                             // nested cases that are written
};
constexpr BranchCutTuning kBranchCut;

struct TrialProgram {
  TrialProgram(const StepGraph& graph, std::vector<SchedOpId> ops, int64_t small_bytes)
      : segments(graph, std::move(ops)), program(segments, small_bytes) {}

  CutSegments segments;
  MultiCutProgram program;
};

// A multi-cut and its tree.
struct TrialMultiCut : TrialProgram {
  TrialMultiCut(const StepGraph& graph, std::vector<SchedOpId> ops, int64_t small_bytes,
                double price, WorkBudget& work)
      : TrialProgram(graph, std::move(ops), small_bytes),
        tree(program, weights(graph, price), work) {}

  std::vector<double> weights(const StepGraph& graph, double price) const {
    std::vector<double> result;
    for (const CutVariable& x : program.variables) {
      if (x.kind == CutVariableKind::kStay) {
        const int64_t bytes = graph.problem->values[SchedValueId(x.id)].bytes;
        result.push_back(price * static_cast<double>(bytes));
      } else {
        const auto ticks = static_cast<double>(graph.ticks[SchedOpId(x.id)]);
        result.push_back(ticks * (x.kind == CutVariableKind::kRun ? kBranchCut.run_weight
                                                                  : kBranchCut.again_weight));
      }
    }
    return result;
  }

  BranchTree tree;
};

// Ops that need most when they run, each far enough from the others; first those that need more,
// of equals those with more to come.
std::vector<SchedOpId> places(const StepGraph& graph, SchedOpId main) {
  const auto side = sides_of(graph, main);
  std::vector<std::pair<int64_t, SchedOpId>> by_bytes;
  for (SchedOpId op : side.ids())
    if (side[op] == Side::kBefore || side[op] == Side::kAfter)
      by_bytes.emplace_back(-graph.own_bytes(op), op);
  std::sort(by_bytes.begin(), by_bytes.end());
  if (by_bytes.size() > kBranchCut.looked_at) by_bytes.resize(kBranchCut.looked_at);
  std::vector<std::tuple<int64_t, int64_t, SchedOpId>> ordered;  // parts of most, ancestors, op
  for (const auto& [bytes, op] : by_bytes) {
    const auto of = sides_of(graph, op);
    const int64_t most = std::max<int64_t>(1, -by_bytes[0].first);
    const int64_t parts = -((kBranchCut.parts * -bytes + most / 2) / most);
    ordered.emplace_back(parts, std::count(of.begin(), of.end(), Side::kBefore), op);
  }
  std::sort(ordered.begin(), ordered.end());
  // What runs before the main op binds seldom.
  std::stable_partition(ordered.begin(), ordered.end(), [&](const auto& entry) {
    return side[std::get<2>(entry)] == Side::kAfter;
  });
  const int64_t distance = std::max(kBranchCut.least_distance,
                                    static_cast<int64_t>(graph.size()) / kBranchCut.distances);
  std::vector<SchedOpId> result;
  std::vector<int64_t> taken;  // ancestors
  for (const auto& [parts, ancestors, op] : ordered) {
    if (result.size() == kBranchCut.most_places) break;
    const bool near = std::any_of(taken.begin(), taken.end(), [&, a = ancestors](int64_t other) {
      return std::max(a, other) - std::min(a, other) < distance;
    });
    if (near) continue;
    const ClosureNetwork network(graph, op);
    if (network.needed_bytes() <= *graph.problem->budget_bytes - network.fixed_bytes()) continue;
    result.push_back(op);
    taken.push_back(ancestors);
  }
  return result;
}

class BranchSearch {
 public:
  BranchSearch(const StepGraph& graph, const CutBoundResult& single,
               const BranchCutOptions& options)
      : graph_(graph),
        options_(options),
        work_(options.limits),
        proven_ticks_(single.bound_ticks),
        small_bytes_(single.capacity_bytes / kBranchCut.small_share),
        price_(static_cast<double>(single.prices.per_byte) / static_cast<double>(kOne)) {
    tell();
    const double goal = (options.goal_seconds - graph.bound_seconds(0)) * graph.scale.per_second();
    goal_ticks_ = static_cast<int64_t>(std::clamp(goal, 0.0, 0x1p60));
    for (SchedOpId op : places(graph, *single.op)) tried_.push_back({op, 0});
  }

  WorkBudget& work() { return work_; }

  std::unique_ptr<TrialMultiCut> run(SchedOpId main) {
    auto best = make({main});
    bool open = grow(best->tree, kBranchCut.first_splits);
    int failures = 0;
    for (int64_t splits = kBranchCut.first_splits; !done(*best); splits *= 2) {
      auto next =
          failures < kBranchCut.most_failures && best->segments.size() < kBranchCut.most_cuts
              ? extension(*best)
              : nullptr;
      if (next) grow(next->tree, splits);
      if (next && next->tree.bound_ticks() > best->tree.bound_ticks()) {
        best = std::move(next);
        open = true;
        continue;
      }
      failures += next != nullptr;
      if (!open && !next) break;
      open = grow(best->tree, splits);
    }
    return best;
  }

 private:
  struct Tried {
    SchedOpId op;
    double percent;  // when last tried: how much it helped
  };

  void tell() const {
    if (!options_.progress) return;
    const double share = static_cast<double>(work_.used()) /
                         static_cast<double>(std::max<int64_t>(1, options_.limits.max_units));
    options_.progress(graph_.bound_seconds(graph_.once_ticks + proven_ticks_),
                      std::min(1.0, share));
  }

  void tell_of(const BranchTree& tree) {
    proven_ticks_ = std::max(proven_ticks_, tree.bound_ticks());
    tell();
  }

  // By so many splits, one at a time to tell of each. False: no more can be gained.
  bool grow(BranchTree& tree, int64_t splits) {
    tell_of(tree);
    bool open = tree.bound_ticks() < goal_ticks_;
    for (int64_t i = 0; i < splits && open && work_.look(); ++i) {
      open = tree.grow(goal_ticks_, 1);
      tell_of(tree);
    }
    return open;
  }

  std::unique_ptr<TrialMultiCut> make(std::vector<SchedOpId> cuts) {
    return std::make_unique<TrialMultiCut>(graph_, std::move(cuts), small_bytes_, price_, work_);
  }

  bool done(const TrialMultiCut& trial) {
    return trial.tree.bound_ticks() >= goal_ticks_ || !work_.look();
  }

  // With the op that raises the lowest cases most.
  std::unique_ptr<TrialMultiCut> extension(const TrialMultiCut& from) {
    std::stable_sort(tried_.begin(), tried_.end(),
                     [](const Tried& a, const Tried& b) { return a.percent > b.percent; });
    double most = kBranchCut.least_rise;
    size_t idle = 0;
    std::vector<SchedOpId> chosen;
    for (Tried& tried : tried_) {
      if (!work_.look() ||
          (!chosen.empty() && from.segments.size() > 1 && idle >= kBranchCut.idle_trials))
        break;
      auto cuts = multi_cut_with(graph_, from.segments.cuts, tried.op);
      if (!cuts) continue;
      const TrialProgram longer(graph_, std::move(*cuts), small_bytes_);
      tried.percent = rise(from, longer);
      tell();
      ++idle;
      if (tried.percent <= most) continue;
      most = tried.percent;
      chosen = longer.segments.cuts;
      idle = 0;
    }
    return chosen.empty() ? nullptr : make(chosen);
  }

  // Mean percent that the relaxation of the lowest cases rises by with a further cut.
  double rise(const TrialMultiCut& from, const TrialProgram& longer) {
    LinearProgram lp(longer.program), base(from.program);
    double sum = 0;
    const auto cases = from.tree.lowest_cases(kBranchCut.cases);
    for (const auto& fixed : cases) {
      std::vector<int8_t> here(from.program.variables.size(), kFree);
      for (const auto& [variable, value] : fixed)
        if (!lost(from, longer, variable, value)) here[variable] = value;
      base.set_fixed(here), solve(base);
      lp.set_fixed(carried(from, fixed, longer)), solve(lp);
      sum += std::clamp(lp.objective() - base.objective(), -kBranchCut.most_rise,
                        kBranchCut.most_rise);
    }
    return sum / static_cast<double>(cases.size());
  }

  void solve(LinearProgram& lp) {
    lp.solve(work_.left().with_units(lp.units_of(kBranchCut.most_iterations)), work_);
  }

  // Cuts of the smaller multi-cut before the one that it lacks.
  static size_t place(const TrialMultiCut& from, const TrialProgram& longer) {
    const auto& old = from.segments.cuts;
    return static_cast<size_t>(
        std::mismatch(old.begin(), old.end(), longer.segments.cuts.begin()).first - old.begin());
  }
  // That an op runs in the segment that the cut divides says nothing of either part.
  static bool lost(const TrialMultiCut& from, const TrialProgram& longer, uint32_t variable,
                   int8_t value) {
    const CutVariable& x = from.program.variables[variable];
    return value == 1 && x.kind == CutVariableKind::kRun && x.cut == place(from, longer);
  }

  // The case in terms of the larger multi-cut.
  std::vector<int8_t> carried(const TrialMultiCut& from,
                              const std::vector<std::pair<uint32_t, int8_t>>& fixed,
                              const TrialProgram& longer) const {
    std::map<std::tuple<CutVariableKind, size_t, size_t>, int8_t> values;
    const size_t at = place(from, longer);
    for (const auto& [variable, value] : fixed) {
      if (lost(from, longer, variable, value)) continue;
      const CutVariable& x = from.program.variables[variable];
      values[{x.kind, x.cut + (x.cut > at ? 1 : 0), x.id}] = value;
      if (x.kind == CutVariableKind::kRun && x.cut == at) values[{x.kind, at + 1, x.id}] = value;
    }
    std::vector<int8_t> result(longer.program.variables.size(), kFree);
    for (size_t j = 0; j < result.size(); ++j) {
      const CutVariable& x = longer.program.variables[j];
      if (const auto found = values.find({x.kind, x.cut, x.id}); found != values.end())
        result[j] = found->second;
    }
    return result;
  }

  const StepGraph& graph_;
  const BranchCutOptions& options_;
  WorkBudget work_;
  int64_t proven_ticks_;  // beyond each op once, by whatever has proven the most so far
  int64_t small_bytes_;
  double price_;
  int64_t goal_ticks_ = 0;
  std::vector<Tried> tried_;
};

// The tree with what its leaves need to prove the bound; of a large one the top, which proves
// hardly less.
class ProofWriter {
 public:
  using ProofNode = plan::ProofNodeOf<plan::ProblemIds>;

  ProofWriter(const TrialMultiCut& trial, size_t most_splits)
      : trial_(trial), bound_ticks_(trial.tree.bound_ticks()) {
    fixed_.assign(trial.program.variables.size(), kFree);
    std::vector<int64_t> split;  // bounds of the nodes that are
    std::vector<int> depth;
    for (const BranchNode& node : trial.tree.nodes()) {
      depth.push_back(node.parent < 0 ? 0 : depth[static_cast<size_t>(node.parent)] + 1);
      if (node.children == BranchNode::kNone) continue;
      split.push_back(node.bound_ticks);
      if (depth.back() >= kBranchCut.deepest)
        bound_ticks_ = std::min(bound_ticks_, node.bound_ticks);
    }
    if (split.size() <= most_splits) return;
    std::sort(split.begin(), split.end());
    bound_ticks_ = std::min(bound_ticks_, split[most_splits]);
  }

  int64_t bound_ticks() const { return bound_ticks_; }

  std::vector<ProofNode> write() {
    visit(0, BranchNode::kNone, {});
    return std::move(out_);
  }

 private:
  using Known = std::map<uint32_t, int32_t>;  // multipliers, by row

  // NOLINTNEXTLINE(misc-no-recursion): kBranchCut.deepest at most
  void visit(size_t at, int parent, const Known& known) {
    const BranchNode& node = trial_.tree.nodes()[at];
    ProofNode out;
    out.parent = parent;
    if (parent != BranchNode::kNone) {
      const CutVariable& fixed = trial_.program.variables[node.variable];
      out.variable = fixed.kind;
      out.cut = static_cast<int32_t>(fixed.cut);
      out.id = static_cast<int32_t>(fixed.id);
      out.value = node.value == 1;
      fixed_[node.variable] = node.value;
    }
    const bool leaf = node.children == BranchNode::kNone || node.bound_ticks >= bound_ticks_;
    Known own = known;
    if (!leaf || !proves(known)) {
      own.clear();
      for (const CutMultiplier& m : node.multipliers) own[m.row] = m.value;
      for (const auto& [row, value] : own)
        if (!known.contains(row) || known.at(row) != value) name(out, row, value);
      for (const auto& [row, value] : known)
        if (!own.contains(row)) name(out, row, 0);
      std::stable_sort(out.multipliers.begin(), out.multipliers.end(),
                       [](const auto& a, const auto& b) { return a.row < b.row; });
    }
    const int index = static_cast<int>(out_.size());
    out_.push_back(std::move(out));
    if (!leaf)
      for (size_t side : {size_t{0}, size_t{1}})
        visit(static_cast<size_t>(node.children) + side, index, own);
    if (parent != BranchNode::kNone) fixed_[node.variable] = kFree;
  }

  bool proves(const Known& known) const {
    std::vector<CutMultiplier> multipliers;
    for (const auto& [row, value] : known) multipliers.push_back({row, value});
    return trial_.program.bound(multipliers, fixed_) >= bound_ticks_;
  }
  void name(ProofNode& out, uint32_t row, int32_t value) const {
    const CutRowName& of = trial_.program.rows[row].name;
    out.multipliers.push_back(
        {of.kind, static_cast<int32_t>(of.cut), of.op, of.value, of.divisor, value});
  }

  const TrialMultiCut& trial_;
  int64_t bound_ticks_;
  std::vector<int8_t> fixed_;
  std::vector<ProofNode> out_;
};

}  // namespace

BranchCutResult branch_cut(const plan::ScheduleProblem& problem, const CutBoundResult& single,
                           const BranchCutOptions& options) {
  const StepGraph graph(problem);
  BranchCutResult result;
  int64_t beyond = single.feasible && single.op ? single.bound_ticks : 0;
  if (!problem.link && single.feasible && single.op) {
    BranchSearch search(graph, single, options);
    const std::unique_ptr<TrialMultiCut> trial = search.run(*single.op);
    ProofWriter proof(*trial, options.most_splits);
    const int64_t ticks = options.write_proof ? proof.bound_ticks() : trial->tree.bound_ticks();
    if (ticks > beyond) {
      beyond = ticks;
      if (options.write_proof)
        result.certificate.cases = {trial->segments.cuts, trial->program.unit_ticks, proof.write()};
    }
    result.work = search.work().used();
    result.cut_short = search.work().timed_out();
  }
  result.bound_ticks = graph.once_ticks + beyond;
  result.bound_seconds = graph.scale.seconds(beyond);
  result.lower_bound_seconds = graph.bound_seconds(result.bound_ticks);
  return result;
}

}  // namespace lowtide::remat

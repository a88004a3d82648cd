// Edits of problems against a model that builds the problem from nothing, and what contracting
// promises, by the simulator.
#include "plan/problem_edit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/sorted.h"
#include "plan/schedule_simulator.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::plan {
namespace {

constexpr RandomSchedule kShape{.min_ops = 3,
                                .max_ops = 14,
                                .reader_rate = 0.25,
                                .in_place_rate = 0.5,
                                .link_rate = 0.5,
                                .resident_rate = 0.3};

// a -> b -> c, a -> d; sizes 8, 4, 2 and 1.
ScheduleProblem four_ops() {
  ScheduleProblem problem;
  for (const char* name : {"a", "b", "c", "d"})
    problem.ops.push_back({.name = name, .seconds = 1, .may_rerun = true, .workspace_bytes = 0});
  problem.values.push_back(value(8, 0, {1, 3}));
  problem.values.push_back(value(4, 1, {2}));
  problem.values.push_back(value(2, 2, {}, true));
  problem.values.push_back(value(1, 3, {}, true));
  return problem;
}

std::vector<SchedOpId> ids(std::vector<size_t> numbers) {
  std::vector<SchedOpId> made;
  for (const size_t n : numbers) made.emplace_back(n);
  return made;
}

TEST(ProblemEdit, ContractsAndExpandsByHand) {
  const ScheduleProblem problem = four_ops();
  ProblemEdit edit(problem);
  const SchedOpId contracted_op = edit.contract(ids({1, 2}), "bc").value();
  const CompactedProblem seen = edit.compact();
  ASSERT_EQ(seen.problem.ops.size(), 3u);
  const SchedOp& bc = seen.problem.ops[seen.op[contracted_op]];
  EXPECT_EQ(bc.name, "bc");
  EXPECT_EQ(bc.seconds, 2);
  EXPECT_TRUE(bc.may_rerun);
  EXPECT_EQ(bc.workspace_bytes, 4) << "4 + 2 inside, of which 2 come out";
  EXPECT_EQ(seen.op[SchedOpId(1)], seen.op[contracted_op]);
  EXPECT_FALSE(seen.value[SchedValueId(1)].valid());
  ASSERT_EQ(seen.problem.values.size(), 3u);
  EXPECT_EQ(seen.problem.values[SchedValueId(0)].readers, ids({1, 2}));
  EXPECT_TRUE(check(seen.problem).has_value());
  ASSERT_TRUE(edit.expand(contracted_op).has_value());
  EXPECT_EQ(edit.compact().problem, problem);
  EXPECT_FALSE(edit.alive(contracted_op));
}

TEST(ProblemEdit, RefusesWithTheNumbers) {
  ProblemEdit edit(four_ops());
  EXPECT_EQ(edit.contract(ids({0, 2}), "ac").error().message,
            "the region is not convex: op 1 lies between its ops, op 2 needs it");
  EXPECT_EQ(edit.remove_op(SchedOpId(1)).error().message,
            "op 1 makes value 1, which is still read or an output");
  const SchedOpId contracted_op = edit.contract(ids({1, 2}), "bc").value();
  EXPECT_EQ(edit.contract(ids({2, 3}), "cd").error().message,
            "op 2 is inside of contracted op 4 already");
  const SchedOpId outer = edit.contract(std::vector{contracted_op, SchedOpId(3)}, "bcd").value();
  EXPECT_EQ(edit.expand(contracted_op).error().message,
            "op 4 is inside of contracted op 5; expand it first");
  EXPECT_EQ(edit.move_op(SchedOpId(0), SchedOpId(1)).error().message,
            "no op can stand behind op 1, between the members of contracted op 5; expand it first");
  ASSERT_TRUE(edit.expand(outer).has_value());
  ASSERT_TRUE(edit.check().has_value());
  SchedValue late = edit.value(SchedValueId(3));
  late.readers = ids({0});
  const auto start = edit.mark();
  edit.set_value(SchedValueId(3), late);
  EXPECT_EQ(edit.check().error().message,
            "value 3 is made by op 3 and read by op 0, which comes no later");
  edit.rollback(start);
  EXPECT_TRUE(edit.check().has_value());
}

// What the writer of a value inside changes shows in the contracted op.
TEST(ProblemEdit, ContractedOpsFollowTheirMembers) {
  ProblemEdit edit(four_ops());
  const SchedOpId contracted_op = edit.contract(ids({1, 2}), "bc").value();
  SchedValue read_outside = edit.value(SchedValueId(1));
  read_outside.readers = ids({2, 3});
  edit.set_value(SchedValueId(1), read_outside);
  EditedOp slow = edit.op(SchedOpId(2));
  slow.op.seconds = 5;
  slow.op.may_rerun = false;
  edit.set_op(SchedOpId(2), slow);
  ASSERT_TRUE(edit.check().has_value());
  const CompactedProblem seen = edit.compact();
  EXPECT_EQ(seen.problem.ops[seen.op[contracted_op]].seconds, 6);
  EXPECT_FALSE(seen.problem.ops[seen.op[contracted_op]].may_rerun);
  EXPECT_EQ(seen.problem.ops[seen.op[contracted_op]].workspace_bytes, 0) << "both come out";
  EXPECT_EQ(seen.problem.values[seen.value[SchedValueId(1)]].readers, ids({2}));
}

// ---- properties of contracting ----

// Predecessors of each op, transitively.
std::vector<std::vector<bool>> closure(const ScheduleProblem& problem) {
  const size_t n = problem.ops.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  const auto edge = [&](SchedOpId a, SchedOpId b) { before[a.index()][b.index()] = true; };
  for (const SchedValue& v : problem.values)
    for (const SchedOpId reader : v.readers) edge(v.producer, reader);
  for (const auto& [a, b] : problem.control) edge(a, b);
  for (size_t k = 0; k < n; ++k)
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        if (before[a][k] && before[k][b]) before[a][b] = true;
  return before;
}

bool is_convex(const ScheduleProblem& problem, const std::vector<SchedOpId>& region) {
  const auto before = closure(problem);
  for (const SchedOpId a : region)
    for (const SchedOpId b : region)
      for (size_t k = 0; k < problem.ops.size(); ++k)
        if (before[a.index()][k] && before[k][b.index()] &&
            std::find(region.begin(), region.end(), SchedOpId(k)) == region.end())
          return false;
  return true;
}

std::vector<SchedOpId> random_order(const ScheduleProblem& problem, Rng& rng) {
  const auto before = closure(problem);
  std::vector<SchedOpId> order;
  std::vector<bool> done(problem.ops.size());
  while (order.size() < problem.ops.size()) {
    std::vector<SchedOpId> ready;
    for (const SchedOpId id : problem.ops.ids()) {
      bool free = !done[id.index()];
      for (size_t k = 0; k < done.size(); ++k) free &= done[k] || !before[k][id.index()];
      if (free) ready.push_back(id);
    }
    order.push_back(ready[rng.below(ready.size())]);
    done[order.back().index()] = true;
  }
  return order;
}

std::vector<SchedOpId> random_region(const ScheduleProblem& problem, Rng& rng) {
  std::vector<SchedOpId> region;
  const double rate = rng.uniform();
  for (const SchedOpId id : problem.ops.ids())
    if (rng.uniform() < rate) region.push_back(id);
  if (region.empty()) region.push_back(SchedOpId(rng.below(problem.ops.size())));
  return region;
}

// A value from outside that others read too, all of them by now: inside it would be freed.
bool frees_a_shared_value(const ScheduleProblem& problem, SchedOpId contracted,
                          const std::vector<SchedOpId>& order, size_t at) {
  return std::any_of(problem.values.begin(), problem.values.end(), [&](const SchedValue& v) {
    if (v.is_output || v.readers.size() < 2 ||
        !std::binary_search(v.readers.begin(), v.readers.end(), contracted))
      return false;
    return std::all_of(v.readers.begin(), v.readers.end(), [&](SchedOpId reader) {
      return std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(at + 1),
                       reader) != order.begin() + static_cast<std::ptrdiff_t>(at + 1);
    });
  });
}

// Each step of the contracted problem beside the steps of what it stands for.
void expect_bounded(const ScheduleProblem& problem, const CompactedProblem& seen,
                    SchedOpId contracted, const std::vector<SchedOpId>& region, Rng& rng,
                    int& exact) {
  const std::vector<SchedOpId> order = random_order(seen.problem, rng);
  const SchedOpId contracted_op = seen.op[contracted];
  std::vector<SchedOpId> whole;
  for (const SchedOpId step : order)
    for (const SchedOpId id : problem.ops.ids())
      if (seen.op[id] == step) whole.push_back(id);
  const auto small = simulate(seen.problem, order).value();
  const auto large = simulate(problem, whole).value();
  EXPECT_GE(small.peak_bytes, large.peak_bytes);
  for (size_t i = 0, j = 0; i < order.size(); ++i) {
    const size_t count = order[i] == contracted_op ? region.size() : 1;
    const int64_t inside =
        *std::max_element(large.step_bytes.begin() + static_cast<std::ptrdiff_t>(j),
                          large.step_bytes.begin() + static_cast<std::ptrdiff_t>(j + count));
    j += count;
    EXPECT_EQ(small.after_bytes[i], large.after_bytes[j - 1]);
    EXPECT_GE(small.step_bytes[i], inside);
    if (order[i] == contracted_op && frees_a_shared_value(seen.problem, contracted_op, order, i))
      continue;
    const int64_t floor = small.step_bytes[i] - seen.problem.ops[order[i]].workspace_bytes;
    EXPECT_EQ(small.step_bytes[i], std::max(inside, floor));
    exact += order[i] == contracted_op;
  }
}

TEST(ProblemEditProperty, ContractedProblemsBoundWhatTheyStandFor) {
  int contracted = 0, refused = 0, exact = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const ScheduleProblem problem = random_schedule_problem(kShape, rng);
    ProblemEdit edit(problem);
    ASSERT_EQ(edit.compact().problem, problem);
    const std::vector<SchedOpId> region = random_region(problem, rng);
    const auto contracted_op = edit.contract(region, "region");
    ASSERT_EQ(contracted_op.has_value(), is_convex(problem, region));
    if (!contracted_op) {
      ++refused;
      ASSERT_EQ(edit.compact().problem, problem);
      continue;
    }
    ++contracted;
    ASSERT_TRUE(edit.check().has_value());
    const CompactedProblem seen = edit.compact();
    const Status valid = check(seen.problem);
    ASSERT_TRUE(valid.has_value()) << valid.error().message;
    expect_bounded(problem, seen, *contracted_op, region, rng, exact);
    ProblemEdit rolled_back = edit;
    rolled_back.rollback(0);
    ASSERT_EQ(rolled_back.compact().problem, problem);
    ASSERT_TRUE(edit.expand(*contracted_op).has_value());
    ASSERT_EQ(edit.compact().problem, problem);
  }
  EXPECT_GT(contracted, 400);
  EXPECT_GT(refused, 200);
  EXPECT_GT(exact, contracted / 2);
}

// Contracted in any nesting; stretches of the order come back whichever goes first, others do when
// the last one contracted is the first one expanded.
TEST(ProblemEditProperty, NestedRegionsExpandExactly) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const bool stretches = seed % 2 == 0;
    const ScheduleProblem problem = random_schedule_problem(kShape, rng);
    ProblemEdit edit(problem);
    std::vector<SchedOpId> tops, made;
    for (const SchedOpId id : problem.ops.ids()) tops.push_back(id);
    for (int round = 0; round < 6 && tops.size() > 1; ++round) {
      const size_t begin = rng.below(tops.size() - 1);
      const size_t end = begin + 2 + rng.below(tops.size() - begin - 1);
      std::vector<SchedOpId> region;
      for (size_t i = begin; i < end; ++i)
        if (stretches || rng.below(2) == 0 || i == begin) region.push_back(tops[i]);
      const auto contracted_op = edit.contract(region, "region");
      ASSERT_TRUE(contracted_op.has_value() || !stretches);
      if (!contracted_op) continue;
      made.push_back(*contracted_op);
      ASSERT_TRUE(check(edit.compact().problem).has_value());
      tops.clear();
      for (SchedOpId id = edit.first_op(); id.valid(); id = edit.next_op(id))
        if (tops.empty() || tops.back() != edit.visible(id)) tops.push_back(edit.visible(id));
    }
    while (!made.empty()) {
      size_t i = stretches ? rng.below(made.size()) : made.size() - 1;
      while (edit.visible(made[i]) != made[i])
        i = static_cast<size_t>(std::find(made.begin(), made.end(), edit.visible(made[i])) -
                                made.begin());
      ASSERT_TRUE(edit.expand(made[i]).has_value());
      made.erase(made.begin() + static_cast<std::ptrdiff_t>(i));
    }
    ASSERT_EQ(edit.compact().problem, problem);
  }
}

// ---- random writes against a model ----

// The problem by edit ids: the order of ops, and what each id holds.
struct Model {
  std::vector<SchedOpId> order;
  std::map<SchedOpId, EditedOp> ops;
  std::map<SchedValueId, SchedValue> values;

  ScheduleProblem build() const {
    ScheduleProblem problem;
    std::map<SchedOpId, SchedOpId> op_of;
    std::map<SchedValueId, SchedValueId> value_of;
    for (const SchedOpId id : order) op_of[id] = problem.ops.push_back(ops.at(id).op);
    const auto renamed = [&](std::vector<SchedOpId> list) {
      for (SchedOpId& id : list) id = op_of.at(id);
      std::sort(list.begin(), list.end());
      return list;
    };
    for (const auto& [id, value] : values) {
      SchedValue listed = value;
      listed.producer = op_of.at(value.producer);
      listed.readers = renamed(value.readers);
      value_of[id] = problem.values.push_back(std::move(listed));
    }
    for (const SchedOpId id : order) {
      for (const auto& [in, out] : ops.at(id).in_place)
        problem.in_place.push_back({op_of.at(id), value_of.at(in), value_of.at(out)});
      for (const SchedOpId first : ops.at(id).control)
        problem.control.emplace_back(op_of.at(first), op_of.at(id));
    }
    std::sort(problem.control.begin(), problem.control.end());
    return problem;
  }
};

class Writer {
 public:
  explicit Writer(uint64_t seed) : rng_(seed) {}
  ProblemEdit edit;
  Model model;

  // One change in both; whether it is valid is asked afterwards.
  void change() {
    switch (rng_.below(6)) {
      case 0:
        return add_op();
      case 1:
        return model.order.empty() ? add_op() : set_op();
      case 2:
        return model.order.empty() ? add_op() : add_value();
      case 3:
        return model.values.empty() ? add_op() : set_value();
      case 4:
        return model.order.empty() ? add_op() : move_op();
      default:
        return rng_.below(2) == 0 ? remove_value() : remove_op();
    }
  }

 private:
  SchedOpId any_op() { return model.order[rng_.below(model.order.size())]; }
  SchedValueId any_value() {
    return std::next(model.values.begin(),
                     static_cast<std::ptrdiff_t>(rng_.below(model.values.size())))
        ->first;
  }
  SchedOpId any_place() {
    return model.order.empty() || rng_.below(4) == 0 ? SchedOpId::none() : any_op();
  }
  auto behind(SchedOpId at) {
    if (!at.valid()) return model.order.begin();
    return std::find(model.order.begin(), model.order.end(), at) + 1;
  }
  void add_op() {
    const SchedOpId at = any_place();
    EditedOp op;
    op.op.seconds = static_cast<double>(rng_.below(4));
    const SchedOpId id = edit.insert_op(op, at).value();
    model.order.insert(behind(at), id);
    model.ops[id] = op;
  }
  void set_op() {
    const SchedOpId id = any_op();
    EditedOp& op = model.ops[id];
    op.op.may_rerun = rng_.below(2) == 0;
    op.op.workspace_bytes = rng_.between(rng_.below(30) == 0 ? -1 : 0, 9);
    if (const SchedOpId first = any_op(); first != id) insert_sorted(op.control, first);
    if (!model.values.empty() && rng_.below(3) == 0)
      op.in_place = {{any_value(), any_value()}};
    else
      op.in_place.clear();
    edit.set_op(id, op);
  }
  SchedValue random_value() {
    SchedValue drawn = value(rng_.between(0, 9), 0, {}, rng_.below(4) == 0);
    drawn.producer = any_op();
    for (uint64_t i = rng_.below(4); i > 0; --i)
      if (const SchedOpId reader = any_op(); reader != drawn.producer)
        insert_sorted(drawn.readers, reader);
    return drawn;
  }
  void add_value() {
    const SchedValue drawn = random_value();
    model.values[edit.add_value(drawn)] = drawn;
  }
  void set_value() {
    const SchedValueId id = any_value();
    model.values[id] = random_value();
    edit.set_value(id, model.values[id]);
  }
  void move_op() {
    const SchedOpId id = any_op(), at = any_place();
    if (at == id) return;
    ASSERT_TRUE(edit.move_op(id, at).has_value());
    std::erase(model.order, id);
    model.order.insert(behind(at), id);
  }
  void forget(SchedValueId id) {
    model.values.erase(id);
    for (auto& [op, state] : model.ops)
      std::erase_if(state.in_place,
                    [&](const auto& pair) { return pair.first == id || pair.second == id; });
  }
  void remove_value() {
    if (model.values.empty()) return;
    const SchedValueId id = any_value();
    edit.remove_value(id);
    forget(id);
  }
  void remove_op() {
    if (model.order.empty()) return;
    const SchedOpId id = any_op();
    bool free = true;
    std::vector<SchedValueId> made;
    for (const auto& [v, state] : model.values) {
      if (state.producer != id) continue;
      made.push_back(v);
      free &= state.readers.empty() && !state.is_output;
    }
    ASSERT_EQ(edit.remove_op(id).has_value(), free);
    if (!free) return;
    for (const SchedValueId v : made) forget(v);
    for (auto& [v, state] : model.values) erase_sorted(state.readers, id);
    for (auto& [op, state] : model.ops) erase_sorted(state.control, id);
    std::erase(model.order, id);
    model.ops.erase(id);
  }

  Rng rng_;
};

TEST(ProblemEditProperty, WritesAreWhatTheModelBuilds) {
  int valid = 0, refused = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Writer writer(seed);
    for (int i = 0; i < 150; ++i) {
      const auto mark = writer.edit.mark();
      const Model before = writer.model;
      ASSERT_NO_FATAL_FAILURE(writer.change()) << "step " << i;
      const Status wanted = check(writer.model.build());
      const Status given = writer.edit.check();
      ASSERT_EQ(given.has_value(), wanted.has_value())
          << "step " << i << ": " << (given ? wanted.error().message : given.error().message);
      if (!given) {
        ++refused;
        writer.edit.rollback(mark);
        writer.model = before;
        ASSERT_TRUE(writer.edit.check().has_value());
      }
      valid += given.has_value();
      ASSERT_EQ(writer.edit.compact().problem, writer.model.build()) << "step " << i;
    }
    writer.edit.rollback(0);
    ASSERT_EQ(writer.edit.compact().problem, ScheduleProblem{});
    ASSERT_EQ(writer.edit.op_slots(), 0u);
  }
  EXPECT_GT(valid, 3000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lowtide::plan

// Regions worth parts of their own, held against a second implementation that follows the
// definitions word by word: what is behind a head is what nothing reaches without it, what is hot
// is what a plain walk through the order finds present at its peak, intervals are compared as
// fractions. Of random steps of every family of networks, in their order and in orders drawn at
// random; and an example worked by hand.
#include "fission/regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "fission/testing/net.h"
#include "order/testing/random_order.h"
#include "support/long_checks.h"
#include "support/step_families.h"

namespace lowtide::regions_test {
namespace {

using fission::AxisClass;
using fission::Region;
using ir::OpId;
using plan::SchedOpId;
using plan::ScheduleProblem;
using plan::SchedValueId;
using Order = std::vector<SchedOpId>;

// ---- by definition

// The values that are present while the first op at the peak of an order runs.
class HotSpot {
 public:
  HotSpot(const ScheduleProblem& problem, const Order& order)
      : problem_(problem), order_(order), at_(order::positions_of(order)) {
    int64_t most = -1;
    for (size_t step = 0; step < order.size(); ++step) {
      const std::set<SchedValueId> there = present(step);
      const int64_t bytes =
          bytes_of(there) - reused(step) + problem.ops[order[step]].workspace_bytes;
      if (bytes <= most) continue;
      most = bytes;
      values = there;
    }
  }
  std::set<SchedValueId> values;

 private:
  size_t at(SchedOpId op) const { return static_cast<size_t>(at_[op]); }
  // Nobody behind this step reads it, nor does the step hand it out.
  bool is_last_used(SchedValueId v, size_t step) const {
    const plan::SchedValue& value = problem_.values[v];
    return !value.is_output && std::all_of(value.readers.begin(), value.readers.end(),
                                           [&](SchedOpId reader) { return at(reader) <= step; });
  }
  std::set<SchedValueId> present(size_t step) const {
    std::set<SchedValueId> there;
    for (const SchedValueId v : problem_.values.ids()) {
      const size_t made = at(problem_.values[v].producer);
      if (made == step || (made < step && !is_last_used(v, step - 1))) there.insert(v);
    }
    return there;
  }
  int64_t bytes_of(const std::set<SchedValueId>& values_there) const {
    int64_t bytes = 0;
    for (const SchedValueId v : values_there) bytes += problem_.values[v].bytes;
    return bytes;
  }
  // Of outputs that take over what dies here.
  int64_t reused(size_t step) const {
    int64_t bytes = 0;
    std::set<SchedValueId> used;
    for (const plan::InPlacePair& pair : problem_.in_place) {
      if (pair.op != order_[step] || used.contains(pair.input) || used.contains(pair.output) ||
          !is_last_used(pair.input, step))
        continue;
      used.insert({pair.input, pair.output});
      bytes += problem_.values[pair.output].bytes;
    }
    return bytes;
  }

  const ScheduleProblem& problem_;
  const Order& order_;
  const IdVector<SchedOpId, int64_t> at_;
};

class NaiveRegions {
 public:
  NaiveRegions(const ir::Graph& graph, const AxisClass& axis_class,
               const analysis::ScheduleView& view, const Order& order)
      : graph_(graph), view_(view), hot_(HotSpot(view.problem, order).values) {
    for (const fission::ClassAxis& axis : axis_class.axes) members_.insert(axis.op);
    for (const OpId reader : members_)
      for (const ir::ValueId input : graph_.op(reader).inputs)
        if (input.valid() && members_.contains(graph_.value(input).producer)) {
          readers_[graph_.value(input).producer].insert(reader);
          reads_.insert(reader);
        }
    for (const SchedValueId v : view_.storage.ids()) value_in_[view_.storage[v]] = v;
    for (const OpId head : members_) behind_[head] = unreached_without(head);
  }

  // Each head that is worth anything, with what it is worth.
  std::map<OpId, int64_t> worths() const {
    std::map<OpId, int64_t> all;
    for (const OpId head : members_)
      if (const int64_t bytes = worth(head); bytes > 0) all[head] = bytes;
    return all;
  }

  // Heads of candidates: of each interval those with no other one of it behind them.
  std::set<OpId> chosen(int levels) const {
    const std::map<OpId, int64_t> all = worths();
    int64_t most = 0;
    for (const auto& [head, bytes] : all) most = std::max(most, bytes);
    std::set<OpId> heads;
    for (int64_t i = 1; i <= levels; ++i) {
      std::set<OpId> of_interval;  // i / levels <= worth / most < (i + 1) / levels
      for (const auto& [head, bytes] : all)
        if (i * most <= bytes * levels && bytes * levels < (i + 1) * most) of_interval.insert(head);
      for (const OpId head : of_interval)
        if (std::none_of(of_interval.begin(), of_interval.end(),
                         [&](OpId other) { return behind_.at(head).contains(other); }))
          heads.insert(head);
    }
    return heads;
  }

  const std::set<OpId>& behind(OpId head) const { return behind_.at(head); }

  // What is behind a head, without what is only behind an end of that: an op that others of the
  // class read than those behind the head.
  std::vector<OpId> region(OpId head) const {
    std::set<OpId> left = behind_.at(head);
    for (const OpId end : behind_.at(head)) {
      const std::set<OpId> readers = readers_of(end);
      const bool is_end = std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
        return !behind_.at(head).contains(reader);
      });
      for (const OpId behind : is_end ? behind_.at(end) : std::set<OpId>()) left.erase(behind);
    }
    return {left.begin(), left.end()};
  }

 private:
  std::set<OpId> readers_of(OpId op) const {
    const auto known = readers_.find(op);
    return known == readers_.end() ? std::set<OpId>() : known->second;
  }

  std::set<OpId> unreached_without(OpId head) const {
    std::set<OpId> unreached = members_;
    std::vector<OpId> open;
    for (const OpId op : members_)
      if (!reads_.contains(op)) open.push_back(op);
    while (!open.empty()) {
      const OpId op = open.back();
      open.pop_back();
      if (op == head || unreached.erase(op) == 0) continue;
      for (const OpId reader : readers_of(op)) open.push_back(reader);
    }
    unreached.erase(head);
    return unreached;
  }

  std::optional<SchedValueId> value_in(ir::ValueId value) const {
    if (!value.valid()) return std::nullopt;
    const auto known = value_in_.find(graph_.value(value).storage);
    return known == value_in_.end() ? std::nullopt : std::optional(known->second);
  }

  int64_t worth(OpId head) const {
    std::set<SchedValueId> made, read;
    for (const OpId op : region(head)) {
      for (const ir::ValueId output : graph_.op(op).outputs)
        if (const auto v = value_in(output); v && !ir::is_view(graph_.value(output).alias))
          made.insert(*v);
      for (const ir::ValueId input : graph_.op(op).inputs)
        if (const auto v = value_in(input)) read.insert(*v);
    }
    int64_t bytes = 0;
    for (const SchedValueId v : view_.problem.values.ids()) {
      const bool is_hot = hot_.contains(v);
      if (made.contains(v) && is_hot) bytes += view_.problem.values[v].bytes / 2;
      if (read.contains(v) && !made.contains(v) && !is_hot) bytes -= view_.problem.values[v].bytes;
    }
    return bytes;
  }

  const ir::Graph& graph_;
  const analysis::ScheduleView& view_;
  const std::set<SchedValueId> hot_;
  std::set<OpId> members_;
  std::map<OpId, std::set<OpId>> readers_;  // in the class
  std::set<OpId> reads_;                    // those that read what others of the class make
  std::map<ir::StorageId, SchedValueId> value_in_;
  std::map<OpId, std::set<OpId>> behind_;
};

// ---- what is held against it

struct Counted {
  int steps = 0, classes = 0, regions = 0, left_out = 0;
  int ended = 0;  // regions without some of what is behind their heads
};

void expect_as_defined(const ir::Graph& graph, const AxisClass& axis_class,
                       const analysis::ScheduleView& view, const Order& order, Counted& counted) {
  const NaiveRegions naive(graph, axis_class, view, order);
  const std::map<OpId, int64_t> worths = naive.worths();
  ++counted.classes;
  for (const int levels : {1, 3, 8}) {
    SCOPED_TRACE(testing::Message() << levels << " levels");
    const auto found = fission::find_regions(graph, axis_class, view, order, levels);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    std::set<OpId> heads;
    for (size_t k = 0; k < found->size(); ++k) {
      const Region& region = found->at(k);
      SCOPED_TRACE(graph.op(region.head).name);
      EXPECT_TRUE(heads.insert(region.head).second);
      ASSERT_TRUE(worths.contains(region.head));
      EXPECT_EQ(region.worth_bytes, worths.at(region.head));
      EXPECT_EQ(region.ops, naive.region(region.head));
      counted.ended += naive.behind(region.head).size() > region.ops.size();
      if (k > 0) {
        EXPECT_GE(found->at(k - 1).ops.size(), region.ops.size());
      }
    }
    EXPECT_EQ(heads, naive.chosen(levels));
    counted.regions += static_cast<int>(heads.size());
    counted.left_out += static_cast<int>(worths.size() - heads.size());
  }
}

analysis::ScheduleView view_of(const ir::Graph& graph) {
  analysis::OpCosts costs;
  costs.seconds = IdVector<OpId, double>(graph.op_count(), 1);
  costs.workspace_bytes = IdVector<OpId, int64_t>(graph.op_count(), 0);
  return analysis::make_schedule_view(graph, costs, 64).value();
}

void expect_of_step(const ir::Graph& graph, Rng& rng, Counted& counted) {
  const auto classes = fission::axis_classes(graph).value();
  const analysis::ScheduleView view = view_of(graph);
  const Order given(view.problem.ops.ids().begin(), view.problem.ops.ids().end());
  ++counted.steps;
  for (size_t k = 0; k < std::min<size_t>(classes.size(), 2); ++k) {
    expect_as_defined(graph, classes[k], view, given, counted);
    expect_as_defined(graph, classes[k], view, order::random_order(view.problem, rng), counted);
  }
}

void print(const char* what, const Counted& counted) {
  std::printf("%d %s, %d classes and orders, %d regions, %d of them with an end, %d left out\n",
              counted.steps, what, counted.classes, counted.regions, counted.ended,
              counted.left_out);
}

TEST(Regions, OfEveryFamilyOfStepsAreThoseOfTheDefinition) {
  Counted counted;
  const auto seeds = static_cast<uint64_t>(some_of(400, 16));
  for (uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 31 + 7);
    expect_of_step(step_of_family(seed, rng), rng, counted);
  }
  print("steps", counted);
  EXPECT_GT(counted.regions, counted.classes);
  EXPECT_GT(counted.left_out, counted.classes);
  EXPECT_GT(counted.ended, 20);
}

// Ways that part and join anywhere, and values of many sizes.
TEST(Regions, OfRandomNetsAreThoseOfTheDefinition) {
  Counted counted;
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    fission::Net net;
    std::vector<std::pair<ir::ValueId, int64_t>> made = {{net.given({8, 4}), 4}};
    for (int k = 0; k < 14; ++k) {
      const auto [x, width] = made[rng.below(made.size())];
      const auto [y, other] = made[made.size() - 1 - rng.below(std::min<size_t>(made.size(), 3))];
      const std::string name = "op" + std::to_string(k);
      const int64_t wide = 16 * rng.between(1, 6);
      if (rng.below(3) == 0)
        made.emplace_back(net.op(name, "MatMul", {y, net.given({other, wide})}), wide);
      else if (rng.below(3) == 0)
        made.emplace_back(net.op(name, "Tanh", {y}), other);
      else
        made.emplace_back(net.op(name, "Concat", {x, y}, {{"axis", int64_t{1}}}), width + other);
    }
    net.graph.set_output(made.back().first, true);
    expect_of_step(net.graph, rng, counted);
  }
  print("nets", counted);
  EXPECT_GT(counted.regions, 100);
  EXPECT_GT(counted.left_out, 100);
}

// ---- by hand

//     x -> a -> wide -> act -> both -> back -> end          (both reads wide, end reads x)
//
// Eight rows. The peak is where `act` is made: x (64 bytes), wide and act (1,024 each) are there, a
// (64) is gone. Behind x are all the others: half of wide and of act, 1,024, and nothing is read
// that is not there at the peak. Behind a likewise, less the 64 of a itself. Behind wide is half of
// act. Behind `both` is nothing hot, and behind no other is anything.
class WideStep : public testing::Test {
 protected:
  WideStep() {
    const ir::ValueId x = net_.op("x", "Tanh", {net_.given({8, 2})});
    const ir::ValueId a = net_.op("a", "Tanh", {x});
    const ir::ValueId wide = net_.op("wide", "MatMul", {a, net_.given({2, 32})});
    const ir::ValueId act = net_.op("act", "Tanh", {wide});
    const ir::ValueId both = net_.op("both", "Mul", {act, wide});
    const ir::ValueId back = net_.op("back", "MatMul", {both, net_.given({32, 2})});
    net_.graph.set_output(net_.op("end", "Add", {back, x}), true);
  }
  struct Named {
    std::string head;
    int64_t worth_bytes;
    size_t ops;
    bool operator==(const Named&) const = default;
  };
  std::vector<Named> found(int levels) const {
    const auto view = net_.view();
    const Order order(view.problem.ops.ids().begin(), view.problem.ops.ids().end());
    std::vector<Named> all;
    const auto regions = fission::find_regions(net_.graph, net_.largest(), view, order, levels);
    EXPECT_TRUE(regions.has_value());
    for (const Region& one : *regions)
      all.push_back({net_.graph.op(one.head).name, one.worth_bytes, one.ops.size()});
    return all;
  }
  fission::Net net_;
};

TEST_F(WideStep, RegionsAreWorthWhatIsHotBehindTheirHead) {
  const Named x{"x", 1024, 6}, a{"a", 960, 4}, wide{"wide", 512, 3};
  EXPECT_EQ(found(8), (std::vector{x, a, wide}));  // steps 8, 7 (960 * 8 / 1024) and 4
  EXPECT_EQ(found(4), (std::vector{x, a, wide}));  // 4, 3 and 2
}

TEST_F(WideStep, OfEachStepThoseAreTakenThatContainNoOther) {
  const Named x{"x", 1024, 6}, wide{"wide", 512, 3};
  EXPECT_EQ(found(2), (std::vector{x, wide}));  // 2, and 1 of both a and wide, which is behind a
  EXPECT_EQ(found(1), std::vector{x});          // the others are below the first step
}

}  // namespace
}  // namespace lowtide::regions_test

// Axis classes held against a second implementation: Kruskal's forest with forbidden pairs over
// plain sets, from the op table's axes alone. Whatever made the classes, an op has one axis in each
// at most, and where a link was left out, both ends in one class would give an op two. Of random
// steps of every family of networks and of random products, and the rows of an attention by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "fission/classes.h"
#include "fission/passes.h"
#include "fission/testing/net.h"
#include "ops/op_table.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"
#include "support/small_steps.h"
#include "support/step_families.h"

namespace lowtide::axis_classes_test {
namespace {

using fission::AxisChoice;
using fission::AxisClass;
using ir::OpId;
using ir::ValueId;

// ---- by definition

using Node = std::pair<OpId, int>;  // an axis of an op
using Group = std::set<Node>;

struct Link {
  Node one, other;
  bool operator==(const Link&) const = default;
};

// Whether an op would have two axes in both together.
bool collide(const Group& a, const Group& b) {
  return std::any_of(a.begin(), a.end(), [&](const Node& one) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Node& other) { return one.first == other.first; });
  });
}

class NaiveClasses {
 public:
  NaiveClasses(const ir::Graph& graph, AxisChoice choice) : graph_(graph), choice_(choice) {
    for (const OpId id : graph.ops())
      if (!overwrites(graph, id)) add(id, ops::axis_map(ops::instance_of(graph, id)).value());
    find_links();
    join();
  }

  // Each with the ops that run whole before all others; those are taken out.
  struct Made {
    Group members, beforehand;
  };
  std::vector<Made> classes() const {
    std::vector<Made> all;
    for (const Group& group : groups_) {
      if (group.size() < 2) continue;
      Made& made = all.emplace_back(Made{group, {}});
      if (choice_ == AxisChoice::kCoupledToo) continue;
      const std::set<OpId> whole = beforehand(group);
      for (const Node& node : group)
        if (whole.contains(node.first)) made.beforehand.insert(node);
      if (made.members.size() - made.beforehand.size() < 2) made.beforehand.clear();
      for (const Node& node : made.beforehand) made.members.erase(node);
    }
    return all;
  }

  const std::vector<Link>& links() const { return links_; }
  fission::ClassAxis axis(const Node& node) const {
    const ops::AxisMap& map = maps_.at(node.first);
    fission::ClassAxis made{node.first, node.second};
    made.extent = *map.axes[static_cast<size_t>(node.second)].extent.constant();
    std::set<ValueId> along;
    for (const ops::AxisUse& use : map.uses) {
      if (use.axis != node.second || !is_member(map, use)) continue;
      made.padded |= use.kind == ops::LinkKind::kWindow || use.kind == ops::LinkKind::kShift;
      if (use.is_output) along.insert(operand(node.first, use));
    }
    for (const ValueId v : along) made.bytes += v.valid() ? bytes_of(v) : 0;
    return made;
  }

 private:
  ValueId operand(OpId id, const ops::AxisUse& use) const {
    const auto& all = use.is_output ? graph_.op(id).outputs : graph_.op(id).inputs;
    const auto at = static_cast<size_t>(use.operand);
    return at < all.size() ? all[at] : ValueId::none();
  }
  int64_t bytes_of(ValueId v) const { return *ir::size_bytes(graph_.value(v)).constant(); }

  bool is_member(const ops::AxisMap& map, const ops::AxisUse& use) const {
    const bool walks = use.kind != ops::LinkKind::kBroadcast && use.outermost;
    if (choice_ == AxisChoice::kCoupledToo)
      return use.axis >= 0 && (walks || use.kind == ops::LinkKind::kChosen);
    return walks && use.kind != ops::LinkKind::kChosen && ops::can_split(map, use.axis);
  }

  // Its axes of two elements or more that walk dimensions of what it reads or makes.
  void add(OpId id, const ops::AxisMap& map) {
    maps_[id] = map;
    for (const ops::AxisUse& use : map.uses) {
      const ValueId value = operand(id, use);
      if (!is_member(map, use) || !value.valid()) continue;
      if (*map.axes[static_cast<size_t>(use.axis)].extent.constant() < 2) continue;
      const Node node{id, use.axis};
      groups_.insert({node});
      (use.is_output ? makers_ : readers_)[{value, use.dim}].push_back(node);
    }
  }

  // From who makes a value to those who read it; from the first reader where nobody makes it.
  void find_links() {
    std::set<std::pair<ValueId, int>> walked;
    for (const auto* walks : {&makers_, &readers_})
      for (const auto& [dim, nodes] : *walks) walked.insert(dim);
    std::vector<std::pair<ValueId, int>> order(walked.begin(), walked.end());
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return bytes_of(a.first) > bytes_of(b.first);
    });
    for (const auto& dim : order) {
      std::vector<Node> all = makers_[dim];
      all.insert(all.end(), readers_[dim].begin(), readers_[dim].end());
      for (size_t k = 1; k < all.size(); ++k)
        if (all[k] != all[0]) links_.push_back({all[0], all[k]});
    }
  }

  void join() {
    const auto group_of = [&](const Node& node) {
      return *std::find_if(groups_.begin(), groups_.end(),
                           [&](const Group& group) { return group.contains(node); });
    };
    for (const Link& link : links_) {
      Group one = group_of(link.one);
      const Group other = group_of(link.other);
      if (one == other || collide(one, other)) continue;
      groups_.erase(one);
      groups_.erase(other);
      one.insert(other.begin(), other.end());
      groups_.insert(one);
    }
  }

  // Of a class with these members: ops whose whole results another op needs before its first part,
  // with all that they are made of, as far as that is parameters, constants and given whole numbers
  // only and a 64th of the class's bytes.
  std::set<OpId> beforehand(const Group& members) const {
    const std::map<OpId, int> axis_of(members.begin(), members.end());
    std::map<OpId, int64_t> bytes;
    int64_t all_bytes = 0;
    for (const Node& node : members) all_bytes += bytes[node.first] = axis(node).bytes;
    std::set<OpId> whole;
    for (const auto& [id, axis] : axis_of) {
      if (!is_awaited(id, axis_of)) continue;
      std::set<OpId> with = behind(id);
      const bool is_fixed = std::none_of(with.begin(), with.end(), [&](OpId op) {
        return reads_given_floats(op) && !whole.contains(op);
      });
      with.insert(whole.begin(), whole.end());
      int64_t sum = 0;
      for (const OpId op : with) sum += bytes.contains(op) ? bytes.at(op) : 0;
      if (is_fixed && sum <= all_bytes / 64) whole = with;
    }
    return whole;
  }

  // Whether some op reads what it makes other than piece by piece or to add to it.
  bool is_awaited(OpId id, const std::map<OpId, int>& axis_of) const {
    const auto& outputs = graph_.op(id).outputs;
    for (size_t output = 0; output < outputs.size(); ++output) {
      const bool has_pieces = fission::has_share_of(maps_.at(id), axis_of.at(id),
                                                    static_cast<int>(output), /*is_output=*/true);
      for (const OpId reader : graph_.readers(outputs[output])) {
        const auto& inputs = graph_.op(reader).inputs;
        const auto sums = ops::accumulators(ops::instance_of(graph_, reader));
        for (int input = 0; input < static_cast<int>(inputs.size()); ++input) {
          if (inputs[static_cast<size_t>(input)] != outputs[output]) continue;
          const bool passes_on =
              has_pieces && axis_of.contains(reader) &&
              fission::has_share_of(maps_.at(reader), axis_of.at(reader), input, false);
          const bool adds = std::any_of(sums.begin(), sums.end(),
                                        [&](const auto& pair) { return pair.first == input; });
          if (!passes_on && !adds) return true;
        }
      }
    }
    return false;
  }

  // An op and all whose results it is made of.
  std::set<OpId> behind(OpId id) const {
    std::set<OpId> found = {id};
    for (const ValueId input : graph_.op(id).inputs)
      if (input.valid() && graph_.value(input).producer.valid())
        found.merge(behind(graph_.value(input).producer));
    return found;
  }
  bool reads_given_floats(OpId id) const {
    const auto& inputs = graph_.op(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) {
      return v.valid() && !graph_.value(v).producer.valid() && is_float(graph_.value(v).dtype) &&
             graph_.value(v).initial.kind == ir::InitialValue::Kind::kFed;
    });
  }

  const ir::Graph& graph_;
  const AxisChoice choice_;
  std::map<OpId, ops::AxisMap> maps_;
  std::map<std::pair<ValueId, int>, std::vector<Node>> makers_, readers_;
  std::vector<Link> links_;  // those of the largest values first
  std::set<Group> groups_;
};

// ---- what is held against it

struct Counted {
  int steps = 0, classes = 0, links = 0, left_out = 0, beforehand = 0;
};

Group group_of(const AxisClass& made) {
  Group group;
  for (const fission::ClassAxis& axis : made.axes) group.insert({axis.op, axis.axis});
  return group;
}

// What a class says of itself.
void expect_sums(const AxisClass& made, const NaiveClasses& naive) {
  int64_t bytes = 0, least = INT64_MAX;
  for (const fission::ClassAxis& axis : made.axes) {
    EXPECT_EQ(axis, naive.axis({axis.op, axis.axis}));
    bytes += axis.bytes;
    least = std::min(least, axis.extent);
  }
  EXPECT_EQ(made.bytes, bytes);
  EXPECT_EQ(made.least_extent, least);
  const auto by_op = [](const auto& a, const auto& b) { return a.op < b.op; };
  EXPECT_TRUE(std::is_sorted(made.axes.begin(), made.axes.end(), by_op));
  for (size_t k = 1; k < made.axes.size(); ++k) EXPECT_NE(made.axes[k - 1].op, made.axes[k].op);
}

// Of classes with what runs beforehand put back.
void expect_links_end_where_they_must(const std::vector<Group>& classes, const NaiveClasses& naive,
                                      Counted& counted) {
  std::map<Node, const Group*> group_of;
  for (const Group& one : classes)
    for (const Node& node : one) EXPECT_TRUE(group_of.emplace(node, &one).second);
  for (const Link& link : naive.links()) {
    const auto group = [&](const Node& node) {
      return group_of.contains(node) ? *group_of.at(node) : Group{node};
    };
    ++counted.links;
    const Group one = group(link.one), other = group(link.other);
    if (one == other) continue;
    ++counted.left_out;
    EXPECT_TRUE(collide(one, other))
        << "axis " << link.one.second << " of op " << link.one.first.index() << " and axis "
        << link.other.second << " of op " << link.other.first.index();
  }
}

void expect_as_defined(const ir::Graph& graph, Counted& counted) {
  ++counted.steps;
  for (const AxisChoice choice : {AxisChoice::kToCut, AxisChoice::kCoupledToo}) {
    SCOPED_TRACE(choice == AxisChoice::kToCut ? "to cut" : "coupled too");
    const NaiveClasses naive(graph, choice);
    const auto found = fission::axis_classes(graph, choice);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    std::multiset<Group> groups, wanted;
    for (size_t k = 0; k < found->size(); ++k) {
      groups.insert(group_of(found->at(k)));
      expect_sums(found->at(k), naive);
      if (k > 0) {
        EXPECT_GE(found->at(k - 1).bytes, found->at(k).bytes);
      }
    }
    std::vector<Group> before;
    for (const NaiveClasses::Made& made : naive.classes()) {
      wanted.insert(made.members);
      Group all = made.members;
      all.insert(made.beforehand.begin(), made.beforehand.end());
      before.push_back(std::move(all));
      counted.beforehand += static_cast<int>(made.beforehand.size());
    }
    EXPECT_EQ(groups, wanted);
    expect_links_end_where_they_must(before, naive, counted);
    counted.classes += static_cast<int>(groups.size());
  }
}

void print(const char* what, const Counted& counted) {
  std::printf("%d %s, %d classes, %d links, %d left out, %d ops beforehand\n", counted.steps, what,
              counted.classes, counted.links, counted.left_out, counted.beforehand);
}

TEST(AxisClasses, OfEveryFamilyOfStepsAreThoseOfTheDefinition) {
  Counted counted;
  const auto seeds = static_cast<uint64_t>(some_of(400, 16));
  for (uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 13 + 1);
    expect_as_defined(step_of_family(seed, rng), counted);
  }
  print("steps", counted);
  EXPECT_GT(counted.left_out, 100);
  EXPECT_GT(counted.beforehand, 10);
}

// Squares of one extent, so that any dimension may meet any other one.
TEST(AxisClasses, OfRandomProductsAreThoseOfTheDefinition) {
  Counted counted;
  for (uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    fission::Net net;
    std::vector<ValueId> made = {net.given({6, 6}), net.given({6, 6})};
    for (int k = 0; k < 10; ++k) {
      const auto any = [&] { return made[rng.below(made.size())]; };
      const std::string name = "op" + std::to_string(k);
      const size_t kind = rng.below(5);
      if (kind < 2)
        made.push_back(net.op(name, "MatMul", {any(), any()},
                              {{"trans_a", rng.between(0, 1)}, {"trans_b", rng.between(0, 1)}}));
      else if (kind == 2)
        made.push_back(net.op(name, "Transpose", {any()}, {{"perm", ir::Dims{1, 0}}}));
      else if (kind == 3)
        made.push_back(net.op(name, "Softmax", {any()}, {{"axis", rng.between(0, 1)}}));
      else
        made.push_back(net.op(name, "Add", {any(), any()}));
    }
    net.graph.set_output(made.back(), true);
    expect_as_defined(net.graph, counted);
  }
  print("nets", counted);
  EXPECT_GT(counted.left_out, 400);
}

// ---- by hand

// Attention of one sequence of 8 rows: rows of queries, keys and values are those of x, and meet in
// the products of queries with keys and of weights with values.
class OneSequence : public testing::Test {
 protected:
  static ir::Graph attention(int64_t wide, int64_t of_head) {
    GraphWriter net;
    const auto product = [&](const std::string& name, ValueId a, ValueId b, int64_t trans_b = 0) {
      return net.op("MatMul", {a, b}, {{"trans_b", trans_b}}, name);
    };
    const ValueId x = net.op("Tanh", {net.given("given", {8, wide})}, {}, "x");
    const auto rows = [&](const std::string& name) {
      return product(name, x, net.given("w", {wide, of_head}, Category::kParameter));
    };
    const ValueId q = rows("q"), k = rows("k"), v = rows("v");
    const ValueId scores = product("scores", q, k, 1);
    net.result(product("y", net.op("Softmax", {scores}, {{"axis", int64_t{1}}}, "weights"), v));
    return net.graph();
  }
  // As "op.axis", of extent 8.
  static std::set<std::set<std::string>> classes(const ir::Graph& graph, AxisChoice choice) {
    std::set<std::set<std::string>> all;
    const auto found = fission::axis_classes(graph, choice);
    EXPECT_TRUE(found.has_value());
    for (const AxisClass& one : *found) {
      std::set<std::string> names;
      for (const fission::ClassAxis& axis : one.axes) {
        const auto map = ops::axis_map(ops::instance_of(graph, axis.op)).value();
        names.insert(graph.op(axis.op).name + "." + map.axes[static_cast<size_t>(axis.axis)].name);
      }
      if (one.least_extent == 8) all.insert(std::move(names));
    }
    return all;
  }
};

using Names = std::set<std::string>;
using Classes = std::set<Names>;

// Scores and weights (256 bytes) are the largest; then q, k and v (192), whose links go before
// those of x (64): keys are with the columns of scores, values with what weights are summed along.
// At x the rows of queries are with all others, but those of keys and values stay apart.
TEST_F(OneSequence, WithASmallInputPartsThere) {
  const ir::Graph graph = attention(2, 6);
  const Names rows = {"x.a0", "q.m", "scores.m", "weights.a0", "y.m"};
  EXPECT_EQ(classes(graph, AxisChoice::kToCut),
            (Classes{rows, {"k.m", "scores.n"}, {"v.m", "y.k"}}));
  EXPECT_EQ(classes(graph, AxisChoice::kCoupledToo),
            (Classes{rows, {"k.m", "scores.n", "weights.c", "y.k", "v.m"}}));
}

// Here x (512) goes first: the rows of queries, keys and values are one class, which ends where
// they meet.
TEST_F(OneSequence, WithALargeInputPartsWhereRowsMeet) {
  const ir::Graph graph = attention(16, 6);
  const Names rows = {"x.a0", "q.m", "k.m", "v.m", "scores.m", "weights.a0", "y.m"};
  EXPECT_EQ(classes(graph, AxisChoice::kToCut), Classes{rows});
  EXPECT_EQ(classes(graph, AxisChoice::kCoupledToo),
            (Classes{rows, {"scores.n", "weights.c", "y.k"}}));
}

// In training, too: no product has its rows and columns, or what it sums along, in one class.
TEST_F(OneSequence, InTrainingNoProductHasTwoAxesInOneClass) {
  for (const int64_t wide : {2, 16}) {
    Counted counted;
    const ir::Graph step = training_step_of(attention(wide, 6));
    expect_as_defined(step, counted);
    EXPECT_GT(counted.left_out, 4);
    EXPECT_GE(fission::axis_classes(step)->front().axes.size(), 10U);
  }
}

// Rows of eight numbers that are cast, summed, and weigh the rows of `big`, which the sum divides:
//
//     numbers -> cast -> sum ----------> out         cast and column have 32 bytes each,
//                cast -> column -> weighed -> out    big, weighed and out 32 for each column
//                          big -> weighed
//
// All parts of `out` wait for the sum. It and `cast` run before all others where they have a 64th
// of the 64 + 3 * 32 * columns bytes that are made along the rows, 32: from 21 columns on. What is
// made of given floats may be as large as the step, so it does not.
TEST(AxisClasses, AreWithoutTheFewBytesOfNumbersThatAllPartsWaitFor) {
  const auto rows = [](DType dtype, int64_t columns) {
    GraphWriter net;
    ir::Value given;
    given.name = "numbers", given.dims = {8}, given.dtype = dtype;
    given.category = Category::kInput;
    const ValueId numbers = net.graph().add_value(std::move(given));
    const ValueId cast = net.op("Cast", {numbers}, {{"to", std::string("f32")}});
    const ValueId sum =
        net.op("ReduceSum", {cast}, {{"axes", ir::Dims{0}}, {"keepdims", int64_t{1}}});
    const ValueId column = net.op("Reshape", {cast}, {{"shape", ir::Dims{8, 1}}});
    const ValueId big = net.op("Tanh", {net.given("x", {8, columns})});
    net.result(net.op("Div", {net.op("Mul", {big, column}), sum}));
    Names names;
    const auto found = fission::axis_classes(net.graph());
    for (const AxisClass& one : *found)
      if (one.least_extent == 8)
        for (const fission::ClassAxis& axis : one.axes) names.insert(net.graph().op(axis.op).name);
    return names;
  };
  const Names all = {"Cast", "ReduceSum", "Reshape", "Tanh", "Mul", "Div"};
  EXPECT_EQ(rows(DType::kI64, 20), all);
  EXPECT_EQ(rows(DType::kI64, 21), (Names{"Reshape", "Tanh", "Mul", "Div"}));
  EXPECT_EQ(rows(DType::kF16, 21), all);
}

}  // namespace
}  // namespace lowtide::axis_classes_test

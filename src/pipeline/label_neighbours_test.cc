// Each mutation leads to labels that the others do not lead to, and is switched off by its name.
#include "pipeline/label_neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pipeline/testing/layers.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;

constexpr int64_t kFactors[] = {2, 4};

// A chain of ops; the region of op 0 has all behind it, that of op 2 the last two.
LabelNeighbours neighbours_in_a_chain(std::vector<std::string>& heads) {
  ir::Graph graph;
  ir::ValueId x = add_value(graph, "x", {64, 4}, Category::kInput);
  for (int op = 0; op < 5; ++op) x = apply(graph, "Tanh", {x}, {});
  graph.set_output(x, true);
  const std::vector<ir::OpId> ops(graph.ops().begin(), graph.ops().end());
  const fission::Region regions[] = {{ops[0], {ops.begin() + 1, ops.end()}, 2},
                                     {ops[2], {ops.begin() + 3, ops.end()}, 1}};
  for (const fission::Region& region : regions) heads.push_back(graph.op(region.head).name);
  return {graph, regions, 64, 64, kFactors};
}

struct Case {
  std::string name;
  Labels from, to;
};

// By mutation: labels, and a neighbour that this one makes.
std::vector<Case> cases(const std::string& outer, const std::string& inner) {
  return {{"outer", {}, {.parts = 2}},
          {"enable", {}, {.nests = {{inner, 4}}}},
          {"disable", {.nests = {{inner, 4}}}, {}},
          {"lift", {.nests = {{inner, 4}}}, {.nests = {{outer, 4}}}},
          {"mutate", {.nests = {{inner, 4}}}, {.nests = {{inner, 2}}}}};
}

bool leads_to(const LabelNeighbours& neighbours, const Case& one, const LabelMutations& may) {
  const std::vector<Labels> found = neighbours.of(one.from, may);
  return std::find(found.begin(), found.end(), one.to) != found.end();
}

TEST(LabelNeighbours, EachMutationLeadsToWhatNoOtherLeadsTo) {
  std::vector<std::string> heads;
  const LabelNeighbours neighbours = neighbours_in_a_chain(heads);
  const std::vector<Case> all = cases(heads[0], heads[1]);
  ASSERT_EQ(all.size(), label_mutations().size());
  for (const Case& one : all) {
    SCOPED_TRACE(one.name);
    EXPECT_TRUE(leads_to(neighbours, one, {}));
    EXPECT_FALSE(leads_to(neighbours, one, mutations_without({one.name}).value()));
    std::vector<std::string> others;
    for (const LabelMutation& mutation : label_mutations())
      if (mutation.name != one.name) others.emplace_back(mutation.name);
    EXPECT_TRUE(leads_to(neighbours, one, mutations_without(others).value()));
  }
}

// Within a region in 6 parts, those of a region in it are multiples of 6, and of 2 where only the
// whole class runs in parts.
TEST(LabelNeighbours, PartsAreMultiplesOfThoseAroundARegion) {
  std::vector<std::string> heads;
  const LabelNeighbours neighbours = neighbours_in_a_chain(heads);
  const auto of_inner = [&](const Labels& labels) {
    std::vector<int64_t> parts;
    for (const Labels& next : neighbours.of(labels, mutations_without({"outer"}).value()))
      for (const fission::Nest& nest : next.nests)
        if (nest.head == heads[1]) parts.push_back(nest.parts);
    return parts;
  };
  std::vector<int64_t> of_two, of_six;
  for (const int64_t factor : kFactors) of_two.push_back(2 * factor), of_six.push_back(6 * factor);
  EXPECT_EQ(of_inner({.parts = 2}), of_two);
  EXPECT_EQ(of_inner({.parts = 2, .nests = {{heads[0], 6}}}), of_six);
}

TEST(LabelNeighbours, WithoutAnyMutationThereAreNone) {
  std::vector<std::string> heads;
  const LabelNeighbours neighbours = neighbours_in_a_chain(heads);
  for (const Case& one : cases(heads[0], heads[1]))
    EXPECT_TRUE(neighbours
                    .of(one.from,
                        mutations_without({"outer", "enable", "disable", "lift", "mutate"}).value())
                    .empty());
}

TEST(LabelNeighbours, AnUnknownMutationIsAnErrorOfUse) {
  EXPECT_EQ(mutations_without({}).value(), LabelMutations());
  const auto refused = mutations_without({"lift", "fission"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_EQ(refused.error().message,
            "--no-mutation: there is no mutation of labels 'fission' (known: outer, enable, "
            "disable, lift, mutate)");
}

TEST(EvenNumbers, AreTwiceAsManyEachTimeHalfAsManyMoreAndAll) {
  EXPECT_EQ(even_numbers(1), std::set<int64_t>{});
  EXPECT_EQ(even_numbers(2), std::set<int64_t>{2});
  EXPECT_EQ(even_numbers(7), (std::set<int64_t>{2, 3, 4, 6, 7}));
  EXPECT_EQ(even_numbers(16), (std::set<int64_t>{2, 3, 4, 6, 8, 12, 16}));
}

}  // namespace
}  // namespace lowtide::pipeline

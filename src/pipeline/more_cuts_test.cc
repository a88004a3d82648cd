// Which cuts are proposed beside labels: of the largest class finer ones of its largest ops, of
// others each number in place of the labels' parts, and then each within them.
#include "pipeline/more_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/graph_writer.h"

namespace lowtide::pipeline {
namespace {

using fission::CutRule;

// Samples, then rows and columns of two products.
ir::Graph products() {
  GraphWriter net;
  ir::ValueId x = net.given("x", {32, 16, 8});
  x = net.op("Tanh", {net.op("MatMul", {x, net.given("w", {8, 12}, Category::kParameter)})});
  x = net.op("Tanh", {net.op("MatMul", {x, net.given("v", {12, 6}, Category::kParameter)})});
  net.result(x);
  return net.graph();
}

TEST(MoreCuts, AreOfOtherClassesInPlaceOfTheLabelsAndWithinThem) {
  const ir::Graph net = products();
  const auto classes = classes_to_cut(net);
  ASSERT_TRUE(classes.has_value()) << classes.error().message;
  ASSERT_GT(classes->size(), 1U);
  const std::vector<CutRule> rules = more_cuts(net, *classes, 100);
  const auto is_instead = [](const CutRule& rule) { return rule.instead; };
  const auto is_of_labels = [](const CutRule& rule) { return rule.least_bytes > 0; };
  ASSERT_TRUE(is_of_labels(rules.front()));
  int within = 0;
  for (const CutRule& rule : rules) {
    EXPECT_TRUE(rule.whole_class);
    EXPECT_FALSE(is_of_labels(rule) && rule.instead);
    if (!rule.instead) continue;
    // The same cut within the labels' parts comes behind all that are in place of them.
    CutRule same = rule;
    same.instead = false;
    const auto found = std::find(rules.begin(), rules.end(), same);
    ASSERT_NE(found, rules.end()) << print(rule);
    EXPECT_TRUE(std::none_of(found, rules.end(), is_instead)) << print(rule);
    ++within;
  }
  EXPECT_GT(within, 2);
  // Those within are states of the label search.
  const std::vector<CutRule> inner = cuts_within(net, *classes);
  ASSERT_EQ(inner.size(), static_cast<size_t>(within));
  EXPECT_TRUE(std::equal(inner.begin(), inner.end(), rules.end() - within));
  EXPECT_EQ(more_cuts(net, *classes, 3), std::vector<CutRule>(rules.begin(), rules.begin() + 3));
}

}  // namespace
}  // namespace lowtide::pipeline

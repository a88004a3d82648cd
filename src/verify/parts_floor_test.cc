// Claimed floors of whatever parts, right and spoiled: of an op that the plan runs whole, that it
// runs in parts, and that it does not say anything of.
#include "verify/parts_floor.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/graph_writer.h"
#include "verify/testing/definition.h"
#include "verify/testing/example_plans.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

using plan::PartsFloor;
using plan::Plan;

// Results of products and a convolution of what is given.
struct Net : GraphWriter {
  ir::ValueId given(ir::Dims dims) { return GraphWriter::given("x", std::move(dims)); }
  ir::ValueId op(std::string name, std::string_view kind, std::vector<ir::ValueId> inputs,
                 ir::Attrs attrs = {}) {
    return GraphWriter::op(kind, std::move(inputs), std::move(attrs), std::move(name));
  }
  Plan plan(ir::ValueId end) {
    result(end);
    Rng rng(1);
    return lower(graph(), rng, {.certificate = false, .plain = true});
  }
};

// rows [6, 8] times [8, 12]: 288 bytes in at most 72 parts.
Plan whole_plan() {
  Net net;
  const ir::ValueId x = net.given({6, 8}), w = net.given({8, 12});
  return net.plan(net.op("end", "Relu", {net.op("product", "MatMul", {x, w})}));
}

// The same with its rows in `parts` parts.
Plan plan_in_parts(int64_t parts) {
  Net net;
  const ir::ValueId w = net.given({8, 12});
  std::vector<ir::ValueId> made;
  for (int64_t k = 0; k < parts; ++k)
    made.push_back(
        net.op("product/part" + std::to_string(k), "MatMul", {net.given({6 / parts, 8}), w}));
  return net.plan(net.op("end", "Concat", made, {{"axis", int64_t{0}}}));
}

// What is found wrong with a plan that claims so many bytes beside what stays; the naive judge must
// agree.
std::string finding(Plan p, PartsFloor claimed) {
  claimed.bytes += verify(p).resident_bytes;
  p.claims.parts_floor = std::move(claimed);
  const Report report = verify(p);
  EXPECT_EQ(report.ok(), valid_by_definition(p));
  if (report.ok()) return report.open_parts_floor.empty() ? "" : "open";
  EXPECT_EQ(report.findings.size(), 1U);
  EXPECT_TRUE(report.has(Violation::kPartsFloor));
  return report.findings[0].message;
}

TEST(PartsFloor, OfAnOpThatRunsWholeIsRecomputed) {
  const Plan p = whole_plan();
  EXPECT_EQ(finding(p, {4, "product", 72, 4}), "");
  EXPECT_EQ(finding(p, {2, "product", 80, 3}), "") << "less than is so may be claimed";
  EXPECT_EQ(finding(p, {5, "product", 72, 5}),
            "in any parts: op 'product' in 72 is claimed to make 5 bytes each, its result of 288 "
            "bytes makes 4");
  EXPECT_EQ(
      finding(p, {24, "product", 12, 24}),
      "in any parts: op 'product' is claimed to run in at most 12, the op table lets it run in "
      "72");
  EXPECT_EQ(finding(p, {4, "end", 12, 4}),
            "in any parts: op 'end' is claimed to set the floor, and is a Relu of f32; only a "
            "MatMul or a Conv of f32 can");
  const std::string more = finding(p, {5, "product", 72, 4});
  EXPECT_NE(more.find("4 are of op 'product'"), std::string::npos) << more;
}

TEST(PartsFloor, OfAnOpInPartsIsHeldBesideThem) {
  EXPECT_EQ(finding(plan_in_parts(3), {4, "product", 72, 4}), "open");
  EXPECT_EQ(
      finding(plan_in_parts(3), {288, "product", 1, 288}),
      "in any parts: op 'product' is claimed to run in at most 1, and runs in 3 in this plan");
  EXPECT_EQ(
      finding(plan_in_parts(3), {24, "product", 12, 24}),
      "in any parts: op 'product' is claimed to run in at most 12, the op table lets it run in "
      "24");
  EXPECT_EQ(finding(plan_in_parts(2), {5, "product", 72, 5}),
            "in any parts: op 'product' in 72 is claimed to make 5 bytes each, its result of 288 "
            "bytes makes 4");
}

// [2, 8] times [8, 3] in 4 parts of the 8: each makes all of the result, which has 6 parts at most.
TEST(PartsFloor, OfASumIsNotHeldBesideTheNumberOfItsShares) {
  Net net;
  ir::ValueId sum;
  for (int k = 0; k < 4; ++k) {
    std::vector<ir::ValueId> inputs = {net.given({2, 2}), net.given({2, 3})};
    if (sum.valid()) inputs.insert(inputs.end(), {ir::ValueId::none(), sum});
    sum = net.op("product/part" + std::to_string(k), "MatMul", inputs);
  }
  const Plan p = net.plan(net.op("end", "Relu", {sum}));
  EXPECT_EQ(finding(p, {4, "product", 6, 4}), "open");
  EXPECT_EQ(finding(p, {8, "product", 3, 8}),
            "in any parts: op 'product' is claimed to run in at most 3, the op table lets it run "
            "in 6");
}

TEST(PartsFloor, OfAnOpThatThePlanDoesNotRunIsOpen) {
  EXPECT_EQ(finding(whole_plan(), {24, "other", 12, 24}), "open");
  EXPECT_EQ(finding(whole_plan(), {0, "", 1, 0}), "") << "it rests on no op";
}

TEST(PartsFloor, OfTheStepInOnePartIsRecomputed) {
  Net net;
  const ir::ValueId image = net.given({2, 4, 9, 9}), filters = net.given({8, 2, 3, 3});
  const ir::ValueId made =
      net.op("conv", "Conv", {image, filters},
             {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{1, 1, 1, 1}}, {"group", int64_t{2}}});
  net.result(net.op("end", "Relu", {made}));
  // 9 rows of 9 columns are more than 8 channels in 2 groups.
  const int64_t bytes = 2 * 8 * 9 * 9 * 4;
  EXPECT_EQ(wrong_parts_floor({0, "conv", 81, bytes / 81}, net.graph()), "");
  EXPECT_EQ(
      wrong_parts_floor({0, "conv", 9, bytes / 9}, net.graph()),
      "in any parts: op 'conv' is claimed to run in at most 9, the op table lets it run in 81");
  EXPECT_EQ(wrong_parts_floor({0, "conv", 81, bytes / 81 + 1}, net.graph()),
            "in any parts: op 'conv' in 81 is claimed to make 65 bytes each, its result of 5184 "
            "bytes makes 64");
  EXPECT_EQ(wrong_parts_floor({0, "none", 9, 8}, net.graph()),
            "in any parts: the step in one part has no op 'none'");
}

}  // namespace
}  // namespace lowtide::verify

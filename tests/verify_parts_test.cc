// The verifier beside the step in one part (verify/parts.h). Steps in random parts are the whole
// step. One of their ops is then spoiled at random: other operands, another attribute. Where the
// reference executor, in double precision, gets other results, the verifier must say so. Of each
// sum of parts every share is dropped once, and the verifier must name the sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fission/expand.h"
#include "ir/id_order.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"
#include "support/small_steps.h"
#include "verify/parts.h"

namespace lowtide::verify_parts_test {
namespace {

// Nothing where the plan's own verifier refuses it already.
std::optional<plan::Plan> planned(const ir::Graph& parts) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.find_smallest = false;
  options.rewrites.without = {"common-ops", "round-trips"};  // of the step before it is cut
  options.order.limits.max_units = options.order.idle_units = 10'000;
  options.pack.limits.max_units = 100'000;
  options.pack_retries = 0;
  auto made = pipeline::optimize(parts, options);
  if (!made) return std::nullopt;
  return std::move(made->plan);
}

ir::Graph in_random_parts(const ir::Graph& step, Rng& rng) {
  fission::Cuts cuts(step.op_count());
  for (ir::OpId id : step.ops()) {
    const std::vector<Choice> all = choices(step, id, rng);
    if (!all.empty() && rng.below(3) != 0) cuts[id] = all[rng.below(all.size())].cut;
  }
  auto expanded = fission::expand(step, cuts);
  EXPECT_TRUE(expanded.has_value()) << (expanded ? "" : expanded.error().message);
  return std::move(expanded->graph);
}

// Changes a number of an attribute by a little; false where there is none.
bool spoil_attribute(ir::Attrs& attrs, Rng& rng) {
  if (attrs.empty()) return false;
  ir::AttrValue& value =
      std::next(attrs.begin(), static_cast<int64_t>(rng.below(attrs.size())))->second;
  if (auto* number = std::get_if<int64_t>(&value))
    return *number += rng.below(2) == 0 ? 1 : -1, true;
  if (auto* real = std::get_if<double>(&value)) return *real = *real * 1.5 + 0.25, true;
  auto* dims = std::get_if<ir::Dims>(&value);
  if (dims == nullptr || dims->empty()) return false;
  sym::Expr& dim = (*dims)[rng.below(dims->size())];
  dim = dim + (rng.below(2) == 0 ? 1 : -1);
  return true;
}

// Exchanges two operands, leaves one out, or takes another value that is there.
bool spoil_operand(const ir::Graph& graph, std::vector<ir::ValueId>& inputs, Rng& rng) {
  if (inputs.empty()) return false;
  ir::ValueId& input = inputs[rng.below(inputs.size())];
  switch (rng.below(3)) {
    case 0:
      std::swap(input, inputs[rng.below(inputs.size())]);
      return true;
    case 1:
      if (&input == &inputs[0]) return false;
      input = ir::ValueId::none();
      return true;
    default:
      input = ir::ValueId(rng.below(graph.value_count()));
      return true;
  }
}

// The graph with one op spoiled; nothing where that gives no graph.
std::optional<ir::Graph> spoiled(const ir::Graph& graph, Rng& rng) {
  const ir::OpId wrong(rng.below(graph.op_count()));
  ir::Rewritten made(graph);
  for (const ir::GraphItem& item : ir::in_id_order(graph)) {
    if (item.given.valid()) {
      made.give(item.given, graph.value(item.given));
      continue;
    }
    const ir::Op& op = graph.op(item.op);
    std::vector<ir::ValueId> inputs = op.inputs;
    ir::Attrs attrs = op.attrs;
    if (item.op == wrong) {
      const bool changed =
          rng.below(2) == 0 ? spoil_attribute(attrs, rng) : spoil_operand(graph, inputs, rng);
      if (!changed) return std::nullopt;
    }
    std::vector<ir::ValueId> now = made.now(inputs);
    for (size_t i = 0; i < inputs.size(); ++i)  // made later, or by this op
      if (inputs[i].valid() && !now[i].valid()) return std::nullopt;
    if (!ops::append_again(made, graph, item.op, std::move(now), std::move(attrs)))
      return std::nullopt;
  }
  if (!ir::check(made.graph)) return std::nullopt;
  return std::move(made.graph);
}

// Of results and parameters after the step; nothing where the two have other ones.
double largest_difference(const ir::Graph& a, const std::map<std::string, std::vector<double>>& b) {
  double largest = 0;
  const auto ours = effects(a);
  for (const auto& [name, exact] : b) {
    const auto found = ours.find(name);
    if (found == ours.end() || found->second.size() != exact.size()) return INFINITY;
    for (size_t i = 0; i < exact.size(); ++i) {
      const double off = std::abs(found->second[i] - exact[i]) / (1 + std::abs(exact[i]));
      largest = std::isnan(off) ? INFINITY : std::max(largest, off);
    }
  }
  return largest;
}

TEST(VerifyParts, WhatComputesSomethingElseIsFoundAndWhatDoesNotIsTaken) {
  int steps = 0, wrong = 0, found = 0, not_planned = 0, refused_though_equal = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(60, 6)); ++seed) {
    Rng rng(seed * 11 + 3);
    const ir::Graph step = training_step(seed, rng);
    const ir::Graph parts = in_random_parts(step, rng);
    const auto plan = planned(parts);
    ASSERT_TRUE(plan.has_value()) << "seed " << seed;
    const verify::PartsReport right = verify::verify_parts(*plan, step);
    ASSERT_TRUE(right.ok()) << "seed " << seed << ": " << right.findings.front();
    EXPECT_GT(right.parts, right.ops_in_parts);
    ++steps;
    const auto exact = effects(step);
    for (int draw = 0; draw < 60; ++draw) {
      const auto other = spoiled(parts, rng);
      if (!other) continue;
      const bool differs = largest_difference(*other, exact) > 1e-9;
      wrong += differs;
      const auto other_plan = planned(*other);
      if (!other_plan) {
        not_planned += differs;
        continue;
      }
      const bool is_found = !verify::verify_parts(*other_plan, step).ok();
      found += differs && is_found;
      refused_though_equal += !differs && is_found;
      EXPECT_TRUE(!differs || is_found) << "seed " << seed << ", draw " << draw;
      if (HasFailure()) return;
    }
  }
  std::printf(
      "%d steps in parts; %d spoiled ones compute something else: %d found, %d have no plan; %d "
      "equal by chance and refused\n",
      steps, wrong, found, not_planned, refused_though_equal);
  EXPECT_EQ(found + not_planned, wrong);
  EXPECT_GT(found, wrong * 3 / 4) << "by the verifier itself";
  EXPECT_GT(wrong, steps * 3);
}

// The op without what it adds into.
ir::Graph without_the_shares_before(const ir::Graph& graph, ir::OpId op, size_t input) {
  ir::Rewritten made(graph);
  for (const ir::GraphItem& item : ir::in_id_order(graph)) {
    if (item.given.valid()) {
      made.give(item.given, graph.value(item.given));
      continue;
    }
    std::vector<ir::ValueId> now = made.now(graph.op(item.op).inputs);
    if (item.op == op) now[input] = ir::ValueId::none();
    const auto again =
        ops::append_again(made, graph, item.op, std::move(now), graph.op(item.op).attrs);
    EXPECT_TRUE(again.has_value()) << (again ? "" : again.error().message);
  }
  return std::move(made.graph);
}

// What the whole step calls the sum: the op's result, what it is reshaped to, and what others that
// add into it make of it.
std::set<std::string> names_of_sum(const ir::Graph& step, ir::ValueId sum) {
  std::set<std::string> names;
  std::vector<ir::ValueId> open = {sum};
  while (!open.empty()) {
    const ir::ValueId value = open.back();
    open.pop_back();
    names.insert(step.value(value).name);
    for (const ir::OpId id : step.ops()) {
      const ir::Op& op = step.op(id);
      if (op.kind == "Reshape" && op.inputs[0] == value) open.push_back(op.outputs[0]);
      for (const auto& [input, output] : ops::accumulators(ops::instance_of(step, id)))
        if (op.inputs[static_cast<size_t>(input)] == value) {
          open.push_back(op.outputs[static_cast<size_t>(output)]);
          names.insert(op.name);
        }
    }
  }
  return names;
}

TEST(VerifyParts, ADroppedShareOfASumIsNamed) {
  int dropped = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 13 + 5);
    const ir::Graph step = training_step(seed, rng);
    const ir::Graph parts = in_random_parts(step, rng);
    for (const ir::OpId id : parts.ops()) {
      const std::string& name = parts.op(id).name;
      const size_t suffix = name.rfind("/part");
      const auto sums = ops::accumulators(ops::instance_of(parts, id));
      if (suffix == std::string::npos || sums.empty()) continue;
      const auto plan =
          planned(without_the_shares_before(parts, id, static_cast<size_t>(sums[0].first)));
      ASSERT_TRUE(plan.has_value()) << name;
      const verify::PartsReport report = verify::verify_parts(*plan, step);
      ASSERT_FALSE(report.ok()) << name;
      ++dropped;
      bool named = false;
      for (const ir::OpId whole : step.ops())
        if (step.op(whole).name == name.substr(0, suffix))
          for (const std::string& sum :
               names_of_sum(step, step.op(whole).outputs[static_cast<size_t>(sums[0].second)]))
            named |= report.findings[0].find("'" + sum) != std::string::npos;
      EXPECT_TRUE(named) << name << ": " << report.findings[0];
    }
  }
  std::printf("%d shares dropped\n", dropped);
  EXPECT_GT(dropped, 30);
}

// The first op of a chain that writes a whole has nothing to go on filling, and a Fill reads
// nothing at all.
TEST(VerifyParts, PartsWithoutOperandsWriteTheirSlicesOfAWhole) {
  const auto step = [](std::vector<ir::Dims> slices) {
    GraphWriter net;
    const ir::ValueId x = net.given("x", {4, 6});
    ir::Attrs attrs = {{"dtype", std::string("f32")}, {"value", 2.0}, {"shape", ir::Dims{4, 6}}};
    if (slices.empty()) {
      net.result(net.op("Mul", {x, net.op("Fill", {}, attrs, "full")}));
      return net.graph();
    }
    std::vector<ir::ValueId> rest;
    for (size_t k = 0; k < slices.size(); ++k) {
      attrs["shape"] = ir::Dims{slices[k][2] - slices[k][1], 6};
      attrs["into"] = slices[k];
      rest = {net.op("Fill", rest, attrs, "full/part" + std::to_string(k))};
    }
    net.result(net.op("Mul", {x, rest[0]}));
    return net.graph();
  };
  const auto findings = [&](std::vector<ir::Dims> slices) {
    const auto plan = planned(step(std::move(slices)));
    EXPECT_TRUE(plan.has_value());
    return plan ? verify::verify_parts(*plan, step({})).findings : std::vector<std::string>();
  };
  EXPECT_EQ(findings({{0, 0, 1, 4}, {0, 1, 4, 4}}), std::vector<std::string>());
  EXPECT_EQ(findings({}), std::vector<std::string>());
}

// The claimed floor of any parts is recomputed from the step in one part, whichever way the plan
// runs the op, and is refused for what the plan alone shows already.
TEST(VerifyParts, AFloorOfAnyPartsIsThatOfTheStep) {
  Rng rng(5);
  const ir::Graph step = training_step(0, rng);
  auto plan = planned(in_random_parts(step, rng));
  ASSERT_TRUE(plan.has_value());
  // Images [4, 6, 8, 8]; 8 rows of 8 columns are the most parts.
  const auto conv = std::find_if(step.ops().begin(), step.ops().end(),
                                 [&](ir::OpId id) { return step.op(id).kind == "Conv"; });
  const std::string op = step.op(*conv).name;
  const int64_t bytes = *ir::size_bytes(step.value(step.op(*conv).outputs[0])).constant();
  const auto finding = [&](int64_t parts, int64_t part_bytes, const std::string& name) {
    plan->claims.parts_floor = plan::PartsFloor{part_bytes, name, parts, part_bytes};
    const verify::PartsReport report = verify::verify_parts(*plan, step);
    EXPECT_LE(report.findings.size(), 1U);
    return report.ok() ? "" : report.findings[0];
  };
  EXPECT_EQ(finding(64, bytes / 64, op), "");
  EXPECT_EQ(finding(64, bytes / 64 + 1, op),
            "in any parts: op '" + op + "' in 64 is claimed to make " +
                std::to_string(bytes / 64 + 1) + " bytes each, its result of " +
                std::to_string(bytes) + " bytes makes " + std::to_string(bytes / 64));
  EXPECT_EQ(finding(2, bytes / 2, op), "in any parts: op '" + op +
                                           "' is claimed to run in at most 2, the op table lets "
                                           "it run in 64");
  EXPECT_EQ(finding(64, 1, "none"), "in any parts: the step in one part has no op 'none'");
}

}  // namespace
}  // namespace lowtide::verify_parts_test

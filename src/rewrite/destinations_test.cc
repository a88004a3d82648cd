#include "rewrite/destinations.h"

#include <gtest/gtest.h>

#include <functional>

#include "ops/destinations.h"
#include "ops/op_table.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

// Takes every op; what asks for scratch is a product.
class AnyKernel final : public plan::KernelCatalog {
 public:
  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    if (op.attrs.contains("into") && op.kind == "Tanh")
      return error(ErrorCode::kInput, "a Tanh writes no slice");
    return op.kind == "MatMul" ? scratch : 0;
  }
  plan::LayoutWish wish(const plan::OpDesc&) const override { return {}; }
  int64_t scratch = 0;
};

struct Net : GraphWriter {
  AnyKernel kernels;
  double slice_seconds = 0.5;

  ValueId relu(ValueId x) { return op("Relu", {x}); }
  ValueId exp(ValueId x) { return op("Exp", {x}); }
  ValueId concat(std::vector<ValueId> parts, int64_t axis = 1) {
    return op("Concat", std::move(parts), {{"axis", axis}});
  }
  DestinationsReport run(bool residents_move = false) {
    DestinationsOptions options;
    options.residents_move = residents_move;
    options.seconds = [this](const plan::OpDesc& op) -> Result<double> {
      return op.attrs.contains("into") ? slice_seconds : 1.0;
    };
    auto report = write_into_wholes(graph_, kernels, options);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    return report ? std::move(*report) : DestinationsReport();
  }
};

TEST(WrittenWholes, AConcatBecomesAChainOfItsProducers) {
  Net net;
  const ValueId x = net.given("x", {4, 16});
  const ValueId a = net.relu(net.exp(x)), b = net.exp(x), c = net.relu(net.exp(x));
  net.graph().set_output(b, true);
  const ValueId all = net.concat({a, b, c});
  net.graph().set_output(net.exp(all), true);
  const DestinationsReport report = net.run();
  EXPECT_EQ(report.chains, 1);
  EXPECT_EQ(report.written, 2);
  EXPECT_EQ(report.copied, 1);
  const auto whole = report.graph.find_value(net.graph().value(all).name);
  ASSERT_TRUE(whole.has_value());
  const ir::Op& last = report.graph.op(report.graph.value(*whole).producer);
  EXPECT_EQ(last.kind, "Copy");
  EXPECT_EQ(std::get<ir::Dims>(last.attrs.at("into")), (ir::Dims{1, 16, 32, 48}));
  const ir::Op& second = report.graph.op(report.graph.value(last.inputs[1]).producer);
  EXPECT_EQ(second.kind, "Relu");
  EXPECT_EQ(std::get<ir::Dims>(second.attrs.at("into")), (ir::Dims{1, 32, 48, 48}));
  const ir::Op& first = report.graph.op(report.graph.value(second.inputs[1]).producer);
  EXPECT_EQ(first.inputs.size(), 1u);
  EXPECT_TRUE(ops::check_destinations(report.graph).has_value());
}

int chains_with(const std::function<void(Net&)>& build, bool residents_move = false) {
  Net net;
  build(net);
  return net.run(residents_move).chains;
}

// Two Relus that are joined, after `change` was done to what they are made of.
void two(Net& net, const std::function<void(Net&, ValueId a, ValueId b)>& change = {}) {
  const ValueId x = net.given("x", {4, 16});
  const ValueId a = net.relu(net.exp(x)), b = net.op("Tanh", {net.exp(x)});
  if (change) change(net, a, b);
  net.graph().set_output(net.exp(net.concat({a, b})), true);
}

TEST(WrittenWholes, StayCopiesWhereNoOperandCanBeWritten) {
  EXPECT_EQ(chains_with([](Net& net) { two(net); }), 1);
  EXPECT_EQ(chains_with([](Net& net) {
              two(net, [](Net& n, ValueId a, ValueId) { n.graph().set_output(n.exp(a), true); });
            }),
            0);
  EXPECT_EQ(chains_with([](Net& net) {
              two(net, [](Net& n, ValueId a, ValueId) { n.graph().set_output(a, true); });
            }),
            0);
  EXPECT_EQ(chains_with([](Net& net) {
              two(net, [](Net& n, ValueId a, ValueId b) {
                n.graph().add_control(n.graph().value(a).producer, n.graph().value(b).producer);
              });
            }),
            0);
}

// Of no samples, and with an operand of none.
TEST(WrittenWholes, OfNothingStayCopies) {
  Net net;
  const auto made = [&](ir::Dims dims) { return net.exp(net.given("x", std::move(dims))); };
  net.graph().set_output(net.concat({made({4, 0}), made({4, 0})}, 0), true);
  net.graph().set_output(net.concat({made({0, 3}), made({0, 5})}), true);
  const ValueId none = net.op("Reshape", {made({2, 0, 3})}, {{"shape", ir::Dims{2, 0}}});
  net.graph().set_output(net.concat({made({2, 6}), none}), true);
  const DestinationsReport report = net.run();
  EXPECT_EQ(report.chains, 0);
}

TEST(WrittenWholes, TakeLessTime) {
  Net net;
  two(net);
  net.slice_seconds = 0.99;  // two instead of a Relu and a Concat
  EXPECT_EQ(net.run().chains, 1);
  net.slice_seconds = 1;
  EXPECT_EQ(net.run().chains, 0);
}

// What a product reads is kept until the whole is written: no more than what it made.
TEST(WrittenWholes, KeepNoMoreThanTheirOperands) {
  const auto products = [](int64_t inner, int64_t columns, bool shared, int64_t scratch) {
    return [=](Net& net) {
      net.kernels.scratch = scratch;
      const ValueId x = net.exp(net.given("x", {64, inner}));
      const ValueId y = shared ? x : net.exp(net.given("y", {64, inner}));
      const auto product = [&](ValueId of, std::string name) {
        return net.op("MatMul",
                      {of, net.given(std::move(name), {inner, columns}, Category::kParameter),
                       ValueId::none(), ValueId::none()});
      };
      net.graph().set_output(net.exp(net.concat({product(x, "v"), product(y, "w")})), true);
    };
  };
  EXPECT_EQ(chains_with(products(16, 16, false, 0)), 1);
  EXPECT_EQ(chains_with(products(32, 16, false, 0)), 0);
  EXPECT_EQ(chains_with(products(32, 16, true, 0)), 1);  // half of x is charged to each
  EXPECT_EQ(chains_with(products(33, 16, true, 0)), 0);
  EXPECT_EQ(chains_with(products(16, 16, false, 64)), 0);  // beside all that both read
  EXPECT_EQ(chains_with(products(15, 16, false, 64)), 1);
  EXPECT_EQ(chains_with(products(8, 16, false, 0), true), 1);
  EXPECT_EQ(chains_with(products(15, 16, false, 0), true), 0);  // with its weights it is more
}

TEST(WrittenWholes, WhatReadsTooMuchIsCopied) {
  Net net;
  const ValueId x = net.exp(net.given("x", {64, 40}));
  const ValueId w = net.given("w", {40, 16}, Category::kParameter);
  const ValueId product = net.op("MatMul", {x, w, ValueId::none(), ValueId::none()});
  const ValueId y = net.relu(net.exp(net.given("y", {64, 16})));
  net.graph().set_output(net.exp(net.concat({product, y})), true);
  const DestinationsReport report = net.run();
  EXPECT_EQ(report.chains, 1);
  EXPECT_EQ(report.written, 1);
  EXPECT_EQ(report.copied, 1);
}

// Heads of a transposed product, joined along what a Reshape makes of two dimensions: the
// Transposes write them where they belong, and the Reshape is of the whole.
TEST(WrittenWholes, ThroughAReshape) {
  const auto report = [](std::vector<int64_t> heads, bool seen) {
    Net net;
    std::vector<ValueId> parts;
    for (const int64_t h : heads) {
      const ValueId x =
          net.exp(net.given("x" + std::to_string(h) + std::to_string(parts.size()), {2, h, 3, 4}));
      const ValueId turned = net.op("Transpose", {x}, {{"perm", ir::Dims{0, 2, 1, 3}}});
      if (seen) net.graph().set_output(net.exp(turned), true);
      parts.push_back(net.op("Reshape", {turned}, {{"shape", ir::Dims{2, 3, 4 * h}}}));
    }
    parts.push_back(net.op("Tanh", {net.given("y", {2, 3, 8})}));
    const ValueId all = net.concat(parts, 2);
    net.graph().set_output(all, true);
    DestinationsReport made = net.run();
    const auto whole = made.chains > 0 ? made.graph.find_value(net.graph().value(all).name)
                                       : std::optional<ValueId>();
    if (whole) {
      const ir::Value& value = made.graph.value(*whole);
      EXPECT_TRUE(value.is_output);
      EXPECT_EQ(value.alias, ir::Alias::kView);
      EXPECT_EQ(value.dims, net.graph().value(all).dims);
      const int64_t rows = *value.dims[2].constant() / 4;
      EXPECT_EQ(made.graph.value(value.base).dims, (ir::Dims{2, 3, rows, 4}));
    }
    return made;
  };
  const DestinationsReport three = report({5, 5, 2}, false);
  EXPECT_EQ(three.chains, 1);
  EXPECT_EQ(three.written, 3);
  EXPECT_EQ(three.copied, 1);
  EXPECT_EQ(report({5, 5, 2}, true).chains, 0);
}

// A Concat of Concats: the inner one is a chain and copied, or written as a whole.
TEST(WrittenWholes, OfWholes) {
  Net net;
  const ValueId x = net.given("x", {4, 16});
  const ValueId inner = net.concat({net.relu(net.exp(x)), net.relu(net.exp(x))});
  net.graph().set_output(net.exp(net.concat({inner, net.relu(net.exp(x))})), true);
  const DestinationsReport report = net.run();
  EXPECT_EQ(report.chains, 2);
  EXPECT_EQ(report.written, 3);
  EXPECT_EQ(report.copied, 1);
}

}  // namespace
}  // namespace lowtide::rewrite

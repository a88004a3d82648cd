// Ops into edits, and types that follow changed attributes.
#include "ops/edit.h"

#include <gtest/gtest.h>

namespace lowtide::ops {
namespace {

using ir::OpId;
using ir::ValueId;

// x [4, 6] -> Neg -> flat [24] -> Relu -> square [4, 6] -> Exp
struct Chain {
  ir::Graph graph;
  ValueId x, neg, flat, relu, square, exp;
  Chain() {
    ir::Value value;
    value.name = "x";
    value.dims = {4, 6};
    x = graph.add_value(std::move(value));
    neg = add("Neg", x);
    flat = add("Reshape", neg, {{"shape", ir::Dims{24}}});
    relu = add("Relu", flat);
    square = add("Reshape", relu, {{"shape", ir::Dims{4, 6}}});
    exp = add("Exp", square);
  }
  ValueId add(std::string_view kind, ValueId input, ir::Attrs attrs = {}) {
    return graph.op(append(graph, kind, {input}, std::move(attrs)).value()).outputs[0];
  }
};

TEST(OpsEdit, AppendsAtAPlaceWithWhatTheTableSays) {
  const Chain chain;
  ir::GraphEdit edit(chain.graph);
  const OpId relu = chain.graph.value(chain.relu).producer;
  const OpId made = append(edit, ir::Place::before(relu), "Reshape", {chain.flat},
                           {{"shape", ir::Dims{2, 12}}}, {.name = "half"})
                        .value();
  const ir::Value& view = edit.value(edit.op(made).outputs[0]);
  EXPECT_EQ(view.alias, ir::Alias::kView);
  EXPECT_EQ(view.base, chain.flat);
  EXPECT_EQ(view.dims, (ir::Dims{2, 12}));
  EXPECT_EQ(edit.next_op(made), relu);
  EXPECT_EQ(append(edit, ir::Place::before(OpId(0)), "Exp", {chain.flat}, {}).error().message,
            "op 'Exp.1' reads '" + chain.graph.value(chain.flat).name + "', which is made later");
  const auto refused = append(edit, ir::Place::end(), "Reshape", {chain.flat}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("attribute shape is missing"), std::string::npos);
}

TEST(OpsEdit, TypesFollowAttributes) {
  const Chain chain;
  ir::GraphEdit edit(chain.graph);
  const auto start = edit.mark();
  const OpId reshape = chain.graph.value(chain.square).producer;
  edit.set_attr(reshape, "shape", ir::AttrValue(ir::Dims{8, 3}));
  ASSERT_TRUE(infer_again(edit, reshape).has_value());
  EXPECT_EQ(edit.value(chain.square).dims, (ir::Dims{8, 3}));
  EXPECT_EQ(edit.value(chain.exp).dims, (ir::Dims{8, 3})) << "and those who read it";
  EXPECT_EQ(edit.value(chain.flat).dims, (ir::Dims{24}));
  edit.rollback(start);
  EXPECT_TRUE(edit.compact().graph == chain.graph);
}

// A storage shrinks together with the views that lie on it.
TEST(OpsEdit, StoragesShrinkWithTheirViews) {
  const Chain chain;
  ir::GraphEdit edit(chain.graph);
  ir::Value small;
  small.name = "small";
  small.dims = {2, 6};
  const ValueId input = edit.add_value(std::move(small)).value();
  const OpId neg = chain.graph.value(chain.neg).producer;
  ASSERT_TRUE(edit.set_input(neg, 0, input).has_value());
  for (const auto& [value, shape] : {std::pair{chain.flat, ir::Dims{12}}, {chain.square, {2, 6}}})
    edit.set_attr(chain.graph.value(value).producer, "shape", ir::AttrValue(shape));
  ASSERT_TRUE(infer_again(edit, neg).has_value());
  EXPECT_EQ(edit.value(chain.exp).dims, (ir::Dims{2, 6}));
  EXPECT_EQ(edit.value(chain.flat).base, chain.neg);
  EXPECT_TRUE(ir::check(edit.compact().graph).has_value());
}

TEST(OpsEdit, NamesTheOpThatDoesNotFit) {
  const Chain chain;
  ir::GraphEdit edit(chain.graph);
  const OpId neg = chain.graph.value(chain.neg).producer;
  edit.set_attr(neg, "axis", ir::AttrValue(int64_t{1}));
  const auto start = edit.mark();
  const Status refused = infer_again(edit, neg);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("op Neg: Neg: has no attribute axis"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(edit.mark(), start);
}

}  // namespace
}  // namespace lowtide::ops

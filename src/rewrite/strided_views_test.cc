// Which copies become strided views, and which stay: one small graph for each condition of the
// header. That what is computed stays, and that plans never get worse, is tested on random networks
// in tests/strided_views_test.cc.
#include "rewrite/strided_views.h"

#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;

// Kernels that take everything but strides where `refused` names them.
class Kernels : public plan::KernelCatalog {
 public:
  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    bool strided = false;
    for (const auto& input : op.inputs) strided |= input && input->layout.strided();
    if (strided && op.kind == refused) return error(ErrorCode::kInput, "no kernel");
    return strided && op.kind == wider ? 64 : 0;
  }
  plan::LayoutWish wish(const plan::OpDesc& op) const override {
    if (op.kind != wishing) return {};
    return {.inputs = std::vector<Layout>(op.inputs.size()), .outputs = {}};
  }
  std::string refused, wider, wishing;
};

class StridedPass : public testing::Test, protected GraphWriter {
 protected:
  ValueId transposed(ValueId x) { return op("Transpose", {x}, {{"perm", ir::Dims{1, 0}}}); }
  ValueId product(ValueId a, ValueId b) {
    return op("MatMul", {a, b, ValueId::none(), ValueId::none()});
  }
  static bool strided(const plan::OpDesc& op) {
    for (const auto& input : op.inputs)
      if (input && input->layout.strided()) return true;
    return false;
  }
  // A copy takes a second, reading strides `slower_` more.
  int views(bool slices = true) {
    StridedViewsOptions options;
    options.slices = slices;
    options.seconds = [this](const plan::OpDesc& op) -> Result<double> {
      return 1 + (strided(op) ? slower_ : 0);
    };
    auto report = make_strided_views(graph_, kernels_, options);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
    if (report && report->changed()) made_ = std::move(report->graph);
    return report ? report->views : -1;
  }
  const ir::Value& made(ValueId v) const { return made_.value(v); }

  ir::Graph made_;
  Kernels kernels_;
  double slower_ = 0;
};

TEST_F(StridedPass, ATransposeIsReadWhereItsOperandLies) {
  const ValueId x = op("Exp", {given("x", {4, 6})});
  const ValueId t = transposed(x);
  result(product(t, x));
  EXPECT_EQ(views(), 1);
  EXPECT_EQ(made(t).alias, ir::Alias::kView);
  EXPECT_EQ(print(made(t).layout), "strided:1,6");
  EXPECT_EQ(made_.op_count(), graph_.op_count());
}

TEST_F(StridedPass, ViewsOfViewsFollow) {
  const ValueId x = op("Exp", {given("x", {4, 6})});
  const ValueId t = transposed(x);
  const ValueId split = op("Reshape", {t}, {{"shape", ir::Dims{2, 3, 1, 4}}});
  const ValueId wide = op("Expand", {split}, {{"shape", ir::Dims{2, 3, 5, 4}}});
  result(op("ReduceSum", {wide}, {{"axes", ir::Dims{1}}, {"keepdims", int64_t{0}}}));
  EXPECT_EQ(views(), 2);
  EXPECT_EQ(print(made(split).layout), "strided:3,1,0,6");
  EXPECT_EQ(print(made(wide).layout), "strided:3,1,0,6");
  EXPECT_EQ(made(wide).storage, made(x).storage);
}

TEST_F(StridedPass, AReaderThatTakesNoStridesKeepsTheCopy) {
  const ValueId t = transposed(given("x", {4, 6}));
  result(op("Softmax", {t}, {{"axis", int64_t{1}}}));
  kernels_.refused = "Softmax";
  EXPECT_EQ(views(), 0);
}

TEST_F(StridedPass, AReaderThatNeedsMoreRoomKeepsTheCopy) {
  const ValueId x = given("x", {4, 6});
  result(product(transposed(x), x));
  kernels_.wider = "MatMul";
  EXPECT_EQ(views(), 0);
}

TEST_F(StridedPass, AReaderThatWishesForAnotherLayoutKeepsTheCopy) {
  const ValueId x = given("x", {4, 6});
  result(product(transposed(x), x));
  kernels_.wishing = "MatMul";
  EXPECT_EQ(views(), 0);
}

// It could run where the copy did, if it reads nothing else that the step makes.
TEST_F(StridedPass, WhoWorksInPlaceAloneReadsTheView) {
  const ValueId x = op("Exp", {given("x", {4, 6})});
  result(op("Tanh", {transposed(x)}));
  result(op("Add", {transposed(x), given("bias", {6, 4})}));
  EXPECT_EQ(views(), 2);
}

TEST_F(StridedPass, WhatSomebodyMayWorkOnInPlaceStays) {
  const ValueId x = op("Exp", {given("x", {4, 6})});
  result(op("Add", {transposed(x), op("Exp", {given("y", {6, 4})})}));
  const ValueId twice = transposed(x);
  result(op("Tanh", {twice}));
  result(op("ReduceSum", {twice}, {{"axes", ir::Dims{1}}, {"keepdims", int64_t{0}}}));
  EXPECT_EQ(views(), 0);
}

TEST_F(StridedPass, ResultsAndWhatIsJoinedStay) {
  const ValueId x = given("x", {4, 6});
  const ValueId t = transposed(x);
  result(t);
  result(product(t, x));
  const ValueId joined = transposed(x);
  result(op("Concat", {joined, joined}, {{"axis", int64_t{0}}}));
  EXPECT_EQ(views(), 0);
}

TEST_F(StridedPass, WhatIsOverwrittenStays) {
  const ValueId w = given("w", {4, 6}, Category::kParameter), x = given("x", {4, 4});
  const ValueId back = product(transposed(w), x);
  result(back);
  const ValueId gradient = product(x, op("Exp", {given("y", {4, 6})}));
  op("SgdUpdate", {w, gradient}, {{"learning_rate", 0.1}});
  EXPECT_EQ(views(), 0);
}

TEST_F(StridedPass, SlicesAreOfWhatIsThereAnyhow) {
  const ir::Attrs columns = {{"starts", ir::Dims{0, 2}}, {"sizes", ir::Dims{4, 3}}};
  const ValueId x = given("x", {4, 6}), y = op("Exp", {x});
  const ValueId of_given = op("Slice", {x}, columns), of_made = op("Slice", {y}, columns);
  const ValueId small = given("w", {3, 2});
  result(product(of_given, small));
  result(product(of_made, small));
  EXPECT_EQ(views(false), 0);
  EXPECT_EQ(views(), 1);
  EXPECT_EQ(print(made(of_given).layout), "strided:6,1");
  EXPECT_EQ(made(of_given).offset_bytes, sym::Expr(8));
  EXPECT_EQ(made(of_made).alias, ir::Alias::kOwn);
}

TEST_F(StridedPass, ReadersPayLessThanTheCopyDid) {
  const ValueId x = op("Exp", {given("x", {6, 6})});
  const ValueId t = transposed(x);
  const ValueId one = product(t, x);
  result(one);
  slower_ = 0.75;
  EXPECT_EQ(views(), 1);
  slower_ = 1.5;
  EXPECT_EQ(views(), 0);
  result(product(t, one));  // a second reader
  slower_ = 0.25;
  EXPECT_EQ(views(), 0);
  slower_ = 0;
  EXPECT_EQ(views(), 1);
}

}  // namespace
}  // namespace lowtide::rewrite

// A step that somebody else runs, in parts: opaque ops that say their axes are cut as rows are, and
// what says nothing, or cannot be cut, stays whole.
#include "pipeline/graph_in_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "io/graph_file.h"
#include "ir/graph_text.h"
#include "lowtide/lowtide.h"

namespace lowtide::graph_in_parts_test {
namespace {

// Rows, an op that says its axes, one that does not, and a sum over samples.
constexpr const char* kStep = R"(graph "step" "by hand"
given "x" f32 [8, 6] input fed
given "w" f32 [6, 4] parameter zero
op "MatMul" "fc" "" forward v0 v1
  out "y" f32 [8, 4] activation own
op "Opaque" "act" "" forward v2
  attr "op" word "mylib::act"
  attr "axes" word "n [c] -> n [c], n"
  attr "seconds" real 0.008
  attr "workspace" int 100
  out "z" f32 [8, 4] activation own
  out "norm" f32 [8] activation own
op "Opaque" "share" "" backward v3 v0
  attr "op" word "mylib::share"
  attr "axes" word "n c, n k -> c k"
  out "dw" f32 [4, 6] temporary own output
op "Opaque" "scan" "" forward v3
  attr "op" word "mylib::scan"
  out "all" f32 [8, 4] activation own output
)";

ir::Graph step() {
  auto graph = io::read_graph_text(kStep, "step");
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message);
  return std::move(*graph);
}

std::vector<const ir::Op*> ops_like(const ir::Graph& graph, const std::string& start) {
  std::vector<const ir::Op*> found;
  for (const ir::OpId id : graph.ops())
    if (graph.op(id).name.starts_with(start)) found.push_back(&graph.op(id));
  return found;
}

TEST(GraphInParts, OpaqueOpsThatSayTheirAxesAreCutAsRowsAre) {
  const auto parted = pipeline::graph_in_parts(step(), {.parts = 4});
  ASSERT_TRUE(parted.has_value()) << parted.error().message;
  EXPECT_EQ(ops_like(*parted, "fc/part").size(), 4U);
  EXPECT_EQ(ops_like(*parted, "share/part").size(), 4U);
  EXPECT_EQ(ops_like(*parted, "share/Add").size(), 3U) << "what operands alone walk adds up";
  EXPECT_EQ(ops_like(*parted, "scan").size(), 2U) << "the whole op, and the Concat that it reads";
  const auto parts = ops_like(*parted, "act/part");
  ASSERT_EQ(parts.size(), 4U);
  for (const ir::Op* part : parts) {
    EXPECT_EQ(parted->value(part->outputs[0]).dims, (ir::Dims{2, 4}));
    EXPECT_EQ(parted->value(part->outputs[1]).dims, (ir::Dims{2}));
    EXPECT_DOUBLE_EQ(std::get<double>(part->attrs.at("seconds")), 0.002);
    EXPECT_EQ(std::get<int64_t>(part->attrs.at("workspace")), 25);
    EXPECT_EQ(part->inputs[0], ops_like(*parted, "fc" + part->name.substr(3))[0]->outputs[0])
        << "pieces are passed on";
  }
  const auto& order = *parted;
  EXPECT_LT(order.value(parts[0]->outputs[0]).producer,
            order.value(ops_like(order, "fc/part1")[0]->outputs[0]).producer)
      << "part by part";
}

TEST(GraphInParts, ItsTextReadsBack) {
  const auto parted = pipeline::graph_in_parts(step(), {.parts = 2});
  ASSERT_TRUE(parted.has_value());
  const auto again = io::read_graph_text(ir::print(*parted), "again");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(ir::print(*again), ir::print(*parted));
}

// Two batches, whose samples are no dimension in common, each in parts; their sum is of the weight.
TEST(GraphInParts, EachBatchIsCut) {
  const auto graph = io::read_graph_text(R"(graph "two" ""
given "x" f32 [8, 6] input fed
given "y" f32 [4, 6] input fed
given "w" f32 [6, 5] parameter zero
op "MatMul" "a" "" forward v0 v2
  out "ax" f32 [8, 5] activation own
op "MatMul" "b" "" forward v1 v2
  out "by" f32 [4, 5] activation own
op "ReduceSum" "sa" "" forward v3
  attr "axes" list [0]
  attr "keepdims" int 0
  out "s" f32 [5] activation own
op "ReduceSum" "sb" "" forward v4
  attr "axes" list [0]
  attr "keepdims" int 0
  out "t" f32 [5] activation own
op "Add" "sum" "" forward v5 v6
  out "u" f32 [5] activation own output
)",
                                         "two");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto parted = pipeline::graph_in_parts(*graph, {.parts = 2});
  ASSERT_TRUE(parted.has_value()) << parted.error().message;
  for (const char* op : {"a/part", "b/part", "sa/part", "sb/part"})
    EXPECT_EQ(ops_like(*parted, op).size(), 2U) << op;
  EXPECT_EQ(ops_like(*parted, "sum").size(), 1U);
}

// A norm over samples needs all of them; behind it they are samples again.
TEST(GraphInParts, SamplesGoOnBehindWhatCouplesThem) {
  const auto graph = io::read_graph_text(R"(graph "norm" ""
given "x" f32 [8, 6] input fed
given "w" f32 [6, 6] parameter zero
op "MatMul" "a" "" forward v0 v1
  out "ax" f32 [8, 6] activation own
op "Relu" "ra" "" forward v2
  out "r" f32 [8, 6] activation own
op "Opaque" "norm" "" forward v3
  attr "op" word "mylib::norm"
  attr "axes" word "[n] c -> [n] c"
  out "y" f32 [8, 6] activation own
op "MatMul" "b" "" forward v4 v1
  out "by" f32 [8, 6] activation own
op "Relu" "rb" "" forward v5
  out "s" f32 [8, 6] activation own output
)",
                                         "norm");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto parted = pipeline::graph_in_parts(*graph, {.parts = 4});
  ASSERT_TRUE(parted.has_value()) << parted.error().message;
  for (const char* op : {"a/part", "ra/part", "b/part", "rb/part"})
    EXPECT_EQ(ops_like(*parted, op).size(), 4U) << op;
  ASSERT_EQ(ops_like(*parted, "norm").size(), 2U) << "whole, behind a Concat";
  EXPECT_EQ(ops_like(*parted, "b/part0")[0]->outputs.size(), 1U);
  EXPECT_EQ(parted->value(ops_like(*parted, "b/part0")[0]->outputs[0]).dims, (ir::Dims{2, 6}));
}

TEST(GraphInParts, LabelsMayNameAnOp) {
  fission::Labels labels{.parts = 2, .nests = {{"act", 8}}};
  const auto parted = pipeline::graph_in_parts(step(), labels);
  ASSERT_TRUE(parted.has_value()) << parted.error().message;
  EXPECT_EQ(ops_like(*parted, "fc/part").size(), 2U);
  EXPECT_EQ(ops_like(*parted, "share/part").size(), 8U);
}

TEST(GraphInParts, OnePartAndMoreThanThereAreSamplesChangeNothing) {
  for (const int64_t parts : {1, 9}) {
    const auto same = pipeline::graph_in_parts(step(), {.parts = parts});
    ASSERT_TRUE(same.has_value());
    EXPECT_EQ(ir::print(*same), ir::print(step())) << parts;
  }
}

TEST(GraphInParts, LabelsToBeChosenAndUnknownSizesAreRefused) {
  const auto chosen = pipeline::graph_in_parts(step(), {.parts = 0});
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().message, "labels: 'auto' needs a plan; give the number of parts");
  std::string symbolic = kStep;
  for (size_t at = 0; (at = symbolic.find("[8", at)) != std::string::npos; ++at)
    symbolic.replace(at, 2, "[batch");
  const auto graph = io::read_graph_text(symbolic, "step");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto refused = pipeline::graph_in_parts(*graph, {.parts = 2});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "labels: give dimension 'batch' a size first");
}

TEST(GraphInParts, GoesThroughTheCAbi) {
  lowtide_model* model = nullptr;
  lowtide_model* parted = nullptr;
  ASSERT_EQ(lowtide_model_parse(kStep, "step", nullptr, &model), LOWTIDE_OK);
  ASSERT_EQ(lowtide_model_in_parts(model, "2,act:8", &parted), LOWTIDE_OK) << lowtide_last_error();
  const auto wanted = pipeline::graph_in_parts(step(), {.parts = 2, .nests = {{"act", 8}}});
  EXPECT_STREQ(lowtide_model_text(parted), ir::print(*wanted).c_str());
  EXPECT_STREQ(lowtide_model_text(model), ir::print(step()).c_str()) << "it stays as it was";
  lowtide_model_free(parted);
  EXPECT_EQ(lowtide_model_in_parts(model, "some", &parted), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_model_in_parts(model, nullptr, &parted), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_model_in_parts(nullptr, "2", &parted), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_model_in_parts(model, "2", nullptr), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_model_in_parts(model, "2,nobody:8", &parted), LOWTIDE_INPUT);
  lowtide_model_free(model);
}

}  // namespace
}  // namespace lowtide::graph_in_parts_test

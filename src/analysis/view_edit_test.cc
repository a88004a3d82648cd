// The view that follows edits against the view of the compacted graph, made from nothing, after
// random changes of training steps.
#include "analysis/view_edit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "autodiff/training.h"
#include "base/rng.h"
#include "ops/edit.h"
#include "plan/schedule_simulator.h"

namespace lowtide::analysis {
namespace {

using ir::OpId;
using ir::ValueId;

// ---- training steps ----

class Network {
 public:
  ir::Graph graph;
  ValueId leaf(std::string name, ir::Dims dims, Category category = Category::kParameter) {
    ir::Value value;
    value.name = std::move(name);
    value.dims = std::move(dims);
    value.category = category;
    return graph.add_value(std::move(value));
  }
  ValueId op(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    const auto made = ops::append(graph, kind, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(made.has_value()) << kind << ": " << (made ? "" : made.error().message);
    return graph.op(*made).outputs[0];
  }
};

// Residual blocks with views, tied weights, random ops and a running mean.
ir::Graph training_step(int blocks, autodiff::OptimizerKind optimizer) {
  Network net;
  ValueId h = net.leaf("x", {4, 6}, Category::kInput);
  const ValueId shared = net.leaf("shared", {6, 6});
  for (int i = 0; i < blocks; ++i) {
    const std::string n = std::to_string(i);
    ValueId b = net.op("LayerNorm", {h, net.leaf("gamma" + n, {6}), net.leaf("beta" + n, {6})},
                       {{"axis", int64_t{1}}, {"epsilon", 1e-5}});
    b = net.op("MatMul", {b, i % 2 == 0 ? shared : net.leaf("w" + n, {6, 6})});
    const ValueId flat = net.op("Reshape", {b}, {{"shape", ir::Dims{24}}});
    const ValueId shape = net.op("Reshape", {net.op("Relu", {flat})}, {{"shape", ir::Dims{4, 6}}});
    b = net.op("Dropout", {shape}, {{"ratio", 0.25}, {"stream", int64_t{i + 1}}});
    h = net.op("Add", {h, b});
  }
  net.graph.set_output(net.op("MatMul", {h, net.leaf("head", {6, 3})}), true);
  autodiff::TrainingOptions options;
  options.optimizer.kind = optimizer;
  options.optimizer.momentum = 0.9;
  const auto step = autodiff::make_training_graph(net.graph, options);
  EXPECT_TRUE(step.has_value()) << (step ? "" : step.error().message);
  return *step;
}

// ---- the oracle ----

Result<OpCost> cost_of(const ir::GraphEdit& graph, OpId id) {
  const ir::Op& op = graph.op(id);
  return OpCost{1e-3 * static_cast<double>(op.kind.size() + op.inputs.size()),
                static_cast<int64_t>(op.kind.size()) * 10};
}

constexpr int64_t kAlignment = 32;  // of which most sizes of the steps below are multiples
constexpr plan::Link kTier{.bytes_per_second_out = 1e9, .bytes_per_second_in = 2e9};

Result<ScheduleView> from_nothing(const ir::GraphEdit& graph, const ir::Rewritten& made,
                                  std::span<const plan::Link> links) {
  EXPECT_TRUE(ir::check(made.graph).has_value());
  OpCosts costs{IdVector<OpId, double>(made.graph.op_count()),
                IdVector<OpId, int64_t>(made.graph.op_count())};
  for (const OpId id : made.op.ids()) {
    if (!graph.alive(id)) continue;
    const OpCost cost = cost_of(graph, id).value();
    costs.seconds[made.op[id]] = cost.seconds;
    costs.workspace_bytes[made.op[id]] = cost.workspace_bytes;
  }
  return make_schedule_view(made.graph, costs, kAlignment, {.links = links});
}

void expect_same_wholes(const std::vector<Whole>& made, const std::vector<Whole>& wanted) {
  ASSERT_EQ(made.size(), wanted.size());
  for (size_t k = 0; k < made.size(); ++k) {
    EXPECT_EQ(made[k].storage, wanted[k].storage);
    EXPECT_EQ(made[k].readers, wanted[k].readers);
    EXPECT_EQ(made[k].is_output, wanted[k].is_output);
    ASSERT_EQ(made[k].pieces.size(), wanted[k].pieces.size());
    for (size_t n = 0; n < made[k].pieces.size(); ++n) {
      EXPECT_EQ(made[k].pieces[n].value, wanted[k].pieces[n].value);
      EXPECT_EQ(made[k].pieces[n].offset_bytes, wanted[k].pieces[n].offset_bytes);
    }
  }
}

void expect_as_from_nothing(const ir::GraphEdit& graph, const ViewEdit& edited,
                            std::span<const plan::Link> links) {
  const CompactedView made = edited.compact();
  const auto wanted = from_nothing(graph, made.graph, links);
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  EXPECT_TRUE(made.view.problem.ops == wanted->problem.ops);
  EXPECT_TRUE(made.view.problem.values == wanted->problem.values);
  EXPECT_TRUE(made.view.problem.control == wanted->problem.control);
  EXPECT_TRUE(made.view.problem.in_place == wanted->problem.in_place);
  ASSERT_TRUE(made.view.problem == wanted->problem);
  EXPECT_EQ(made.view.op, wanted->op);
  EXPECT_EQ(made.view.storage, wanted->storage);
  EXPECT_EQ(made.view.resident, wanted->resident);
  EXPECT_EQ(made.view.sched_op, wanted->sched_op);
  expect_same_wholes(made.view.wholes, wanted->wholes);
}

// ---- random changes ----

class Changes {
 public:
  Changes(ir::GraphEdit& edit, uint64_t seed) : edit_(edit), rng_(seed) {}
  int done = 0;

  // One change; refused ones are none.
  void step() {
    const size_t before = edit_.mark();
    switch (rng_.below(12)) {
      case 0:
      case 1:
        recompute();
        break;
      case 2:
        insert();
        break;
      case 3:
        remove();
        break;
      case 4:
        move();
        break;
      case 5:
        replace();
        break;
      case 6:
        reform();
        break;
      case 7:
        flag();
        break;
      case 8:
        overwrite();
        break;
      case 9:
        control();
        break;
      default:
        join();
    }
    done += edit_.mark() > before;
  }

 private:
  OpId any_op() {
    while (true)
      if (const OpId id(rng_.below(edit_.op_slots())); edit_.alive(id)) return id;
  }
  ValueId any_value() {
    while (true)
      if (const ValueId id(rng_.below(edit_.value_slots())); edit_.alive(id)) return id;
  }
  // What is refused leaves everything as it was, which the comparison sees.
  template <class Outcome>
  void try_to(const Outcome&) {}

  void recompute() {
    const OpId id = any_op();
    const ir::Op op = edit_.op(id);
    if (op.outputs.empty() || edit_.readers(op.outputs[0]).empty()) return;
    const auto all = edit_.readers(op.outputs[0]);
    const std::vector<OpId> some(all.begin() + static_cast<std::ptrdiff_t>(rng_.below(all.size())),
                                 all.end());
    const auto start = edit_.mark();
    const auto again = ops::append(edit_, ir::Place::before(some.front()), op.kind, op.inputs,
                                   op.attrs, {.name = op.name + "/again"});
    if (!again) return;
    if (!edit_.replace_reads(op.outputs[0], edit_.op(*again).outputs[0], some))
      edit_.rollback(start);
  }
  void insert() {
    const ValueId from = any_value();
    const bool view = rng_.below(2) == 0;
    sym::Expr count = ir::element_count(edit_.value(from));
    ir::Attrs attrs;
    if (view) attrs["shape"] = ir::Dims{count};
    const OpId at = any_op();
    const auto made = ops::append(edit_, ir::Place::after(at), view ? "Reshape" : "Neg", {from},
                                  std::move(attrs));
    if (!made) return;
    const ValueId to = edit_.op(*made).outputs[0];
    if (edit_.value(to).dims != edit_.value(from).dims) return;
    std::vector<OpId> later;
    for (const OpId reader : edit_.readers(from))
      if (edit_.before(*made, reader)) later.push_back(reader);
    try_to(edit_.replace_reads(from, to, later));
  }
  void remove() {
    const OpId id = any_op();
    if (rng_.below(8) == 0)
      for (const ValueId output : edit_.op(id).outputs) edit_.set_output(output, false);
    try_to(edit_.remove_op(id));
  }
  void move() {
    const OpId id = any_op(), at = any_op();
    if (id == at) return;
    try_to(edit_.move_op(id, rng_.below(2) == 0 ? ir::Place::before(at) : ir::Place::after(at)));
  }
  void replace() {
    const ValueId from = any_value(), to = any_value();
    if (from == to || edit_.value(from).dims != edit_.value(to).dims ||
        edit_.value(from).dtype != edit_.value(to).dtype)
      return;
    try_to(edit_.replace_reads(from, to));
  }
  // A view becomes a copy, or what is a copy a view.
  void reform() {
    const ValueId id = any_value();
    const ir::Value& value = edit_.value(id);
    if (!value.producer.valid() || value.alias == ir::Alias::kUpdate) return;
    ir::ValueForm form{.dtype = value.dtype, .dims = value.dims, .layout = value.layout};
    if (value.alias == ir::Alias::kOwn)
      for (const ValueId input : edit_.op(value.producer).inputs)
        if (input.valid()) form.base = input;
    if (form.base.valid()) form.alias = ir::Alias::kView;
    try_to(edit_.set_form(id, std::move(form)));
  }
  void flag() {
    const ValueId id = any_value();
    if (rng_.below(2) == 0) return edit_.set_output(id, !edit_.value(id).is_output);
    try_to(edit_.rename(id, edit_.fresh_name(edit_.value(id).name)));
  }
  void overwrite() {
    const ValueId what = any_value(), with = any_value();
    try_to(ops::append(edit_, ir::Place::after(any_op()), "SgdUpdate",
                       {what, with, ValueId::none()},
                       {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}}));
  }
  // Joins values of one type, and mostly has the whole read: by a new op, or in place of a value.
  void join() {
    const ValueId first = any_value();
    std::vector<ValueId> pieces{first};
    for (int tries = 0; tries < 40 && pieces.size() < 3; ++tries) {
      const ValueId next = any_value();
      if (edit_.value(next).dims == edit_.value(first).dims && next != first)
        pieces.push_back(next);
    }
    const auto made = ops::append(edit_, ir::Place::after(any_op()), "Join", pieces,
                                  {{"axis", int64_t{0}}}, {.name = edit_.fresh_name("join")});
    if (!made || rng_.below(10) == 0) return;
    const ValueId whole = edit_.op(*made).outputs[0];
    for (size_t i = 0; i < edit_.value_slots() && rng_.below(2) == 0; ++i) {
      const ValueId like(i);
      if (like == whole || !edit_.alive(like) || edit_.value(like).dims != edit_.value(whole).dims)
        continue;
      if (edit_.replace_reads(like, whole)) return;
    }
    try_to(ops::append(edit_, ir::Place::after(*made), "Neg", {whole}, {}));
  }
  void control() {
    const OpId a = any_op(), b = any_op();
    if (a == b) return;
    if (!edit_.op(b).control.empty() && rng_.below(2) == 0)
      edit_.remove_control(edit_.op(b).control.front(), b);
    else
      try_to(edit_.add_control(a, b));
  }

  ir::GraphEdit& edit_;
  Rng rng_;
};

struct Case {
  int blocks;
  autodiff::OptimizerKind optimizer;
  bool link;
};

class ViewEditProperty : public ::testing::TestWithParam<Case> {};

TEST_P(ViewEditProperty, IsTheViewOfTheCompactedGraph) {
  const Case param = GetParam();
  const ir::Graph step = training_step(param.blocks, param.optimizer);
  const std::vector<plan::Link> links(param.link ? 1 : 0, kTier);
  int done = 0, refused = 0;
  size_t wholes = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    ir::GraphEdit graph(step);
    ViewEdit view = ViewEdit::make(graph, cost_of, kAlignment, links).value();
    ASSERT_NO_FATAL_FAILURE(expect_as_from_nothing(graph, view, links));
    Changes changes(graph, seed);
    Rng rng(seed);
    struct Noted {
      ViewEdit::Mark mark;
      plan::ScheduleProblem problem;
    };
    std::vector<Noted> marks;
    std::vector<ir::GraphEdit::Mark> seen{0};  // of the graph, between changes
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(i);
      const ViewEdit::Mark good = view.mark();
      for (uint64_t n = 1 + rng.below(4); n > 0; --n) changes.step();
      if (const Status updated = view.update(); !updated) {
        const auto wanted = from_nothing(graph, graph.compact(), links);
        ASSERT_FALSE(wanted.has_value()) << updated.error().message;
        view.rollback(good);
        ++refused;
      }
      ASSERT_NO_FATAL_FAILURE(expect_as_from_nothing(graph, view, links));
      wholes += view.compact().view.wholes.size();
      seen.push_back(graph.mark());
      if (rng.below(4) == 0) marks.push_back({view.mark(), view.compact().view.problem});
      if (rng.below(8) == 0 && !marks.empty()) {
        const size_t keep = 1 + rng.below(marks.size());
        while (marks.size() > keep) marks.pop_back();
        changes.step();  // what no update saw is taken back, too
        view.rollback(marks.back().mark);
        std::erase_if(seen, [&](ir::GraphEdit::Mark each) { return each > graph.mark(); });
        ASSERT_TRUE(view.compact().view.problem == marks.back().problem);
        ASSERT_NO_FATAL_FAILURE(expect_as_from_nothing(graph, view, links));
      }
      if (rng.below(8) == 0) {  // the graph alone is undone, and the view follows
        marks.clear();
        graph.rollback(seen[rng.below(seen.size())]);
        std::erase_if(seen, [&](ir::GraphEdit::Mark each) { return each > graph.mark(); });
        ASSERT_TRUE(view.update().has_value());
        ASSERT_NO_FATAL_FAILURE(expect_as_from_nothing(graph, view, links));
      }
    }
    done += changes.done;
  }
  EXPECT_GT(done, 400);
  EXPECT_GT(wholes, 150u) << "that were there after a change";
  EXPECT_GT(refused, 5) << "pieces at odd bytes, wholes that nobody reads";
}

INSTANTIATE_TEST_SUITE_P(Steps, ViewEditProperty,
                         ::testing::Values(Case{1, autodiff::OptimizerKind::kSgd, false},
                                           Case{3, autodiff::OptimizerKind::kAdamW, true},
                                           Case{6, autodiff::OptimizerKind::kSgd, true}));

// ---- by hand ----

TEST(ViewEdit, FollowsARecomputation) {
  Network net;
  const ValueId x = net.leaf("x", {16}, Category::kInput);
  const ValueId a = net.op("Exp", {x});
  const ValueId b = net.op("Relu", {a});
  const ValueId c = net.op("Mul", {b, a});
  net.graph.set_output(c, true);
  ir::GraphEdit graph(net.graph);
  ViewEdit view = ViewEdit::make(graph, cost_of, kAlignment).value();
  const auto start = view.mark();
  const plan::ScheduleProblem before = view.compact().view.problem;
  const OpId last = graph.value(c).producer;
  const auto again = ops::append(graph, ir::Place::before(last), "Exp", {x}, {}).value();
  ASSERT_TRUE(graph.set_input(last, 1, graph.op(again).outputs[0]).has_value());
  ASSERT_TRUE(view.update().has_value());
  const plan::ScheduleProblem& now = view.compact().view.problem;
  ASSERT_EQ(now.ops.size(), 4u);
  EXPECT_EQ(now.values[plan::SchedValueId(0)].readers.size(), 1u) << "the first Exp dies in Relu";
  EXPECT_EQ(view.problem().op(view.sched_op(last)).in_place.size(), 2u);
  view.rollback(start);
  EXPECT_TRUE(view.compact().view.problem == before);
  EXPECT_TRUE(graph.compact().graph == net.graph);
}

TEST(ViewEdit, LivesBesideContractedRegions) {
  const ir::Graph step = training_step(2, autodiff::OptimizerKind::kSgd);
  ir::GraphEdit graph(step);
  ViewEdit view = ViewEdit::make(graph, cost_of, kAlignment).value();
  std::vector<plan::SchedOpId> region;
  for (plan::SchedOpId id = view.problem().first_op(); region.size() < 5;
       id = view.problem().next_op(id))
    region.push_back(id);
  ASSERT_TRUE(view.problem().contract(region, "first five").has_value());
  const CompactedView small = view.compact();
  EXPECT_TRUE(plan::check(small.view.problem).has_value());
  EXPECT_FALSE(small.view.op[plan::SchedOpId(0)].valid()) << "stands for no single op";
  // A reader at the end joins a value from inside, which so comes to be an output of the region.
  const OpId inside = graph.first_op();
  const ValueId made = graph.op(inside).outputs[0];
  ASSERT_TRUE(ops::append(graph, ir::Place::end(), "Neg", {made}, {}).has_value());
  ASSERT_TRUE(view.update().has_value());
  const auto problem = view.problem().compact();
  EXPECT_TRUE(plan::check(problem.problem).has_value());
  EXPECT_TRUE(problem.value[view.sched_value(graph.value(made).storage)].valid());
  // Between the members nothing can come.
  ASSERT_TRUE(ops::append(graph, ir::Place::after(inside), "Exp", {made}, {}, {.name = "between"})
                  .has_value());
  const Status refused = view.update();
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("between the members of contracted op"), std::string::npos)
      << refused.error().message;
}

TEST(ViewEdit, NamesTheValueWhoseSizeIsSymbolic) {
  Network net;
  const ValueId x = net.leaf("x", {16}, Category::kInput);
  const ValueId a = net.op("Exp", {x});
  ir::GraphEdit graph(net.graph);
  ViewEdit view = ViewEdit::make(graph, cost_of, kAlignment).value();
  const auto start = view.mark();
  ASSERT_TRUE(graph.set_form(a, {.dims = {sym::Expr::symbol("n")}}).has_value());
  EXPECT_EQ(view.update().error().message,
            "the size of value '" + graph.value(a).name +
                "' is 4*n; bind its symbols first (--dim name=size)");
  view.rollback(start);
  ASSERT_NO_FATAL_FAILURE(expect_as_from_nothing(graph, view, {}));
}

// An op that reads the whole reads its pieces; none of them dies in its own reader any more.
TEST(ViewEdit, PiecesAreReadByWhoeverReadsTheWhole) {
  Network net;
  const ValueId x = net.leaf("x", {16}, Category::kInput);
  const ValueId a = net.op("Exp", {x}), b = net.op("Relu", {x});
  const ValueId c = net.op("Neg", {b});
  net.graph.set_output(c, true);
  ir::GraphEdit graph(net.graph);
  ViewEdit view = ViewEdit::make(graph, cost_of, kAlignment).value();
  const auto start = view.mark();
  const plan::SchedOpId neg = view.sched_op(graph.value(c).producer);
  EXPECT_EQ(view.problem().op(neg).in_place.size(), 1u);
  const OpId join =
      ops::append(graph, ir::Place::end(), "Join", {a, b}, {{"axis", int64_t{0}}}).value();
  const ValueId whole = graph.op(join).outputs[0];
  const OpId reader = ops::append(graph, ir::Place::end(), "Exp", {whole}, {}).value();
  ASSERT_TRUE(view.update().has_value());
  for (const ValueId piece : {a, b}) {
    const auto& readers =
        view.problem().value(view.sched_value(graph.value(piece).storage)).readers;
    EXPECT_EQ(std::count(readers.begin(), readers.end(), view.sched_op(reader)), 1);
  }
  EXPECT_FALSE(view.sched_value(graph.value(whole).storage).valid());
  EXPECT_TRUE(view.problem().op(neg).in_place.empty());
  ASSERT_TRUE(graph.remove_op(reader).has_value());
  EXPECT_EQ(view.update().error().message, "nobody reads '" + graph.value(whole).name +
                                               "', a view on the pieces of '" +
                                               graph.value(whole).name + "'");
  view.rollback(start);
  EXPECT_EQ(view.problem().op(neg).in_place.size(), 1u);
}

}  // namespace
}  // namespace lowtide::analysis

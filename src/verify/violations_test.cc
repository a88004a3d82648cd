// One wrong plan for each kind of violation, made from one right plan that has everything: a view,
// an update, in-place reuse, a workspace, two results, a certificate.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "ops/op_table.h"
#include "verify/testing/definition.h"
#include "verify/testing/example_plans.h"
#include "verify/testing/mutate.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanOp;
using plan::PlanOpId;
using plan::PlanStorage;
using plan::PlanStorageId;
using plan::PlanValue;
using plan::PlanValueId;
using plan::Step;

//   x -> relu -> slice (view of relu) -> softmax ----> concat (output, workspace)
//          \-> add(w) -> tanh (in place of add) -----^
//                          \-> sgd updates w -> exp (output)
Plan right_plan() {
  ir::Graph graph;
  const auto given = [&](std::string name, Category category) {
    ir::Value value;
    value.name = std::move(name);
    value.dims = {4, 8};
    value.category = category;
    if (category == Category::kParameter) value.initial.kind = ir::InitialValue::Kind::kSeeded;
    return graph.add_value(std::move(value));
  };
  const auto add = [&](std::string_view kind, std::vector<ir::ValueId> inputs,
                       ir::Attrs attrs = {}) {
    ops::AppendOptions options;
    options.name = kind;
    return graph.op(ops::append(graph, kind, std::move(inputs), std::move(attrs), options).value())
        .outputs[0];
  };
  const ir::ValueId x = given("x", Category::kInput), w = given("w", Category::kParameter);
  const ir::ValueId relu = add("Relu", {x});
  const ir::ValueId slice =
      add("Slice", {relu},
          {{"starts", ir::Dims{2, 0}}, {"sizes", ir::Dims{2, 8}}, {"steps", ir::Dims{1, 1}}});
  const ir::ValueId softmax = add("Softmax", {slice}, {{"axis", int64_t{1}}});
  const ir::ValueId sum = add("Add", {relu, w});
  const ir::ValueId tanh = add("Tanh", {sum});
  const ir::ValueId updated = add(
      "SgdUpdate", {w, tanh}, {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}});
  graph.set_output(add("Concat", {softmax, tanh}, {{"axis", int64_t{0}}}), true);
  graph.set_output(add("Exp", {updated}), true);
  graph.add_control(ir::OpId(2), ir::OpId(3));  // softmax before add
  Rng rng(1);
  LowerOptions options;
  options.plain = true;
  return lower(graph, rng, options);
}

//   x -> relu ----> join -> exp (output)
//    -> tanh ----->
// First fit puts relu and tanh one behind the other.
Plan joined_plan() {
  ir::Graph graph;
  ir::Value value;
  value.name = "x";
  value.dims = {4, 16};
  value.category = Category::kInput;
  const ir::ValueId x = graph.add_value(value);
  const auto add = [&](std::string_view kind, std::vector<ir::ValueId> inputs,
                       ir::Attrs attrs = {}) {
    return graph.op(ops::append(graph, kind, std::move(inputs), std::move(attrs)).value())
        .outputs[0];
  };
  const ir::ValueId whole =
      add("Join", {add("Relu", {x}), add("Tanh", {x})}, {{"axis", int64_t{0}}});
  graph.set_output(add("Exp", {whole}), true);
  Rng rng(1);
  LowerOptions options;
  options.plain = true;
  return lower(graph, rng, options);
}

PlanOp& op(Plan& p, std::string_view kind) {
  return *std::find_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& o) { return o.kind == kind; });
}
PlanOpId op_id(const Plan& p, std::string_view kind) {
  return PlanOpId(static_cast<size_t>(
      std::find_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& o) { return o.kind == kind; }) -
      p.ops.begin()));
}
PlanValue& out(Plan& p, std::string_view kind) {
  return p.values[op(p, kind).outputs[0]];
}
PlanStorage& storage(Plan& p, std::string_view kind) {
  return p.storages[out(p, kind).storage];
}
plan::Placement& place(Plan& p, std::string_view kind) {
  const PlanOpId id = op_id(p, kind);
  return std::find_if(p.steps.begin(), p.steps.end(),
                      [&](const Step& s) { return s.kind == Step::Kind::kCompute && s.op == id; })
      ->makes[0];
}
Step free_of(PlanStorageId s) {
  Step step;
  step.kind = Step::Kind::kFree;
  step.storage = s;
  return step;
}
std::vector<Step>::iterator step_of(Plan& p, std::string_view kind) {
  const PlanOpId id = op_id(p, kind);
  return std::find_if(p.steps.begin(), p.steps.end(),
                      [&](const Step& s) { return s.kind == Step::Kind::kCompute && s.op == id; });
}
std::vector<Step>::iterator freeing(Plan& p, PlanStorageId s) {
  return std::find(p.steps.begin(), p.steps.end(), free_of(s));
}
void move_to_front(Plan& p, std::vector<Step>::iterator step) {
  std::rotate(p.steps.begin(), step, step + 1);
}

Step move_of(Step::Kind kind, PlanStorageId s, int64_t address = 0) {
  Step step;
  step.kind = kind;
  step.storage = s;
  step.address = address;
  return step;
}
// The most that the plan can show of it: it has no product.
void claim_parts_floor(Plan& p) {
  p.claims.parts_floor = {verify(p).resident_bytes, "", 1, 0};
  while (verify(p).has(Violation::kPartsFloor)) --p.claims.parts_floor->bytes;
}

// The right plan with softmax's result in the slow tier while add, tanh and sgd run, relu run again
// for add, and w at home in the slow tier.
Plan moving_plan() {
  Plan p = right_plan();
  p.slow_tiers.push_back({"host", 1024, 1e6, 2e6, 1e-3, 1e-7});
  const PlanStorageId relu = out(p, "Relu").storage, softmax = out(p, "Softmax").storage,
                      w = p.values[PlanValueId(1)].storage;
  const auto before = [&](std::string_view kind, const Step& step) {
    p.steps.insert(step_of(p, kind), step);
  };
  const auto after = [&](std::string_view kind, const Step& step) {
    p.steps.insert(step_of(p, kind) + 1, step);
  };
  p.storages[softmax].slow_tier = 0;
  Step again = *step_of(p, "Relu");
  before("Add", free_of(relu));
  before("Add", again);
  // step_of finds the first run; the second has no other steps to stand beside.
  after("Softmax", move_of(Step::Kind::kStore, softmax));
  before("Tanh", move_of(Step::Kind::kWait, softmax));
  before("Tanh", free_of(softmax));
  before("SgdUpdate", move_of(Step::Kind::kLoad, softmax, place(p, "Softmax").address));
  before("Concat", move_of(Step::Kind::kWait, softmax));
  const int64_t address = p.storages[w].address;
  p.storages[w].home_slow = true;
  p.storages[w].address = 0;
  p.storages[w].slow_tier = 0;
  p.storages[w].slow_address = p.storages[softmax].bytes;
  p.steps.insert(p.steps.begin(),
                 {move_of(Step::Kind::kLoad, w, address), move_of(Step::Kind::kWait, w)});
  p.steps.insert(p.steps.end(),
                 {move_of(Step::Kind::kStore, w), move_of(Step::Kind::kWait, w), free_of(w)});
  claim_what_is_found(p);
  p.claims.budget_bytes = p.arena_bytes;
  p.claims.floor_bytes = verify(p).floor_bytes;
  claim_parts_floor(p);
  return p;
}
std::vector<Step>::iterator moving(Plan& p, Step::Kind kind, std::string_view of, int skip = 0) {
  const PlanStorageId s = of == "w" ? p.values[PlanValueId(1)].storage : out(p, of).storage;
  for (auto step = p.steps.begin(); step != p.steps.end(); ++step)
    if (step->kind == kind && step->storage == s && skip-- == 0) return step;
  return p.steps.end();
}

enum class Of : uint8_t { kRight, kMoving, kJoined };
struct Case {
  Violation kind;
  std::function<void(Plan&)> spoil;
  Of of = Of::kRight;  // the plan that it spoils
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {Violation::kMalformed, [](Plan& p) { out(p, "Slice").base = PlanValueId(99); }},
      {Violation::kUnknownOp, [](Plan& p) { op(p, "Relu").kind = "Rolu"; }},
      {Violation::kOperands, [](Plan& p) { op(p, "Add").inputs.pop_back(); }},
      {Violation::kOutputType,
       [](Plan& p) { std::swap(out(p, "Relu").type.dims[0], out(p, "Relu").type.dims[1]); }},
      {Violation::kOutputAlias, [](Plan& p) { out(p, "Slice").alias = plan::PlanAlias::kUpdate; }},
      {Violation::kViewOffset, [](Plan& p) { out(p, "Slice").offset_bytes = 0; }},
      {Violation::kViewOutside, [](Plan& p) { out(p, "Slice").offset_bytes = 96; }},
      {Violation::kUpdateTarget,
       [](Plan& p) { p.values[PlanValueId(1)].initial.kind = plan::PlanInitial::Kind::kFed; }},
      {Violation::kPieces,
       [](Plan& p) {
         op(p, "Join").inputs[0] = PlanValueId(0);  // which is there before the step
       },
       Of::kJoined},
      {Violation::kPiecesApart, [](Plan& p) { place(p, "Relu").address += 4096; }, Of::kJoined},
      {Violation::kContents,
       [](Plan& p) {
         p.values[PlanValueId(0)].initial.kind = plan::PlanInitial::Kind::kInline;
         p.values[PlanValueId(0)].initial.bytes = "abc";
       }},
      {Violation::kStorageBytes, [](Plan& p) { storage(p, "Exp").bytes -= 64; }},
      {Violation::kCategory, [](Plan& p) { storage(p, "Exp").category = Category::kWorkspace; }},
      {Violation::kResidency, [](Plan& p) { storage(p, "Exp").resident = true; }},
      {Violation::kGivenOrder, [](Plan& p) { op(p, "Exp").inputs[0] = PlanValueId(1); }},
      {Violation::kOpMissing, [](Plan& p) { p.steps.erase(step_of(p, "Exp")); }},
      {Violation::kOpRepeated, [](Plan& p) { p.steps.push_back(*step_of(p, "SgdUpdate")); }},
      {Violation::kInputNotReady, [](Plan& p) { move_to_front(p, step_of(p, "Exp")); }},
      {Violation::kControlOrder,
       [](Plan& p) { std::iter_swap(step_of(p, "Softmax"), step_of(p, "Add")); }},
      {Violation::kStaleRead,
       [](Plan& p) { std::iter_swap(step_of(p, "SgdUpdate"), step_of(p, "Add")); }},
      {Violation::kReadAfterFree,
       [](Plan& p) {
         const PlanStorageId s = out(p, "Softmax").storage;
         p.steps.erase(freeing(p, s));
         p.steps.insert(step_of(p, "Concat"), free_of(s));
       }},
      {Violation::kReadAfterReuse,
       [](Plan& p) { op(p, "Concat").inputs[1] = op(p, "Add").outputs[0]; }},
      {Violation::kFreeNotAlive,
       [](Plan& p) { p.steps.insert(p.steps.begin(), free_of(out(p, "Softmax").storage)); }},
      {Violation::kFreeResident, [](Plan& p) { p.steps.push_back(free_of(PlanStorageId(0))); }},
      {Violation::kFreeOutput, [](Plan& p) { p.steps.push_back(free_of(out(p, "Exp").storage)); }},
      {Violation::kNeverFreed,
       [](Plan& p) { p.steps.erase(freeing(p, out(p, "Softmax").storage)); }},
      {Violation::kOutputOverwritten, [](Plan& p) { p.values[PlanValueId(1)].is_output = true; }},
      {Violation::kReusePair, [](Plan& p) { op(p, "Tanh").inputs[0] = PlanValueId(0); }},
      {Violation::kReuseMisplaced, [](Plan& p) { place(p, "Tanh").address += 64; }},
      {Violation::kReuseNotAlive,
       [](Plan& p) { p.steps.insert(step_of(p, "Tanh"), free_of(out(p, "Add").storage)); }},
      {Violation::kMadeAlive, [](Plan& p) { p.steps.erase(freeing(p, out(p, "Relu").storage)); },
       Of::kMoving},
      {Violation::kReadInFlight,
       [](Plan& p) {
         std::iter_swap(moving(p, Step::Kind::kWait, "Softmax", 1), step_of(p, "Concat"));
       },
       Of::kMoving},
      {Violation::kWriteInFlight,
       [](Plan& p) {
         std::iter_swap(moving(p, Step::Kind::kWait, "Softmax"),
                        moving(p, Step::Kind::kFree, "Softmax"));
       },
       Of::kMoving},
      {Violation::kStoreNotAlive,
       [](Plan& p) { move_to_front(p, moving(p, Step::Kind::kStore, "Softmax")); }, Of::kMoving},
      {Violation::kTransferPending,
       [](Plan& p) {
         const auto store = moving(p, Step::Kind::kStore, "Softmax");
         p.steps.insert(store, Step(*store));
       },
       Of::kMoving},
      {Violation::kLoadAlive,
       [](Plan& p) {
         const auto load = moving(p, Step::Kind::kLoad, "Softmax");
         p.steps.insert(load, Step(*load));
       },
       Of::kMoving},
      {Violation::kLoadNotStored,
       [](Plan& p) {
         p.steps.erase(moving(p, Step::Kind::kStore, "Softmax"));
         p.steps.erase(moving(p, Step::Kind::kWait, "Softmax"));
       },
       Of::kMoving},
      {Violation::kWaitIdle,
       [](Plan& p) { move_to_front(p, moving(p, Step::Kind::kWait, "Softmax")); }, Of::kMoving},
      {Violation::kTransferOpen,
       [](Plan& p) { p.steps.erase(moving(p, Step::Kind::kWait, "w", 1)); }, Of::kMoving},
      {Violation::kHomeStale,
       [](Plan& p) {
         p.steps.erase(moving(p, Step::Kind::kStore, "w"));
         p.steps.erase(moving(p, Step::Kind::kWait, "w", 1));
       },
       Of::kMoving},
      {Violation::kSlotOutside, [](Plan& p) { p.slow_tiers[0].bytes = 64; }, Of::kMoving},
      {Violation::kSlotOverlap,
       [](Plan& p) { p.storages[out(p, "Softmax").storage].slow_address = 64; }, Of::kMoving},
      {Violation::kMisaligned, [](Plan& p) { place(p, "Exp").address += 4; }},
      {Violation::kOutsideArena, [](Plan& p) { p.arena_bytes -= 64; }},
      {Violation::kOverlap,
       [](Plan& p) { place(p, "Softmax").address = place(p, "Relu").address; }},
      {Violation::kPeak, [](Plan& p) { p.claims.peak_bytes -= 64; }},
      {Violation::kPeakBefore, [](Plan& p) { p.claims.peak_before_bytes += 64; }},
      {Violation::kBudget, [](Plan& p) { *p.claims.budget_bytes -= 1; }, Of::kMoving},
      {Violation::kFloor, [](Plan& p) { *p.claims.floor_bytes += 1; }, Of::kMoving},
      {Violation::kPartsFloor, [](Plan& p) { p.claims.parts_floor->bytes += 1; }, Of::kMoving},
      {Violation::kOnceSeconds, [](Plan& p) { p.claims.once_seconds *= 1.0 + 1e-6; }},
      {Violation::kSeconds, [](Plan& p) { p.claims.predicted_seconds *= 1.0 + 1e-6; }},
      {Violation::kExposedSeconds, [](Plan& p) { p.claims.exposed_seconds = 0; }, Of::kMoving},
      {Violation::kTimeBoundAboveTime, [](Plan& p) { p.claims.lower_bound_ticks *= 100; },
       Of::kMoving},
      {Violation::kTimeBoundUncertified, [](Plan& p) { p.claims.lower_bound_ticks += 1; },
       Of::kMoving},
      {Violation::kTimeCertificate,
       [](Plan& p) {
         p.claims.lower_bound_ticks += 1;
         p.claims.certificate.time.emplace();
       },
       Of::kMoving},
      {Violation::kTimeBoundSeconds, [](Plan& p) { p.claims.lower_bound_seconds *= 1.0 + 1e-15; }},
      {Violation::kBoundAbovePeak,
       [](Plan& p) { p.claims.lower_bound_bytes = p.claims.peak_bytes + 64; }},
      {Violation::kBoundBelowCertificate, [](Plan& p) { p.claims.lower_bound_bytes = 0; }},
      {Violation::kBoundUncertified,
       [](Plan& p) { p.claims.lower_bound_bytes = p.claims.certificate.peak->value_bytes + 64; }},
      {Violation::kOrderProven, [](Plan& p) { p.claims.order_proven = !p.claims.order_proven; }},
      {Violation::kCertificatePrefix, [](Plan& p) { p.claims.certificate.peak->prefix.clear(); }},
      {Violation::kCertificateValue, [](Plan& p) { p.claims.certificate.peak->value_bytes -= 64; }},
      {Violation::kCertificateNotLeast,
       [](Plan& p) {
         // Before Exp, Concat's result need not be there; its operands are dearer, so Tanh's op
         // goes without it.
         plan::PeakCut& c = *p.claims.certificate.peak;
         c.op = op_id(p, "Concat");
         c.prefix.clear();
         for (std::string_view kind :
              {"Relu", "Slice", "Softmax", "Add", "Tanh", "SgdUpdate", "Exp"})
           c.prefix.push_back(op_id(p, kind));
         std::sort(c.prefix.begin(), c.prefix.end());
       }},
  };
  return all;
}

TEST(ViolationsTest, TheRightPlanIsRight) {
  Plan plan = right_plan();
  const Report report = verify(plan);
  for (const Finding& finding : report.findings)
    ADD_FAILURE() << name(finding.kind) << ": " << finding.message;
  EXPECT_TRUE(valid_by_definition(plan));
  EXPECT_TRUE(place(plan, "Tanh").reuses.valid());
  EXPECT_TRUE(plan.claims.certificate.peak.has_value());
  EXPECT_GT(op(plan, "Concat").workspace_bytes, 0);
  EXPECT_EQ(report.peak_bytes, plan.claims.peak_bytes);
  EXPECT_LE(report.peak_bytes, report.arena_high_water_bytes);
  EXPECT_EQ(report.cut_bytes, plan.claims.certificate.peak->value_bytes);
  EXPECT_EQ(report.resident_bytes, 256);
}

TEST(ViolationsTest, EachKindIsFoundAndNamed) {
  ASSERT_EQ(cases().size(), static_cast<size_t>(kViolations));
  for (int i = 0; i < kViolations; ++i) {
    const Case& c = cases()[static_cast<size_t>(i)];
    EXPECT_EQ(static_cast<int>(c.kind), i) << name(c.kind);
    Plan plan = c.of == Of::kMoving   ? moving_plan()
                : c.of == Of::kJoined ? joined_plan()
                                      : right_plan();
    c.spoil(plan);
    const Report report = verify(plan);
    EXPECT_TRUE(report.has(c.kind)) << name(c.kind) << " is not found, but "
                                    << (report.ok() ? "nothing" : report.findings[0].message);
    EXPECT_FALSE(valid_by_definition(plan)) << name(c.kind);
    for (const Finding& finding : report.findings) {
      EXPECT_FALSE(finding.message.empty());
      EXPECT_EQ(finding.message.find('\n'), std::string::npos);
    }
    const Report as_claimed = verify(plan, {.as_claimed = true});
    EXPECT_TRUE(as_claimed.has(c.kind)) << name(c.kind);
    EXPECT_EQ(as_claimed.findings.size(), report.findings.size()) << name(c.kind);
  }
}

TEST(ViolationsTest, TheJoinedPlanIsRightAndItsChangesAreJudgedAlike) {
  const Plan plan = joined_plan();
  const Report report = verify(plan);
  for (const Finding& finding : report.findings)
    ADD_FAILURE() << name(finding.kind) << ": " << finding.message;
  std::string why;
  EXPECT_TRUE(valid_by_definition(plan, &why)) << why;
  const Agreement agreement = compare_on_mutations(plan, 400, 1);
  for (const std::string& disagreement : agreement.disagreements) ADD_FAILURE() << disagreement;
  EXPECT_GT(agreement.wrong, 200);
}

// Each piece may come and go by itself: after the whole was read, relu's place may be another's.
TEST(ViolationsTest, PiecesMustLieTogetherOnlyWhileTheWholeIsRead) {
  Plan plan = joined_plan();
  Step again = *step_of(plan, "Relu");
  const PlanStorageId relu = out(plan, "Relu").storage;
  again.makes[0].address = plan.arena_bytes;
  plan.arena_bytes += plan.storages[relu].bytes;
  plan.steps.push_back(again);
  plan.steps.push_back(free_of(relu));
  claim_what_is_found(plan);
  plan.claims.certificate.peak.reset();
  plan.claims.lower_bound_bytes = verify(plan).resident_bytes;
  const Report report = verify(plan);
  EXPECT_TRUE(report.ok()) << report.findings[0].message;
  EXPECT_TRUE(valid_by_definition(plan));
  // Read from there it is apart from tanh.
  Plan apart = plan;
  apart.steps.insert(step_of(apart, "Exp"), {free_of(relu), again});
  EXPECT_TRUE(verify(apart).has(Violation::kPiecesApart));
  EXPECT_TRUE(verify(apart).has(Violation::kInputNotReady)) << "the whole is not made again";
  EXPECT_FALSE(valid_by_definition(apart));
}

// However long transfers take beside them, the ops' own seconds are held against their sum; and no
// claim is near a step that never ends.
TEST(ViolationsTest, ASlowLinkHidesNoFalseClaim) {
  Plan plan = moving_plan();
  plan.claims.certificate.time.reset();
  plan.slow_tiers[0].latency_seconds = 1e9;
  claim_what_is_found(plan);
  ASSERT_FALSE(verify(plan).has(Violation::kOnceSeconds));
  for (const double factor : {0.5, 1 + 1e-6, 1e3}) {
    Plan false_claim = plan;
    false_claim.claims.once_seconds *= factor;
    EXPECT_TRUE(verify(false_claim).has(Violation::kOnceSeconds)) << factor;
    EXPECT_FALSE(valid_by_definition(false_claim)) << factor;
  }
  plan.slow_tiers[0].bytes_per_second_out = 5e-324;
  for (const double seconds : {2e-6, 1e300, std::numeric_limits<double>::infinity()}) {
    plan.claims.predicted_seconds = plan.claims.exposed_seconds = seconds;
    const Report report = verify(plan);
    EXPECT_FALSE(report.ok()) << seconds;
  }
}

TEST(ViolationsTest, TheMovingPlanIsRight) {
  const Plan plan = moving_plan();
  const Report report = verify(plan);
  for (const Finding& finding : report.findings)
    ADD_FAILURE() << name(finding.kind) << ": " << finding.message;
  std::string why;
  EXPECT_TRUE(valid_by_definition(plan, &why)) << why;
  EXPECT_EQ(report.reruns, 1);
  EXPECT_EQ(report.stored_bytes, 64 + 128);
  EXPECT_EQ(report.loaded_bytes, 64 + 128);
  EXPECT_GT(report.exposed_seconds, 0);
  EXPECT_GT(report.run_seconds, report.once_seconds);
  EXPECT_LE(report.floor_bytes, report.peak_bytes);
  EXPECT_FALSE(plan.claims.order_proven);
}

// The bound is about orders in which each op runs once: a plan that moves things may lie below it.
TEST(ViolationsTest, AMovingPlanMayLieBelowTheBoundOnOrders) {
  Plan plan = moving_plan();
  plan.claims.certificate.peak.reset();
  plan.claims.lower_bound_bytes = verify(plan).resident_bytes;
  EXPECT_TRUE(verify(plan).ok());
  plan.claims.order_proven = true;
  EXPECT_TRUE(verify(plan).has(Violation::kOrderProven));
  EXPECT_FALSE(valid_by_definition(plan));
}

TEST(ViolationsTest, NamesAreDistinct) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kViolations; ++i) names.push_back(name(static_cast<Violation>(i)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_FALSE(names.front().empty());
}

TEST(ViolationsTest, EveryWrongRoleIsFound) {
  const Plan right = right_plan();
  for (PlanStorageId s : right.storages.ids()) {
    for (int c = 0; c < kCategories; ++c) {
      Plan plan = right;
      plan.storages[s].category = static_cast<Category>(c);
      const bool same = plan.storages[s].category == right.storages[s].category;
      EXPECT_EQ(verify(plan).ok(), same)
          << plan.values[plan.storages[s].root].name << " as " << name(static_cast<Category>(c));
      EXPECT_EQ(valid_by_definition(plan), same);
    }
  }
}

// Part of the plan called a backward pass: tanh is then the gradient of w.
TEST(ViolationsTest, GradientsAreToldFromTemporaries) {
  Plan plan = right_plan();
  for (std::string_view kind : {"Add", "Tanh", "Softmax"}) op(plan, kind).phase = Phase::kBackward;
  storage(plan, "Softmax").category = Category::kTemporary;
  storage(plan, "Tanh").category = Category::kGradient;  // SgdUpdate reads it
  storage(plan, "Add").category = Category::kTemporary;  // Tanh does not hand gradients on
  EXPECT_TRUE(verify(plan).has(Violation::kCategory)) << "SgdUpdate is no update by its phase";
  op(plan, "SgdUpdate").phase = Phase::kUpdate;
  const Report report = verify(plan);
  EXPECT_TRUE(report.ok()) << report.findings[0].message;
  EXPECT_TRUE(valid_by_definition(plan));
  for (std::string_view kind : {"Add", "Tanh", "Softmax"}) {
    Plan changed = plan;
    Category& category = storage(changed, kind).category;
    category = category == Category::kGradient ? Category::kTemporary : Category::kGradient;
    EXPECT_TRUE(verify(changed).has(Violation::kCategory)) << kind;
    EXPECT_FALSE(valid_by_definition(changed)) << kind;
  }
}

TEST(ViolationsTest, NoBoundIsClaimedWithoutEvidence) {
  Plan plan = right_plan();
  plan.claims.certificate.peak.reset();
  EXPECT_TRUE(verify(plan).has(Violation::kBoundUncertified)) << "the evidence was dropped";
  EXPECT_FALSE(valid_by_definition(plan));
  plan.claims.lower_bound_bytes = plan.claims.peak_bytes;
  plan.claims.order_proven = true;
  EXPECT_TRUE(verify(plan).has(Violation::kBoundUncertified)) << "and the order called optimal";
  EXPECT_FALSE(valid_by_definition(plan));
  plan.claims.certificate.peak = right_plan().claims.certificate.peak;
  plan.claims.certificate.peak->value_bytes = plan.claims.peak_bytes + 64;
  plan.claims.peak_bytes += 64;
  plan.claims.lower_bound_bytes = plan.claims.peak_bytes;
  EXPECT_TRUE(verify(plan).has(Violation::kCertificateValue)) << "the evidence itself was raised";
  EXPECT_FALSE(valid_by_definition(plan));
}

TEST(ViolationsTest, WithoutCertificateTheBoundIsWhatIsResident) {
  Plan plan = right_plan();
  plan.claims.certificate.peak.reset();
  plan.claims.lower_bound_bytes = verify(plan).resident_bytes;
  plan.claims.order_proven = false;
  const Report report = verify(plan);
  EXPECT_TRUE(report.ok()) << report.findings[0].message;
  EXPECT_TRUE(valid_by_definition(plan));
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("no certificate"), std::string::npos);
}

TEST(ViolationsTest, AnEmptyPlanIsRight) {
  Plan nothing;
  nothing.claims.order_proven = true;  // no bytes, and no fewer are possible
  EXPECT_TRUE(verify(nothing).ok());
  EXPECT_TRUE(valid_by_definition(nothing));
}

TEST(ViolationsTest, ManyViolationsDoNotFillMemory) {
  Plan plan = right_plan();
  const Step again = plan.steps[0];
  plan.steps.resize(100000, again);
  EXPECT_EQ(verify(plan).findings.size(), kMaxFindings);
}

}  // namespace
}  // namespace lowtide::verify

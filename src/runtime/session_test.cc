// Sessions on small plans written by hand, with kernels that add and scale: addresses, lifetimes,
// poison, the unplanned baseline, seeded and external contents, errors.
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "runtime/seeded.h"
#include "support/session_plans.h"

namespace lowtide::runtime {
namespace {

// y = 2 x; z = y + y; r = z + p; p -= y. `shares`: r takes the place of y, which is wrong until y
// is dead.
Plan make_plan(bool frees_too_early = false) {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed), p = m.given("layer.weight", Initial::kSeeded);
  const PlanOpId scale = m.op("Scale", {x});
  const PlanValueId y = m.output(scale, "y");
  const PlanOpId view = m.op("Reshape", {y});
  const PlanValueId same = m.alias(view, "y.view", y, plan::PlanAlias::kView);
  const PlanOpId sum = m.op("Sum", {y, same});
  const PlanValueId z = m.output(sum, "z");
  const PlanOpId add = m.op("Sum", {z, p});
  m.output(add, "r", true);
  const PlanOpId step = m.op("Step", {p, y});
  m.alias(step, "layer.weight.1", p, plan::PlanAlias::kUpdate);
  m.plan.ops[step].control = {add};
  const int64_t workspace = m.plan.arena_bytes;
  m.plan.arena_bytes += 128;
  m.compute(scale, workspace);
  m.compute(view);
  if (frees_too_early) m.free(y);
  m.compute(sum);
  m.compute(add);
  m.free(z);
  m.compute(step);
  if (!frees_too_early) m.free(y);
  return m.plan;
}

TEST(Session, RunsStepsAndUpdatesParameters) {
  Session session = open(make_plan(), {.poison = true});
  const std::vector<float> before = floats(session.get("layer.weight"));
  EXPECT_EQ(session.arena_bytes(), session.plan().arena_bytes);
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  ASSERT_TRUE(session.run());
  const std::vector<float> r = floats(session.get("r")),
                           after = floats(session.get("layer.weight"));
  for (size_t i = 0; i < r.size(); ++i) {
    EXPECT_EQ(r[i], 4 * static_cast<float>(i) + before[i]);
    EXPECT_EQ(after[i], before[i] - 2 * static_cast<float>(i));
  }
  ASSERT_TRUE(session.run());
  EXPECT_EQ(session.steps_run(), 2);
  EXPECT_EQ(floats(session.get("layer.weight.1"))[3], before[3] - 6 - 6);
}

TEST(Session, PoisonShowsAPlanThatReadsAFreedValue) {
  Session session = open(make_plan(true), {.poison = true});
  session.seed_inputs(0);
  ASSERT_TRUE(session.run());
  EXPECT_TRUE(std::isnan(floats(session.get("r"))[0]));
}

TEST(Session, UnplannedGivesTheSameBitsAndCountsLiveBytes) {
  const Plan plan = make_plan();
  Session planned = open(plan, {.seed = 7}),
          unplanned = open(plan, {.seed = 7, .unplanned = true, .poison = true});
  planned.seed_inputs(0);
  unplanned.seed_inputs(0);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(planned.run());
    ASSERT_TRUE(unplanned.run());
    EXPECT_EQ(floats(planned.get("r")), floats(unplanned.get("r")));
    EXPECT_EQ(floats(planned.get("layer.weight")), floats(unplanned.get("layer.weight")));
  }
  // x, p and y are alive with the workspace of the first op (4 x 128), or with z and r (5 x 128).
  EXPECT_EQ(unplanned.arena_bytes(), 5 * 128);
}

TEST(Session, ObserverSeesEveryOutput) {
  for (bool unplanned : {false, true}) {
    Session session = open(make_plan(), {.unplanned = unplanned});
    ASSERT_TRUE(session.set("x", as_bytes(ramp())));
    std::vector<std::string> seen;
    const Observer observer = [&](PlanOpId, PlanValueId v, std::span<const std::byte> bytes) {
      seen.push_back(session.plan().values[v].name);
      EXPECT_EQ(bytes.size(), kCount * sizeof(float));
      float second = 0;
      std::memcpy(&second, bytes.data() + sizeof(float), sizeof(float));
      EXPECT_TRUE(seen.back() != "z" || second == 4.0f);
    };
    ASSERT_TRUE(session.run(&observer));
    EXPECT_EQ(seen, (std::vector<std::string>{"y", "y.view", "z", "r", "layer.weight.1"}));
  }
}

// y is made, read, freed and made again elsewhere; what is read where it was would be poison.
TEST(Session, ARunAgainWritesToItsOwnAddresses) {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed);
  const PlanOpId scale = m.op("Scale", {x});
  const PlanValueId y = m.output(scale, "y", true);
  const PlanOpId view = m.op("Reshape", {y});
  const PlanValueId same = m.alias(view, "y.view", y, plan::PlanAlias::kView);
  const PlanOpId sum = m.op("Sum", {y, same});
  const PlanValueId z = m.output(sum, "z");
  const PlanOpId add = m.op("Sum", {z, same});
  m.output(add, "r", true);
  const int64_t workspace = m.plan.arena_bytes;
  m.plan.arena_bytes += 256;
  m.compute(scale, workspace);
  m.compute(view);
  m.compute(sum);
  m.free(y);
  m.compute(scale, workspace);
  m.plan.steps.back().makes[0].address = workspace + 128;
  m.compute(view);
  m.compute(add);
  m.free(z);
  Session session = open(m.plan, {.poison = true});
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(session.run());
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(floats(session.get("y"))[i], 2 * static_cast<float>(i));
      EXPECT_EQ(floats(session.get("r"))[i], 6 * static_cast<float>(i));
    }
  }
}

TEST(Session, ConvertsPermutedLayouts) {
  Plan plan = make_plan();
  for (plan::PlanValue& value : plan.values) value.type.layout.order = {1, 0};
  Session session = open(plan);
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  const Observer observer = [&](PlanOpId, PlanValueId v, std::span<const std::byte> bytes) {
    if (session.plan().values[v].name != "y") return;
    float second = 0;
    std::memcpy(&second, bytes.data() + sizeof(float), sizeof(float));
    EXPECT_EQ(second, 12.0f);  // twice x[1][0], which lies second in column-major order
  };
  ASSERT_TRUE(session.run(&observer));
  EXPECT_EQ(floats(session.get("x")), ramp());
}

TEST(Session, SaysWhatIsWrong) {
  auto message = [](const auto& result) { return result ? std::string() : result.error().message; };
  Session session = open(make_plan());
  EXPECT_NE(message(session.run()).find("'x' was not set"), std::string::npos);
  EXPECT_NE(message(session.set("x", as_bytes({1.0f}))).find("96 bytes, not 4"), std::string::npos);
  EXPECT_NE(message(session.set("y", as_bytes(ramp()))).find("computed"), std::string::npos);
  EXPECT_NE(message(session.set("nothing", {})).find("no value 'nothing'"), std::string::npos);
  EXPECT_NE(message(session.get("y")).find("not alive"), std::string::npos);
  EXPECT_NE(message(session.get("r")).find("first step"), std::string::npos);

  Plan outside = make_plan();
  outside.arena_bytes -= 128;
  EXPECT_NE(message(Session::open(outside, FakeFactory())).find("outside the arena"),
            std::string::npos);
  Plan small = make_plan();
  small.ops[PlanOpId(0)].workspace_bytes = 64;
  EXPECT_NE(
      message(Session::open(small, FakeFactory())).find("96 bytes of workspace, the plan has 64"),
      std::string::npos);
  Plan unmade = make_plan();
  unmade.steps.erase(unmade.steps.begin());
  EXPECT_NE(message(Session::open(unmade, FakeFactory())).find("reads 'y' before it is made"),
            std::string::npos);
  Plan odd = make_plan();
  odd.ops[PlanOpId(2)].kind = "Odd";
  EXPECT_NE(message(Session::open(odd, FakeFactory())).find("op 'op2': no kernel for Odd"),
            std::string::npos);
}

// s -= x, unless `looks_first`; y = what a kernel makes of x that refuses some; p -= y.
Plan picky_plan(bool looks_first) {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed), p = m.given("p", Initial::kSeeded),
                    s = m.given("s", Initial::kZero);
  const PlanOpId look = m.op("Picky", {x});
  const PlanValueId y = m.output(look, "y", true);
  const PlanOpId follow = m.op("Step", {s, x});
  m.alias(follow, "s.1", s, plan::PlanAlias::kUpdate);
  const PlanOpId step = m.op("Step", {p, y});
  m.alias(step, "p.1", p, plan::PlanAlias::kUpdate);
  if (!looks_first) m.compute(follow);
  m.compute(look);
  if (looks_first) m.compute(follow);
  m.compute(step);
  return m.plan;
}

std::vector<float> ramp_from(float first) {
  std::vector<float> values = ramp();
  values[0] = first;
  return values;
}

TEST(Session, AStepThatAKernelRefusesIsAsIfItHadNotBegun) {
  for (const bool unplanned : {false, true}) {
    SCOPED_TRACE(unplanned);
    Session session = open(picky_plan(true), {.unplanned = unplanned, .poison = true});
    const std::vector<float> p = floats(session.get("p"));
    ASSERT_TRUE(session.set("x", as_bytes(ramp_from(3))));
    ASSERT_TRUE(session.run());
    const std::vector<float> p_then = floats(session.get("p"));
    EXPECT_EQ(p_then[0], p[0] - 3);
    ASSERT_TRUE(session.set("x", as_bytes(ramp_from(-1))));
    for (int again = 0; again < 2; ++again) {
      const Status refused = session.run();
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code, ErrorCode::kInput);
      EXPECT_EQ(refused.error().message,
                "step 2 was refused, nothing has changed: op 'op0' (Picky): element 0 is negative");
    }
    EXPECT_EQ(session.get("y").error().message,
              "value 'y' is not alive now: it is made by the next step");
    EXPECT_EQ(floats(session.get("p")), p_then);
    ASSERT_TRUE(session.set("x", as_bytes(ramp_from(0))));
    ASSERT_TRUE(session.run());
    EXPECT_EQ(session.steps_run(), 2);
    EXPECT_EQ(floats(session.get("p"))[0], p_then[0]);
    EXPECT_EQ(floats(session.get("y"))[0], 0);
  }
}

TEST(Session, ARefusalBehindAChangeEndsIt) {
  Session session = open(picky_plan(false));
  ASSERT_TRUE(session.set("x", as_bytes(ramp_from(-1))));
  const std::string reason = "op 'op0' (Picky): element 0 is negative";
  EXPECT_EQ(session.run().error().message, "step 1 failed: " + reason);
  EXPECT_EQ(session.run().error().message,
            "the session ended in step 1, which failed: " + reason + "; open it again");
  EXPECT_FALSE(session.rehearse().has_value());
}

TEST(Session, ARefusalInAStepThatRunsWholeOrNotAtAllIsUndone) {
  Plan plan = picky_plan(false);
  plan.values[plan.ops[PlanOpId(0)].outputs[0]].type.dims = {};
  Session session = open(std::move(plan));
  ASSERT_TRUE(session.set("x", as_bytes(ramp_from(-1))));
  EXPECT_EQ(session.rehearse().error().message, "op 'op0' (Picky): element 0 is negative");
  const auto refused = session.run_if_finite("y");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "step 1 was refused, nothing has changed: op 'op0' (Picky): element 0 is negative");
  EXPECT_EQ(floats(session.get("s")), std::vector<float>(kCount, 0));
  ASSERT_TRUE(session.set("x", as_bytes(ramp_from(1))));
  EXPECT_EQ(session.run_if_finite("y").value(), true);
  EXPECT_EQ(floats(session.get("s"))[0], -1);
}

TEST(Session, ARehearsalLeavesNoResults) {
  const auto dead = "value 'y' is not alive now: it is made by the next step";
  for (const float first : {5.0f, -1.0f}) {  // done, or refused
    SCOPED_TRACE(first);
    Session session = open(picky_plan(true));
    ASSERT_TRUE(session.set("x", as_bytes(ramp_from(3))));
    ASSERT_TRUE(session.run());
    const std::vector<float> p = floats(session.get("p"));
    EXPECT_EQ(floats(session.get("y"))[0], 3);
    ASSERT_TRUE(session.set("x", as_bytes(ramp_from(first))));
    EXPECT_EQ(session.rehearse().has_value(), first >= 0);
    EXPECT_EQ(session.get("y").error().message, dead);
    EXPECT_EQ(floats(session.get("p")), p);
    EXPECT_EQ(session.steps_run(), 1);
    ASSERT_TRUE(session.set("x", as_bytes(ramp_from(4))));
    ASSERT_TRUE(session.run());
    EXPECT_EQ(floats(session.get("y"))[0], 4);
    EXPECT_EQ(floats(session.get("p"))[0], p[0] - 4);
  }
}

TEST(Session, ReadsExternalWeights) {
  const auto folder = std::filesystem::temp_directory_path() / "lowtide_session_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "weights.bin", std::ios::binary)
      << std::string(8, 'x') << std::string(reinterpret_cast<const char*>(ramp().data()), 96);
  Plan plan = make_plan();
  plan::PlanInitial& initial = plan.values[PlanValueId(1)].initial;
  initial = {
      .kind = Initial::kExternal, .bytes = "", .file = "weights.bin", .offset = 8, .length = 96};
  EXPECT_EQ(floats(open(plan, {.model_folder = folder.string()}).get("layer.weight")), ramp());
  initial.offset = 9;
  const auto short_file = Session::open(plan, FakeFactory(), {.model_folder = folder.string()});
  EXPECT_NE(short_file.error().message.find("weights.bin"), std::string::npos);
  initial.file = "../weights.bin";
  const auto climbing = Session::open(plan, FakeFactory(), {.model_folder = folder.string()});
  EXPECT_NE(climbing.error().message.find("outside the model's folder"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Seeded, FollowsTheRecipe) {
  plan::TensorDesc type{.dtype = DType::kF32, .dims = {8, 50}, .layout = {}};
  std::vector<float> a(400), b(400);
  fill_seeded("w", type, 1, 0, std::as_writable_bytes(std::span(a)));
  fill_seeded("w", type, 1, 0, std::as_writable_bytes(std::span(b)));
  EXPECT_EQ(a, b);
  float high = 0;
  for (float v : a) high = std::max(high, std::abs(v));
  EXPECT_LE(high, std::sqrt(3.0f / 50));
  EXPECT_GT(high, 0.9f * std::sqrt(3.0f / 50));
  fill_seeded("w", type, 2, 0, std::as_writable_bytes(std::span(b)));
  EXPECT_NE(a, b);
  type.dims = {400};
  fill_seeded("bn.weight", type, 1, 0, std::as_writable_bytes(std::span(a)));
  for (float v : a) EXPECT_NEAR(v, 1.0f, 0.1f);
  fill_seeded("bn.running_var", type, 1, 0, std::as_writable_bytes(std::span(a)));
  for (float v : a) EXPECT_TRUE(v >= 1.0f && v <= 1.1f);
  type.dtype = DType::kI64;
  std::vector<int64_t> labels(400);
  fill_seeded("labels", type, 1, 10, std::as_writable_bytes(std::span(labels)), SeedRole::kInput);
  for (int64_t v : labels) EXPECT_TRUE(v >= 0 && v < 10);
}

TEST(SeedInputs, KeepsIntegersBelowWhatThePlanSays) {
  PlanMaker m;
  const PlanValueId tokens = m.given("tokens", Initial::kFed),
                    table = m.given("table", Initial::kSeeded);
  m.plan.values[tokens].type.dtype = DType::kI64;
  m.plan.values[tokens].type.dims = {12};
  m.plan.values[tokens].initial.limit = 6;
  const PlanOpId gather = m.op("Gather", {table, tokens});
  m.plan.ops[gather].attrs["axis"] = int64_t{1};
  m.output(gather, "rows", true);
  m.compute(gather);
  Session session = open(m.plan);
  session.seed_inputs(0);
  const auto bytes = session.get("tokens");
  ASSERT_TRUE(bytes.has_value());
  std::vector<int64_t> values(12);
  std::memcpy(values.data(), bytes->data(), bytes->size());
  int64_t high = 0;
  for (int64_t v : values) high = std::max(high, v);
  EXPECT_LT(high, 6);
  EXPECT_GT(high, 2);
}

}  // namespace
}  // namespace lowtide::runtime

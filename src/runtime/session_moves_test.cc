// Sessions whose plans run ops again and move storages to slow memory and back: every value that is
// made has the bits of the unplanned step, with freed memory poisoned; what fails ends the session.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>

#include "support/session_plans.h"

namespace lowtide::runtime {
namespace {

using Bits = std::vector<std::byte>;

// Every run of every op in three steps against the unplanned session, and all that is there between
// steps.
void expect_unplanned_bits(const Plan& plan, SessionOptions options) {
  options.poison = true;
  options.seed = 5;
  Session planned = open(plan, options),
          unplanned = open(plan, {.seed = 5, .unplanned = true, .poison = true});
  planned.seed_inputs(0);
  unplanned.seed_inputs(0);
  for (int step = 0; step < 3; ++step) {
    std::map<PlanValueId, Bits> expected;
    const Observer keep = [&](PlanOpId, PlanValueId v, std::span<const std::byte> bytes) {
      expected[v].assign(bytes.begin(), bytes.end());
    };
    const Observer hold = [&](PlanOpId, PlanValueId v, std::span<const std::byte> bytes) {
      EXPECT_TRUE(std::ranges::equal(bytes, expected[v])) << plan.values[v].name;
    };
    ASSERT_TRUE(unplanned.run(&keep));
    const Status ran = planned.run(&hold);
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    for (const plan::PlanValue& value : plan.values)
      if (!value.producer.valid() || value.is_output) {
        EXPECT_EQ(floats(planned.get(value.name)), floats(unplanned.get(value.name)))
            << value.name << " after step " << step;
      }
  }
}

// What a plan does with slow memory must not depend on what that is.
std::vector<SessionOptions> kinds_of_slow_memory() {
  SessionOptions memory, file, slow;
  file.slow_memory.folder = std::filesystem::temp_directory_path().string();
  slow.slow_memory.throttle = {.bytes_per_second = 128e3, .latency_seconds = 1e-4};
  return {memory, file, slow};
}

TEST(SessionMoves, NestedRunsAgain) {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed);
  const PlanOpId first = m.op("Scale", {x});
  const PlanValueId y = m.output(first, "y");
  const PlanOpId second = m.op("Scale", {y});
  const PlanValueId z = m.output(second, "z");
  const PlanOpId third = m.op("Sum", {z, z});
  const PlanValueId u = m.output(third, "u");
  const PlanOpId last = m.op("Sum", {u, z});
  m.output(last, "r", true);
  const PlanOpId other = m.op("Sum", {u, y});
  m.output(other, "q", true);
  const int64_t workspace = m.room(), elsewhere = m.room();
  m.compute(first, workspace);
  m.compute(second, workspace);
  m.free(y);
  m.compute(third);
  m.free(z);
  m.compute_at(first, elsewhere, workspace);  // y again, only to make z again
  m.compute_at(second, workspace, m.room());
  m.free(y);
  m.compute(last);
  m.free(z);
  m.compute(first, workspace);  // and a third time
  m.compute(other);
  m.free(y);
  m.free(u);
  expect_unplanned_bits(m.plan, {});
}

TEST(SessionMoves, ARandomOpGivesTheSameBitsOnEveryRunOfAStep) {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed);
  const PlanOpId mask = m.op("Mask", {x});
  const PlanValueId kept = m.output(mask, "kept");
  const PlanOpId scale = m.op("Scale", {kept});
  const PlanValueId y = m.output(scale, "y");
  const PlanOpId sum = m.op("Sum", {y, kept});
  m.output(sum, "r", true);
  const int64_t workspace = m.room();
  m.compute(mask);
  m.compute(scale, workspace);
  m.free(kept);
  m.compute_at(mask, workspace);
  m.compute(sum);
  m.free(kept);
  m.free(y);
  expect_unplanned_bits(m.plan, {});
  Session session = open(m.plan);
  session.seed_inputs(0);
  ASSERT_TRUE(session.run());
  const std::vector<float> before = floats(session.get("r"));
  ASSERT_TRUE(session.run());
  EXPECT_NE(before, floats(session.get("r"))) << "steps draw anew";
}

// y leaves while z is made and comes back elsewhere, where the workspace was.
Plan activation_that_moves() {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed);
  const PlanOpId scale = m.op("Scale", {x});
  const PlanValueId y = m.output(scale, "y");
  const PlanOpId sum = m.op("Sum", {y, y});
  const PlanValueId z = m.output(sum, "z");
  const PlanOpId twice = m.op("Sum", {z, z});
  const PlanValueId u = m.output(twice, "u");
  const PlanOpId last = m.op("Sum", {u, y});
  m.output(last, "r", true);
  m.give_slot(y);
  const int64_t workspace = m.room();
  m.compute(scale, workspace);
  m.store(y);
  m.compute(sum);
  m.wait(y);
  m.free(y);
  m.load(y, workspace);
  m.compute(twice);
  m.free(z);
  m.wait(y);
  m.compute(last);
  m.free(y);
  m.free(u);
  return m.plan;
}

TEST(SessionMoves, AnActivationLeavesAndComesBackElsewhere) {
  for (const SessionOptions& options : kinds_of_slow_memory())
    expect_unplanned_bits(activation_that_moves(), options);
}

TEST(SessionMoves, CountsWhatMovedAndHowLongItTook) {
  SessionOptions options;
  options.slow_memory.throttle.latency_seconds = 5e-3;
  Session session = open(activation_that_moves(), options);
  session.seed_inputs(0);
  EXPECT_EQ(session.transfers().stored_bytes, 0);
  double most_exposed = 0;
  for (int step = 0; step < 5; ++step) {
    ASSERT_TRUE(session.run());
    const TransferTotals moved = session.transfers();
    EXPECT_EQ(moved.stored_bytes, 128);
    EXPECT_EQ(moved.loaded_bytes, 128);
    EXPECT_GE(moved.transfer_seconds, 9e-3);
    most_exposed = std::max(most_exposed, moved.exposed_seconds);
  }
  // The ops take no time here, so hardly anything is hidden, but in steps in which this thread had
  // to wait for a processor; the load begins after the store.
  EXPECT_GE(most_exposed, 5e-3);
}

// A parameter p and its momentum v whose homes are slow, each in a tier of its own. p is read, let
// go without a store, and brought back for its update.
//   y = 2 x; r = y + p; v -= y; p -= v
Plan optimizer_in_slow_memory() {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed);
  const PlanValueId p = m.given_slow("layer.weight", Initial::kSeeded, 0);
  const PlanValueId v = m.given_slow("layer.weight.momentum", Initial::kZero, 1);
  const PlanOpId scale = m.op("Scale", {x});
  const PlanValueId y = m.output(scale, "y");
  const PlanOpId read = m.op("Sum", {y, p});
  m.output(read, "r", true);
  const PlanOpId push = m.op("Step", {v, y});
  const PlanValueId next = m.alias(push, "layer.weight.momentum.1", v, plan::PlanAlias::kUpdate);
  const PlanOpId update = m.op("Step", {p, next});
  m.alias(update, "layer.weight.1", p, plan::PlanAlias::kUpdate);
  m.plan.ops[update].control = {read};
  const int64_t workspace = m.room();
  m.load(p, m.room());
  m.compute(scale, workspace);
  m.wait(p);
  m.compute(read);
  m.free(p);
  m.load(v, workspace);
  m.wait(v);
  m.load(p, m.room());  // under way while v is updated
  m.compute(push);
  m.free(y);
  m.wait(p);
  m.store(v);
  m.compute(update);  // reads v while that is stored
  m.wait(v);
  m.free(v);
  m.store_now(p);
  return m.plan;
}

TEST(SessionMoves, ParametersAndOptimizerStateLiveInSlowMemory) {
  for (const SessionOptions& options : kinds_of_slow_memory())
    expect_unplanned_bits(optimizer_in_slow_memory(), options);
}

TEST(SessionMoves, SlowHomesAreSetAndReadBetweenSteps) {
  Session session = open(optimizer_in_slow_memory(), {.poison = true});
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  ASSERT_TRUE(session.set("layer.weight", as_bytes(ramp())));
  EXPECT_EQ(floats(session.get("layer.weight")), ramp());
  EXPECT_EQ(floats(session.get("layer.weight.momentum")), std::vector<float>(kCount));
  ASSERT_TRUE(session.run());
  EXPECT_EQ(floats(session.get("layer.weight.momentum"))[3], -6);
  EXPECT_EQ(floats(session.get("layer.weight.1"))[3], 3 + 6);
  ASSERT_TRUE(session.set("layer.weight", as_bytes(ramp())));
  ASSERT_TRUE(session.run());
  EXPECT_EQ(floats(session.get("r"))[3], 6 + 3);
  EXPECT_EQ(floats(session.get("layer.weight"))[3], 3 + 12);
}

TEST(SessionMoves, SlowHomesOfAnotherLayout) {
  Plan plan = optimizer_in_slow_memory();
  for (plan::PlanValue& value : plan.values) value.type.layout.order = {1, 0};
  Session session = open(plan);
  ASSERT_TRUE(session.set("layer.weight", as_bytes(ramp())));
  EXPECT_EQ(floats(session.get("layer.weight")), ramp());
}

TEST(SessionMoves, AReadBeforeTheArrivalIsRefusedAndPoisonShowsTheRest) {
  const auto refusal = [](const std::function<void(Plan&)>& change) {
    Plan plan = activation_that_moves();
    change(plan);
    const auto session = Session::open(plan, FakeFactory());
    return session ? std::string("opened") : session.error().message;
  };
  const auto erase = [](size_t step) {
    return [step](Plan& plan) { plan.steps.erase(plan.steps.begin() + static_cast<int>(step)); };
  };
  // 0 scale, 1 store, 2 sum, 3 wait, 4 free, 5 load, 6 twice, 7 free z, 8 wait, 9 last
  EXPECT_EQ(refusal(erase(8)), "op 'op3' reads 'y' before it has arrived");
  EXPECT_EQ(refusal(erase(3)), "step 3: 'y' is freed while a transfer of it is under way");
  EXPECT_EQ(refusal(erase(1)), "step 2: 'y' is waited for and not under way");
  EXPECT_EQ(refusal(erase(0)), "step 0: 'y' is stored before it is made");
  EXPECT_NE(refusal([](Plan& plan) {
              plan.steps[5].address = plan.arena_bytes;
            }).find("does not fit an arena"),
            std::string::npos);
  EXPECT_EQ(refusal([](Plan& plan) { plan.slow_tiers[0].bytes = 100; }),
            "the slot of 'y' at 0..+128 lies outside slow tier 'tier0' of 100 bytes");
  // What was never stored is poison when it comes back.
  Plan unstored = activation_that_moves();
  erase(3)(unstored);
  erase(1)(unstored);
  Session session = open(unstored, {.poison = true});
  session.seed_inputs(0);
  ASSERT_TRUE(session.run());
  EXPECT_NE(floats(session.get("r"))[0], floats(session.get("r"))[0]);
}

class FailingSlowMemory : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("lowtide_session_moves_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Session open_here(const Plan& plan) const {
    SessionOptions options;
    options.slow_memory.folder = folder_.string();
    Session session = open(plan, options);
    session.seed_inputs(0);
    return session;
  }

  // The sizes of the nameless files that this process has open in the folder become `bytes`.
  int truncate_all(int64_t bytes) const {
    int truncated = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      if (gone || target.string().find(folder_.string()) != 0) continue;
      truncated += ::truncate(entry.path().c_str(), bytes) == 0 ? 1 : 0;
    }
    return truncated;
  }

  std::filesystem::path folder_;
};

TEST_F(FailingSlowMemory, AStoreThatFailsEndsTheSessionAndNamesItself) {
  Session session = open_here(optimizer_in_slow_memory());
  ASSERT_TRUE(session.run());
  const std::vector<float> r = floats(session.get("r")), x = floats(session.get("x")),
                           weight = floats(session.get("layer.weight"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = session.run();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  ASSERT_FALSE(status.has_value());
  const std::string reason = "slow tier 'tier1' (file in '" + folder_.string() +
                             "'): only 100 of 128 bytes of 'layer.weight.momentum' could be "
                             "stored: File too large";
  EXPECT_EQ(status.error().message, "step 2 failed: " + reason);
  const Status again = session.run();
  ASSERT_FALSE(again.has_value());
  const std::string ended =
      "the session ended in step 2, which failed: " + reason + "; open it again";
  EXPECT_EQ(again.error().message, ended);
  EXPECT_EQ(session.set("x", as_bytes(ramp())).error().message, ended);
  EXPECT_EQ(session.get("r").error().message, ended);
  EXPECT_EQ(session.steps_run(), 1);
  // What is there between steps is whole; what was cut off is still in the arena.
  EXPECT_EQ(floats(session.get("x")), x);
  EXPECT_EQ(floats(session.get("layer.weight")), weight) << "its store was never begun";
  Session whole = open_here(optimizer_in_slow_memory());
  ASSERT_TRUE(whole.run());
  ASSERT_TRUE(whole.run());
  EXPECT_EQ(floats(session.get("layer.weight.momentum")),
            floats(whole.get("layer.weight.momentum")));
}

TEST_F(FailingSlowMemory, AFileMadeShorterFailsTheLoad) {
  Session session = open_here(optimizer_in_slow_memory());
  ASSERT_TRUE(session.run());
  ASSERT_EQ(truncate_all(64), 2);
  const Status status = session.run();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message,
            "step 2 failed: slow tier 'tier0' (file in '" + folder_.string() +
                "'): only 64 of 128 bytes of 'layer.weight' could be loaded: the file ends there; "
                "it was made shorter");
  EXPECT_FALSE(session.run().has_value());
}

TEST_F(FailingSlowMemory, AFolderThatIsNotThereIsNoticedAtOpen) {
  SessionOptions options;
  options.slow_memory.folder = (folder_ / "absent").string();
  const auto session = Session::open(optimizer_in_slow_memory(), FakeFactory(), options);
  ASSERT_FALSE(session.has_value());
  EXPECT_NE(session.error().message.find("No such file or directory"), std::string::npos);
  // A plan that moves nothing needs no folder.
  PlanMaker m;
  const PlanOpId scale = m.op("Scale", {m.given("x", Initial::kFed)});
  m.output(scale, "r", true);
  m.compute(scale, m.room());
  EXPECT_TRUE(Session::open(m.plan, FakeFactory(), options).has_value());
}

}  // namespace
}  // namespace lowtide::runtime

// Sessions on memory that the caller lends: steps change it in place, nothing of it lies in the
// arena, a step runs whole or not at all, a rehearsal changes nothing.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "runtime/buffers.h"
#include "runtime/lending.h"
#include "runtime/session.h"
#include "support/session_plans.h"

namespace lowtide::runtime {
namespace {

// y = 2 x; r = y + p; p -= y, an update; s -= x before r is known, as statistics do.
Plan lent_plan() {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed), p = m.given("p", Initial::kSeeded),
                    s = m.given("s", Initial::kZero);
  const PlanOpId follow = m.op("Step", {s, x});
  m.alias(follow, "s.1", s, plan::PlanAlias::kUpdate);
  const PlanOpId scale = m.op("Scale", {x});
  const PlanValueId y = m.output(scale, "y");
  const PlanOpId add = m.op("Sum", {y, p});
  m.output(add, "r", true);
  const PlanOpId first = m.op("First", {m.plan.ops[add].outputs[0]});
  const PlanValueId loss = m.output(first, "loss", true);
  m.plan.values[loss].type.dims = {};
  const PlanOpId step = m.op("Step", {p, y});
  m.plan.ops[step].phase = Phase::kUpdate;
  m.alias(step, "p.1", p, plan::PlanAlias::kUpdate);
  m.plan.ops[step].control = {add};
  const int64_t workspace = m.room();
  m.compute(follow);
  m.compute(scale, workspace);
  m.compute(add);
  m.compute(first);
  m.compute(step);
  m.free(y);
  return m.plan;
}

Session open_lent() {
  return open(lent_plan(), {.poison = true, .lent = {"p", "s"}});
}

std::span<std::byte> memory_of(std::vector<float>& values, size_t first = 0) {
  return std::as_writable_bytes(std::span(values).subspan(first, kCount));
}

std::string refusal(const Status& status) {
  return status ? "" : status.error().message;
}

TEST(Lending, StepsChangeLentMemoryInPlaceAndNothingBesideIt) {
  Session session = open_lent();
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  std::vector<float> p(kCount + 2, 7), s(kCount, 1);
  ASSERT_TRUE(session.lend("p", memory_of(p, 1)));  // aligned to its elements, no more
  ASSERT_TRUE(session.lend("s", memory_of(s)));
  ASSERT_TRUE(session.run());
  const std::vector<float> r = floats(session.get("r"));
  for (size_t i = 0; i < r.size(); ++i) {
    EXPECT_EQ(r[i], 2 * static_cast<float>(i) + 7);
    EXPECT_EQ(p[i + 1], 7 - 2 * static_cast<float>(i));
    EXPECT_EQ(s[i], 1 - static_cast<float>(i));
  }
  EXPECT_EQ(p.front(), 7);
  EXPECT_EQ(p.back(), 7);
  EXPECT_EQ(session.lent_bytes(), 2 * 128);
  EXPECT_EQ(floats(session.get("p")), std::vector<float>(p.begin() + 1, p.end() - 1));
}

TEST(Lending, MemoryMayBeExchangedBetweenSteps) {
  Session session = open_lent();
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  std::vector<float> p(kCount, 7), s(kCount, 0), other(kCount, 3);
  ASSERT_TRUE(session.lend("p", memory_of(p)));
  ASSERT_TRUE(session.lend("s", memory_of(s)));
  ASSERT_TRUE(session.run());
  ASSERT_TRUE(session.lend("p", memory_of(other)));
  ASSERT_TRUE(session.run());
  EXPECT_EQ(p[5], 7 - 10);
  EXPECT_EQ(other[5], 3 - 10);
  EXPECT_EQ(floats(session.get("r"))[5], 10 + 3);
}

TEST(Lending, AStepWhoseLossIsNotFiniteChangesNothing) {
  Session session = open_lent();
  std::vector<float> x = ramp(), p(kCount, 7), s(kCount, 1);
  x[0] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(session.set("x", as_bytes(x)));
  ASSERT_TRUE(session.lend("p", memory_of(p)));
  ASSERT_TRUE(session.lend("s", memory_of(s)));
  auto done = session.run_if_finite("loss");
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_FALSE(*done);
  EXPECT_EQ(p, std::vector<float>(kCount, 7));
  EXPECT_EQ(s, std::vector<float>(kCount, 1));
  EXPECT_EQ(session.steps_run(), 0);
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  done = session.run_if_finite("loss");
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_TRUE(*done);
  EXPECT_EQ(p[5], 7 - 10);
  EXPECT_EQ(s[5], 1 - 5);
  EXPECT_EQ(refusal(session.run_if_finite("r").map([](bool) {})),
            "'r' is no computed value of one number");
}

TEST(Lending, ARehearsalChangesNothing) {
  Session session = open_lent();
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  std::vector<float> p(kCount, 7), s(kCount, 1);
  ASSERT_TRUE(session.lend("p", memory_of(p)));
  ASSERT_TRUE(session.lend("s", memory_of(s)));
  const Result<double> seconds = session.rehearse();
  ASSERT_TRUE(seconds.has_value()) << seconds.error().message;
  EXPECT_GT(*seconds, 0);
  EXPECT_EQ(p, std::vector<float>(kCount, 7));
  EXPECT_EQ(s, std::vector<float>(kCount, 1));
  EXPECT_EQ(session.steps_run(), 0);
}

TEST(Lending, WhatDoesNotFitIsRefusedByName) {
  Session session = open_lent();
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  std::vector<float> p(kCount + 1, 7);
  EXPECT_EQ(refusal(session.run()), "no memory was lent for value 'p'");
  EXPECT_EQ(refusal(session.lend("q", memory_of(p))), "the plan has no value 'q'");
  EXPECT_EQ(refusal(session.lend("x", memory_of(p))),
            "value 'x' was not said to be lent when the session was opened");
  EXPECT_EQ(refusal(session.lend("p", std::as_writable_bytes(std::span(p)))),
            "value 'p' has 96 bytes; 100 were lent");
  const std::span<std::byte> odd = std::as_writable_bytes(std::span(p)).subspan(1, 96);
  EXPECT_EQ(refusal(session.lend("p", odd)),
            "the memory lent for 'p' is not aligned to its elements of 4 bytes");
  EXPECT_EQ(refusal(session.set_update("s", {})), "no update of the plan changes a value 's'");
  const auto opened = [](std::vector<std::string> names) {
    auto made = Session::open(lent_plan(), FakeFactory(), {.lent = std::move(names)});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(opened({"w"}), "the plan has no value 'w' to lend");
  EXPECT_EQ(opened({"y"}), "value 'y' cannot be lent: it is computed in the step");
}

TEST(Lending, UpdatesGetTheSettingsOfNow) {
  Session session = open_lent();
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  std::vector<float> p(kCount, 7), s(kCount, 1);
  ASSERT_TRUE(session.lend("p", memory_of(p)));
  ASSERT_TRUE(session.lend("s", memory_of(s)));
  ASSERT_TRUE(session.set_update("p", {.learning_rate = 0.5}));
  ASSERT_TRUE(session.run());
  EXPECT_EQ(p[4], 7 - 0.5f * 8);
  EXPECT_EQ(s[4], 1 - 4.0f);  // not an update of the optimizer
  ASSERT_TRUE(session.set_update("p", {.learning_rate = 0}));
  ASSERT_TRUE(session.run());
  EXPECT_EQ(p[4], 7 - 0.5f * 8);
}

TEST(Lending, ASeedRepeatsWhatItsFirstStepDrew) {
  PlanMaker m;
  const PlanValueId x = m.given("x", Initial::kFed);
  const PlanOpId mask = m.op("Mask", {x});
  m.output(mask, "y", true);
  m.compute(mask);
  Session session = open(m.plan);
  ASSERT_TRUE(session.set("x", as_bytes(ramp())));
  std::vector<std::vector<float>> drawn;
  for (const uint64_t seed : {7, 8, 7}) {
    session.set_seed(seed);
    ASSERT_TRUE(session.run());
    drawn.push_back(floats(session.get("y")));
  }
  EXPECT_EQ(drawn[0], drawn[2]);
  EXPECT_NE(drawn[0], drawn[1]);
}

// The system has given no memory for what is lent.
TEST(Lending, AGapOfTheArenaHasNoPages) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const std::vector<Interval> holes = {{page + 64, 5 * page + 64}, {7 * page, 9 * page}};
  const Result<Arena> arena = Arena::make(10 * page, 0, holes);
  ASSERT_TRUE(arena.has_value());
  std::vector<unsigned char> there(10);
  ASSERT_EQ(mincore(arena->data(), static_cast<size_t>(10 * page), there.data()), 0);
  std::string pages;
  for (const unsigned char p : there) pages += (p & 1) != 0 ? '1' : '0';
  EXPECT_EQ(pages, "1100011001");
}

}  // namespace
}  // namespace lowtide::runtime

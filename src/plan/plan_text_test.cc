// The plan's file form: what was written comes back, and nothing that was changed does.
#include "plan/plan_text.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"
#include "plan/plan_check.h"
#include "plan/testing/sealed_plan.h"
#include "plan/tick_scale.h"

namespace lowtide::plan {
namespace {

PlanValueId add_initial(Plan& plan, std::string name, PlanInitial initial) {
  const PlanValueId v(plan.values.size());
  const PlanStorageId s = plan.storages.push_back({.root = v, .bytes = 64, .resident = true});
  plan.values.push_back({.name = std::move(name),
                         .type = {DType::kF32, {2, 3}, {}},
                         .storage = s,
                         .initial = std::move(initial)});
  return v;
}

// Every member and every kind of attribute at least once.
Plan small_plan() {
  Plan plan;
  plan.model = "small \"quoted\" \xC3\xA9 \n\x7F";
  plan.provenance = {{"checksum", "a trap"}, {"device", "cpu"}};
  plan.bindings = {{"batch", 2}};
  plan.arena_bytes = 512;
  const PlanValueId x = add_initial(plan, "x", {});
  const PlanValueId w = add_initial(
      plan, "w", {.kind = PlanInitial::Kind::kInline, .bytes = std::string("\0\xFFzz\n", 5)});
  add_initial(plan, "e",
              {.kind = PlanInitial::Kind::kExternal, .file = "w.bin", .offset = 8, .length = 24});
  plan.storages[PlanStorageId(1)].address = 64;
  PlanOp op{.kind = "Add",
            .name = "add",
            .module = "block.0",
            .source = "gpt2/model.py:7",
            .phase = Phase::kBackward};
  op.attrs = {{"alpha", 1.0},
              {"tiny", 5e-324},
              {"third", 1.0 / 3},
              {"inf", std::numeric_limits<double>::infinity()},
              {"axis", int64_t{-1}},
              {"mode", "none"},
              {"negative_zero", -0.0},
              {"perm", std::vector<int64_t>{1, 0}},
              {"empty", std::vector<int64_t>{}},
              {"least", std::numeric_limits<int64_t>::min()}};
  op.inputs = {x, PlanValueId::none(), w};
  op.workspace_bytes = 128;
  op.predicted_seconds = 1.5e-6;
  op.unsplit = PlanUnsplit{2.5e-6, 256, {128}};
  const PlanStorageId made(plan.storages.size());
  const PlanValueId y = plan.values.push_back(
      {.name = "y", .type = {DType::kF32, {2, 3}, {}}, .storage = made, .producer = PlanOpId(0)});
  op.outputs = {y};
  plan.ops.push_back(op);
  plan.storages.push_back(
      {.root = y, .bytes = 64, .category = Category::kTemporary, .slow_tier = 0});
  plan.storages[made].slow_address = 192;
  const PlanValueId view(plan.values.size());
  plan.values.push_back({.name = "view",
                         .type = {DType::kI64, {1, 2}, {{1, 0}, "", 0}},
                         .alias = PlanAlias::kView,
                         .base = y,
                         .offset_bytes = 8,
                         .storage = made,
                         .producer = PlanOpId(1),
                         .is_output = true,
                         .output_rank = 2});
  plan.ops.push_back({.kind = "Slice",
                      .name = "slice",
                      .inputs = {y},
                      .outputs = {view},
                      .control = {PlanOpId(0)}});
  plan.slow_tiers = {{"host", 1024, 1e10, 2e10, 1e-5, 1e-11}};
  plan.steps = {
      {.op = PlanOpId(0), .workspace_address = 192, .makes = {{made, 128, PlanStorageId(1)}}},
      {.op = PlanOpId(1)},
      {.kind = Step::Kind::kStore, .storage = made},
      {.kind = Step::Kind::kWait, .storage = made},
      {.kind = Step::Kind::kFree, .storage = made},
      {.kind = Step::Kind::kLoad, .storage = made, .address = 320},
      {.kind = Step::Kind::kFree, .storage = PlanStorageId(1)}};
  plan.claims = {.peak_bytes = 400,
                 .peak_before_bytes = 464,
                 .lower_bound_bytes = 400,
                 .order_proven = true,
                 .budget_bytes = 500,
                 .floor_bytes = 300,
                 .parts_floor = PartsFloor{200, "conv \"1\"", 8, 72},
                 .once_seconds = 0.07,
                 .predicted_seconds = 0.1,
                 .exposed_seconds = 0.02,
                 .lower_bound_ticks = 123'456'789'012,
                 .lower_bound_seconds = 0.08};
  plan.claims.certificate.peak = PeakCut{PlanOpId(1), {PlanOpId(0)}, 390};
  plan.claims.certificate.floor = BackwardWay{PlanOpId(0), 128};
  plan.claims.certificate.time = TimeCuts{{{PlanOpId(1), 100}, {PlanOpId(0), 2'000'000}},
                                          {{262'144, 0}, {131'072, 524'288}, {0, 1}},
                                          {{0, 1, 5}},
                                          {{1, 3, 7'500'000'000}},
                                          {{0, 3, -5}}};
  plan.claims.certificate.cases =
      Cases{{PlanOpId(1)},
            12,
            {{.multipliers = {{ProofRow::kCapacity, 1, {}, {}, 4096, 17},
                              {ProofRow::kCapacity, 1, {}, {}, 1, 3},
                              {ProofRow::kNeed, 0, PlanOpId(1), PlanStorageId(3), 0, 5},
                              {ProofRow::kNeed, 1, {}, PlanStorageId(3), 0, 6},
                              {ProofRow::kStay, 1, {}, PlanStorageId(3), 0, 7},
                              {ProofRow::kOnce, 0, PlanOpId(0), {}, 0, 8}}},
             {0,
              ProofVariable::kStay,
              1,
              3,
              false,
              {{ProofRow::kAgainNeed, 1, {}, PlanStorageId(3), 0, 9},
               {ProofRow::kAgainRuns, 1, PlanOpId(1), {}, 0, 10}}},
             {0,
              ProofVariable::kStay,
              1,
              3,
              true,
              {{ProofRow::kNeed, 0, PlanOpId(1), PlanStorageId(3), 0, 0},
               {ProofRow::kAgainLate, 1, PlanOpId(0), {}, 0, 1}}}}};
  return plan;
}

// `ops` ops that each read up to three earlier values; structurally right, no more.
Plan random_plan(uint64_t seed, size_t ops) {
  Rng rng(seed);
  Plan plan;
  plan.model = fmt::format("random {}", seed);
  for (int i = 0; i < 8; ++i)
    add_initial(plan, fmt::format("in{}", i), {.kind = PlanInitial::Kind::kSeeded});
  for (size_t i = 0; i < ops; ++i) {
    PlanOp op{.kind = "Add",
              .name = fmt::format("blocks.{}.add", i),
              .module = fmt::format("blocks.{}", i / 10)};
    for (uint64_t n = 1 + rng.below(3); n > 0; --n)
      op.inputs.push_back(PlanValueId(rng.below(plan.values.size())));
    op.attrs["scale"] = rng.uniform() * 1e-3;
    op.predicted_seconds = rng.uniform();
    const PlanStorageId s(plan.storages.size());
    const PlanValueId v =
        plan.values.push_back({.name = fmt::format("blocks.{}.add.out", i),
                               .type = {DType::kF32, {rng.between(0, 9), rng.between(1, 99)}, {}},
                               .storage = s,
                               .producer = PlanOpId(i)});
    op.outputs = {v};
    plan.storages.push_back({.root = v, .bytes = rng.between(0, 99) * 64});
    plan.ops.push_back(std::move(op));
    plan.steps.push_back({.op = PlanOpId(i), .makes = {{s, rng.between(0, 99) * 64, {}}}});
    if (rng.below(2) == 0) plan.steps.push_back({.kind = Step::Kind::kFree, .storage = s});
  }
  plan.claims.predicted_seconds = rng.uniform();
  return plan;
}

std::string refusal(std::string_view text) {
  const auto result = read_plan(text, "p.lt");
  return result ? "" : result.error().message;
}

TEST(PlanTextTest, ComesBackByteForByte) {
  const Plan plan = small_plan();
  ASSERT_TRUE(check(plan).has_value()) << check(plan).error().message;
  const std::string text = print_plan(plan);
  const auto again = read_plan(text, "p.lt");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(print_plan(*again), text);
  EXPECT_TRUE(std::signbit(std::get<double>(again->ops[PlanOpId(0)].attrs.at("negative_zero"))));
  EXPECT_EQ(print_plan(Plan{}), print_plan(*read_plan(print_plan(Plan{}), "empty.lt")));
}

TEST(PlanTextTest, RandomPlansComeBack) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Plan plan = random_plan(seed, 1 + seed % 17);
    const auto again = read_plan(print_plan(plan), "p.lt");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(*again, plan) << "seed " << seed;
  }
}

TEST(PlanTextTest, InlineBytesOfEveryLengthComeBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    Plan plan;
    add_initial(plan, "w", {.kind = PlanInitial::Kind::kInline, .bytes = bytes});
    const auto again = read_plan(print_plan(plan), "p.lt");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(*again, plan);
    bytes += static_cast<char>(i * 37);
  }
}

TEST(PlanTextTest, RealsComeBackBitForBit) {
  Rng rng(5);
  Plan plan = small_plan();
  for (int i = 0; i < 2000; ++i) {
    const double seconds = std::bit_cast<double>(rng.next() >> 1);
    if (!(seconds <= kMaxSeconds)) continue;
    plan.claims.predicted_seconds = seconds;
    const auto again = read_plan(print_plan(plan), "p.lt");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(std::bit_cast<uint64_t>(again->claims.predicted_seconds),
              std::bit_cast<uint64_t>(seconds));
  }
}

TEST(PlanTextTest, NamesThatAreNotUtf8AreReplaced) {
  Plan plan;
  plan.model =
      "a\xFF\xC0\xAF\xED\xA0\x80"
      "b";
  const auto again = read_plan(print_plan(plan), "p.lt");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(again->model.starts_with("a\xEF\xBF\xBD"));
  EXPECT_TRUE(again->model.ends_with("b"));
}

TEST(PlanTextTest, AnyByteChangedIsRefused) {
  const std::string text = print_plan(small_plan());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int flip : {0x01, 0x20, 0x80, 0xFF}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      ASSERT_FALSE(refusal(changed).empty()) << "byte " << i << " ^ " << flip;
    }
    ASSERT_FALSE(refusal(text.substr(0, i)).empty()) << "cut at " << i;
    ASSERT_FALSE(refusal(text.substr(0, i) + text.substr(i + 1)).empty()) << "without byte " << i;
  }
  EXPECT_FALSE(refusal(text + "\n").empty());
  EXPECT_NE(refusal("").find("p.lt"), std::string::npos);
  const std::string large = print_plan(random_plan(1, 800));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    std::string changed = large;
    char& byte = changed[rng.below(changed.size())];
    byte = static_cast<char>(byte ^ static_cast<char>(1 + rng.below(255)));
    ASSERT_FALSE(refusal(changed).empty()) << "seed " << seed;
  }
}

// Text that was edited and sealed again gets past the checksum and must still be an error or a
// structurally sound plan.
TEST(PlanTextTest, SealedNonsenseIsAnErrorOrASoundPlan) {
  const std::string text = print_plan(small_plan());
  size_t read = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Rng rng(seed);
    std::string changed = text;
    for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
      const size_t at = rng.below(changed.size());
      constexpr std::string_view kDigits = "0123456789-.e\"{}[],nfu";
      if (rng.below(2) == 0)
        changed[at] = kDigits[rng.below(kDigits.size())];
      else
        changed.erase(at, rng.below(20));
    }
    const auto result = read_plan(seal_plan_text(changed), "p.lt");
    if (!result) {
      ASSERT_EQ(result.error().message.find('\n'), std::string::npos) << result.error().message;
      continue;
    }
    ++read;
    ASSERT_TRUE(check(*result).has_value());
    ASSERT_EQ(*read_plan(print_plan(*result), "again"), *result);
  }
  EXPECT_GT(read, 100u);
}

// The message for the small plan's text after `from` was replaced by `to`.
std::string after_edit(std::string_view from, std::string_view to) {
  std::string text = print_plan(small_plan());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return refusal(seal_plan_text(text));
}

TEST(PlanTextTest, MessagesNameTheMember) {
  struct Case {
    std::string_view from, to, expected;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"\"version\": 3", "\"version\": 1", "version: expected version 3, found 1"},
           {"lowtide-plan", "other", "'lowtide-plan'"},
           {"\"arena_bytes\": 512", "\"arena_bytes\": -1", "arena_bytes: expected a size"},
           {"\"arena_bytes\": 512", "\"arena_bytes\": 4611686018427387905", "arena_bytes"},
           {"\"arena_bytes\": 512", "\"arena_bytes\": 99999999999999999999", "arena_bytes"},
           {"\"arena_bytes\": 512", "\"arena_bytes\": 512.0", "arena_bytes: expected an integer"},
           {"\"arena_bytes\": 512", "\"arena_byte\": 512", "arena_byte: expected no member"},
           {"\"model\"", "\"Model\"", "Model"},
           {"\"dims\": [2, 3]", "\"dims\": [2, true]", "values[0].dims[1]"},
           {"\"dims\": [2, 3]", "\"dims\": [4611686018427387904, 4]", "value 'x' is larger"},
           {"\"dtype\": \"f32\"", "\"dtype\": \"f31\"", "values[0].dtype"},
           {"perm:10", "perm:11", "values[4].layout"},
           {"perm:10", "strided:1,-2", "values[4].layout"},
           {"perm:10", "strided:1", "value 'view' has 2 dimensions and 1 strides"},
           {"perm:10", "strided:1,4611686018427387905", "a stride of 4611686018427387905"},
           {"perm:10", "strided:1,4611686018427387904", "reaches over more than 2^62 bytes"},
           {"\"alias\": \"view\"", "\"alias\": \"viow\"", "values[4].alias"},
           {"\"base\": 3", "\"base\": 77", "value 'view' has no base"},
           {"\"base\": 3", "\"base\": 0", "another storage"},
           {"\"producer\": 0", "\"producer\": 9", "value 'y' is made by op 9"},
           {"\"root\": 0", "\"root\": 1", "storage 0"},
           {"\"reuses\": 1", "\"reuses\": 9", "reuses storage 9"},
           {"\"storage\": 3, \"address\": 128", "\"storage\": 2, \"address\": 128",
            "step 0 runs op 'add' without a place for 'y'"},
           {"\"makes\": [{\"storage\": 3, ", "\"makes\": [{", "steps[0].makes[0]"},
           {"{\"store\": 3}", "{\"store\": 1}", "storage 1, which has no slot"},
           {"{\"store\": 3}", "{\"storf\": 3}", "steps[2].storf"},
           {"{\"wait\": 3}", "{\"wait\": 3, \"free\": 3}", "steps[3].free"},
           {"\"load\": 3, \"address\": 320", "\"load\": 3", "'address'"},
           {"\"slow_tier\": 0", "\"slow_tier\": 1", "slow tier 1 of 1"},
           {"\"slow_tier\": 0", "\"home_slow\": true, \"slow_tier\": 0", "has its home in a slow"},
           {"\"bytes_per_second_out\": 10000000000.0", "\"bytes_per_second_out\": 0.0",
            "slow tier 'host'"},
           {"\"cut\": 1", "\"cut\": 2", "for cut 2"},
           {"\"price\": 100", "\"price\": -100", "price of -100"},
           {"\"price\": 100", "\"price\": 1e-9", "time_certificate.cuts[0].price"},
           {"\"store\": 262144", "\"store\": 1048577", "shares of 1048577 and 0"},
           {"\"value\": 7500000000", "\"value\": 4398046511105", "multiplier 4398046511105"},
           {"\"unit_ticks\": 12", "\"unit_ticks\": 0", "a unit of 0 ticks"},
           {"\"lower_bound_ticks\": 123456789012", "\"lower_bound_ticks\": -1",
            "bound of -1 ticks"},
           {"AP96ego=", "AP96eg=", "values[1].initial.base64"},
           {"\"third\": 0.3", "\"third\": \"0.3\", \"fourth\": {\"real\": 1} , \"f\": 0.3",
            "ops[0].attrs.fourth.real"},
           {"\"control\": [0]", "\"control\": [1]", "op 'slice' waits"},
           {"\"compute\": 1}", "\"compute\": 7}", "step 1 runs no op"},
           {"\"free\": 1}", "\"free\": -1}", "steps[6].free"},
           {"\"op\": 1", "\"op\": 99", "certificate"},
           {"\"least_bytes\": 128", "\"least_bytes\": -1", "floor_certificate.least_bytes"},
           {"\"part_bytes\": 72", "\"part_bytes\": -72", "parts_floor.part_bytes"},
           {"\"parts\": 8", "\"parts\": 0", "72 of them of one in 0"},
           {"\"predicted_seconds\": 0.1", "\"predicted_seconds\": -0.1", "seconds"},
           {"\"order_proven\": true", "\"order_proven\": 1", "claims.order_proven"},
           {"\"name\": \"slice\"", "\"name\": \"add\"", "two ops are named 'add'"},
           {"\"seconds\": 2.5e-06", "\"seconds\": -1.0", "-1 seconds in one part"},
           {"\"output_bytes\": [128]", "\"output_bytes\": [128, 64]", "op 'add' makes 1 values"},
           {"\"output_bytes\": [128]", "\"output_bytes\": [4611686018427387900]", "too large"},
           {"\"unsplit\": {\"seconds\"", "\"unsplit\": {\"second\"", "ops[0].unsplit.second"},
           {"\"device\": \"cpu\"", "\"threads\": \"1025\"", "from 1 to 1024"},
           {"\"device\": \"cpu\"", "\"threads\": \"0\"", "from 1 to 1024"},
           {"\"device\": \"cpu\"", "\"threads\": \"9999999999999999999\"", "from 1 to 1024"},
           {"\"device\": \"cpu\"", "\"threads\": \"8 \"", "made for '8 ' threads"},
           {"\"predicted_seconds\": 0.1", "\"predicted_seconds\": 1.1e12", "seconds"},
           {"\"seconds\": 2.5e-06", "\"seconds\": 1e300", "seconds in one part"},
           {"\"bytes_per_second_out\": 10000000000.0", "\"bytes_per_second_out\": 0.5",
            "slow tier 'host'"},
           {"\"alignment_bytes\": 64", "\"alignment_bytes\": 63", "power of two"},
           {"\"outputs\": [4]", "\"outputs\": []", "is no output of its producer"},
           {"\"outputs\": [4]", "\"outputs\": [4, 4]", "listed twice"},
           {"\"batch\": 2", "\"batch\": 0", "the size 'batch' is bound to 0"},
           {"\"values\": [", "\"values\": [[", "p.lt"},
       }) {
    const std::string message = after_edit(c.from, c.to);
    EXPECT_NE(message.find(c.expected), std::string::npos) << c.to << " gave: " << message;
    EXPECT_TRUE(message.starts_with("p.lt")) << message;
  }
}

TEST(PlanTextTest, DeepNestingIsRefused) {
  std::string text = print_plan(small_plan());
  text.replace(text.find("\"arena_bytes\": 512"), 18,
               "\"arena_bytes\": " + std::string(200000, '[') + std::string(200000, ']'));
  EXPECT_FALSE(refusal(seal_plan_text(text)).empty());
}

TEST(PlanTextTest, ThousandsOfOps) {
  const Plan plan = random_plan(3, 2500);
  const auto again = read_plan(print_plan(plan), "p.lt");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, plan);
}

}  // namespace
}  // namespace lowtide::plan

// Sessions on small plans written by hand, with kernels that add and scale: addresses, lifetimes,
// poison, the unplanned baseline, seeded and external contents, errors.
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "runtime/seeded.h"

namespace lowtide::runtime {
namespace {

using plan::Plan;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using Initial = plan::PlanInitial::Kind;

constexpr int64_t kCount = 24;

// Scale: y = 2 x through the workspace. Sum: y = a + b. Step: p -= g, in place.
class FakeKernel final : public Kernel {
 public:
  FakeKernel(std::string kind, int64_t count) : kind_(std::move(kind)), count_(count) {}
  void run(const KernelArgs& args) override {
    const float* a = static_cast<const float*>(args.inputs[0]);
    const float* b = args.inputs.size() > 1 ? static_cast<const float*>(args.inputs[1]) : nullptr;
    float* y = static_cast<float*>(args.outputs[0]);
    float* scratch = static_cast<float*>(args.workspace);
    for (int64_t i = 0; i < count_; ++i) {
      if (kind_ == "Sum") y[i] = a[i] + b[i];
      if (kind_ == "Step") y[i] = a[i] - b[i];
      if (kind_ == "Scale") {
        scratch[i] = 2 * a[i];
        y[i] = scratch[i];
      }
    }
  }

 private:
  std::string kind_;
  int64_t count_;
};

class FakeFactory final : public KernelFactory {
 public:
  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    return op.kind == "Scale" ? plan::size_bytes(op.outputs[0]) : 0;
  }
  plan::LayoutWish wish(const plan::OpDesc&) const override { return {}; }
  Result<std::unique_ptr<Kernel>> make(const plan::OpDesc& op) const override {
    if (op.kind == "Odd") return error(ErrorCode::kInput, "no kernel for Odd");
    return std::make_unique<FakeKernel>(op.kind, plan::element_count(op.outputs[0]));
  }
};

class PlanMaker {
 public:
  // A value there before the step, at an address of its own.
  PlanValueId given(std::string name, Initial kind) {
    plan::PlanValue value = make(std::move(name));
    value.initial.kind = kind;
    return add(value, true);
  }
  PlanOpId op(std::string kind, std::vector<PlanValueId> inputs) {
    plan::PlanOp made;
    made.kind = kind;
    made.name = "op" + std::to_string(plan.ops.size());
    made.inputs = std::move(inputs);
    made.workspace_bytes = kind == "Scale" ? 128 : 0;
    return plan.ops.push_back(made);
  }
  PlanValueId output(PlanOpId producer, std::string name, bool result = false) {
    plan::PlanValue value = make(std::move(name));
    value.producer = producer;
    value.is_output = result;
    const PlanValueId id = add(value, false);
    plan.ops[producer].outputs.push_back(id);
    return id;
  }
  // A view of, or an update over, `base`.
  PlanValueId alias(PlanOpId producer, std::string name, PlanValueId base, plan::PlanAlias how) {
    plan::PlanValue value = make(std::move(name));
    value.producer = producer;
    value.alias = how;
    value.base = base;
    value.storage = plan.values[base].storage;
    const PlanValueId id = plan.values.push_back(value);
    plan.ops[producer].outputs.push_back(id);
    return id;
  }
  void compute(PlanOpId id, int64_t workspace = 0) {
    plan::Step step{.op = id, .workspace_address = workspace};
    for (PlanValueId v : plan.ops[id].outputs)
      if (plan.values[v].alias == plan::PlanAlias::kOwn)
        step.makes.push_back({.storage = plan.values[v].storage, .address = address_[v]});
    plan.steps.push_back(std::move(step));
  }
  void free(PlanValueId v) {
    plan.steps.push_back({.kind = plan::Step::Kind::kFree, .storage = plan.values[v].storage});
  }

  Plan plan;

 private:
  static plan::PlanValue make(std::string name) {
    plan::PlanValue value;
    value.name = std::move(name);
    value.type.dims = {4, 6};
    return value;
  }
  PlanValueId add(plan::PlanValue value, bool resident) {
    value.storage = PlanStorageId(plan.storages.size());
    const PlanValueId id = plan.values.push_back(value);
    plan::PlanStorage storage;
    storage.root = id;
    storage.bytes = 128;
    storage.resident = resident;
    if (resident) storage.address = plan.arena_bytes;
    address_.resize(plan.values.size());
    address_[id] = plan.arena_bytes;
    plan.arena_bytes += 128;
    plan.storages.push_back(storage);
    return id;
  }

  IdVector<PlanValueId, int64_t> address_;
};

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

std::span<const std::byte> as_bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<float> floats(const Result<std::vector<std::byte>>& bytes) {
  EXPECT_TRUE(bytes.has_value()) << (bytes ? "" : bytes.error().message);
  if (!bytes) return {};
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

std::vector<float> ramp() {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

Session open(const Plan& plan, const SessionOptions& options = {}) {
  auto session = Session::open(plan, FakeFactory(), options);
  EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
  return std::move(*session);
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
  Plan moves = make_plan();
  moves.slow_tiers.push_back({"host", 128, 1.0, 1.0, 0.0});
  moves.storages[PlanStorageId(2)].slow_tier = 0;
  moves.steps.push_back({.kind = plan::Step::Kind::kStore, .storage = PlanStorageId(2)});
  EXPECT_NE(message(Session::open(moves, FakeFactory())).find("moves 'y' to slow memory"),
            std::string::npos);
  Plan odd = make_plan();
  odd.ops[PlanOpId(2)].kind = "Odd";
  EXPECT_NE(message(Session::open(odd, FakeFactory())).find("op 'op2': no kernel for Odd"),
            std::string::npos);
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

TEST(SeedInputs, KeepsIndicesBelowWhatTheyIndex) {
  PlanMaker m;
  const PlanValueId tokens = m.given("tokens", Initial::kFed),
                    table = m.given("table", Initial::kSeeded);
  m.plan.values[tokens].type.dtype = DType::kI64;
  m.plan.values[tokens].type.dims = {12};
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
  EXPECT_GT(high, 0);
}

}  // namespace
}  // namespace lowtide::runtime

// For the tests of sessions: kernels that add and scale, and plans put together by hand, whose
// values all are 4 x 6 floats in storages of 128 bytes with addresses of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"

namespace lowtide::runtime {

using plan::Plan;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using Initial = plan::PlanInitial::Kind;

inline constexpr int64_t kCount = 24;

// Scale: y = 2 x through the workspace. Sum: y = a + b. Step: p -= rate g, in place; the rate is 1
// where the session says nothing of it. First: the first element. Picky: that of what does not
// begin with a negative one. Mask: y = x where a draw from
// (seed, step, element) is even, else 0.
class FakeKernel final : public Kernel {
 public:
  FakeKernel(std::string kind, int64_t count) : kind_(std::move(kind)), count_(count) {}
  Status accepts(const KernelArgs& args) const override {
    if (kind_ != "Picky" || *static_cast<const float*>(args.inputs[0]) >= 0) return {};
    return error(ErrorCode::kInput, "element 0 is negative");
  }
  void run(const KernelArgs& args) override {
    const float* a = static_cast<const float*>(args.inputs[0]);
    const float* b = args.inputs.size() > 1 ? static_cast<const float*>(args.inputs[1]) : nullptr;
    float* y = static_cast<float*>(args.outputs[0]);
    float* scratch = static_cast<float*>(args.workspace);
    const UpdateSettings* update = args.context.update;
    const float rate = update == nullptr ? 1 : static_cast<float>(update->learning_rate);
    for (int64_t i = 0; i < count_; ++i) {
      if (kind_ == "Sum") y[i] = a[i] + b[i];
      if (kind_ == "Step") y[i] = a[i] - rate * b[i];
      if (kind_ == "First" || kind_ == "Picky") y[i] = a[i];
      if (kind_ == "Mask") y[i] = even(args.context, i) ? a[i] : 0;
      if (kind_ == "Scale") {
        scratch[i] = 2 * a[i];
        y[i] = scratch[i];
      }
    }
  }

 private:
  static bool even(const StepContext& context, int64_t i) {
    const uint64_t key =
        context.seed * 31 + static_cast<uint64_t>(context.step - context.seed_set_after) * 131;
    return ((key + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ull >> 60) % 2 == 0;
  }

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
  // A value there before the step whose home is a slot of slow tier `tier`.
  PlanValueId given_slow(std::string name, Initial kind, int32_t tier = 0) {
    plan::PlanValue value = make(std::move(name));
    value.initial.kind = kind;
    const PlanValueId id = add(value, true);
    plan::PlanStorage& storage = plan.storages[plan.values[id].storage];
    storage.home_slow = true;
    storage.address = 0;
    give_slot(id, tier);
    return id;
  }
  void give_slot(PlanValueId v, int32_t tier = 0) {
    while (std::ssize(plan.slow_tiers) <= tier)
      plan.slow_tiers.push_back({.name = "tier" + std::to_string(plan.slow_tiers.size()),
                                 .bytes_per_second_out = 1e9,
                                 .bytes_per_second_in = 1e9});
    plan::SlowTier& home = plan.slow_tiers[static_cast<size_t>(tier)];
    plan::PlanStorage& storage = plan.storages[plan.values[v].storage];
    storage.slow_tier = tier;
    storage.slow_address = home.bytes;
    home.bytes += storage.bytes;
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
  // As compute, with the first output at another address.
  void compute_at(PlanOpId id, int64_t address, int64_t workspace = 0) {
    compute(id, workspace);
    plan.steps.back().makes[0].address = address;
  }
  void free(PlanValueId v) { step(Kind::kFree, v); }
  void store(PlanValueId v) { step(Kind::kStore, v); }
  void wait(PlanValueId v) { step(Kind::kWait, v); }
  void load(PlanValueId v, int64_t address) {
    step(Kind::kLoad, v);
    plan.steps.back().address = address;
  }
  void load_now(PlanValueId v) {
    load(v, address_[v]);
    wait(v);
  }
  void store_now(PlanValueId v) {
    store(v);
    wait(v);
    free(v);
  }
  // Room in the arena that no value has.
  int64_t room() {
    plan.arena_bytes += 128;
    return plan.arena_bytes - 128;
  }

  Plan plan;

 private:
  using Kind = plan::Step::Kind;

  void step(Kind kind, PlanValueId v) {
    plan.steps.push_back({.kind = kind, .storage = plan.values[v].storage});
  }
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

inline std::span<const std::byte> as_bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

inline std::vector<float> floats(const Result<std::vector<std::byte>>& bytes) {
  EXPECT_TRUE(bytes.has_value()) << (bytes ? "" : bytes.error().message);
  if (!bytes) return {};
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

inline std::vector<float> ramp() {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

inline Session open(const Plan& plan, const SessionOptions& options = {}) {
  auto session = Session::open(plan, FakeFactory(), options);
  EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
  return std::move(*session);
}

}  // namespace lowtide::runtime

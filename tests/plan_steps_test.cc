// A whole training step through the C ABI as an executor of somebody else's sees it: buffers that
// move to slow memory and back, wholes made in pieces, strided views. A machine without kernels
// goes through the steps and keeps who lies where; every op must find what it reads.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lowtide/lowtide.h"
#include "lowtide/steps.h"

namespace lowtide::plan_steps_test {
namespace {

struct Seen {
  int stores = 0, loads = 0, waits = 0;
  int wholes = 0;   // read by an op, their pieces side by side
  int strided = 0;  // views that an op reads
};

class Machine {
 public:
  explicit Machine(lowtide_plan* plan) : plan_(plan) {
    for (size_t s = 0; s < lowtide_plan_storage_count(plan); ++s) {
      lowtide_plan_storage_info info;
      EXPECT_EQ(lowtide_plan_storage(plan, s, &info), LOWTIDE_OK);
      storages_.push_back(info);
      const auto id = static_cast<int64_t>(s);
      if (info.slow_tier >= 0) take_slot(id);
      if (info.resident != 0 && info.home_slow == 0) place(id, info.address);
      if (info.home_slow != 0) in_slot_.insert(id);
    }
    for (size_t v = 0; v < lowtide_plan_value_count(plan); ++v) {
      values_.emplace_back();
      EXPECT_EQ(lowtide_plan_value(plan, v, &values_.back()), LOWTIDE_OK);
    }
  }

  Seen run() {
    for (size_t i = 0; i < lowtide_plan_step_count(plan_) && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i);
      lowtide_step step;
      EXPECT_EQ(lowtide_plan_step(plan_, i, &step), LOWTIDE_OK);
      take(i, step);
    }
    EXPECT_TRUE(leaving_.empty() && arriving_.empty()) << "copies that nobody waited for";
    return seen_;
  }
  int64_t top() const { return top_; }

 private:
  void take(size_t index, const lowtide_step& step) {
    const int64_t s = step.storage;
    switch (step.kind) {
      case LOWTIDE_STEP_COMPUTE:
        return compute(index, step);
      case LOWTIDE_STEP_FREE:
        EXPECT_FALSE(leaving_.contains(s) || arriving_.contains(s)) << "it moves";
        EXPECT_EQ(there_.erase(s), 1U);
        return;
      case LOWTIDE_STEP_STORE:
        ++seen_.stores;
        EXPECT_TRUE(there_.contains(s) && !arriving_.contains(s));
        EXPECT_GE(storage(s).slow_tier, 0);
        EXPECT_TRUE(leaving_.insert(s).second);
        return;
      case LOWTIDE_STEP_LOAD:
        ++seen_.loads;
        EXPECT_TRUE(in_slot_.contains(s)) << "nothing was stored";
        place(s, step.address);
        EXPECT_TRUE(arriving_.insert(s).second);
        return;
      case LOWTIDE_STEP_WAIT:
        ++seen_.waits;
        if (leaving_.erase(s) == 1)
          in_slot_.insert(s);
        else
          EXPECT_EQ(arriving_.erase(s), 1U) << "nothing moves";
        return;
      default:
        ADD_FAILURE() << "kind " << step.kind;
    }
  }

  void compute(size_t index, const lowtide_step& step) {
    lowtide_plan_op_info op;
    ASSERT_EQ(lowtide_plan_op(plan_, static_cast<size_t>(step.op), &op), LOWTIDE_OK);
    SCOPED_TRACE(op.name);
    for (size_t k = 0; k < op.input_count; ++k) {
      int64_t value = -1;
      ASSERT_EQ(lowtide_plan_op_input(plan_, static_cast<size_t>(step.op), k, &value), LOWTIDE_OK);
      if (value >= 0) read(value);
    }
    for (size_t k = 0; k < step.make_count; ++k) {
      lowtide_placement made;
      ASSERT_EQ(lowtide_plan_step_make(plan_, index, k, &made), LOWTIDE_OK);
      EXPECT_EQ(there_.erase(made.reuses), made.reuses >= 0 ? 1U : 0U);
      in_slot_.erase(made.storage);
      place(made.storage, made.address);
    }
    for (size_t k = 0; k < op.output_count; ++k) {
      int64_t value = -1;
      ASSERT_EQ(lowtide_plan_op_output(plan_, static_cast<size_t>(step.op), k, &value), LOWTIDE_OK);
      const lowtide_plan_value_info& made = values_[static_cast<size_t>(value)];
      // What is overwritten makes the copy in slow memory stale.
      if (made.alias == LOWTIDE_ALIAS_UPDATE) in_slot_.erase(made.storage);
    }
    top_ = std::max(top_, step.workspace_address + op.workspace_bytes);
  }

  // All that the value is made of is there and does not arrive any more.
  void read(int64_t id) {
    const lowtide_plan_value_info& value = values_[static_cast<size_t>(id)];
    seen_.strided += std::string_view(value.layout).starts_with("strided:");
    const std::vector<int64_t> storages = pieces(value.storage);
    seen_.wholes += storages.size() > 1;
    int64_t end = -1;
    for (const int64_t s : storages) {
      ASSERT_TRUE(there_.contains(s)) << value.name << " is not there";
      EXPECT_FALSE(arriving_.contains(s)) << value.name << " was not waited for";
      EXPECT_TRUE(end < 0 || end == there_.at(s)) << "the pieces of " << value.name;
      end = there_.at(s) + storage(s).bytes;
    }
  }

  // Of a whole, the storages of its pieces, and of those that are wholes; of others, itself.
  std::vector<int64_t> pieces(int64_t s) const {
    const lowtide_plan_value_info& root = values_[static_cast<size_t>(storage(s).root)];
    if (root.alias != LOWTIDE_ALIAS_PIECES) return {s};
    lowtide_plan_op_info op;
    EXPECT_EQ(lowtide_plan_op(plan_, static_cast<size_t>(root.producer), &op), LOWTIDE_OK);
    std::vector<int64_t> all;
    for (size_t k = 0; k < op.input_count; ++k) {
      int64_t value = -1;
      EXPECT_EQ(lowtide_plan_op_input(plan_, static_cast<size_t>(root.producer), k, &value),
                LOWTIDE_OK);
      for (const int64_t piece : pieces(values_[static_cast<size_t>(value)].storage))
        all.push_back(piece);
    }
    return all;
  }

  void place(int64_t s, int64_t address) {
    const int64_t end = address + storage(s).bytes;
    for (const auto& [other, at] : there_)
      EXPECT_TRUE(at + storage(other).bytes <= address || end <= at) << s << " on " << other;
    EXPECT_TRUE(there_.emplace(s, address).second) << "it is there already";
    top_ = std::max(top_, end);
  }

  // No two slots of a tier overlap.
  void take_slot(int64_t s) {
    const lowtide_plan_storage_info& mine = storage(s);
    for (const int64_t other : slots_) {
      const lowtide_plan_storage_info& its = storage(other);
      if (its.slow_tier != mine.slow_tier || its.home_slow == 0 || mine.home_slow == 0) continue;
      EXPECT_TRUE(its.slow_address + its.bytes <= mine.slow_address ||
                  mine.slow_address + mine.bytes <= its.slow_address)
          << s << " on " << other;
    }
    slots_.push_back(s);
  }

  const lowtide_plan_storage_info& storage(int64_t s) const {
    return storages_[static_cast<size_t>(s)];
  }

  lowtide_plan* plan_;
  std::vector<lowtide_plan_storage_info> storages_;
  std::vector<lowtide_plan_value_info> values_;
  std::vector<int64_t> slots_;
  std::map<int64_t, int64_t> there_;
  std::set<int64_t> in_slot_, leaving_, arriving_;
  Seen seen_;
  int64_t top_ = 0;
};

struct Handles {
  lowtide_model* model = nullptr;
  lowtide_plan* plan = nullptr;
  ~Handles() {
    lowtide_plan_free(plan);
    lowtide_model_free(model);
  }
};

Seen run_gpt2(const char* options) {
  Handles handles;
  EXPECT_EQ(
      lowtide_model_read(LOWTIDE_SOURCE_DIR "/models/gpt2.onnx",
                         R"({"dims": {"batch": 2, "seq": 16}, "training": true})", &handles.model),
      LOWTIDE_OK)
      << lowtide_last_error();
  EXPECT_EQ(lowtide_plan_make(handles.model, options, &handles.plan), LOWTIDE_OK)
      << lowtide_last_error();
  if (testing::Test::HasFailure()) return {};
  Machine machine(handles.plan);
  const Seen seen = machine.run();
  EXPECT_EQ(machine.top(), lowtide_plan_arena_bytes(handles.plan));
  return seen;
}

TEST(PlanSteps, OfAStepInPartsFindEveryPieceInItsPlace) {
  const Seen seen = run_gpt2(R"({"train": true, "split": "2", "threads": 1, "effort": 0.2})");
  EXPECT_EQ(seen.stores + seen.loads + seen.waits, 0) << "nothing may move";
  EXPECT_GT(seen.wholes, 20);
  EXPECT_GT(seen.strided, 20);
}

TEST(PlanSteps, MoveBuffersOutAndBackBeforeTheyAreRead) {
  const Seen seen =
      run_gpt2(R"({"train": true, "threads": 1, "effort": 0.2, "budget": "60%", "swap": "host"})");
  EXPECT_GT(seen.stores, 20);
  EXPECT_GT(seen.loads, 20);
  EXPECT_EQ(seen.waits, seen.stores + seen.loads) << "each copy is waited for once";
}

TEST(PlanSteps, OfAllLeversTogether) {
  const Seen seen = run_gpt2(
      R"({"train": true, "split": "2", "threads": 1, "effort": 0.2, "budget": "60%",
          "swap": "host"})");
  EXPECT_GT(seen.loads, 20);
  EXPECT_GT(seen.wholes, 20);
  EXPECT_GT(seen.strided, 20);
}

}  // namespace
}  // namespace lowtide::plan_steps_test

// From a graph's text to a verified plan, and the plan's steps through the C ABI: what another
// front end, with kernels of its own, needs of this library.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "api/state.h"
#include "lowtide/api.h"
#include "lowtide/lowtide.h"
#include "lowtide/steps.h"
#include "plan/plan_text.h"

namespace lowtide::graph_text_test {
namespace {

std::string plan_bytes(const Model& model, const PlanOptions& options) {
  const auto plan = Plan::make(model, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return plan ? plan::print_plan(plan->state().plan) : "";
}

// The text of a model says all of it: the plan is the same, byte for byte.
TEST(GraphText, OfAModelGivesTheSamePlan) {
  const std::string folder = LOWTIDE_SOURCE_DIR "/models/";
  const struct {
    const char* model;
    const char* loss;
    std::map<std::string, int64_t, std::less<>> dims;
  } cases[] = {{"unet", "mse", {{"batch", 1}}},
               {"gpt2", "cross-entropy", {{"batch", 1}, {"seq", 32}}},
               {"bert", "cross-entropy", {{"batch", 1}, {"seq", 32}}}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.model);
    const auto read = Model::read(folder + c.model + ".onnx", {.dims = c.dims, .training = true});
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const auto parsed = Model::parse(read->text(), "again");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(parsed->text(), read->text());
    PlanOptions options;
    options.train = true;
    options.loss = c.loss;
    options.threads = 1;
    EXPECT_EQ(plan_bytes(*parsed, options), plan_bytes(*read, options));
  }
}

// A training step by somebody else's kernels: forward, backward and update of one weight, a norm in
// place, a view, a draw, and two messages that must come in this order.
const char* const kStep = R"(graph "foreign" "by hand"
given "x" f32 [1024, 64] input fed
given "w" f32 [64, 64] parameter seeded
op "Opaque" "linear" "" forward v0 v1
  attr "op" word "aten::linear"
  attr "seconds" real 0.002
  attr "workspace" int 1000
  out "h" f32 [1024, 64] activation own
op "OpaqueRandom" "dropout" "" forward v2
  attr "op" word "aten::native_dropout"
  attr "seconds" real 0.0001
  out "d" f32 [1024, 64] activation own
  out "mask" bool [1024, 64] activation own
op "Opaque" "half" "" forward v3
  attr "op" word "aten::slice"
  out "top" f32 [512, 64] activation view v3 [0]
op "OpaqueEffect" "log" "" forward v5
  attr "op" word "log"
op "Opaque" "wide" "" forward v3
  attr "op" word "aten::exp"
  attr "seconds" real 0.0001
  out "e" f32 [1024, 64] activation own
op "OpaqueEffect" "sync" "" forward v2
  attr "op" word "sync"
op "Opaque" "back" "" backward v6 v4 v2
  attr "op" word "mylib::backward"
  attr "seconds" real 0.003
  out "g" f32 [64, 64] gradient own
op "Opaque" "sgd" "" update v1 v7
  attr "op" word "mylib::sgd_"
  out "w_new" f32 [64, 64] parameter update v1 [0] output
)";

struct Handles {
  lowtide_model* model = nullptr;
  lowtide_plan* plan = nullptr;
  ~Handles() {
    lowtide_plan_free(plan);
    lowtide_model_free(model);
  }
};

void make(Handles& handles, const char* options) {
  ASSERT_EQ(lowtide_model_parse(kStep, "kStep", nullptr, &handles.model), LOWTIDE_OK)
      << lowtide_last_error();
  ASSERT_EQ(lowtide_plan_make(handles.model, options, &handles.plan), LOWTIDE_OK)
      << lowtide_last_error();
  ASSERT_EQ(lowtide_plan_verify(handles.plan), LOWTIDE_OK) << lowtide_last_error();
}

// Runs the steps as an executor would, on a list of who owns which bytes: everything that an op
// reads lies where the plan said and was made before, nothing that lives is overwritten.
class Executor {
 public:
  explicit Executor(lowtide_plan* plan) : plan_(plan) {
    for (size_t s = 0; s < lowtide_plan_storage_count(plan); ++s) {
      lowtide_plan_storage_info info;
      EXPECT_EQ(lowtide_plan_storage(plan, s, &info), LOWTIDE_OK);
      storages_.push_back(info);
      if (info.resident != 0 && info.home_slow == 0) place(static_cast<int64_t>(s), info.address);
    }
  }

  std::vector<std::string> run() {
    for (size_t i = 0; i < lowtide_plan_step_count(plan_); ++i) {
      lowtide_step step;
      EXPECT_EQ(lowtide_plan_step(plan_, i, &step), LOWTIDE_OK);
      if (step.kind == LOWTIDE_STEP_COMPUTE) compute(i, step);
      if (step.kind != LOWTIDE_STEP_FREE) continue;
      EXPECT_EQ(there_.erase(step.storage), 1U);
    }
    return ran_;
  }
  int64_t top() const { return top_; }

 private:
  void compute(size_t index, const lowtide_step& step) {
    lowtide_plan_op_info op;
    ASSERT_EQ(lowtide_plan_op(plan_, static_cast<size_t>(step.op), &op), LOWTIDE_OK);
    if (!makes_views(step.op, op.output_count))
      ran_.push_back(op.foreign != nullptr ? op.foreign : op.kind);
    for (size_t k = 0; k < op.input_count; ++k) {
      int64_t value = -1;
      ASSERT_EQ(lowtide_plan_op_input(plan_, static_cast<size_t>(step.op), k, &value), LOWTIDE_OK);
      if (value < 0) continue;
      lowtide_plan_value_info info;
      ASSERT_EQ(lowtide_plan_value(plan_, static_cast<size_t>(value), &info), LOWTIDE_OK);
      EXPECT_TRUE(there_.contains(info.storage)) << op.name << " reads " << info.name;
      EXPECT_STREQ(info.layout, "row_major");
    }
    for (size_t k = 0; k < step.make_count; ++k) {
      lowtide_placement made;
      ASSERT_EQ(lowtide_plan_step_make(plan_, index, k, &made), LOWTIDE_OK);
      EXPECT_EQ(there_.erase(made.reuses), made.reuses >= 0 ? 1U : 0U);
      place(made.storage, made.address);
    }
    top_ = std::max(top_, step.workspace_address + op.workspace_bytes);
  }

  // Such an op computes nothing: an executor has nothing to do.
  bool makes_views(int64_t op, size_t outputs) {
    int64_t value = -1;
    lowtide_plan_value_info info;
    if (outputs == 0) return false;
    EXPECT_EQ(lowtide_plan_op_output(plan_, static_cast<size_t>(op), 0, &value), LOWTIDE_OK);
    EXPECT_EQ(lowtide_plan_value(plan_, static_cast<size_t>(value), &info), LOWTIDE_OK);
    return info.alias == LOWTIDE_ALIAS_VIEW;
  }

  void place(int64_t storage, int64_t address) {
    const int64_t end = address + storages_[static_cast<size_t>(storage)].bytes;
    for (const auto& [other, at] : there_)
      EXPECT_TRUE(at + storages_[static_cast<size_t>(other)].bytes <= address || end <= at)
          << storage << " on " << other;
    there_[storage] = address;
    top_ = std::max(top_, end);
  }

  lowtide_plan* plan_;
  std::vector<lowtide_plan_storage_info> storages_;
  std::map<int64_t, int64_t> there_;
  std::vector<std::string> ran_;
  int64_t top_ = 0;
};

TEST(GraphText, AStepOfForeignKernelsIsPlannedAndRunByItsSteps) {
  for (const char* device : {"cpu", "h100"}) {
    SCOPED_TRACE(device);
    Handles handles;
    make(handles, (R"({"device": ")" + std::string(device) + "\"}").c_str());
    Executor executor(handles.plan);
    const std::vector<std::string> ran = executor.run();
    EXPECT_EQ(executor.top(), lowtide_plan_arena_bytes(handles.plan));
    const auto when = [&](const char* name) {
      return std::find(ran.begin(), ran.end(), name) - ran.begin();
    };
    EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::slice"), 0) << "a view computes nothing";
    EXPECT_EQ(ran.size(), 7U);
    EXPECT_LT(when("log"), when("sync"));
    EXPECT_LT(when("mylib::backward"), when("mylib::sgd_"));
  }
}

TEST(GraphText, UnderABudgetWhatMayRunAgainDoesAndTheRestNot) {
  Handles handles;
  make(handles, R"({"device": "h100"})");
  const int64_t unlimited = lowtide_plan_arena_bytes(handles.plan);
  const size_t runs_once = Executor(handles.plan).run().size();
  lowtide_plan_free(handles.plan);
  handles.plan = nullptr;
  const std::string options =
      R"({"device": "h100", "budget_bytes": )" + std::to_string(unlimited - 1) + "}";
  ASSERT_EQ(lowtide_plan_make(handles.model, options.c_str(), &handles.plan), LOWTIDE_OK)
      << lowtide_last_error();
  const std::vector<std::string> ran = Executor(handles.plan).run();
  EXPECT_GT(ran.size(), runs_once) << "one runs again";
  for (const char* once : {"aten::native_dropout", "log", "sync", "mylib::sgd_"})
    EXPECT_EQ(std::count(ran.begin(), ran.end(), once), 1) << once;
}

TEST(GraphText, TheRuntimeOfThisLibraryRefusesForeignOpsByName) {
  Handles handles;
  make(handles, "");
  lowtide_session* session = nullptr;
  EXPECT_EQ(lowtide_session_open(handles.plan, nullptr, &session), LOWTIDE_INPUT);
  const std::string message = lowtide_last_error();
  EXPECT_NE(message.find("'linear'"), std::string::npos) << message;
  EXPECT_NE(message.find("'aten::linear' is an op of somebody else's"), std::string::npos)
      << message;
}

TEST(GraphText, ForeignOpsAreNotDifferentiated) {
  const auto model = Model::parse(R"(graph "foreign" "by hand"
given "x" f32 [16, 8] input fed
given "w" f32 [8, 8] parameter seeded
op "Opaque" "linear" "" forward v0 v1
  attr "op" word "aten::linear"
  out "h" f32 [16, 8] activation own output
)",
                                  "text");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  PlanOptions options;
  options.train = true;
  options.loss = "mse";
  const auto plan = Plan::make(*model, options);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::kInput);
  EXPECT_EQ(plan.error().message,
            "text: op 'linear' (Opaque) lies between the loss and a parameter and has no gradient: "
            "what it computes is not known here, so give the graph of the whole training step");
}

TEST(GraphText, ParsesAndPrintsThroughTheCAbi) {
  Handles once, again;
  ASSERT_EQ(lowtide_model_parse(kStep, "kStep", nullptr, &once.model), LOWTIDE_OK);
  const std::string printed = lowtide_model_text(once.model);
  EXPECT_NE(printed.find("mylib::sgd_"), std::string::npos);
  ASSERT_EQ(lowtide_model_parse(printed.c_str(), "printed", nullptr, &again.model), LOWTIDE_OK)
      << lowtide_last_error();
  EXPECT_EQ(lowtide_model_text(again.model), printed);
  EXPECT_EQ(lowtide_model_text(nullptr), nullptr);
}

TEST(GraphText, GoesThroughTheCAbiAsJsonToo) {
  Handles once, again;
  ASSERT_EQ(lowtide_model_parse(kStep, "kStep", nullptr, &once.model), LOWTIDE_OK);
  const std::string json = lowtide_model_json(once.model);
  ASSERT_EQ(lowtide_model_parse(json.c_str(), "json", nullptr, &again.model), LOWTIDE_OK)
      << lowtide_last_error();
  EXPECT_STREQ(lowtide_model_text(again.model), lowtide_model_text(once.model));
  EXPECT_EQ(lowtide_model_json(again.model), json);
  EXPECT_EQ(lowtide_model_json(nullptr), nullptr);
  EXPECT_EQ(lowtide_model_parse("{\"format\": 1}", "j", nullptr, &again.model), LOWTIDE_INPUT);
  EXPECT_STREQ(lowtide_last_error(),
               "j: the file: expected an object with the format 'lowtide-graph', found object");
}

TEST(GraphText, BadNumbersAndMissingPointersAreUsage) {
  Handles handles;
  make(handles, "");
  lowtide_step step;
  lowtide_placement placement;
  int64_t value = 0;
  EXPECT_EQ(lowtide_plan_step(handles.plan, 1'000, &step), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_step(nullptr, 0, &step), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_step(handles.plan, 0, nullptr), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_step_make(handles.plan, 0, 100, &placement), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_op_input(handles.plan, 0, 100, &value), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_op_output(handles.plan, 100, 0, &value), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_step_count(nullptr), 0U);
  lowtide_model* model = nullptr;
  EXPECT_EQ(lowtide_model_parse(nullptr, "x", nullptr, &model), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_model_parse("no graph", nullptr, nullptr, &model), LOWTIDE_INPUT);
  EXPECT_EQ(model, nullptr);
}

}  // namespace
}  // namespace lowtide::graph_text_test

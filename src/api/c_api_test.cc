// The C ABI's promises that need no model run: what options are refused and with which words, whose
// error a thread reads, what NULL gives, how searches are watched and stopped, and fronts.
// tests/install/train_step.c runs whole steps through it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/options_json.h"
#include "base/file.h"
#include "lowtide/lending.h"
#include "lowtide/lowtide.h"
#include "plan/plan_text.h"

namespace lowtide {
namespace {

template <class T>
std::string message(const Result<T>& result) {
  if (result) return "no error";
  EXPECT_EQ(result.error().code, ErrorCode::kUsage);
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  return result.error().message;
}

TEST(OptionsJson, EveryFieldIsRead) {
  const auto reading =
      parse_read_options(R"({"dims": {"batch": 3, "seq": 7}, "training": true, "dropout": false})");
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->dims.at("batch"), 3);
  EXPECT_EQ(reading->dims.at("seq"), 7);
  EXPECT_TRUE(reading->training);
  EXPECT_FALSE(reading->dropout);
  const auto planning = parse_plan_options(
      R"({"train": true, "loss": "mse", "keep_outputs": true,
          "ignore_index": -100, "optimizer": "sgd", "learning_rate": 0.5, "weight_decay": 0,
          "momentum": 0.25, "device": "h100", "budget_bytes": 4611686018427387904, "threads": 3,
          "budget": "60%", "slowdown": 0,
          "costs_file": "c", "costs_any_device": true, "allow": "split", "forbid": "swap",
          "more_levers": false, "recompute": false, "reorder": false, "pieces": false,
          "sums": false, "rewrites": ["r"], "no_rewrites": ["common-ops"],
          "cuts": ["layer*:m:4"], "split": "auto", "no_mutations": ["lift"], "without": ["waist"],
          "query_blocks": 7, "strided_views": false,
          "swap": "host", "swap_residents": false, "link_bytes_per_second": 2e9, "effort": 0.5,
          "seed": 18446744073709551615, "dump_folder": "d", "time_limit_seconds": 2})");
  ASSERT_TRUE(planning) << planning.error().message;
  EXPECT_TRUE(planning->train);
  EXPECT_EQ(planning->loss, "mse");
  EXPECT_TRUE(planning->keep_outputs);
  EXPECT_EQ(planning->optimizer, "sgd");
  EXPECT_EQ(planning->learning_rate, 0.5);
  EXPECT_EQ(planning->weight_decay, 0.0);
  EXPECT_EQ(planning->momentum, 0.25);
  EXPECT_EQ(planning->device, "h100");
  EXPECT_EQ(planning->costs_file, "c");
  EXPECT_TRUE(planning->costs_any_device);
  EXPECT_EQ(planning->budget_bytes, int64_t{1} << 62);
  EXPECT_EQ(planning->budget, "60%");
  EXPECT_EQ(planning->slowdown, 0.0);
  EXPECT_EQ(planning->allow, "split");
  EXPECT_EQ(planning->forbid, "swap");
  EXPECT_FALSE(planning->more_levers);
  EXPECT_FALSE(planning->recompute);
  EXPECT_FALSE(planning->reorder);
  EXPECT_FALSE(planning->pieces);
  EXPECT_FALSE(planning->sums);
  EXPECT_EQ(planning->rewrites, std::vector<std::string>{"r"});
  EXPECT_EQ(planning->no_rewrites, std::vector<std::string>{"common-ops"});
  EXPECT_EQ(planning->cuts, std::vector<std::string>{"layer*:m:4"});
  EXPECT_EQ(planning->split, "auto");
  EXPECT_EQ(planning->no_mutations, std::vector<std::string>{"lift"});
  EXPECT_EQ(planning->without, std::vector<std::string>{"waist"});
  EXPECT_EQ(planning->query_blocks, 7);
  EXPECT_EQ(planning->ignore_index, -100);
  EXPECT_FALSE(planning->strided_views);
  EXPECT_EQ(planning->swap, "host");
  EXPECT_FALSE(planning->swap_residents);
  EXPECT_EQ(planning->link_bytes_per_second, 2e9);
  EXPECT_EQ(planning->effort, 0.5);
  EXPECT_EQ(planning->threads, 3);
  EXPECT_EQ(planning->seed, ~uint64_t{0});
  EXPECT_EQ(planning->dump_folder, "d");
  EXPECT_EQ(planning->time_limit_seconds, 2.0);
  const auto running = parse_run_options(
      R"({"seed": 5, "model_folder": "m", "seed_missing_weights": true, "unplanned": true,
          "lent": ["w", "adam_m/w"], "threads": 2,
          "slow_tier_folder": "s", "link_bytes_per_second": 1e9})");
  ASSERT_TRUE(running) << running.error().message;
  EXPECT_EQ(running->seed, 5U);
  EXPECT_EQ(running->model_folder, "m");
  EXPECT_TRUE(running->seed_missing_weights);
  EXPECT_EQ(running->lent, (std::vector<std::string>{"w", "adam_m/w"}));
  EXPECT_TRUE(running->unplanned);
  EXPECT_EQ(running->threads, 2);
  EXPECT_EQ(running->slow_tier_folder, "s");
  EXPECT_EQ(running->link_bytes_per_second, 1e9);
}

TEST(OptionsJson, WhatIsAbsentKeepsItsDefault) {
  for (const char* text : {"", "{}"}) {
    const auto planning = parse_plan_options(text);
    ASSERT_TRUE(planning);
    EXPECT_FALSE(planning->budget_bytes);
    EXPECT_FALSE(planning->slowdown);
    EXPECT_FALSE(planning->link_bytes_per_second);
    EXPECT_TRUE(planning->recompute && planning->more_levers);
    EXPECT_EQ(planning->effort, PlanOptions().effort);
    EXPECT_EQ(planning->optimizer, PlanOptions().optimizer);
    EXPECT_EQ(planning->time_limit_seconds, PlanOptions().time_limit_seconds);
  }
}

TEST(OptionsJson, WrongOptionsAreNamed) {
  for (const char* text : {"[", "3", "[]", "null", "{\"threads\": 1", "{} {}", " "})
    EXPECT_EQ(message(parse_run_options(text)),
              "options are not a JSON object such as {\"threads\": 2}");
  EXPECT_EQ(message(parse_run_options(R"({"thread": 1})")),
            "options: 'thread' is not known; known are seed, model_folder, seed_missing_weights, "
            "unplanned, lent, threads, slow_tier_folder, link_bytes_per_second");
  EXPECT_EQ(message(parse_run_options(R"({"threads": "two"})")),
            "options: 'threads' is \"two\"; it is to be a whole number from 0 to 1024");
  EXPECT_EQ(message(parse_run_options(R"({"threads": 1025})")),
            "options: 'threads' is 1025; it is to be a whole number from 0 to 1024");
  EXPECT_EQ(message(parse_run_options(R"({"seed": -1})")),
            "options: 'seed' is -1; it is to be a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(message(parse_run_options(R"({"seed": 1.0})")),
            "options: 'seed' is 1.0; it is to be a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(message(parse_run_options(R"({"unplanned": 1})")),
            "options: 'unplanned' is 1; it is to be true or false");
  EXPECT_EQ(message(parse_run_options(R"({"model_folder": null})")),
            "options: 'model_folder' is null; it is to be a string");
  EXPECT_EQ(message(parse_read_options(R"({"dims": {"batch": 0}})")),
            "options: 'dims.batch' is 0; it is to be a size of at least 1");
  EXPECT_EQ(message(parse_read_options(R"({"dims": [1]})")),
            "options: 'dims' is [1]; it is to be an object of names and sizes");
  EXPECT_EQ(message(parse_plan_options(R"({"learning_rate": "fast"})")),
            "options: 'learning_rate' is \"fast\"; it is to be a number");
  for (const char* label : {"\"-100\"", "0.5", "9223372036854775808"})
    EXPECT_EQ(message(parse_plan_options(fmt::format(R"({{"ignore_index": {}}})", label))),
              fmt::format("options: 'ignore_index' is {}; it is to be a whole number", label));
  EXPECT_EQ(message(parse_plan_options(R"({"link_bytes_per_second": -1})")),
            "options: 'link_bytes_per_second' is -1.0; it is to be a number above 0");
  EXPECT_EQ(message(parse_plan_options(R"({"link_bytes_per_second": "fast"})")),
            "options: 'link_bytes_per_second' is \"fast\"; it is to be a number");
  EXPECT_EQ(message(parse_plan_options(R"({"slowdown": -0.5})")),
            "options: 'slowdown' is -0.5; it is to be a number from 0");
  EXPECT_EQ(message(parse_plan_options(R"({"effort": 0})")),
            "options: 'effort' is 0.0; it is to be a number above 0");
  EXPECT_EQ(message(parse_plan_options(R"({"time_limit_seconds": 0})")),
            "options: 'time_limit_seconds' is 0.0; it is to be a number above 0");
  EXPECT_EQ(message(parse_plan_options(R"({"budget_bytes": 9223372036854775808})")),
            "options: 'budget_bytes' is 9223372036854775808; it is to be a whole number from 0 to "
            "9223372036854775807");
  EXPECT_NE(message(parse_run_options("{\"a\\nb\\u001b\": 1}")).find("'a\\nb\\x1B'"),
            std::string::npos);
}

TEST(CAbi, EachThreadReadsItsOwnError) {
  lowtide_plan* plan = nullptr;
  EXPECT_EQ(lowtide_plan_load("no-such-file.lt", &plan), LOWTIDE_INPUT);
  EXPECT_EQ(plan, nullptr);
  const std::string here = lowtide_last_error();
  EXPECT_NE(here.find("no-such-file.lt"), std::string::npos);
  std::string before, after;
  std::thread([&] {
    before = lowtide_last_error();
    lowtide_plan_verify(nullptr);
    after = lowtide_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "plan is NULL");
  EXPECT_EQ(lowtide_last_error(), here);
}

class CAbiSearch : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(LOWTIDE_SOURCE_DIR) + "/models/unet.onnx";
    ASSERT_EQ(
        lowtide_model_read(path.c_str(), R"({"dims": {"batch": 1}, "training": true})", &model_),
        LOWTIDE_OK)
        << lowtide_last_error();
    ASSERT_EQ(lowtide_cancel_make(&cancel_), LOWTIDE_OK);
    lowtide_plan* unlimited = nullptr;
    ASSERT_EQ(lowtide_plan_make(model_, R"({"train": true})", &unlimited), LOWTIDE_OK);
    budget_ = lowtide_plan_arena_bytes(unlimited) / 100 * 93;
    lowtide_plan_free(unlimited);
  }
  void TearDown() override {
    lowtide_model_free(model_);
    lowtide_cancel_free(cancel_);
  }

  lowtide_model* model_ = nullptr;
  lowtide_cancel* cancel_ = nullptr;
  int64_t budget_ = 0;
};

// What a watcher was told; it raises the flag, if there is one.
struct Watched {
  std::vector<lowtide_progress> told;
  std::vector<std::string> stages;  // copies: theirs go
  lowtide_cancel* raise = nullptr;
};

void watch(void* user, const lowtide_progress* progress) {
  auto* watched = static_cast<Watched*>(user);
  watched->told.push_back(*progress);
  watched->stages.emplace_back(progress->stage);
  lowtide_cancel_raise(watched->raise);
}

TEST_F(CAbiSearch, AWrongPlanFromAFileIsNeitherRunNorWrittenAgain) {
  const std::string path = testing::TempDir() + "/wrong.lt";
  lowtide_plan* plan = nullptr;
  ASSERT_EQ(lowtide_plan_make(model_, R"({"train": true})", &plan), LOWTIDE_OK);
  ASSERT_EQ(lowtide_plan_save(plan, path.c_str()), LOWTIDE_OK);
  lowtide_plan_free(plan);
  auto wrong = plan::read_plan(read_file(path).value(), path);
  ASSERT_TRUE(wrong.has_value()) << wrong.error().message;
  std::swap(wrong->steps.front(), wrong->steps.back());
  ASSERT_TRUE(write_file_atomically(path, plan::print_plan(*wrong)).has_value());
  ASSERT_EQ(lowtide_plan_load(path.c_str(), &plan), LOWTIDE_OK) << lowtide_last_error();
  lowtide_session* session = nullptr;
  EXPECT_EQ(lowtide_session_open(plan, nullptr, &session), LOWTIDE_VERIFICATION);
  EXPECT_EQ(session, nullptr);
  EXPECT_NE(std::string(lowtide_last_error()), "");
  const std::string copy = testing::TempDir() + "/copy.lt";
  EXPECT_EQ(lowtide_plan_save(plan, copy.c_str()), LOWTIDE_VERIFICATION);
  EXPECT_FALSE(read_file(copy).has_value());
  lowtide_plan_free(plan);
}

TEST_F(CAbiSearch, IsWatchedAndStopped) {
  const std::string options =
      R"({"train": true, "effort": 1000, "budget_bytes": )" + std::to_string(budget_) + "}";
  Watched watched{{}, {}, cancel_};
  lowtide_plan* plan = nullptr;
  EXPECT_EQ(lowtide_cancel_raised(cancel_), 0);
  ASSERT_EQ(lowtide_plan_make_watched(model_, options.c_str(), watch, &watched, cancel_, &plan),
            LOWTIDE_OK)
      << lowtide_last_error();
  EXPECT_EQ(lowtide_cancel_raised(cancel_), 1);
  ASSERT_FALSE(watched.told.empty());
  for (const lowtide_progress& progress : watched.told) {
    EXPECT_EQ(progress.budget_bytes, budget_);
    EXPECT_GT(progress.lower_bound_seconds, 0);
    EXPECT_TRUE(progress.share >= 0 && progress.share <= 1) << progress.share;
  }
  EXPECT_EQ(watched.stages.front(), "runs");
  EXPECT_NE(std::string(lowtide_plan_json(plan)).find("\"cut_short\": true"), std::string::npos);
  EXPECT_EQ(lowtide_plan_verify(plan), LOWTIDE_OK) << lowtide_last_error();
  EXPECT_LE(lowtide_plan_arena_bytes(plan), budget_);
  lowtide_plan_free(plan);
}

TEST_F(CAbiSearch, ToldAlsoWhileItProves) {
  const std::string options = R"({"train": true, "effort": 0.1, "prove": 0.1, "budget_bytes": )" +
                              std::to_string(budget_) + "}";
  Watched watched;
  lowtide_plan* plan = nullptr;
  ASSERT_EQ(lowtide_plan_make_watched(model_, options.c_str(), watch, &watched, nullptr, &plan),
            LOWTIDE_OK)
      << lowtide_last_error();
  lowtide_plan_free(plan);
  ASSERT_FALSE(watched.told.empty());
  EXPECT_EQ(watched.stages.front(), "runs");
  EXPECT_EQ(watched.stages.back(), "proof");
  EXPECT_TRUE(std::is_sorted(watched.stages.rbegin(), watched.stages.rend()));
  for (size_t i = 1; i < watched.told.size(); ++i)
    EXPECT_GE(watched.told[i].share, watched.told[i - 1].share);
}

TEST_F(CAbiSearch, GivesAFront) {
  Watched watched;
  lowtide_front* front = nullptr;
  const char* sweep = R"({"budgets": "85%..100%,1KiB", "points": 2, "choose": "90%"})";
  ASSERT_EQ(lowtide_front_make(model_, R"({"train": true, "effort": 0.05})", sweep, watch, &watched,
                               cancel_, &front),
            LOWTIDE_OK)
      << lowtide_last_error();
  EXPECT_FALSE(watched.told.empty());
  ASSERT_EQ(lowtide_front_point_count(front), 4U);
  EXPECT_EQ(lowtide_front_chosen(front), 1);
  EXPECT_LT(lowtide_front_knee(front), 3);
  lowtide_front_point_info point = {};
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(lowtide_front_point(front, i, &point), LOWTIDE_OK);
    ASSERT_EQ(point.found, 1) << point.reason;
    EXPECT_STREQ(point.reason, "");
    EXPECT_TRUE(lowtide_front_floor_bytes(front) <= point.arena_bytes &&
                point.peak_bytes <= point.arena_bytes && point.arena_bytes <= point.budget_bytes);
    EXPECT_GE(point.seconds, point.lower_bound_seconds);
    lowtide_plan* plan = nullptr;
    ASSERT_EQ(lowtide_front_plan(front, i, &plan), LOWTIDE_OK);
    EXPECT_EQ(lowtide_plan_arena_bytes(plan), point.arena_bytes);
    EXPECT_EQ(lowtide_plan_verify(plan), LOWTIDE_OK) << lowtide_last_error();
    lowtide_plan_free(plan);
  }
  lowtide_plan* plan = nullptr;
  ASSERT_EQ(lowtide_front_point(front, 3, &point), LOWTIDE_OK);
  EXPECT_STREQ(point.status, "infeasible");
  EXPECT_EQ(point.found, 0);
  EXPECT_EQ(lowtide_front_plan(front, 3, &plan), LOWTIDE_USAGE);
  EXPECT_NE(std::string(lowtide_last_error()).find(point.reason), std::string::npos);
  EXPECT_EQ(lowtide_front_point(front, 4, &point), LOWTIDE_USAGE);
  EXPECT_STREQ(lowtide_last_error(), "index 4 is not below 4");
  EXPECT_EQ(plan, nullptr);
  const std::string lines = lowtide_front_lines(front);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
  EXPECT_EQ(lowtide_front_json(front)[0], '{');
  EXPECT_NE(lowtide_front_text(front)[0], '\0');
  lowtide_front_free(front);
}

TEST_F(CAbiSearch, RefusesWrongSweeps) {
  lowtide_front* front = nullptr;
  const auto make = [&](const char* options, const char* sweep) {
    return lowtide_front_make(model_, options, sweep, nullptr, nullptr, nullptr, &front);
  };
  EXPECT_EQ(make("{}", R"({"budget": "50%"})"), LOWTIDE_USAGE);
  EXPECT_STREQ(lowtide_last_error(),
               "options: 'budget' is not known; known are budgets, points, choose");
  EXPECT_EQ(make("{}", R"({"points": 1})"), LOWTIDE_USAGE);
  EXPECT_EQ(make(R"({"budget_bytes": 5})", nullptr), LOWTIDE_USAGE);
  EXPECT_EQ(make(R"({"train": true, "effort": 0.01})", R"({"budgets": "1KiB"})"),
            LOWTIDE_INFEASIBLE);
  EXPECT_EQ(front, nullptr);
}

TEST(CAbi, NullHandlesAreUsageErrorsOrGiveNothing) {
  lowtide_plan* plan = nullptr;
  lowtide_session* session = nullptr;
  lowtide_value value;
  EXPECT_EQ(lowtide_model_read("x.onnx", nullptr, nullptr), LOWTIDE_USAGE);
  EXPECT_STREQ(lowtide_last_error(), "model is NULL");
  EXPECT_EQ(lowtide_plan_make(nullptr, "{}", &plan), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_load(nullptr, &plan), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_plan_save(nullptr, "x"), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_open(nullptr, "", &session), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_value(nullptr, LOWTIDE_INPUTS, 0, &value), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_set(nullptr, "x", "", 0), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_get(nullptr, "x", nullptr, 0), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_seed_inputs(nullptr), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_run(nullptr, 1), LOWTIDE_USAGE);
  lowtide_update update = {};
  int32_t done = 0;
  double seconds = 0;
  EXPECT_EQ(lowtide_session_lend(nullptr, "x", &update, 1), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_lent_bytes(nullptr), 0);
  EXPECT_EQ(lowtide_session_set_update(nullptr, "x", &update), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_set_seed(nullptr, 1), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_run_if_finite(nullptr, "x", &done), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_session_rehearse(nullptr, &seconds), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_model_name(nullptr), nullptr);
  EXPECT_EQ(lowtide_model_free_dim_count(nullptr), 0U);
  EXPECT_EQ(lowtide_plan_json(nullptr), nullptr);
  EXPECT_EQ(lowtide_plan_arena_bytes(nullptr), 0);
  EXPECT_EQ(lowtide_plan_order_proven(nullptr), 0);
  EXPECT_EQ(lowtide_session_value_count(nullptr, LOWTIDE_OUTPUTS), 0U);
  EXPECT_EQ(lowtide_session_arena_bytes(nullptr), 0);
  lowtide_front* front = nullptr;
  lowtide_front_point_info point;
  EXPECT_EQ(lowtide_cancel_make(nullptr), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_cancel_raised(nullptr), 0);
  EXPECT_EQ(lowtide_front_make(nullptr, "", "", nullptr, nullptr, nullptr, &front), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_front_point(nullptr, 0, &point), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_front_plan(nullptr, 0, &plan), LOWTIDE_USAGE);
  EXPECT_EQ(lowtide_front_point_count(nullptr), 0U);
  EXPECT_EQ(lowtide_front_knee(nullptr), -1);
  EXPECT_EQ(lowtide_front_chosen(nullptr), -1);
  EXPECT_EQ(lowtide_front_lines(nullptr), nullptr);
  lowtide_cancel_raise(nullptr);
  lowtide_cancel_free(nullptr);
  lowtide_front_free(nullptr);
  lowtide_model_free(nullptr);
  lowtide_plan_free(nullptr);
  lowtide_session_free(nullptr);
}

}  // namespace
}  // namespace lowtide

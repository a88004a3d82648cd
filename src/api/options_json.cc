#include "api/options_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/budgets.h"
#include "base/printable.h"
#include "plan/plan_check.h"

namespace lowtide {
namespace {

using Json = nlohmann::json;

using plan::kMostThreads;
constexpr size_t kMostValue = 80;  // bytes of a value in an error

// Takes the members of one object one after the other and remembers the first that is wrong.
class Members {
 public:
  explicit Members(std::string_view json) {
    if (json.empty()) return;
    object_ = Json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!object_.is_object()) refuse("options are not a JSON object such as {\"threads\": 2}");
  }

  Members& boolean(const char* key, bool& field) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    if (!value->is_boolean()) return wrong(key, *value, "true or false");
    field = value->get<bool>();
    return *this;
  }

  Members& words(const char* key, std::vector<std::string>& field) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    const bool right =
        value->is_array() && std::all_of(value->begin(), value->end(),
                                         [](const Json& each) { return each.is_string(); });
    if (!right) return wrong(key, *value, "a list of strings");
    field = value->get<std::vector<std::string>>();
    return *this;
  }

  // May be negative.
  Members& any_integer(const char* key, std::optional<int64_t>& field) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && !is_whole(*value, 0, std::numeric_limits<int64_t>::max())))
      return wrong(key, *value, "a whole number");
    field = value->get<int64_t>();
    return *this;
  }

  template <class T>
  Members& integer(const char* key, T& field, T most = std::numeric_limits<T>::max()) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    if (!is_whole(*value, 0, static_cast<uint64_t>(most)))
      return wrong(key, *value, fmt::format("a whole number from 0 to {}", most));
    field = value->get<T>();
    return *this;
  }

  Members& real(const char* key, double& field) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    if (!value->is_number()) return wrong(key, *value, "a number");
    field = value->get<double>();
    return *this;
  }

  Members& not_below_zero(const char* key, double& field) {
    const double before = field;
    real(key, field);
    if (field >= 0) return *this;
    const double given = std::exchange(field, before);
    return wrong(key, given, "a number from 0");
  }

  Members& not_below_zero(const char* key, std::optional<double>& field) {
    double given = field.value_or(0);
    const bool present = object_.contains(key);
    not_below_zero(key, given);
    if (present && problem_.empty()) field = given;
    return *this;
  }

  Members& above_zero(const char* key, double& field) {
    const double before = field;
    real(key, field);
    if (field > 0) return *this;
    const double given = std::exchange(field, before);
    return wrong(key, given, "a number above 0");
  }

  Members& above_zero(const char* key, std::optional<double>& field) {
    double given = field.value_or(1);
    const bool present = object_.contains(key);
    above_zero(key, given);
    if (present && problem_.empty()) field = given;
    return *this;
  }

  Members& word(const char* key, std::string& field) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    if (!value->is_string()) return wrong(key, *value, "a string");
    field = value->get<std::string>();
    return *this;
  }

  Members& sizes(const char* key, std::map<std::string, int64_t, std::less<>>& field) {
    const Json* value = take(key);
    if (value == nullptr) return *this;
    if (!value->is_object()) return wrong(key, *value, "an object of names and sizes");
    for (const auto& [name, size] : value->items()) {
      if (!is_whole(size, 1, std::numeric_limits<int64_t>::max()))
        return wrong(fmt::format("{}.{}", key, name), size, "a size of at least 1");
      field[name] = size.get<int64_t>();
    }
    return *this;
  }

  // Error: the first that was wrong, or a key that nobody took.
  Status finish() const {
    if (!problem_.empty()) return error(ErrorCode::kUsage, problem_);
    for (const auto& [key, value] : object_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        return error(ErrorCode::kUsage,
                     fmt::format("options: '{}' is not known; known are {}",
                                 printable(key, kMostValue), fmt::join(known_, ", ")));
    return {};
  }

 private:
  const Json* take(const char* key) {
    known_.emplace_back(key);
    if (!problem_.empty()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  static bool is_whole(const Json& value, uint64_t least, uint64_t most) {
    if (!value.is_number_unsigned()) return false;
    const auto number = value.get<uint64_t>();
    return number >= least && number <= most;
  }

  Members& wrong(std::string_view key, const Json& value, std::string_view wanted) {
    const std::string shown =
        value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
    refuse(fmt::format("options: '{}' is {}; it is to be {}", printable(key, kMostValue),
                       printable(shown, kMostValue), wanted));
    return *this;
  }
  void refuse(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
  }

  Json object_ = Json::object();
  std::vector<std::string> known_;
  std::string problem_;
};

}  // namespace

Result<ReadOptions> parse_read_options(std::string_view json) {
  ReadOptions options;
  Members members(json);
  members.sizes("dims", options.dims)
      .boolean("training", options.training)
      .boolean("dropout", options.dropout);
  LT_RETURN_IF_ERROR(members.finish());
  return options;
}

Result<PlanOptions> parse_plan_options(std::string_view json) {
  PlanOptions options;
  int64_t budget = -1;
  Members members(json);
  members.boolean("train", options.train)
      .word("loss", options.loss)
      .word("loss_output", options.loss_output)
      .any_integer("ignore_index", options.ignore_index)
      .boolean("keep_outputs", options.keep_outputs)
      .word("optimizer", options.optimizer)
      .real("learning_rate", options.learning_rate)
      .real("weight_decay", options.weight_decay)
      .real("momentum", options.momentum)
      .word("device", options.device)
      .word("costs_file", options.costs_file)
      .boolean("costs_any_device", options.costs_any_device)
      .word("cost_model", options.cost_model)
      .integer("budget_bytes", budget)
      .word("budget", options.budget)
      .not_below_zero("slowdown", options.slowdown)
      .word("allow", options.allow)
      .word("forbid", options.forbid)
      .boolean("more_levers", options.more_levers)
      .boolean("recompute", options.recompute)
      .boolean("reorder", options.reorder)
      .boolean("pieces", options.pieces)
      .boolean("sums", options.sums)
      .words("rewrites", options.rewrites)
      .words("no_rewrites", options.no_rewrites)
      .words("no_mutations", options.no_mutations)
      .words("without", options.without)
      .words("cuts", options.cuts)
      .word("split", options.split)
      .integer("query_blocks", options.query_blocks)
      .boolean("strided_views", options.strided_views)
      .word("swap", options.swap)
      .boolean("swap_residents", options.swap_residents)
      .above_zero("link_bytes_per_second", options.link_bytes_per_second)
      .above_zero("effort", options.effort)
      .not_below_zero("prove", options.prove)
      .integer("threads", options.threads, kMostThreads)
      .integer("seed", options.seed)
      .word("dump_folder", options.dump_folder)
      .above_zero("time_limit_seconds", options.time_limit_seconds);
  LT_RETURN_IF_ERROR(members.finish());
  if (budget >= 0) options.budget_bytes = budget;
  return options;
}

Result<SweepOptions> parse_sweep_options(std::string_view json) {
  SweepOptions options;
  Members members(json);
  members.word("budgets", options.budgets)
      .integer("points", options.points, kMostBudgets)
      .word("choose", options.choose);
  LT_RETURN_IF_ERROR(members.finish());
  return options;
}

Result<RunOptions> parse_run_options(std::string_view json) {
  RunOptions options;
  Members members(json);
  members.integer("seed", options.seed)
      .word("model_folder", options.model_folder)
      .boolean("seed_missing_weights", options.seed_missing_weights)
      .boolean("unplanned", options.unplanned)
      .words("lent", options.lent)
      .integer("threads", options.threads, kMostThreads)
      .word("slow_tier_folder", options.slow_tier_folder)
      .real("link_bytes_per_second", options.link_bytes_per_second);
  LT_RETURN_IF_ERROR(members.finish());
  return options;
}

}  // namespace lowtide

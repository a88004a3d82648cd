#include "report/data/front_file.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "plan/plan_fields.h"
#include "report/sizes.h"

namespace lowtide::report {
namespace {

using Parsed = nlohmann::json;

constexpr size_t kMostFrontDepth = 8;   // a line is two deep
constexpr double kMostNumber = 9.2e18;  // still an int64_t

class LineReader {
 public:
  LineReader(const std::string& origin, size_t line, const Parsed& object)
      : where_(fmt::format("{}, line {}: ", origin, line)), object_(object) {}

  tl::unexpected<Error> fail(const std::string& what) const {
    return error(ErrorCode::kInput, where_ + what);
  }

  Status bytes(const char* key, int64_t& out) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_number_integer())
      return fail(fmt::format("'{}' is missing or no whole number", key));
    const auto number = found->get<double>();
    if (!(number >= 0 && number <= kMostNumber))
      return fail(fmt::format("'{}' is {}", key, found->dump()));
    out = found->get<int64_t>();
    return {};
  }

  Status real(const char* key, double& out) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_number() || !std::isfinite(found->get<double>()))
      return fail(fmt::format("'{}' is missing or no number", key));
    out = found->get<double>();
    return {};
  }

  Status percent(const char* key, double& out) const {
    LT_RETURN_IF_ERROR(real(key, out));
    out /= 100;
    return {};
  }

  Status truth(const char* key, bool& out) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_boolean())
      return fail(fmt::format("'{}' is missing or neither true nor false", key));
    out = found->get<bool>();
    return {};
  }

  Status word(const char* key, std::string& out) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_string())
      return fail(fmt::format("'{}' is missing or no text", key));
    out = found->get<std::string>();
    return {};
  }

 private:
  const std::string where_;
  const Parsed& object_;
};

Status read_found(const LineReader& reader, FrontPoint& point) {
  LT_RETURN_IF_ERROR(reader.bytes("arena_bytes", point.arena_bytes));
  LT_RETURN_IF_ERROR(reader.bytes("peak_bytes", point.peak_bytes));
  LT_RETURN_IF_ERROR(reader.real("predicted_step_seconds", point.seconds));
  LT_RETURN_IF_ERROR(reader.real("lower_bound_seconds", point.lower_bound_seconds));
  LT_RETURN_IF_ERROR(reader.percent("extra_percent", point.extra));
  LT_RETURN_IF_ERROR(reader.percent("lower_bound_extra_percent", point.bound_extra));
  LT_RETURN_IF_ERROR(reader.percent("gap_percent", point.gap));
  LT_RETURN_IF_ERROR(reader.bytes("reruns", point.reruns));
  LT_RETURN_IF_ERROR(reader.bytes("stored_bytes", point.stored_bytes));
  LT_RETURN_IF_ERROR(reader.bytes("loaded_bytes", point.loaded_bytes));
  LT_RETURN_IF_ERROR(reader.real("exposed_seconds", point.exposed_seconds));
  return reader.word("split", point.split);
}

// A front says of each point what it is of.
Status check_model(const LineReader& reader, const Parsed& object, const plan::Plan& plan,
                   SweptFront& front) {
  if (!object.contains("model") || !object.contains("dims"))
    return reader.fail("does not say of which model it is; `lowtide sweep` writes it again");
  LT_RETURN_IF_ERROR(reader.word("model", front.model));
  if (front.model != plan.model)
    return reader.fail(fmt::format("a front of model '{}'; the plan is of '{}'",
                                   printable(front.model), printable(plan.model)));
  front.dims.clear();
  if (!object["dims"].is_object()) return reader.fail("'dims' is no object");
  for (const auto& [symbol, size] : object["dims"].items()) {
    if (!size.is_number_integer()) return reader.fail("a size among 'dims' is no whole number");
    front.dims[symbol] = size.get<int64_t>();
  }
  if (front.dims != plan.bindings)
    return reader.fail(fmt::format("a front for{}; the plan is for{}", spelled_sizes(front.dims),
                                   spelled_sizes(plan.bindings)));
  return {};
}

Status read_point(const LineReader& reader, SweptFront& front) {
  FrontPoint point;
  bool knee = false, chosen = false;
  LT_RETURN_IF_ERROR(reader.bytes("budget_bytes", point.budget_bytes));
  LT_RETURN_IF_ERROR(reader.word("status", point.status));
  LT_RETURN_IF_ERROR(reader.truth("found", point.found));
  LT_RETURN_IF_ERROR(reader.truth("knee", knee));
  LT_RETURN_IF_ERROR(reader.truth("chosen", chosen));
  LT_RETURN_IF_ERROR(point.found ? read_found(reader, point) : reader.word("reason", point.reason));
  if (!front.points.empty() && front.points.back().budget_bytes <= point.budget_bytes)
    return reader.fail("budgets must become smaller from line to line");
  if (knee) front.knee = front.points.size();
  if (chosen) front.chosen = front.points.size();
  front.points.push_back(std::move(point));
  return {};
}

}  // namespace

Result<SweptFront> read_front(std::string_view lines, const std::string& origin,
                              const plan::Plan& plan) {
  SweptFront front;
  for (size_t number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.empty()) continue;
    const auto parsed = plan::parse_json(line, origin, {.depth = kMostFrontDepth});
    const Parsed object = parsed ? *parsed : Parsed();
    const LineReader reader(origin, number, object);
    if (!object.is_object())
      return reader.fail(
          "no JSON object; a front is a file that `lowtide sweep -o PREFIX` writes "
          "as PREFIX.jsonl");
    LT_RETURN_IF_ERROR(check_model(reader, object, plan, front));
    LT_RETURN_IF_ERROR(read_point(reader, front));
  }
  if (front.points.empty()) return error(ErrorCode::kInput, origin + ": has no points of a front");
  return front;
}

}  // namespace lowtide::report

#include "api/compare_whole.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "api/dump.h"
#include "base/element.h"
#include "base/printable.h"
#include "base/rng.h"
#include "plan/part_name.h"
#include "runtime/contents.h"

namespace lowtide {
namespace {

using plan::PlanOpId;
using plan::PlanValueId;
using Bytes = std::vector<std::byte>;

constexpr double kShareOfKind = 1e-3;  // a value counts as at least so large, of those of its kind
constexpr double kCoarseTolerance = 5e-2;  // of bf16 and f16
constexpr double kAdamSteps = 2.5;         // learning rates that Adam's parameters may be apart
constexpr double kRoundings = 8;           // of what the last bit of weights and inputs changes

struct Held {
  PlanValueId value;
  Bytes bytes;         // of the whole step
  double largest = 0;  // magnitude
};

// What differs by more than the tolerance, until the step's own rounding is known.
struct Suspect {
  PlanValueId value;
  Bytes expected;
  double scale = 0;
  double relative = 0;
  double rounding = 0;  // relative difference that the last bits make
};

double element(DType dtype, std::span<const std::byte> bytes, size_t i) {
  return read_real(dtype, bytes.data() + i * static_cast<size_t>(size_bytes(dtype)));
}

double largest_magnitude(DType dtype, std::span<const std::byte> bytes) {
  double most = 0;
  for (size_t i = 0; i < bytes.size() / static_cast<size_t>(size_bytes(dtype)); ++i) {
    const double x = std::abs(element(dtype, bytes, i));
    if (std::isfinite(x)) most = std::max(most, x);
  }
  return most;
}

bool is_real(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

// Changes the last bit of each number, up or down as drawn; zeros stay.
void change_last_bits(DType dtype, std::span<std::byte> bytes, Rng& rng) {
  const auto width = static_cast<size_t>(size_bytes(dtype));
  for (size_t at = 0; at < bytes.size(); at += width)
    if (read_real(dtype, &bytes[at]) != 0) bytes[at] ^= std::byte{rng.below(2) == 0};
}

// The plan's value of a gradient, by name. The last one made counts: a sum is complete then.
bool is_gradient(const plan::Plan& plan, PlanValueId id) {
  const plan::PlanValue& value = plan.values[id];
  return value.producer.valid() && value.alias != plan::PlanAlias::kUpdate &&
         plan.storages[value.storage].category == Category::kGradient;
}

// "grad/w/part3", the contribution of a part to a sum, adds to what is "grad/w" in one part;
// "grad/w/part3/part0", that of a part of a part, likewise.
std::string_view whole_name(std::string_view name) {
  while (const auto part = plan::part_name(name)) name = part->op;
  return name;
}

class WholeJudge {
 public:
  WholeJudge(const plan::Plan& plan, const plan::Plan& whole) : plan_(plan), whole_(whole) {
    for (const PlanValueId id : plan.values.ids())
      by_name_.insert_or_assign(plan.values[id].name, id);
    if (const auto rate = plan.provenance.find("learning_rate"); rate != plan.provenance.end())
      rate_ = std::strtod(rate->second.c_str(), nullptr);
  }

  Result<WholeComparison> run(runtime::Session& parts, runtime::Session& whole,
                              const std::function<Result<runtime::Session>()>& again) {
    LT_RETURN_IF_ERROR(check_same_step());
    LT_RETURN_IF_ERROR(keep_whole(whole));
    LT_RETURN_IF_ERROR(hold_gradients(parts));
    LT_RETURN_IF_ERROR(hold_what_stays(parts, whole));
    if (!suspects_.empty()) {
      LT_ASSIGN(runtime::Session changed, again());
      LT_RETURN_IF_ERROR(measure_rounding(changed));
    }
    for (const auto& [name, suspect] : suspects_) {
      if (suspect.relative <= kRoundings * suspect.rounding) {
        ++result_.rounded;
        result_.roundings = std::max(result_.roundings, suspect.relative / suspect.rounding);
      } else {
        beyond(name);
      }
    }
    return std::move(result_);
  }

 private:
  // Both begin with the same tensors and return the same ones.
  Status check_same_step() const {
    for (const plan::PlanValue& value : whole_.values) {
      const bool constant = value.initial.kind == plan::PlanInitial::Kind::kInline;
      if ((value.producer.valid() || constant) && !value.is_output) continue;
      const auto other = by_name_.find(value.name);
      if (other == by_name_.end())
        return error(ErrorCode::kUsage,
                     fmt::format("--against: the step in one part has '{}', the plan in parts has "
                                 "not: give the model that it was made of",
                                 printable(value.name)));
      const plan::TensorDesc& type = plan_.values[other->second].type;
      if (type.dtype != value.type.dtype || type.dims != value.type.dims)
        return error(
            ErrorCode::kUsage,
            fmt::format(
                "--against: '{}' is {} [{}] in the step in one part and {} [{}] in the plan "
                "in parts: give the model that the plan was made of, with its sizes",
                printable(value.name), name(value.type.dtype), fmt::join(value.type.dims, ", "),
                name(type.dtype), fmt::join(type.dims, ", ")));
    }
    return {};
  }

  Status keep_whole(runtime::Session& whole) {
    const runtime::Observer keep = [this](PlanOpId, PlanValueId id,
                                          std::span<const std::byte> bytes) {
      if (is_gradient(whole_, id)) keep_gradient(id, bytes);
    };
    return whole.run(&keep);
  }

  void keep_gradient(PlanValueId id, std::span<const std::byte> bytes) {
    const plan::PlanValue& value = whole_.values[id];
    std::optional<Bytes> dense = row_major(value, bytes);
    const double largest = dense ? largest_magnitude(value.type.dtype, *dense) : 0;
    largest_gradient_ = std::max(largest_gradient_, largest);
    gradients_.insert_or_assign(value.name, Held{id, dense ? std::move(*dense) : Bytes{}, largest});
  }

  static std::optional<Bytes> row_major(const plan::PlanValue& value,
                                        std::span<const std::byte> bytes) {
    Bytes dense(static_cast<size_t>(plan::size_bytes(value.type)));
    if (!runtime::load_row_major(value, bytes.data(), dense)) return std::nullopt;
    return dense;
  }

  // A gradient that is summed over parts is complete when the last of them, of any name, was added.
  Status hold_gradients(runtime::Session& parts) {
    std::map<std::string, Bytes, std::less<>> made;
    const runtime::Observer take = [&](PlanOpId, PlanValueId id, std::span<const std::byte> bytes) {
      const plan::PlanValue& value = plan_.values[id];
      if (!is_gradient(plan_, id)) return;
      const auto held = gradients_.find(whole_name(value.name));
      if (held == gradients_.end() ||
          value.type.dims != whole_.values[held->second.value].type.dims)
        return;
      if (auto dense = row_major(value, bytes))
        made.insert_or_assign(held->first, std::move(*dense));
    };
    LT_RETURN_IF_ERROR(parts.run(&take));
    for (const auto& [name, held] : gradients_) {
      const auto found = made.find(name);
      if (held.bytes.empty() || found == made.end() || found->second.size() != held.bytes.size()) {
        apart(name);
        continue;
      }
      judge(held.value, held.bytes, found->second,
            std::max(held.largest, kShareOfKind * largest_gradient_));
    }
    gradients_.clear();
    return {};
  }

  // Outputs, and what lies in memory before and after the step.
  Status hold_what_stays(const runtime::Session& parts, const runtime::Session& whole) {
    double largest_state = 0;
    std::vector<std::pair<PlanValueId, std::pair<Bytes, Bytes>>> pairs;
    for (const PlanValueId id : staying()) {
      const plan::PlanValue& value = whole_.values[id];
      auto expected = whole.get(value.name);
      if (!expected) {
        apart(value.name);
        continue;
      }
      auto bytes = parts.get(value.name);
      if (!bytes) {
        apart(value.name);
        continue;
      }
      if (whole_.storages[value.storage].category == Category::kOptimizerState)
        largest_state = std::max(largest_state, largest_magnitude(value.type.dtype, *expected));
      pairs.push_back({id, {std::move(*expected), std::move(*bytes)}});
    }
    for (const auto& [id, bytes] : pairs) hold(id, bytes.first, bytes.second, largest_state);
    return {};
  }

  void hold(PlanValueId id, const Bytes& expected, const Bytes& bytes, double largest_state) {
    const plan::PlanValue& value = whole_.values[id];
    const Category category = whole_.storages[value.storage].category;
    const DType dtype = value.type.dtype;
    if (category == Category::kParameter && by_adam_[value.storage])
      return judge_adam(value.name, largest_difference(dtype, expected, bytes));
    double scale = largest_magnitude(dtype, expected);
    if (category == Category::kOptimizerState)
      scale = std::max(scale, kShareOfKind * largest_state);
    judge(id, expected, bytes, scale);
  }

  // Outputs, and one value of each storage that is there before the step and updated by it.
  std::vector<PlanValueId> staying() {
    std::vector<PlanValueId> found;
    IdVector<plan::PlanStorageId, char> updated(whole_.storages.size(), 0);
    by_adam_ = IdVector<plan::PlanStorageId, char>(whole_.storages.size(), 0);
    for (const plan::PlanValue& value : whole_.values) {
      if (value.alias != plan::PlanAlias::kUpdate) continue;
      updated[value.storage] = 1;
      by_adam_[value.storage] = whole_.ops[value.producer].kind.starts_with("Adam");
    }
    for (const PlanValueId id : whole_.values.ids()) {
      const plan::PlanValue& value = whole_.values[id];
      const plan::PlanStorage& storage = whole_.storages[value.storage];
      const bool stays = storage.resident && updated[value.storage] && storage.root == id;
      if (stays || (value.is_output && !storage.resident)) found.push_back(id);
    }
    return found;
  }

  void judge(PlanValueId id, const Bytes& expected, const Bytes& bytes, double scale) {
    const auto& [name, dtype] = std::tie(whole_.values[id].name, whole_.values[id].type.dtype);
    ++result_.values;
    const double relative = relative_difference(dtype, expected, bytes, scale);
    if (relative > result_.largest) result_.largest = relative, result_.largest_name = name;
    const bool coarse = dtype == DType::kBF16 || dtype == DType::kF16;
    if (!(relative <= (coarse ? kCoarseTolerance : kWholeTolerance)))
      suspects_.insert_or_assign(name, Suspect{id, expected, scale, relative});
  }

  static double relative_difference(DType dtype, const Bytes& a, const Bytes& b, double scale) {
    const double apart = largest_difference(dtype, a, b);
    return apart == 0 ? 0 : apart / scale;
  }

  // The whole step with other last bits: what that makes of each suspect.
  Status measure_rounding(runtime::Session& changed) {
    LT_RETURN_IF_ERROR(change_contents(changed));
    const auto note = [this](PlanValueId id, const Bytes& bytes) {
      const auto found = suspects_.find(whole_.values[id].name);
      if (found == suspects_.end() || found->second.value != id) return;
      Suspect& suspect = found->second;
      suspect.rounding =
          relative_difference(whole_.values[id].type.dtype, suspect.expected, bytes, suspect.scale);
    };
    const runtime::Observer look = [&](PlanOpId, PlanValueId id, std::span<const std::byte> bytes) {
      if (!is_gradient(whole_, id)) return;
      if (const auto dense = row_major(whole_.values[id], bytes)) note(id, *dense);
    };
    LT_RETURN_IF_ERROR(changed.run(&look));
    for (const PlanValueId id : staying())
      if (const auto bytes = changed.get(whole_.values[id].name)) note(id, *bytes);
    return {};
  }

  Status change_contents(runtime::Session& session) const {
    Rng rng(1);
    for (const plan::PlanValue& value : whole_.values) {
      const bool constant = value.initial.kind == plan::PlanInitial::Kind::kInline;
      if (value.producer.valid() || constant || !is_real(value.type.dtype)) continue;
      LT_ASSIGN(Bytes bytes, session.get(value.name));
      change_last_bits(value.type.dtype, bytes, rng);
      LT_RETURN_IF_ERROR(session.set(value.name, bytes));
    }
    return {};
  }

  void judge_adam(const std::string& name, double apart) {
    ++result_.values;
    result_.parameters_apart = std::max(result_.parameters_apart, apart);
    if (!(apart <= kAdamSteps * rate_)) beyond(name);
  }

  void apart(const std::string& name) {
    if (++result_.apart == 1) result_.first_apart = name;
  }

  void beyond(const std::string& name) {
    if (++result_.beyond == 1) result_.first_beyond = name;
  }

  const plan::Plan& plan_;
  const plan::Plan& whole_;
  std::map<std::string, PlanValueId, std::less<>> by_name_;
  std::map<std::string, Held, std::less<>> gradients_;
  std::map<std::string, Suspect, std::less<>> suspects_;
  double largest_gradient_ = 0;
  double rate_ = 0;                              // of learning
  IdVector<plan::PlanStorageId, char> by_adam_;  // what updates it, of the whole step
  WholeComparison result_;
};

}  // namespace

double largest_difference(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  double most = 0;
  for (size_t i = 0; i < a.size() / static_cast<size_t>(size_bytes(dtype)); ++i) {
    const double x = element(dtype, a, i), y = element(dtype, b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double apart = std::abs(x - y);
    most = std::max(most, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
  }
  return most;
}

Result<WholeComparison> compare_with_whole(const plan::Plan& plan, runtime::Session& parts,
                                           const plan::Plan& whole_plan, runtime::Session& whole,
                                           const std::function<Result<runtime::Session>()>& again) {
  return WholeJudge(plan, whole_plan).run(parts, whole, again);
}

}  // namespace lowtide

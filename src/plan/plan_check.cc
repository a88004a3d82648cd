#include "plan/plan_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/bytes.h"
#include "base/printable.h"
#include "plan/tick_scale.h"

namespace lowtide::plan {
namespace {

// Of a proof by cases.
constexpr int64_t kMaxMultiplier = int64_t{1} << 31;
constexpr int64_t kMostUnitTicks = int64_t{1} << 16;
constexpr size_t kMostNodes = 20'000;
// Of all wholes together.
constexpr size_t kMostPieces = size_t{1} << 24;

constexpr int64_t kMaxAlignment = int64_t{1} << 30;

template <class... Args>
tl::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorCode::kInput, fmt::format(format, std::forward<Args>(args)...));
}

template <class IdType, class T>
bool within(IdType id, const IdVector<IdType, T>& items) {
  return id.valid() && id.index() < items.size();
}

bool is_size(int64_t number) {
  return number >= 0 && number <= kMaxBytes;
}
bool fits(int64_t address, int64_t bytes) {
  return is_size(address) && address <= kMaxBytes - bytes;
}
bool is_time(double seconds) {
  return seconds >= 0 && seconds <= kMaxSeconds;
}

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  Status run() {
    LT_RETURN_IF_ERROR(check_threads());
    LT_RETURN_IF_ERROR(check_totals());
    LT_RETURN_IF_ERROR(check_slow_tiers());
    for (PlanValueId v : plan_.values.ids()) LT_RETURN_IF_ERROR(check_value(plan_.values[v], v));
    for (PlanStorageId s : plan_.storages.ids())
      LT_RETURN_IF_ERROR(check_storage(plan_.storages[s], s));
    for (PlanOpId o : plan_.ops.ids()) LT_RETURN_IF_ERROR(check_op(plan_.ops[o], o));
    LT_RETURN_IF_ERROR(check_outputs());
    LT_RETURN_IF_ERROR(check_wholes());
    LT_RETURN_IF_ERROR(check_names());
    LT_RETURN_IF_ERROR(check_bindings());
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      LT_RETURN_IF_ERROR(check_step(plan_.steps[i], i));
    return check_claims();
  }

 private:
  // Kernels take as many threads as the plan was made for.
  Status check_threads() const {
    const auto found = plan_.provenance.find("threads");
    if (found == plan_.provenance.end()) return {};
    const std::string& text = found->second;
    int threads = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), threads);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || threads < 1 ||
        threads > kMostThreads)
      return bad("the plan was made for '{}' threads; a number from 1 to {} is needed",
                 printable(text), kMostThreads);
    return {};
  }

  Status check_totals() const {
    const int64_t alignment = plan_.alignment_bytes;
    if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
      return bad("alignment_bytes is {}; it must be a power of two up to 2^30", alignment);
    if (!is_size(plan_.arena_bytes)) return bad("arena_bytes is {}", plan_.arena_bytes);
    int64_t total = 0;
    const auto add = [&total](int64_t bytes) {
      if (!is_size(bytes) || bytes > kMaxBytes - total) return false;
      total += bytes;
      return true;
    };
    for (PlanStorageId s : plan_.storages.ids())
      if (!add(plan_.storages[s].bytes))
        return bad("storage {} has {} bytes, or all storages more than 2^62", s.index(),
                   plan_.storages[s].bytes);
    for (const PlanOp& op : plan_.ops)
      if (!add(op.workspace_bytes))
        return bad("op '{}' has a workspace of {} bytes", op.name, op.workspace_bytes);
    total = 0;  // what the step in one part has is there in place of the parts
    for (const PlanOp& op : plan_.ops) {
      if (!op.unsplit) continue;
      bool right = add(op.unsplit->workspace_bytes);
      for (int64_t bytes : op.unsplit->output_bytes) right = right && add(bytes);
      if (!right) return bad("op '{}' in one part is too large", op.name);
    }
    return {};
  }

  // One for each dimension, not negative, of a view; its span is a size.
  static Status check_strides(const PlanValue& value) {
    const Layout& layout = value.type.layout;
    const std::vector<int64_t>& strides = layout.strides;
    if (strides.size() != value.type.dims.size() || !layout.order.empty() ||
        !layout.blocked.empty())
      return bad("value '{}' has {} dimensions and {} strides", value.name, value.type.dims.size(),
                 strides.size());
    if (value.alias != PlanAlias::kView)
      return bad("value '{}' has strides and is no view", value.name);
    for (int64_t stride : strides)
      if (!is_size(stride)) return bad("value '{}' has a stride of {}", value.name, stride);
    const auto span = strided_span(value.type.dims, strides);
    const auto bytes = span ? checked_mul(*span, size_bytes(value.type.dtype)) : std::nullopt;
    if (!bytes || *bytes > kMaxBytes)
      return bad("value '{}' reaches over more than 2^62 bytes", value.name);
    return {};
  }

  Status check_type(const PlanValue& value) const {
    const std::vector<int64_t>& dims = value.type.dims;
    const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
    int64_t bytes = size_bytes(value.type.dtype);
    for (int64_t dim : dims) {
      if (!is_size(dim)) return bad("value '{}' has a dimension of {}", value.name, dim);
      const auto product = empty ? 0 : checked_mul(bytes, dim);
      if (!product || *product > kMaxBytes)
        return bad("value '{}' is larger than 2^62 bytes", value.name);
      bytes = *product;
    }
    const Layout& layout = value.type.layout;
    if (!is_size(layout.blocked_bytes) || (layout.blocked.empty() && layout.blocked_bytes != 0))
      return bad("value '{}' has a layout of {} blocked bytes", value.name, layout.blocked_bytes);
    if (layout.strided()) return check_strides(value);
    if (layout.order.empty()) return {};
    std::vector<uint8_t> sorted = layout.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != i) return bad("the layout of value '{}' is no permutation", value.name);
    if (sorted.size() != value.type.dims.size() || !layout.blocked.empty())
      return bad("value '{}' has {} dimensions and a layout of {}", value.name,
                 value.type.dims.size(), sorted.size());
    return {};
  }

  Status check_value(const PlanValue& value, PlanValueId id) const {
    LT_RETURN_IF_ERROR(check_type(value));
    if (!within(value.storage, plan_.storages))
      return bad("value '{}' lies in no storage", value.name);
    if (value.producer.valid() && !within(value.producer, plan_.ops))
      return bad("value '{}' is made by op {} of {}", value.name, value.producer.index(),
                 plan_.ops.size());
    if (!is_size(value.offset_bytes))
      return bad("value '{}' starts at byte {}", value.name, value.offset_bytes);
    if (value.producer.valid() && value.initial != PlanInitial{})
      return bad("value '{}' is made by an op and has initial contents", value.name);
    if (!is_size(value.initial.limit))
      return bad("the integers of value '{}' stay below {}", value.name, value.initial.limit);
    if (!is_size(value.initial.offset) || !is_size(value.initial.length))
      return bad("the contents of value '{}' lie at {} and have {} bytes", value.name,
                 value.initial.offset, value.initial.length);
    if (value.alias == PlanAlias::kPieces && !value.producer.valid())
      return bad("value '{}' is made of pieces by no op", value.name);
    if (value.alias == PlanAlias::kOwn || value.alias == PlanAlias::kPieces) {
      if (value.base.valid()) return bad("value '{}' owns its storage and has a base", value.name);
      if (plan_.storages[value.storage].root != id)
        return bad("value '{}' owns storage {}, whose root is another", value.name,
                   value.storage.index());
      return {};
    }
    if (!within(value.base, plan_.values)) return bad("value '{}' has no base", value.name);
    const PlanValue& base = plan_.values[value.base];
    if (base.storage != value.storage)
      return bad("value '{}' lies in another storage than its base '{}'", value.name, base.name);
    if (!value.producer.valid()) return bad("value '{}' is a view that no op makes", value.name);
    const std::vector<PlanValueId>& inputs = plan_.ops[value.producer].inputs;
    if (std::find(inputs.begin(), inputs.end(), value.base) == inputs.end())
      return bad("the base '{}' of value '{}' is no input of its producer", base.name, value.name);
    return {};
  }

  Status check_storage(const PlanStorage& storage, PlanStorageId id) const {
    if (!within(storage.root, plan_.values) || plan_.values[storage.root].storage != id ||
        (plan_.values[storage.root].alias != PlanAlias::kOwn && !is_whole(id)))
      return bad("storage {} has a root that does not own it", id.index());
    if (is_whole(id) && (storage.bytes != 0 || storage.resident || storage.slow_tier >= 0))
      return bad("storage {} is made of pieces and has {} bytes or a place of its own", id.index(),
                 storage.bytes);
    if (!fits(storage.address, storage.bytes) || !fits(storage.slow_address, storage.bytes))
      return bad("storage {} lies at address {}, its slot at {}", id.index(), storage.address,
                 storage.slow_address);
    const bool has_address = storage.resident && !storage.home_slow;
    if (!has_address && storage.address != 0)
      return bad("storage {} is not in the arena before the step and has address {}", id.index(),
                 storage.address);
    if (storage.home_slow && !storage.resident)
      return bad("storage {} has its home in a slow tier and is not there before the step",
                 id.index());
    if (storage.slow_tier < -1 || storage.slow_tier >= std::ssize(plan_.slow_tiers))
      return bad("storage {} has a slot in slow tier {} of {}", id.index(), storage.slow_tier,
                 plan_.slow_tiers.size());
    const bool has_slot = storage.slow_tier >= 0;
    if ((has_slot && has_address) || (!has_slot && (storage.home_slow || storage.slow_address)))
      return bad("storage {} has {} slot in a slow tier, which its home rules out", id.index(),
                 has_slot ? "a" : "no");
    return {};
  }

  Status check_slow_tiers() const {
    std::unordered_set<std::string_view> names;
    const auto is_speed = [](double speed) { return std::isfinite(speed) && speed >= 1; };
    for (const SlowTier& tier : plan_.slow_tiers) {
      if (!names.insert(tier.name).second) return bad("two slow tiers are named '{}'", tier.name);
      if (!is_size(tier.bytes) || !is_speed(tier.bytes_per_second_out) ||
          !is_speed(tier.bytes_per_second_in) || !is_time(tier.latency_seconds) ||
          !is_time(tier.compute_seconds_per_byte))
        return bad(
            "slow tier '{}' has {} bytes, {} and {} bytes per second, a latency of {}, {} seconds "
            "of compute per byte",
            tier.name, tier.bytes, tier.bytes_per_second_out, tier.bytes_per_second_in,
            tier.latency_seconds, tier.compute_seconds_per_byte);
    }
    return {};
  }

  Status check_op(const PlanOp& op, PlanOpId id) const {
    if (!is_time(op.predicted_seconds))
      return bad("op '{}' takes {} seconds", op.name, op.predicted_seconds);
    if (op.unsplit && !is_time(op.unsplit->seconds))
      return bad("op '{}' takes {} seconds in one part", op.name, op.unsplit->seconds);
    if (op.unsplit && !op.unsplit->output_bytes.empty() &&
        op.unsplit->output_bytes.size() != op.outputs.size())
      return bad("op '{}' makes {} values, {} of it in one part", op.name, op.outputs.size(),
                 op.unsplit->output_bytes.size());
    for (PlanValueId input : op.inputs) {
      if (!input.valid()) continue;
      if (!within(input, plan_.values))
        return bad("op '{}' reads value {}", op.name, input.index());
      const PlanValue& value = plan_.values[input];
      if (value.producer.valid() && !(value.producer < id))
        return bad("op '{}' reads '{}', which is made later in the given order", op.name,
                   value.name);
    }
    for (PlanOpId before : op.control)
      if (!within(before, plan_.ops) || !(before < id))
        return bad("op '{}' waits for op {}, which is not before it in the given order", op.name,
                   before.index());
    return {};
  }

  // Each made value is an output of its producer, once; nothing else is an output.
  Status check_outputs() const {
    IdVector<PlanValueId, bool> made(plan_.values.size(), false);
    for (PlanOpId o : plan_.ops.ids()) {
      for (PlanValueId output : plan_.ops[o].outputs) {
        if (!within(output, plan_.values) || plan_.values[output].producer != o || made[output])
          return bad("op '{}' lists output {}, which is not its own or listed twice",
                     plan_.ops[o].name, output.index());
        made[output] = true;
      }
    }
    for (PlanValueId v : plan_.values.ids())
      if (plan_.values[v].producer.valid() && !made[v])
        return bad("value '{}' is no output of its producer", plan_.values[v].name);
    return {};
  }

  bool is_whole(PlanStorageId s) const {
    return plan_.values[plan_.storages[s].root].alias == PlanAlias::kPieces;
  }

  // No piece is there twice in a whole, so that their number stays within that of the storages.
  Status check_wholes() const {
    IdVector<PlanStorageId, std::vector<PlanStorageId>> pieces(plan_.storages.size());
    size_t all = 0;
    for (const PlanOp& op : plan_.ops)
      for (PlanValueId output : op.outputs) {
        const PlanValue& whole = plan_.values[output];
        if (whole.alias != PlanAlias::kPieces) continue;
        std::unordered_set<uint32_t> seen;
        std::vector<PlanStorageId>& joined = pieces[whole.storage];
        const auto add = [&](PlanStorageId s) {
          joined.push_back(s);
          return seen.insert(static_cast<uint32_t>(s.index())).second;
        };
        int64_t bytes = 0;
        for (PlanValueId input : op.inputs) {
          if (!input.valid()) return bad("op '{}' joins an absent piece", op.name);
          const PlanStorageId from = plan_.values[input].storage;
          bool once = !is_whole(from) ? add(from) : true;
          for (PlanStorageId s : pieces[from]) once = add(s) && once;
          const auto sum = checked_add(bytes, size_bytes(plan_.values[input].type));
          if (!once || !sum || *sum > kMaxBytes)
            return bad("op '{}' joins '{}' twice, or to more than 2^62 bytes", op.name,
                       plan_.values[input].name);
          bytes = *sum;
        }
        if (joined.empty() || op.outputs.size() != 1)
          return bad("op '{}' joins {} pieces to {} values", op.name, joined.size(),
                     op.outputs.size());
        if (bytes != size_bytes(whole.type))
          return bad("op '{}' joins {} bytes to '{}', which has {}", op.name, bytes, whole.name,
                     size_bytes(whole.type));
        all += joined.size();
        if (all > kMostPieces)
          return bad("the plan has more than {} pieces of wholes", kMostPieces);
      }
    return {};
  }

  Status check_bindings() const {
    for (const auto& [symbol, size] : plan_.bindings)
      if (size < 1 || !is_size(size))
        return bad("the size '{}' is bound to {}, not to at least 1", symbol, size);
    return {};
  }

  Status check_names() const {
    std::unordered_set<std::string_view> values, ops;
    for (const PlanValue& value : plan_.values)
      if (!values.insert(value.name).second) return bad("two values are named '{}'", value.name);
    for (const PlanOp& op : plan_.ops)
      if (!ops.insert(op.name).second) return bad("two ops are named '{}'", op.name);
    return {};
  }

  Status check_step(const Step& step, size_t index) const {
    if (step.kind == Step::Kind::kCompute) return check_compute(step, index);
    if (!within(step.storage, plan_.storages))
      return bad("step {} frees or moves no storage", index);
    if (is_whole(step.storage))
      return bad("step {} frees or moves storage {}, which is made of pieces", index,
                 step.storage.index());
    if (step.op.valid() || step.workspace_address != 0 || !step.makes.empty())
      return bad("step {} frees or moves a storage and runs an op", index);
    if (step.kind != Step::Kind::kFree && plan_.storages[step.storage].slow_tier < 0)
      return bad("step {} moves storage {}, which has no slot in a slow tier", index,
                 step.storage.index());
    if (step.kind != Step::Kind::kLoad && step.address != 0)
      return bad("step {} has address {} and loads nothing", index, step.address);
    if (!fits(step.address, plan_.storages[step.storage].bytes))
      return bad("step {} loads to address {}", index, step.address);
    return {};
  }

  // A run makes exactly the storages that its op's outputs own.
  Status check_compute(const Step& step, size_t index) const {
    if (!within(step.op, plan_.ops)) return bad("step {} runs no op", index);
    const PlanOp& op = plan_.ops[step.op];
    if (step.storage.valid() || step.address != 0)
      return bad("step {} runs op '{}' and moves a storage", index, op.name);
    if (!fits(step.workspace_address, op.workspace_bytes))
      return bad("step {} has its workspace at address {}", index, step.workspace_address);
    size_t made = 0;
    for (PlanValueId output : op.outputs) {
      if (plan_.values[output].alias != PlanAlias::kOwn) continue;
      const PlanStorageId storage = plan_.values[output].storage;
      if (made >= step.makes.size() || step.makes[made].storage != storage)
        return bad("step {} runs op '{}' without a place for '{}' at entry {} of what it makes",
                   index, op.name, plan_.values[output].name, made);
      const Placement& place = step.makes[made++];
      if (!fits(place.address, plan_.storages[storage].bytes))
        return bad("step {} makes storage {} at address {}", index, storage.index(), place.address);
      if (place.reuses.valid() &&
          (!within(place.reuses, plan_.storages) || place.reuses == storage))
        return bad("in step {} storage {} reuses storage {} of {}", index, storage.index(),
                   place.reuses.index(), plan_.storages.size());
    }
    if (made != step.makes.size())
      return bad("step {} makes {} storages, op '{}' makes {}", index, step.makes.size(), op.name,
                 made);
    return {};
  }

  Status check_claims() const {
    const Claims& claims = plan_.claims;
    if (!is_size(claims.peak_bytes) || !is_size(claims.peak_before_bytes) ||
        !is_size(claims.lower_bound_bytes) || !is_size(claims.budget_bytes.value_or(0)) ||
        !is_size(claims.floor_bytes.value_or(0)))
      return bad(
          "the claims are a peak of {}, before {}, a bound of {} bytes, or a budget or floor "
          "out of range",
          claims.peak_bytes, claims.peak_before_bytes, claims.lower_bound_bytes);
    if (!is_time(claims.predicted_seconds) || !is_time(claims.once_seconds) ||
        !is_time(claims.exposed_seconds) || !is_time(claims.lower_bound_seconds))
      return bad(
          "the step is claimed to take {} seconds, {} of them exposed, {} with each op once, "
          "at least {}",
          claims.predicted_seconds, claims.exposed_seconds, claims.once_seconds,
          claims.lower_bound_seconds);
    if (claims.lower_bound_ticks < 0 || claims.lower_bound_ticks > kMaxBytes)
      return bad("a bound of {} ticks is claimed, not from 0 to 2^62", claims.lower_bound_ticks);
    if (claims.certificate.time)
      LT_RETURN_IF_ERROR(check_time_certificate(*claims.certificate.time));
    if (claims.certificate.cases)
      LT_RETURN_IF_ERROR(check_branch_certificate(*claims.certificate.cases));
    if (const auto& way = claims.certificate.floor)
      if (!within(way->op, plan_.ops) || !is_size(way->least_bytes))
        return bad("the floor's certificate names no op, or {} bytes", way->least_bytes);
    if (const auto& floor = claims.parts_floor)
      if (!is_size(floor->bytes) || !is_size(floor->part_bytes) || floor->parts < 1)
        return bad("a floor of {} bytes in any parts is claimed, {} of them of one in {}",
                   floor->bytes, floor->part_bytes, floor->parts);
    if (!claims.certificate.peak) return {};
    if (!within(claims.certificate.peak->op, plan_.ops) ||
        !is_size(claims.certificate.peak->value_bytes))
      return bad("the certificate names no op, or {} bytes", claims.certificate.peak->value_bytes);
    const std::vector<PlanOpId>& prefix = claims.certificate.peak->prefix;
    for (size_t i = 0; i < prefix.size(); ++i)
      if (!within(prefix[i], plan_.ops) || (i > 0 && !(prefix[i - 1] < prefix[i])))
        return bad("entry {} of the certificate's prefix is no op, or not ascending", i);
    return {};
  }

  Status check_time_certificate(const TimeCuts& certificate) const {
    for (const CutPrice& cut : certificate.cuts)
      if (!within(cut.op, plan_.ops) || cut.price < 0 || cut.price > kMostPrice)
        return bad("the time certificate has a cut at no op, or a price of {}", cut.price);
    if (!certificate.shares.empty() && certificate.shares.size() != certificate.cuts.size() + 1)
      return bad("the time certificate has {} shares for {} cuts", certificate.shares.size(),
                 certificate.cuts.size());
    for (const LinkShare& share : certificate.shares)
      if (share.store < 0 || share.store > kTickParts || share.load < 0 ||
          share.load > kTickParts - share.store)
        return bad(
            "the time certificate has shares of {} and {}; they must be from 0 to {} together",
            share.store, share.load, kTickParts);
    const auto check = [&](const std::vector<Multiplier>& multipliers, size_t ids,
                           bool signed_values = false) -> Status {
      for (const Multiplier& m : multipliers)
        if (m.cut < 0 || m.cut >= std::ssize(certificate.cuts) || m.id < 0 ||
            static_cast<size_t>(m.id) >= ids || m.value < (signed_values ? -kMostTicks : 0) ||
            m.value > kMostTicks)
          return bad("the time certificate has a multiplier {} for cut {} and id {}", m.value,
                     m.cut, m.id);
      return {};
    };
    LT_RETURN_IF_ERROR(check(certificate.rerun_multipliers, plan_.ops.size()));
    LT_RETURN_IF_ERROR(check(certificate.store_multipliers, plan_.storages.size()));
    return check(certificate.copy_multipliers, plan_.storages.size(), true);
  }

  // Ids within the plan, parents before children, no negative multiplier.
  Status check_branch_certificate(const Cases& certificate) const {
    for (const PlanOpId cut : certificate.cuts)
      if (!within(cut, plan_.ops)) return bad("the proof by cases has a cut at no op");
    const auto most_cut = static_cast<int32_t>(certificate.cuts.size());
    if (certificate.nodes.size() > kMostNodes)
      return bad("the proof by cases has {} nodes, at most {} are read", certificate.nodes.size(),
                 kMostNodes);
    if (certificate.unit_ticks < 1 || certificate.unit_ticks > kMostUnitTicks)
      return bad("the proof by cases has a unit of {} ticks", certificate.unit_ticks);
    for (size_t i = 0; i < certificate.nodes.size(); ++i) {
      const ProofNode& node = certificate.nodes[i];
      if ((i == 0) != (node.parent < 0) || node.parent >= static_cast<int32_t>(i))
        return bad("node {} of the proof by cases has the parent {}", i, node.parent);
      const size_t ids =
          node.variable == ProofVariable::kStay ? plan_.storages.size() : plan_.ops.size();
      if (node.parent >= 0 && (node.cut < 0 || node.cut > most_cut || node.id < 0 ||
                               static_cast<size_t>(node.id) >= ids))
        return bad("node {} of the proof by cases fixes id {} at cut {}", i, node.id, node.cut);
      for (const ProofMultiplier& m : node.multipliers)
        if (m.cut < 0 || m.cut > most_cut || m.value < 0 || m.value > kMaxMultiplier ||
            (m.op.valid() && !within(m.op, plan_.ops)) ||
            (m.storage.valid() && !within(m.storage, plan_.storages)) || m.divisor < 0 ||
            m.divisor > kMaxBytes)
          return bad("node {} of the proof by cases has a multiplier {} at cut {}", i, m.value,
                     m.cut);
    }
    return {};
  }

  const Plan& plan_;
};

}  // namespace

Status check(const Plan& plan) {
  return Checker(plan).run();
}

}  // namespace lowtide::plan

#include "fission/part_seconds.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analysis/describe.h"
#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using ir::ValueId;

ir::Value like(DType dtype, const ir::Dims& dims, const Layout& layout) {
  ir::Value value;
  value.dtype = dtype;
  value.dims = dims;
  value.layout = layout;
  return value;
}

ir::Dims sliced(ir::Dims dims, const ops::SliceOf& slice) {
  if (!slice.whole) dims[static_cast<size_t>(slice.dim)] = slice.end - slice.begin;
  return dims;
}

// FNV-1a, a number at a time, of what mostly tells cuts of an op apart.
uint64_t hash_of(size_t desc, const Cut& cut) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = (0xcbf29ce484222325 ^ desc) * kPrime;
  hash = (hash ^ static_cast<uint64_t>(cut.axis)) * kPrime;
  hash = (hash ^ cut.bounds.size()) * kPrime;
  return (hash ^ static_cast<uint64_t>(cut.bounds[1])) * kPrime;
}

// How far the part before reaches into the slice that a part makes, in elements of its dimension.
int64_t overlap_with_before(const ops::Instance& op, int axis, int64_t begin, size_t output,
                            const ops::SliceOf& slice) {
  const auto before = ops::part(op, axis, begin - 1, begin);
  if (!before) return 0;  // it would read nothing but padding
  return *before->outputs[output].end.constant() - *slice.begin.constant();
}

}  // namespace

Result<PartSeconds> PartSeconds::make(const ir::Graph& graph, Price price) {
  PartSeconds made(graph, std::move(price));
  made.desc_of_ = IdVector<OpId, size_t>(graph.op_count(), 0);
  std::map<std::string, std::vector<size_t>> of_kind;
  for (const OpId id : graph.ops()) {
    LT_ASSIGN(plan::OpDesc desc, analysis::describe(graph, id));
    std::vector<size_t>& alike = of_kind[desc.kind];
    const auto equal = std::find_if(alike.begin(), alike.end(),
                                    [&](size_t other) { return made.descs_[other] == desc; });
    if (equal == alike.end()) {
      made.desc_of_[id] = made.descs_.size();
      alike.push_back(made.descs_.size());
      made.descs_.push_back(std::move(desc));
    } else {
      made.desc_of_[id] = *equal;
    }
  }
  made.whole_.resize(made.descs_.size());
  return made;
}

Result<double> PartSeconds::priced(OpId id, const ir::Attrs& attrs,
                                   const std::vector<std::optional<ir::Dims>>& inputs) {
  const ir::Op& op = graph_.op(id);
  plan::OpDesc desc;
  desc.kind = op.kind;
  LT_ASSIGN(desc.attrs, analysis::describe(attrs, op.name));
  ops::Instance instance{op.kind, &attrs, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    desc.inputs.emplace_back();
    instance.inputs.emplace_back();
    if (!inputs[i]) continue;
    // What has no operand in the whole op is an accumulator: like what it adds to.
    const bool is_operand = i < op.inputs.size() && op.inputs[i].valid();
    const ir::Value& of = graph_.value(is_operand ? op.inputs[i] : op.outputs[0]);
    LT_ASSIGN(desc.inputs.back(), analysis::describe(like(of.dtype, *inputs[i], of.layout)));
    instance.inputs.back() = ops::Type{of.dtype, *inputs[i], of.layout};
  }
  LT_ASSIGN(const auto outputs, ops::infer(instance));
  for (const ops::OutputType& output : outputs) {
    LT_ASSIGN(desc.outputs.emplace_back(),
              analysis::describe(like(output.type.dtype, output.type.dims, output.type.layout)));
  }
  return price_(desc);
}

// What each part of a mean makes is weighed before it is added.
Result<double> PartSeconds::weighing(OpId id, const ops::Part& part) const {
  double seconds = 0;
  if (part.scale == 1.0) return seconds;
  const std::vector<ValueId>& outputs = graph_.op(id).outputs;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (part.merges[o] != ops::Merge::kSum || !part.outputs[o].whole) continue;
    LT_ASSIGN(const plan::TensorDesc tensor, analysis::describe(graph_.value(outputs[o])));
    LT_ASSIGN(
        const double one,
        price_({"AffineScalar", {{"scale", part.scale}, {"shift", 0.0}}, {tensor}, {tensor}}));
    seconds += one;
  }
  return seconds;
}

Result<double> PartSeconds::part(OpId id, int axis, int64_t begin, int64_t end, bool is_first) {
  const ir::Op& op = graph_.op(id);
  LT_ASSIGN(const ops::Part part, ops::part(ops::instance_of(graph_, id), axis, begin, end));
  std::vector<std::optional<ir::Dims>> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.emplace_back();
    if (op.inputs[i].valid() && !part.inputs[i].absent)
      inputs.back() = sliced(graph_.value(op.inputs[i]).dims, part.inputs[i]);
  }
  LT_ASSIGN(double added, weighing(id, part));
  for (size_t o = 0; !is_first && o < op.outputs.size(); ++o) {
    const auto merge = part.merges[o];
    if (ops::merging_kind(merge).empty()) continue;
    const ir::Value& sum = graph_.value(op.outputs[o]);
    const auto place = merge == ops::Merge::kSum && part.scale == 1.0 && part.outputs[o].whole
                           ? ops::accumulator_operand(*ops::find(op.kind), static_cast<int>(o))
                           : std::nullopt;
    if (place) {
      inputs.resize(std::max(inputs.size(), static_cast<size_t>(*place) + 1));
      inputs[static_cast<size_t>(*place)] = sum.dims;
      continue;
    }
    LT_ASSIGN(plan::TensorDesc tensor, analysis::describe(sum));
    if (const ops::SliceOf& slice = part.outputs[o]; !slice.whole) {
      const int64_t overlap =
          overlap_with_before(ops::instance_of(graph_, id), axis, begin, o, slice);
      if (overlap <= 0) continue;
      tensor.dims[static_cast<size_t>(slice.dim)] = overlap;
    }
    plan::OpDesc add{std::string(ops::merging_kind(merge)), {}, {tensor, tensor}, {tensor}};
    LT_ASSIGN(const double seconds, price_(add));
    added += seconds;
  }
  LT_ASSIGN(const double seconds, priced(id, part.attrs, inputs));
  return seconds + added;
}

Result<double> PartSeconds::once(const Key& key, const std::function<Result<double>()>& compute) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  LT_ASSIGN(const double seconds, compute());
  return known_[key] = seconds;
}

// So many places before and behind a part decide what its windows read of an operand's ends; none
// where the axis has no windows. Of what is shifted (Pad, Slice) every place may.
Result<int64_t> PartSeconds::reach_of(OpId id, int axis) {
  const auto found = reach_.find({desc_of_[id], axis});
  if (found != reach_.end()) return found->second;
  LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph_, id)));
  int64_t most = 0;
  for (const ops::AxisUse& use : map.uses) {
    if (use.axis != axis) continue;
    int64_t places = 0;
    if (use.kind == ops::LinkKind::kShift)
      places = *map.axes[static_cast<size_t>(axis)].extent.constant();
    if (use.kind == ops::LinkKind::kWindow)
      places = std::max(*use.halo_low.constant(), *use.halo_high.constant());
    most = std::max(most, places);
  }
  return reach_[{desc_of_[id], axis}] = most;
}

Result<double> PartSeconds::all_parts(OpId id, const Cut& cut) {
  double seconds = 0;
  LT_ASSIGN(const int64_t reach, reach_of(id, cut.axis));
  for (size_t k = 0; k + 1 < cut.bounds.size(); ++k) {
    const int64_t begin = cut.bounds[k], end = cut.bounds[k + 1];
    const int64_t low = std::min(begin, reach), high = std::min(cut.bounds.back() - end, reach);
    LT_ASSIGN(const double one, once({desc_of_[id], cut.axis, k == 0, end - begin, low, high},
                                     [&] { return part(id, cut.axis, begin, end, k == 0); }));
    seconds += one;
  }
  return seconds;
}

std::optional<double> PartSeconds::known(OpId id, const Cut* cut) const {
  const size_t desc = desc_of_[id];
  if (cut == nullptr) return whole_[desc];
  const auto alike = known_cuts_.find(hash_of(desc, *cut));
  if (alike == known_cuts_.end()) return std::nullopt;
  for (const KnownCut& known : alike->second)
    if (known.desc == desc && known.cut == *cut) return known.seconds;
  return std::nullopt;
}

Result<double> PartSeconds::priced_anew(OpId id, const Cut* cut) {
  const size_t desc = desc_of_[id];
  if (cut == nullptr) {
    LT_ASSIGN(const double seconds, price_(descs_[desc]));
    whole_[desc] = seconds;
    return seconds;
  }
  LT_ASSIGN(const double seconds, all_parts(id, *cut));
  known_cuts_[hash_of(desc, *cut)].push_back({desc, *cut, seconds});
  return seconds;
}

Result<double> PartSeconds::of(OpId id, const Cut* cut) {
  const std::unique_lock lock(*mutex_);
  if (const std::optional<double> seconds = known(id, cut)) return *seconds;
  return priced_anew(id, cut);
}

Result<IdVector<OpId, double>> PartSeconds::all(const Cuts& cuts) {
  IdVector<OpId, double> seconds(graph_.op_count(), 0);
  std::vector<OpId> missing;
  const auto cut_of = [&](OpId id) { return cuts[id] ? &*cuts[id] : nullptr; };
  {
    const std::shared_lock lock(*mutex_);
    for (const OpId id : graph_.ops()) {
      const std::optional<double> one = known(id, cut_of(id));
      if (!one) missing.push_back(id);
      seconds[id] = one.value_or(0);
    }
  }
  for (const OpId id : missing) {
    LT_ASSIGN(seconds[id], of(id, cut_of(id)));
  }
  return seconds;
}

}  // namespace lowtide::fission

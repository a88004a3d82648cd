#include "baselines/stages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "baselines/judge.h"
#include "plan/sequence_simulator.h"

namespace lowtide::baselines {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct StagesTuning {
  size_t most_stages = 48;     // of more, several are taken together
  double nearly_all = 0.9;     // of the bytes that cross a border are one value's
  int64_t tiny_share = 1'000;  // of the largest value: what moves nothing and says nothing
};
constexpr StagesTuning kStages;

}  // namespace

StageChain::StageChain(const plan::ScheduleProblem& problem, IdVector<SchedOpId, char> forward)
    : problem_(problem),
      index_(problem),
      is_forward_(std::move(forward)),
      stage_(problem.ops.size(), 0),
      place_(problem.ops.size(), 0),
      last_forward_(problem.values.size(), 0),
      last_op_(problem.values.size(), 0),
      read_back_(problem.values.size(), 0) {
  const auto profile = plan::simulate_sequence(problem, given_order(problem));
  if (!profile) return;
  for (const int64_t bytes : profile->action_bytes)
    added_.push_back(bytes - problem.resident_bytes);
  for (const SchedOpId op : problem.ops.ids()) {
    if (is_forward_[op] == 0) continue;
    place_[op] = forward_.size();
    forward_.push_back(op);
  }
  if (forward_.empty()) return;
  for (const plan::SchedValue& value : problem.values)
    tiny_bytes_ = std::max(tiny_bytes_, value.bytes / kStages.tiny_share);
  place_values();
  find_ends(kStages.most_stages);
  for (size_t i = 0; i < forward_.size(); ++i) stage_[forward_[i]] = stage_of(i);
  deal_out();
}

void StageChain::place_values() {
  for (const SchedValueId v : problem_.values.ids()) {
    const plan::SchedValue& value = problem_.values[v];
    last_op_[v] = value.producer.index();
    read_back_[v] = value.is_output ? 1 : 0;
    last_forward_[v] = place_[value.producer];
    for (const SchedOpId reader : value.readers) {
      last_op_[v] = std::max<size_t>(last_op_[v], reader.index());
      if (is_forward_[reader] != 0) {
        last_forward_[v] = std::max(last_forward_[v], place_[reader]);
      } else {
        read_back_[v] = 1;
      }
    }
    if (value.is_output) last_op_[v] = problem_.ops.size() - 1;
  }
}

size_t StageChain::stage_of(size_t place) const {
  return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin());
}

// A border behind each place where one value is nearly all that crosses, another than at the border
// before, and the backward part reads it.
void StageChain::find_ends(size_t most_stages) {
  std::vector<std::vector<SchedValueId>> begin(forward_.size());
  for (const SchedValueId v : problem_.values.ids())
    if (is_forward_[problem_.values[v].producer] != 0)
      begin[place_[problem_.values[v].producer]].push_back(v);
  std::vector<SchedValueId> crossing;
  SchedValueId before;
  std::vector<size_t> ends;
  for (size_t i = 0; i + 1 < forward_.size(); ++i) {
    crossing.insert(crossing.end(), begin[i].begin(), begin[i].end());
    std::erase_if(crossing, [&](SchedValueId v) { return last_forward_[v] <= i; });
    int64_t sum = 0;
    SchedValueId largest;
    for (const SchedValueId v : crossing) {
      sum += problem_.values[v].bytes;
      if (!largest.valid() || problem_.values[v].bytes > problem_.values[largest].bytes)
        largest = v;
    }
    if (sum == 0 || largest == before || read_back_[largest] == 0 ||
        static_cast<double>(problem_.values[largest].bytes) <
            kStages.nearly_all * static_cast<double>(sum))
      continue;
    before = largest;
    ends.push_back(i + 1);
  }
  const size_t stride = ends.size() / most_stages + 1;
  for (size_t i = stride - 1; i < ends.size(); i += stride) ends_.push_back(ends[i]);
  if (!ends_.empty()) ends_.push_back(forward_.size());
}

void StageChain::deal_out() {
  if (ends_.empty()) return;
  size_t stage = ends_.size() - 1;
  for (const SchedOpId op : problem_.ops.ids()) {
    if (is_forward_[op] != 0) continue;
    for (const SchedValueId v : index_.reads[op])
      if (is_forward_[problem_.values[v].producer] != 0 && problem_.values[v].bytes > tiny_bytes_)
        stage = std::min(stage, stage_of(last_forward_[v]));
    stage_[op] = stage;
  }
}

int64_t StageChain::transient_bytes(size_t stage) const {
  if (stage == 0) return 0;
  const size_t border = ends_[stage - 1];
  int64_t bytes = 0;
  for (const SchedValueId v : problem_.values.ids()) {
    const SchedOpId producer = problem_.values[v].producer;
    if (is_forward_[producer] != 0 && place_[producer] < border && last_forward_[v] >= border &&
        read_back_[v] == 0)
      bytes += problem_.values[v].bytes;
  }
  return bytes;
}

StageRange StageChain::range(size_t first, size_t last) const {
  StageRange range;
  Place at{first, last, first == 0 ? 0 : ends_[first - 1], ends_[last], {}, {}, {}};
  at.older.assign(problem_.ops.size() + 1, 0);
  at.gone.assign(problem_.ops.size() + 1, 0);
  at.leaves = IdVector<SchedValueId, char>(problem_.values.size(), 0);
  for (const SchedValueId v : problem_.values.ids())
    if (is_forward_[problem_.values[v].producer] != 0) add_value(v, at, range);
  std::partial_sum(at.older.begin(), at.older.end(), at.older.begin());
  std::partial_sum(at.gone.begin(), at.gone.end(), at.gone.begin());
  add_ops(at, range);
  add_reruns(at, range);
  return range;
}

void StageChain::add_value(SchedValueId v, Place& at, StageRange& range) const {
  const plan::SchedValue& value = problem_.values[v];
  const size_t place = place_[value.producer];
  if (place >= at.to) return;
  const bool moves = value.writers.empty() && !value.is_output && value.bytes > tiny_bytes_;
  if (place < at.from) {
    at.older[value.producer.index()] += value.bytes;
    at.older[last_op_[v] + 1] -= value.bytes;
    if (read_back_[v] == 0 || last_forward_[v] < at.from || last_forward_[v] >= at.to) return;
    range.input_bytes += value.bytes;
    if (moves) range.moving_input_bytes += value.bytes, range.inputs.push_back(v);
    return;
  }
  if (last_forward_[v] >= at.to) {
    if (read_back_[v] != 0) range.passed_bytes += value.bytes;
    return;
  }
  const bool leaves = problem_.ops[value.producer].may_rerun && !value.is_output;
  at.leaves[v] = leaves ? 1 : 0;
  if (read_back_[v] == 0) return;
  range.inner_bytes += value.bytes;
  if (moves) range.moving_inner_bytes += value.bytes, range.inner.push_back(v);
  if (!leaves) return;
  range.left_bytes += value.bytes;
  at.gone[forward_[last_forward_[v]].index() + 1] += value.bytes;
}

void StageChain::add_ops(const Place& at, StageRange& range) const {
  int64_t at_return = 0;  // what the backward part has there when it comes back to the range
  bool returned = false;
  for (const SchedOpId op : problem_.ops.ids()) {
    if (stage_[op] < at.first || stage_[op] > at.last) continue;
    const int64_t added = added_[op.index()] - at.older[op.index()];
    if (is_forward_[op] != 0) {
      range.forward_seconds += problem_.ops[op].seconds;
      range.keep_peak = std::max(range.keep_peak, added);
      range.leave_peak = std::max(range.leave_peak, added - at.gone[op.index()]);
      continue;
    }
    range.backward_seconds += problem_.ops[op].seconds;
    range.back_peak = std::max(range.back_peak, added);
    if (!std::exchange(returned, true))
      at_return = added - range.inner_bytes - range.passed_bytes - problem_.ops[op].workspace_bytes;
  }
  range.rerun_peak = range.keep_peak + std::max<int64_t>(0, at_return);
}

void StageChain::add_reruns(const Place& at, StageRange& range) const {
  IdVector<SchedOpId, char> needed(problem_.ops.size(), 0);
  for (size_t i = at.to; i-- > at.from;) {
    const SchedOpId op = forward_[i];
    for (const SchedValueId v : index_.makes[op])
      if (at.leaves[v] != 0 && read_back_[v] != 0) needed[op] = 1;
    if (needed[op] == 0) continue;
    range.reruns.push_back(op);
    range.rerun_seconds += problem_.ops[op].seconds;
    for (const SchedValueId v : index_.reads[op])
      if (at.leaves[v] != 0) needed[problem_.values[v].producer] = 1;
  }
  std::reverse(range.reruns.begin(), range.reruns.end());
}

std::vector<SchedAction> StageChain::with_reruns(const std::vector<StageRange>& again) const {
  IdVector<SchedOpId, size_t> range_of(problem_.ops.size(), again.size());
  for (size_t k = 0; k < again.size(); ++k)
    for (const SchedOpId op : again[k].reruns) range_of[op] = k;
  std::vector<char> is_back(again.size(), 0);
  IdVector<SchedOpId, char> ran(problem_.ops.size(), 0);
  std::vector<SchedAction> sequence;
  const auto may_run_again = [&](SchedOpId op) {
    const auto after = index_.waits_after[op];
    return problem_.ops[op].may_rerun &&
           std::none_of(after.begin(), after.end(), [&](SchedOpId o) { return ran[o] != 0; });
  };
  for (const SchedOpId op : problem_.ops.ids()) {
    if (is_forward_[op] == 0) {
      for (const SchedValueId v : index_.reads[op]) {
        const size_t k = range_of[problem_.values[v].producer];
        if (k == again.size() || std::exchange(is_back[k], 1) != 0) continue;
        for (const SchedOpId rerun : again[k].reruns)
          if (ran[rerun] != 0 && may_run_again(rerun)) sequence.push_back(SchedAction::run(rerun));
      }
    }
    sequence.push_back(SchedAction::run(op));
    ran[op] = 1;
  }
  return sequence;
}

}  // namespace lowtide::baselines

#include "order/interval_problem.h"

#include <algorithm>

namespace lowtide::order {
namespace {

using plan::InPlacePair;
using plan::SchedOp;
using plan::SchedOpId;
using plan::SchedValue;
using plan::SchedValueId;

class IntervalBuilder {
 public:
  IntervalBuilder(const PlacedOrder& order, Interval interval)
      : problem_(order.problem),
        index_(order.index),
        ops_(order.sequence.subspan(interval.begin, interval.length())),
        position_(order.position),
        interval_(interval),
        local_(problem_.values.size()),
        seen_(problem_.values.size(), 0) {}

  IntervalProblem build(int64_t alive_bytes) {
    made_.problem.resident_bytes = alive_bytes;
    made_.problem.ops.push_back({});
    for (const SchedOpId op : ops_) {
      SchedOp& own = made_.problem.ops[made_.problem.ops.push_back({})];
      own.workspace_bytes = problem_.ops[op].workspace_bytes;
    }
    for (const SchedOpId op : ops_) add_op(op);
    return std::move(made_);
  }

 private:
  SchedOpId local(SchedOpId op) const { return SchedOpId(position_[op] - interval_.begin + 1); }
  bool is_inside(SchedOpId op) const { return interval_.contains(position_[op]); }

  void add_op(SchedOpId op) {
    bool waits = false;  // for one of the others, op 0 included
    for (const SchedValueId v : index_.reads[op]) {
      if (!std::exchange(seen_[v], 1)) enter(v);
      waits = waits || local_[v].valid();
    }
    for (const SchedValueId v : index_.makes[op]) {
      seen_[v] = 1;
      add_value(v, local(op));
    }
    for (const size_t i : index_.pairs[op]) {
      const InPlacePair& pair = problem_.in_place[i];
      if (local_[pair.input].valid())
        made_.problem.in_place.push_back({local(op), local_[pair.input], local_[pair.output]});
    }
    for (const SchedOpId before : index_.waits_for[op]) {
      if (!is_inside(before)) continue;
      waits = true;
      made_.problem.control.emplace_back(local(before), local(op));
    }
    if (!waits) made_.problem.control.emplace_back(SchedOpId(0), local(op));
  }

  // A value that is there before: an own one if it is freed inside.
  void enter(SchedValueId v) {
    const SchedValue& value = problem_.values[v];
    const bool is_freed =
        !value.is_output && std::all_of(value.readers.begin(), value.readers.end(),
                                        [&](auto op) { return position_[op] < interval_.end; });
    if (!is_freed) return;
    made_.problem.resident_bytes -= value.bytes;
    add_value(v, SchedOpId(0));
  }

  void add_value(SchedValueId v, SchedOpId producer) {
    const SchedValue& value = problem_.values[v];
    SchedValue own;
    own.bytes = value.bytes;
    own.producer = producer;
    own.is_output = value.is_output;
    for (const SchedOpId reader : value.readers) {
      if (is_inside(reader)) own.readers.push_back(local(reader));
      if (position_[reader] >= interval_.end) own.is_output = true;
    }
    std::sort(own.readers.begin(), own.readers.end());
    local_[v] = made_.problem.values.push_back(std::move(own));
    made_.value.push_back(v);
  }

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex& index_;
  const std::span<const SchedOpId> ops_;
  const IdVector<SchedOpId, int64_t>& position_;
  const Interval interval_;
  IdVector<SchedValueId, SchedValueId> local_;
  IdVector<SchedValueId, char> seen_;
  IntervalProblem made_;
};

}  // namespace

IntervalProblem interval_problem(const PlacedOrder& order, Interval interval, int64_t alive_bytes) {
  return IntervalBuilder(order, interval).build(alive_bytes);
}

}  // namespace lowtide::order

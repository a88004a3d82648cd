// Random small problems for tests of everything that plans under a budget, with every feature: ops
// that may not run again, values that are overwritten, outputs, workspace, in-place pairs, control,
// a link, residents that may move. Sizes and times are small whole numbers, so that sums are exact.
#pragma once

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

// A value by numbers, for problems written by hand.
inline SchedValue value(int64_t bytes, size_t producer, std::vector<size_t> readers,
                        bool is_output = false) {
  SchedValue v;
  v.bytes = bytes;
  v.producer = SchedOpId(producer);
  for (size_t r : readers) v.readers.push_back(SchedOpId(r));
  v.is_output = is_output;
  return v;
}

struct RandomSchedule {
  int64_t min_ops = 3, max_ops = 7;
  int64_t max_bytes = 9;    // sizes are 1 to this, seldom 0
  int64_t max_seconds = 9;  // times are 1 to this, seldom 0
  double reader_rate = 0.35;
  double extra_value_rate = 0.15;  // two outputs, or none
  double rerun_rate = 0.85;        // of ops that nothing forbids it
  double output_rate = 0.08;
  double writer_rate = 0.04;  // a value's last reader overwrites it
  double workspace_rate = 0.15;
  double in_place_rate = 0.3;
  double control_rate = 0.04;
  double link_rate = 0;
  double resident_rate = 0;     // per op, with a link: a resident that it reads
  double moved_parts_rate = 0;  // with a link: values and residents that move in two or three parts
};

namespace random_schedule {

inline bool chance(Rng& rng, double rate) {
  return rng.uniform() < rate;
}

// Seldom 0.
inline int64_t size(Rng& rng, int64_t most) {
  return rng.below(12) == 0 ? 0 : rng.between(1, most);
}

inline void add_values(const RandomSchedule& shape, ScheduleProblem& problem, Rng& rng) {
  for (SchedOpId producer : problem.ops.ids()) {
    const int64_t count = chance(rng, shape.extra_value_rate) ? 2 * rng.between(0, 1) : 1;
    for (int64_t k = 0; k < count; ++k) {
      SchedValue value;
      value.bytes = size(rng, shape.max_bytes);
      value.producer = producer;
      value.is_output = chance(rng, shape.output_rate);
      for (size_t reader = producer.index() + 1; reader < problem.ops.size(); ++reader)
        if (chance(rng, reader == producer.index() + 1 ? 2 * shape.reader_rate : shape.reader_rate))
          value.readers.push_back(SchedOpId(reader));
      if (!value.readers.empty() && chance(rng, shape.writer_rate)) {
        value.writers.push_back(value.readers.back());
        problem.ops[producer].may_rerun = problem.ops[value.readers.back()].may_rerun = false;
        for (SchedOpId reader : value.readers)
          if (reader != value.writers[0]) problem.control.emplace_back(reader, value.writers[0]);
      }
      problem.values.push_back(std::move(value));
    }
  }
}

inline void add_pairs(const RandomSchedule& shape, ScheduleProblem& problem, Rng& rng) {
  for (SchedOpId op : problem.ops.ids())
    for (SchedValueId in : problem.values.ids())
      for (SchedValueId out : problem.values.ids()) {
        const auto& readers = problem.values[in].readers;
        if (problem.values[out].producer != op || !chance(rng, shape.in_place_rate) ||
            !std::binary_search(readers.begin(), readers.end(), op))
          continue;
        if (chance(rng, 0.7) && problem.values[out].bytes <= problem.values[in].bytes)
          problem.values[out].bytes = problem.values[in].bytes;
        problem.in_place.push_back({op, in, out});
      }
}

inline void add_link(const RandomSchedule& shape, ScheduleProblem& problem, Rng& rng) {
  // Powers of two: transfer times are exact, too.
  const auto speed = [&] { return static_cast<double>(int64_t{1} << rng.between(0, 2)); };
  const double out = speed(), in = speed();
  problem.link = Link{out, in, static_cast<double>(rng.between(0, 2)),
                      0.125 * static_cast<double>(rng.between(0, 1))};
  if (shape.moved_parts_rate > 0)
    for (SchedValue& value : problem.values)
      if (chance(rng, shape.moved_parts_rate)) value.moved_parts = rng.between(2, 3);
  for (SchedOpId op : problem.ops.ids()) {
    if (!chance(rng, shape.resident_rate)) continue;
    SchedResident resident;
    resident.bytes = size(rng, shape.max_bytes);
    resident.readers.push_back(op);
    for (size_t later = op.index() + 1; later < problem.ops.size(); ++later)
      if (chance(rng, 0.3)) resident.readers.push_back(SchedOpId(later));
    if (chance(rng, 0.3)) {
      const SchedOpId writer = resident.readers.back();
      resident.writers.push_back(writer);
      problem.ops[writer].may_rerun = false;
      for (SchedOpId reader : resident.readers)
        if (reader != writer) problem.control.emplace_back(reader, writer);
    }
    if (shape.moved_parts_rate > 0 && chance(rng, shape.moved_parts_rate))
      resident.moved_parts = rng.between(2, 3);
    problem.resident_bytes += resident.bytes;
    problem.residents.push_back(std::move(resident));
  }
}

}  // namespace random_schedule

// The given order 0, 1, ... is a valid schedule of it, each op once, with nothing moved.
inline ScheduleProblem random_schedule_problem(const RandomSchedule& shape, Rng& rng) {
  using random_schedule::chance;
  ScheduleProblem problem;
  const int64_t n = rng.between(shape.min_ops, shape.max_ops);
  for (int64_t i = 0; i < n; ++i) {
    SchedOp op;
    op.seconds = static_cast<double>(random_schedule::size(rng, shape.max_seconds));
    op.may_rerun = chance(rng, shape.rerun_rate);
    if (chance(rng, shape.workspace_rate)) op.workspace_bytes = rng.between(1, shape.max_bytes);
    problem.ops.push_back(std::move(op));
  }
  problem.resident_bytes = rng.between(0, 3);
  random_schedule::add_values(shape, problem, rng);
  random_schedule::add_pairs(shape, problem, rng);
  for (size_t a = 0; a < problem.ops.size(); ++a)
    for (size_t b = a + 1; b < problem.ops.size(); ++b)
      if (chance(rng, shape.control_rate)) problem.control.emplace_back(SchedOpId(a), SchedOpId(b));
  if (chance(rng, shape.link_rate)) random_schedule::add_link(shape, problem, rng);
  std::sort(problem.control.begin(), problem.control.end());
  problem.control.erase(std::unique(problem.control.begin(), problem.control.end()),
                        problem.control.end());
  return problem;
}

}  // namespace lowtide::plan

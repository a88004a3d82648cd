#include "plan/schedule_simulator.h"

#include <fmt/core.h>

#include <algorithm>

#include "plan/problem_index.h"

namespace lowtide::plan {
namespace {

std::string label(const ScheduleProblem& problem, SchedOpId op) {
  const std::string& name = problem.ops[op].name;
  return name.empty() ? fmt::format("op {}", op.index())
                      : fmt::format("op {} ({})", op.index(), name);
}

class Simulation {
 public:
  Simulation(const ScheduleProblem& problem, const ProblemIndex& index, bool in_place)
      : problem_(problem),
        index_(index),
        in_place_(in_place),
        done_(problem.ops.size(), 0),
        unread_(problem.values.size(), 0),
        live_(problem.resident_bytes) {
    for (SchedValueId v : problem.values.ids()) unread_[v] = problem.values[v].readers.size();
    profile_.step_bytes.reserve(problem.ops.size());
    profile_.after_bytes.reserve(problem.ops.size());
  }

  Status step(SchedOpId op) {
    if (op.index() >= problem_.ops.size())
      return error(ErrorCode::kInput, fmt::format("the sequence runs op {}; there are {} ops",
                                                  op.index(), problem_.ops.size()));
    if (done_[op])
      return error(ErrorCode::kInput,
                   fmt::format("{} runs twice in the sequence", label(problem_, op)));
    LT_RETURN_IF_ERROR(check_ready(op));
    int64_t during = live_ + problem_.ops[op].workspace_bytes;
    for (SchedValueId v : index_.makes[op]) during += problem_.values[v].bytes;
    if (in_place_) during -= reuse(op);
    record(during);
    finish(op);
    return {};
  }

  ScheduleProfile take() { return std::move(profile_); }

 private:
  Status check_ready(SchedOpId op) const {
    for (SchedValueId v : index_.reads[op]) {
      const SchedOpId producer = problem_.values[v].producer;
      if (!done_[producer])
        return error(ErrorCode::kInput,
                     fmt::format("{} runs before {}, whose output it reads", label(problem_, op),
                                 label(problem_, producer)));
    }
    for (SchedOpId first : index_.waits_for[op])
      if (!done_[first])
        return error(ErrorCode::kInput, fmt::format("{} runs before {}, which must come first",
                                                    label(problem_, op), label(problem_, first)));
    return {};
  }

  int64_t reuse(SchedOpId op) {
    int64_t saved = 0;
    const size_t first = profile_.reused.size();
    for (const size_t i : index_.pairs[op]) {
      const InPlacePair& pair = problem_.in_place[i];
      const SchedValue& input = problem_.values[pair.input];
      if (input.is_output || unread_[pair.input] != 1 ||
          input.bytes != problem_.values[pair.output].bytes)
        continue;
      const bool taken = std::any_of(
          profile_.reused.begin() + static_cast<std::ptrdiff_t>(first), profile_.reused.end(),
          [&](const InPlacePair& p) { return p.input == pair.input || p.output == pair.output; });
      if (taken) continue;
      profile_.reused.push_back(pair);
      saved += input.bytes;
    }
    return saved;
  }

  void record(int64_t during) {
    if (profile_.step_bytes.empty() || during > profile_.peak_bytes) {
      profile_.peak_bytes = during;
      profile_.peak_step = profile_.step_bytes.size();
    }
    profile_.step_bytes.push_back(during);
  }

  void finish(SchedOpId op) {
    done_[op] = 1;
    for (SchedValueId v : index_.makes[op]) {
      const SchedValue& value = problem_.values[v];
      if (value.is_output || !value.readers.empty()) live_ += value.bytes;
    }
    for (SchedValueId v : index_.reads[op])
      if (--unread_[v] == 0 && !problem_.values[v].is_output) live_ -= problem_.values[v].bytes;
    profile_.after_bytes.push_back(live_);
  }

  const ScheduleProblem& problem_;
  const ProblemIndex& index_;
  const bool in_place_;
  IdVector<SchedOpId, char> done_;
  IdVector<SchedValueId, size_t> unread_;
  int64_t live_;
  ScheduleProfile profile_;
};

}  // namespace

Result<ScheduleProfile> simulate(const ScheduleProblem& problem,
                                 std::span<const SchedOpId> sequence, bool in_place) {
  return simulate(problem, ProblemIndex(problem), sequence, in_place);
}

Result<ScheduleProfile> simulate(const ScheduleProblem& problem, const ProblemIndex& index,
                                 std::span<const SchedOpId> sequence, bool in_place) {
  if (sequence.size() != problem.ops.size())
    return error(
        ErrorCode::kInput,
        fmt::format("the sequence has {} runs; the problem has {} ops, each of which runs once",
                    sequence.size(), problem.ops.size()));
  Simulation simulation(problem, index, in_place);
  for (SchedOpId op : sequence) LT_RETURN_IF_ERROR(simulation.step(op));
  ScheduleProfile profile = simulation.take();
  profile.peak_bytes = std::max(profile.peak_bytes, problem.resident_bytes);
  return profile;
}

}  // namespace lowtide::plan

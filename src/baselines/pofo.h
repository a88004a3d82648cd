// Rematerialization and offloading along a chain (Beaumont, Eyraud-Dubois, Shilova, "Efficient
// combination of rematerialization and offloading for training DNNs", NeurIPS 2021): dynamic
// programming over the stages of a chain (stages.h), from the first to the last. Of each range of
// stages what it made for its backward part is
//
//   kept        (a range of one stage)
//   recomputed  the range keeps its input alone and runs again before its backward part
//   offloaded   (a range of one stage) it is stored behind the range and loaded before it is needed
//
// and its input is kept or offloaded, too. A state of the dynamic program holds the bytes kept so
// far, and for each direction of the link what it is still busy with: stores of earlier ranges on
// the way forward, loads of them on the way back, seen from its end, where both are the same
// question. Memory is above the limit: compute waits for the link, or the state is given up.
//
// Departures: the dynamic program is a list of states per stage instead of a table over bytes and
// link; of many states those stay that are fastest for their bytes, so long chains are not solved
// exactly. Ranges are recomputed once, not recursively (what Rotor does is a start of
// remat/starts). What is offloaded when follows from the runs, run by run (moves.h). Where the step
// is no chain nothing is found, as with the original.
//
// Cost: some 10 thousand states a stage; some hundred schedules are scored.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "baselines/judge.h"
#include "baselines/stages.h"

namespace lowtide::baselines {

struct PofoChoice {
  enum class Inner : uint8_t { kKeep, kRecompute, kOffload };
  size_t first = 0, last = 0;  // stages of the range
  Inner inner = Inner::kKeep;
  bool offload_input = false;
  auto operator<=>(const PofoChoice&) const = default;
};

// The schedule of choices for all ranges, in order. `memory_bytes`: of the whole device.
std::vector<SchedAction> pofo_sequence(const plan::ScheduleProblem& problem,
                                       const StageChain& chain,
                                       const std::vector<PofoChoice>& choices,
                                       int64_t memory_bytes);

void add_pofo(const plan::ScheduleProblem& problem, const IdVector<SchedOpId, char>& forward,
              Judge& judge);

}  // namespace lowtide::baselines

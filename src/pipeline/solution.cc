#include "pipeline/solution.h"

#include <algorithm>
#include <utility>

namespace lowtide::pipeline {
namespace {

std::vector<plan::SchedAction> each_once(const std::vector<plan::SchedOpId>& order) {
  std::vector<plan::SchedAction> sequence;
  for (plan::SchedOpId op : order) sequence.push_back(plan::SchedAction::run(op));
  return sequence;
}

int64_t staying_bytes(const plan::ScheduleProblem& problem, const BufferView& buffers) {
  int64_t bytes = problem.resident_bytes;
  for (plan::SchedResidentId r : problem.residents.ids())
    if (buffers.slot_of_resident[r].valid()) bytes -= problem.residents[r].bytes;
  return bytes;
}

// The problem in which no piece takes over a buffer. Then a piece is alone in its buffer, two stays
// of it may have one place, and ties never clash.
plan::ScheduleProblem pieces_apart(const analysis::ScheduleView& view) {
  plan::ScheduleProblem problem = view.problem;
  IdVector<plan::SchedValueId, char> is_piece(problem.values.size(), 0);
  for (const analysis::Whole& whole : view.wholes)
    for (const analysis::Whole::Piece& piece : whole.pieces) is_piece[piece.value] = 1;
  std::erase_if(problem.in_place,
                [&](const plan::InPlacePair& pair) { return is_piece[pair.output] != 0; });
  return problem;
}

// Where it is proven that nothing fits the capacity, as low as it gets.
plan::PackOutcome pack_within(plan::PackProblem& problem, const pack::PackOptions& options,
                              std::optional<int64_t> capacity) {
  problem.capacity_bytes = capacity;
  plan::PackOutcome packed = pack::solve(problem, options);
  if (packed.status != plan::SolveStatus::kInfeasible &&
      packed.offsets.size() == problem.buffers.size())
    return packed;
  problem.capacity_bytes.reset();
  return pack::solve(problem, options);
}

}  // namespace

Result<Solution> unpacked(const analysis::ScheduleView& view,
                          std::vector<plan::SchedAction> sequence) {
  Solution solution;
  LT_ASSIGN(solution.profile, plan::simulate_sequence(view.problem, sequence));
  solution.buffers = make_buffer_view(view, sequence, solution.profile);
  if (!solution.buffers.clash.empty()) {
    LT_ASSIGN(solution.profile, plan::simulate_sequence(pieces_apart(view), sequence));
    solution.buffers = make_buffer_view(view, sequence, solution.profile);
    if (!solution.buffers.clash.empty())
      return error(ErrorCode::kInput, "the pieces of a value cannot lie at their distances: " +
                                          solution.buffers.clash);
  }
  solution.sequence = std::move(sequence);
  return solution;
}

Result<Solution> pack_schedule(const analysis::ScheduleView& view,
                               std::vector<plan::SchedAction> sequence,
                               const OptimizeOptions& options,
                               std::optional<int64_t> budget_bytes) {
  LT_ASSIGN(Solution solution, unpacked(view, std::move(sequence)));
  const int64_t staying = staying_bytes(view.problem, solution.buffers);
  std::optional<int64_t> capacity;
  if (budget_bytes) capacity = std::max<int64_t>(0, *budget_bytes - staying);
  solution.packing = pack_within(solution.buffers.problem, options.pack, capacity);
  bool found = solution.packing.offsets.size() == solution.buffers.problem.buffers.size();
  const std::vector<plan::Link> links = plan::links_of(view.problem);
  for (size_t tier = 0; tier < links.size(); ++tier) {
    plan::PackProblem& slots = solution.buffers.slots[tier];
    std::optional<int64_t> room;
    if (links[tier].bytes != plan::Link::kUnlimited) room = links[tier].bytes;
    solution.slots.push_back(pack_within(slots, options.pack, room));
    found &= solution.slots.back().offsets.size() == slots.buffers.size();
  }
  if (!found)
    return error(ErrorCode::kLimit, "the work limit ended before any packing was found; raise it");
  solution.arena_bytes = staying + solution.packing.height_bytes;
  return solution;
}

Result<Solution> pack_best_order(const analysis::ScheduleView& view,
                                 const plan::ScheduleOutcome& order,
                                 const OptimizeOptions& options) {
  LT_ASSIGN(Solution best, pack_schedule(view, each_once(order.sequence), options));
  // Only the greedy passes draw from the seed: what else the first search did would be repeated.
  order::OrderOptions other = options.order;
  other.list_rules = other.post_orders = other.cut_bound = other.exact_search = other.beam = false;
  // Together the retries may search for addresses about as long as the first packing did.
  OptimizeOptions shorter = options;
  if (options.pack_retries > 0)
    shorter.pack.limits.max_units = best.packing.work.units / options.pack_retries;
  std::vector<std::vector<plan::SchedAction>> tried = {best.sequence};
  for (int retry = 1; retry <= options.pack_retries && best.arena_bytes > order.peak_bytes &&
                      !order.work.timed_out && !best.packing.work.timed_out;
       ++retry) {
    other.seed = options.order.seed + static_cast<uint64_t>(retry);
    plan::ScheduleOutcome outcome = order::solve(view.problem, other);
    std::vector<plan::SchedAction> sequence = each_once(outcome.sequence);
    if (outcome.peak_bytes > order.peak_bytes) continue;
    if (std::find(tried.begin(), tried.end(), sequence) != tried.end()) continue;
    tried.push_back(sequence);
    LT_ASSIGN(Solution candidate, pack_schedule(view, std::move(sequence), shorter));
    if (candidate.arena_bytes < best.arena_bytes) best = std::move(candidate);
  }
  return best;
}

}  // namespace lowtide::pipeline

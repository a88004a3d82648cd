#include "remat/bounds/bound_program.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan_words.h"
#include "remat/bounds/cut_segments.h"
#include "remat/bounds/multi_cut_program.h"

namespace lowtide::remat {
namespace {

std::string name_of(const CutVariable& variable) {
  constexpr std::array<std::string_view, 3> kWords = {"run", "stay", "again"};
  return fmt::format("{}_{}_{}", kWords[static_cast<size_t>(variable.kind)], variable.cut,
                     variable.id);
}

// Rows are called as in the proofs of plan files.
std::string name_of(const CutRowName& row) {
  std::string name =
      fmt::format("{}_{}", plan::kProofRowWords[static_cast<size_t>(row.kind)], row.cut);
  if (row.op.valid()) name += fmt::format("_op{}", row.op.index());
  if (row.value.valid()) name += fmt::format("_value{}", row.value.index());
  if (row.divisor > 1) name += fmt::format("_of{}", row.divisor);
  return name;
}

}  // namespace

std::optional<solver::Program> bound_program(const plan::ScheduleProblem& problem,
                                             const TimeBound& bound) {
  std::vector<SchedOpId> cuts;
  if (bound.several && bound.several->certificate.time)
    for (const auto& [op, price] : bound.several->certificate.time->cuts) cuts.push_back(op);
  if (cuts.empty() && bound.single.op) cuts = {*bound.single.op};
  if (cuts.empty()) return std::nullopt;
  const StepGraph graph(problem);
  const CutSegments segments(graph, std::move(cuts));
  const MultiCutProgram program(segments, /*small_bytes=*/0);
  solver::Program result;
  result.constant = graph.scale.seconds(program.forced_ticks);
  for (size_t j = 0; j < program.variables.size(); ++j)
    result.columns.push_back({.name = name_of(program.variables[j]),
                              .upper = 1,
                              .cost = graph.scale.seconds(program.ticks[j]),
                              .integer = true});
  for (const CutRow& row : program.rows) {
    solver::Row& out = result.rows.emplace_back();
    out.name = name_of(row.name);
    out.lower = static_cast<double>(row.least);
    for (const CutTerm& term : row.terms)
      out.entries.push_back({term.variable, static_cast<double>(term.coefficient)});
  }
  return result;
}

}  // namespace lowtide::remat

#include "pipeline/certificate.h"

#include <utility>
#include <vector>

#include "pipeline/write_steps.h"

namespace lowtide::pipeline {
namespace {

using plan::ProblemIds;

class CertificateWriter {
 public:
  CertificateWriter(const ir::Graph& graph, const analysis::ScheduleView& view)
      : graph_(graph), view_(view) {}

  plan::PeakCut peak(const plan::PeakCutOf<ProblemIds>& from) const {
    IdVector<ir::OpId, char> ran(graph_.op_count(), 0);
    for (plan::SchedOpId op : from.prefix) ran[view_.op[op]] = 1;
    for (ir::OpId id : graph_.ops()) {
      if (!analysis::is_view_op(graph_, id)) continue;
      ran[id] = 1;
      for (ir::ValueId input : graph_.op(id).inputs)
        if (input.valid() && graph_.value(input).producer.valid())
          ran[id] &= ran[graph_.value(input).producer];
    }
    plan::PeakCut cut;
    cut.op = op(from.op);
    cut.value_bytes = from.value_bytes;
    for (ir::OpId id : graph_.ops())
      if (ran[id]) cut.prefix.push_back(plan_id(id));
    return cut;
  }

  plan::TimeCuts time(const plan::TimeCutsOf<ProblemIds>& from) const {
    plan::TimeCuts cuts;
    for (const auto& [cut, price] : from.cuts) cuts.cuts.push_back({op(cut), price});
    cuts.shares = from.shares;
    cuts.rerun_multipliers = from.rerun_multipliers;
    for (plan::Multiplier& m : cuts.rerun_multipliers) m.id = op_index(m.id);
    cuts.store_multipliers = from.store_multipliers;
    for (plan::Multiplier& m : cuts.store_multipliers) m.id = storage_index(m.id);
    cuts.copy_multipliers = from.copy_multipliers;
    for (plan::Multiplier& m : cuts.copy_multipliers) m.id = storage_index(m.id);
    return cuts;
  }

  plan::Cases cases(const plan::CasesOf<ProblemIds>& from) const {
    plan::Cases cases;
    for (const plan::SchedOpId cut : from.cuts) cases.cuts.push_back(op(cut));
    cases.unit_ticks = from.unit_ticks;
    for (const auto& node : from.nodes) cases.nodes.push_back(proof_node(node));
    return cases;
  }

  plan::BackwardWay floor(const plan::BackwardWayOf<ProblemIds>& from) const {
    return {op(from.op), from.least_bytes};
  }

 private:
  plan::ProofNode proof_node(const plan::ProofNodeOf<ProblemIds>& from) const {
    plan::ProofNode node{from.parent, from.variable, from.cut, from.id, from.value, {}};
    if (from.parent >= 0)
      node.id =
          from.variable == plan::ProofVariable::kStay ? storage_index(from.id) : op_index(from.id);
    for (const auto& m : from.multipliers)
      node.multipliers.push_back(
          {m.row, m.cut, m.op.valid() ? op(m.op) : plan::PlanOpId::none(),
           m.storage.valid() ? storage(m.storage) : plan::PlanStorageId::none(), m.divisor,
           m.value});
    return node;
  }

  plan::PlanOpId op(plan::SchedOpId id) const { return plan_id(view_.op[id]); }
  plan::PlanStorageId storage(plan::SchedValueId id) const { return plan_id(view_.storage[id]); }
  int32_t op_index(int32_t id) const {
    return static_cast<int32_t>(op(plan::SchedOpId(static_cast<size_t>(id))).index());
  }
  int32_t storage_index(int32_t id) const {
    return static_cast<int32_t>(storage(plan::SchedValueId(static_cast<size_t>(id))).index());
  }

  const ir::Graph& graph_;
  const analysis::ScheduleView& view_;
};

}  // namespace

plan::Certificate in_plan(const ir::Graph& graph, const analysis::ScheduleView& view,
                          const plan::ProblemCertificate& certificate) {
  const CertificateWriter writer(graph, view);
  plan::Certificate result;
  if (certificate.peak) result.peak = writer.peak(*certificate.peak);
  if (certificate.time) result.time = writer.time(*certificate.time);
  if (certificate.cases) result.cases = writer.cases(*certificate.cases);
  if (certificate.floor) result.floor = writer.floor(*certificate.floor);
  return result;
}

}  // namespace lowtide::pipeline

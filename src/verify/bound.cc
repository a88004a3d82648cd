// The evidence for the lower bound, which speaks of orders that run each op once and move nothing
// (a plan with reruns or transfers may lie below it). When op v runs, what has run before is closed
// under predecessors, holds v's ancestors and neither v nor a descendant of v. A state's cost is
//
//     resident + live(state) + outputs(v) + workspace(v) - most v can reuse in place
//
// live(state): storages whose maker ran and that are outputs of the step or have a reader that did
// not. The certificate names the state of least cost; that none is cheaper is shown by a minimum
// cut: an arc from each maker to its storage with the storage's bytes, unlimited arcs from the
// storage to its readers and from each op to its predecessors.
//
// Predecessors: makers of inputs, control edges, and for an op that overwrites a storage all who
// read the version it destroys. A dying input can be reused only if no other reader of it descends
// from v.
#include <fmt/core.h>

#include <algorithm>

#include "verify/facts.h"
#include "verify/min_cut.h"

namespace lowtide::verify {
namespace {

class Bound {
 public:
  Bound(const Facts& facts, const plan::PeakCut& certificate)
      : facts_(facts), plan_(facts.plan), certificate_(certificate), op_(certificate.op) {
    find_predecessors();
    const size_t n = plan_.ops.size();
    ancestor_ = Mark(n, 0), descendant_ = Mark(n, 0), in_prefix_ = Mark(n, 0);
    ancestor_[op_] = descendant_[op_] = 1;
    for (size_t i = n; i-- > 0;)
      if (ancestor_[PlanOpId(i)])
        for (PlanOpId p : predecessors_[PlanOpId(i)]) ancestor_[p] = 1;
    for (PlanOpId o : plan_.ops.ids())
      for (PlanOpId p : predecessors_[o])
        if (descendant_[p]) descendant_[o] = 1;
    ancestor_[op_] = 0;
    for (PlanOpId o : certificate.prefix) in_prefix_[o] = 1;
  }

  // Nothing when the prefix is a possible state; else what is wrong with it.
  std::string prefix_problem() const {
    for (PlanOpId o : plan_.ops.ids()) {
      const std::string& name = plan_.ops[o].name;
      if (in_prefix_[o] && descendant_[o])
        return fmt::format("it has '{}', which cannot run before '{}'", name, plan_.ops[op_].name);
      if (!in_prefix_[o] && ancestor_[o])
        return fmt::format("it lacks '{}', which must run before '{}'", name, plan_.ops[op_].name);
      if (!in_prefix_[o]) continue;
      for (PlanOpId p : predecessors_[o])
        if (!in_prefix_[p])
          return fmt::format("it has '{}' without its predecessor '{}'", name, plan_.ops[p].name);
    }
    return "";
  }

  // The part of the cost that does not depend on the state.
  int64_t fixed_bytes() const {
    int64_t bytes = facts_.resident_bytes + plan_.ops[op_].workspace_bytes - most_reused();
    for (PlanStorageId s : facts_.makes[op_]) bytes += plan_.storages[s].bytes;
    return bytes;
  }

  int64_t live_bytes() const {
    int64_t bytes = 0;
    for (PlanStorageId s : plan_.storages.ids()) {
      if (!facts_.maker[s].valid() || !in_prefix_[facts_.maker[s]]) continue;
      const std::vector<PlanOpId>& readers = facts_.readers[s];
      const bool wanted =
          std::any_of(readers.begin(), readers.end(), [&](PlanOpId r) { return !in_prefix_[r]; });
      if (facts_.is_output[s] || wanted) bytes += plan_.storages[s].bytes;
    }
    return bytes;
  }

  int64_t least_live_bytes() const {
    const size_t ops = plan_.ops.size(), source = ops + plan_.storages.size(), sink = source + 1;
    const auto node = [&](PlanOpId o) {
      return ancestor_[o] ? source : descendant_[o] ? sink : size_t{o.index()};
    };
    MinCut cut(sink + 1);
    for (PlanOpId o : plan_.ops.ids())
      for (PlanOpId p : predecessors_[o])
        if (node(o) != node(p) && node(p) != source && node(o) != sink)
          cut.add_arc(node(o), node(p), MinCut::kUnlimited);
    for (PlanStorageId s : plan_.storages.ids()) {
      const PlanOpId maker = facts_.maker[s];
      if (!maker.valid() || descendant_[maker] || plan_.storages[s].bytes == 0) continue;
      if (!facts_.is_output[s] && facts_.readers[s].empty()) continue;
      const size_t kept = ops + s.index();
      cut.add_arc(node(maker), kept, plan_.storages[s].bytes);
      if (facts_.is_output[s]) cut.add_arc(kept, sink, MinCut::kUnlimited);
      for (PlanOpId reader : facts_.readers[s]) cut.add_arc(kept, node(reader), MinCut::kUnlimited);
    }
    return cut.run(source, sink);
  }

 private:
  using Mark = IdVector<PlanOpId, char>;

  void find_predecessors() {
    predecessors_ = IdVector<PlanOpId, std::vector<PlanOpId>>(plan_.ops.size());
    IdVector<PlanValueId, std::vector<PlanOpId>> version_readers(plan_.values.size());
    for (PlanOpId o : plan_.ops.ids())
      for (PlanValueId input : plan_.ops[o].inputs)
        if (input.valid()) version_readers[facts_.version[input]].push_back(o);
    for (PlanOpId o : plan_.ops.ids()) {
      const plan::PlanOp& op = plan_.ops[o];
      std::vector<PlanOpId>& list = predecessors_[o];
      for (PlanValueId input : op.inputs)
        if (input.valid() && plan_.values[input].producer.valid())
          list.push_back(plan_.values[input].producer);
      list.insert(list.end(), op.control.begin(), op.control.end());
      for (PlanValueId output : op.outputs) {
        if (plan_.values[output].alias != plan::PlanAlias::kUpdate) continue;
        for (PlanOpId reader : version_readers[facts_.version[plan_.values[output].base]])
          if (reader != o) list.push_back(reader);
      }
    }
  }

  int64_t most_reused() const {
    std::vector<std::pair<PlanStorageId, PlanStorageId>> pairs;
    for (const auto& pair : facts_.pairs[op_]) {
      const std::vector<PlanOpId>& readers = facts_.readers[pair.first];
      if (std::none_of(readers.begin(), readers.end(),
                       [&](PlanOpId r) { return r != op_ && descendant_[r]; }))
        pairs.push_back(pair);
    }
    return most_reused_bytes(facts_, pairs);
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  const plan::PeakCut& certificate_;
  const PlanOpId op_;
  IdVector<PlanOpId, std::vector<PlanOpId>> predecessors_;
  Mark ancestor_, descendant_, in_prefix_;
};

}  // namespace

void check_certificate(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  if (!claims.certificate.peak) return;
  const plan::PeakCut& certificate = *claims.certificate.peak;
  const Bound bound(facts, certificate);
  const std::string name = facts.plan.ops[certificate.op].name;
  const int64_t fixed = bound.fixed_bytes(), least = bound.least_live_bytes();
  report.cut_bytes = fixed + least;
  if (const std::string problem = bound.prefix_problem(); !problem.empty()) {
    findings.add(Violation::kCertificatePrefix,
                 fmt::format("the certificate's state before '{}': {}", name, problem));
    return;
  }
  const int64_t value = fixed + bound.live_bytes();
  if (value != certificate.value_bytes)
    findings.add(Violation::kCertificateValue,
                 fmt::format("the certificate's state before '{}' costs {} bytes, claimed are {}",
                             name, value, certificate.value_bytes));
  if (report.cut_bytes != value)
    findings.add(Violation::kCertificateNotLeast,
                 fmt::format("a state before '{}' costs {} bytes, the certificate's {}", name,
                             report.cut_bytes, value));
}

}  // namespace lowtide::verify

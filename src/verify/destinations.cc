// Wholes that several ops write slice by slice (ops/destinations.h): the slices of a chain do not
// overlap and together are the whole before anybody but the chain's next op sees it. Followed along
// the given order: which places along its axis each version has.
#include "ops/destinations.h"

#include <fmt/core.h>

#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "verify/facts.h"

namespace lowtide::verify {
namespace {

struct Cover {
  size_t axis = 0;
  int64_t missing = 0;
  std::map<int64_t, int64_t> slices;  // begin, end
};

class Destinations {
 public:
  Destinations(const Facts& facts, Findings& findings)
      : facts_(facts), plan_(facts.plan), findings_(findings) {}

  void run() {
    for (PlanOpId o : plan_.ops.ids()) {
      const auto to = ops::destination_of(facts_.instance(o));
      check_reads(o, to);
      if (to && !plan_.ops[o].outputs.empty()) write(o, *to);
    }
    for (PlanValueId v : plan_.values.ids())
      if (plan_.values[v].is_output && open_.contains(facts_.version[v]))
        findings_.add(
            Violation::kPieces,
            fmt::format("'{}' is returned before all of it is written", plan_.values[v].name));
  }

 private:
  void check_reads(PlanOpId id, const std::optional<ops::Destination>& to) {
    const plan::PlanOp& op = plan_.ops[id];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const PlanValueId input = op.inputs[i];
      if (!input.valid()) continue;
      const auto open = open_.find(facts_.version[input]);
      if (open == open_.end()) continue;
      if (to && to->has_rest && to->rest == i && facts_.version[input] == input) continue;
      findings_.add(
          Violation::kPieces,
          fmt::format("op '{}' reads '{}', of which {} places along axis {} are not "
                      "written",
                      op.name, plan_.values[input].name, open->second.missing, open->second.axis));
    }
  }

  void write(PlanOpId id, const ops::Destination& to) {
    const plan::PlanOp& op = plan_.ops[id];
    const auto wrong = [&](std::string_view why) {
      findings_.add(Violation::kPieces,
                    fmt::format("op '{}' writes [{}, {}) of axis {} of '{}': {}", op.name, to.begin,
                                to.end, to.axis, plan_.values[op.outputs[0]].name, why));
    };
    Cover made{.axis = to.axis, .missing = to.extent, .slices = {}};
    if (to.has_rest) {
      const auto open = open_.find(op.inputs[to.rest]);
      if (open == open_.end() || open->second.axis != to.axis)
        return wrong("the rest lacks no slice along this axis");
      made = open->second;
    }
    const auto next = made.slices.lower_bound(to.begin);
    const bool meets_next = next != made.slices.end() && next->first < to.end;
    const bool meets_last = next != made.slices.begin() && std::prev(next)->second > to.begin;
    if (meets_next || meets_last) return wrong("a part of it is written already");
    made.slices.emplace(to.begin, to.end);
    made.missing -= to.end - to.begin;
    if (made.missing > 0) open_[op.outputs[0]] = std::move(made);
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  Findings& findings_;
  std::map<PlanValueId, Cover> open_;  // versions that lack something
};

}  // namespace

void check_destinations(const Facts& facts, Findings& findings) {
  Destinations(facts, findings).run();
}

}  // namespace lowtide::verify

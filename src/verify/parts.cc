#include "verify/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "ops/destinations.h"
#include "ops/op_table.h"
#include "verify/beside.h"
#include "verify/composition.h"
#include "verify/facts.h"
#include "verify/part_name.h"
#include "verify/parts_floor.h"
#include "verify/whole_step.h"

namespace lowtide::verify {
namespace {

constexpr size_t kMostPartFindings = 200;

double real(const ir::Attrs& attrs, std::string_view key) {
  const auto found = attrs.find(key);
  if (found == attrs.end() || !std::holds_alternative<double>(found->second)) return 0;
  return std::get<double>(found->second);
}

// Which op of the whole step an op of the plan is, or which part of it.
struct Match {
  ir::OpId op;
  int axis = -1;  // not cut
  int64_t begin = 0, end = 0;
};

class Parts {
 public:
  Parts(const plan::Plan& plan, const ir::Graph& graph)
      : facts_(plan),
        plan_(plan),
        whole_(graph, table_),
        match_(plan.ops.size()),
        of_(plan.values.size()),
        runs_(graph.op_count(), 0) {}

  PartsReport run() {
    match_ops();
    for (const PlanValueId v : plan_.values.ids())
      if (!plan_.values[v].producer.valid()) take_given(v);
    for (const PlanOpId o : plan_.ops.ids()) follow(o);
    check_results();
    check_updates();
    check_waits();
    if (const auto& floor = plan_.claims.parts_floor)
      if (std::string why = wrong_parts_floor(*floor, whole_.graph()); !why.empty())
        wrong(std::move(why));
    return std::move(report_);
  }

 private:
  void wrong(std::string message) {
    if (report_.findings.size() < kMostPartFindings) report_.findings.push_back(std::move(message));
  }
  const Numbers& dims(PlanValueId v) const { return plan_.values[v].type.dims; }

  // ---- which op is which

  void match_ops() {
    std::map<ir::OpId, std::map<size_t, PlanOpId>> parts;
    for (const PlanOpId o : plan_.ops.ids()) {
      const plan::PlanOp& op = plan_.ops[o];
      const auto as_it_was = whole_.find(op.name, op.kind);
      if (as_it_was) match_[o] = Match{*as_it_was};
      const auto part = part_name(op.name);
      if (as_it_was || !part) continue;
      if (const auto base = whole_.find(part->op, op.kind)) parts[*base][part->part] = o;
    }
    for (const auto& [op, of_op] : parts) match_parts(op, of_op);
  }

  // The axis along which parts of these sizes follow one another.
  void match_parts(ir::OpId id, const std::map<size_t, PlanOpId>& parts) {
    const ops::Instance instance = ops::instance_of(whole_.graph(), id);
    const auto map = ops::axis_map(instance);
    if (!map) return;
    report_.ops_in_parts += 1;
    report_.parts += static_cast<int64_t>(parts.size());
    for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
      if (!ops::can_split(*map, axis)) continue;
      std::vector<Match> matches;
      int64_t begin = 0;
      for (const auto& [k, o] : parts) {
        const int64_t size = size_along(*map, axis, instance, o);
        if (size <= 0 || !has_shape(instance, axis, begin, size, o)) break;
        matches.push_back({id, axis, begin, begin + size});
        begin += size;
      }
      if (matches.size() != parts.size()) continue;
      const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
      if (begin != extent) continue;
      size_t next = 0;
      for (const auto& [k, o] : parts) match_[o] = matches[next++];
      return;
    }
  }

  // How many places of the axis the op of the plan has, by the dimensions that walk it alone; 0:
  // none says so.
  int64_t size_along(const ops::AxisMap& map, int axis, const ops::Instance& whole,
                     PlanOpId o) const {
    const plan::PlanOp& op = plan_.ops[o];
    const int64_t extent = *map.axes[static_cast<size_t>(axis)].extent.constant();
    for (const ops::AxisUse& use : map.uses) {
      const auto operand = static_cast<size_t>(use.operand), d = static_cast<size_t>(use.dim);
      if (use.axis != axis || use.kind == ops::LinkKind::kWindow ||
          use.kind == ops::LinkKind::kShift || use.kind == ops::LinkKind::kBroadcast)
        continue;
      const auto& ids = use.is_output ? op.outputs : op.inputs;
      if (operand >= ids.size() || !ids[operand].valid()) continue;
      const Numbers now = use.is_output && operand == 0 ? slice_dims(o) : dims(ids[operand]);
      const int64_t was = use.is_output ? output_dim(whole, operand, d)
                                        : *whole.inputs[operand]->dims[d].constant();
      if (d < now.size() && was > 0) return extent * now[d] / was;
    }
    return 0;
  }

  static int64_t output_dim(const ops::Instance& whole, size_t output, size_t dim) {
    const auto made = ops::infer(whole);
    return made ? made->at(output).type.dims[dim].constant().value_or(0) : 0;
  }

  bool has_shape(const ops::Instance& whole, int axis, int64_t begin, int64_t size,
                 PlanOpId o) const {
    const auto part = ops::part(whole, axis, begin, begin + size);
    if (!part) return false;
    const ops::SliceOp now = bare(o);
    for (size_t i = 0; i < whole.inputs.size() && i < now.inputs.size(); ++i) {
      if (!whole.inputs[i] || !now.inputs[i]) continue;
      Numbers wanted = numbers(whole.inputs[i]->dims);
      if (const ops::SliceOf& slice = part->inputs[i]; !slice.whole)
        wanted[static_cast<size_t>(slice.dim)] = *slice.end.constant() - *slice.begin.constant();
      if (wanted != numbers(now.inputs[i]->dims)) return false;
    }
    return true;
  }

  // Without where its result is written.
  ops::SliceOp bare(PlanOpId o) const {
    const ops::Instance instance = facts_.instance(o);
    if (ops::destination_of(instance)) return ops::slice_op(*ops::find(instance.kind), instance);
    return {facts_.attrs[o], instance.inputs};
  }

  // ---- values

  void take_given(PlanValueId v) {
    const auto found = whole_.graph().find_value(plan_.values[v].name);
    if (found && !whole_.graph().value(*found).producer.valid() && whole_.dims(*found) == dims(v)) {
      of_[v] = whole_.of(*found);
      const std::string other = difference_of_given(plan_, v, whole_.graph().value(*found));
      if (!other.empty())
        wrong(fmt::format("'{}' differs in {} from the whole step", plan_.values[v].name, other));
      return;
    }
    wrong(fmt::format("'{}' is there before the step, and not before the whole step",
                      plan_.values[v].name));
  }

  void follow(PlanOpId o) {
    const plan::PlanOp& op = plan_.ops[o];
    if (!known(op)) return;
    if (op.outputs.empty()) return follow_effect(o);
    const ops::SliceOp alone = bare(o);
    Seen seen{op.kind, alone.attrs, {}, alone.instance(op.kind), slice_dims(o)};
    for (size_t i = 0; i < alone.inputs.size(); ++i)
      seen.inputs.push_back(op.inputs[i].valid() ? &of_[op.inputs[i]] : nullptr);
    std::vector<Composition> made;
    std::string why = "it is no op of the whole step, nor one of parts that make one";
    if (auto same_elements = rearranged(o, seen)) {
      made = {std::move(*same_elements)};
    } else if (!match_[o] || !is_part(seen, *match_[o], made, why)) {
      auto handed = handed_on(seen);
      if (!handed) {
        wrong(fmt::format("op '{}' ({}): {}", op.name, op.kind, why));
        return;
      }
      made = {std::move(*handed)};
    } else {
      runs_[match_[o]->op] += 1;
    }
    report_.handing_on += !match_[o].has_value();
    keep(o, std::move(made));
  }

  // An op that makes nothing, for what it does beside the step.
  void follow_effect(PlanOpId o) {
    const plan::PlanOp& op = plan_.ops[o];
    const ops::Instance instance = facts_.instance(o);
    Seen seen{op.kind, facts_.attrs[o], {}, instance, {}};
    for (const PlanValueId input : op.inputs)
      seen.inputs.push_back(input.valid() ? &of_[input] : nullptr);
    std::vector<Composition> made;
    std::string why = "it is no op of the whole step";
    if (match_[o] && is_part(seen, *match_[o], made, why))
      runs_[match_[o]->op] += 1;
    else
      wrong(fmt::format("op '{}' ({}): {}", op.name, op.kind, why));
  }

  // Of a part of a Reshape the boxes say what it shows; but where the whole one has no boxes, it is
  // an op like any other.
  std::optional<Composition> rearranged(PlanOpId o, const Seen& op) {
    if (op.kind == "Reshape" && match_[o] && !whole_.only_moves(match_[o]->op)) return std::nullopt;
    auto made = moved(table_, op);
    if (!made && op.kind == "Reshape")
      made = reshaped(table_, *op.inputs[0], dims_of(op, 0), op.dims);
    return made;
  }

  // What follows from a finding is none.
  bool known(const plan::PlanOp& op) const {
    const auto to_be_filled = op.attrs.contains("into") ? op.inputs.size() - 1 : op.inputs.size();
    for (size_t i = 0; i < to_be_filled; ++i) {
      const PlanValueId input = op.inputs[i];
      if (input.valid() && of_[input].empty() && element_count(plan_.values[input].type) > 0)
        return false;
    }
    return true;
  }

  Numbers slice_dims(PlanOpId o) const {
    Numbers made = dims(plan_.ops[o].outputs[0]);
    if (const auto to = ops::destination_of(facts_.instance(o)))
      made[to->axis] = to->end - to->begin;
    return made;
  }

  void keep(PlanOpId o, std::vector<Composition> made) {
    const plan::PlanOp& op = plan_.ops[o];
    const auto to = ops::destination_of(facts_.instance(o));
    for (size_t i = 0; i < made.size() && i < op.outputs.size(); ++i) {
      Composition& result = of_[op.outputs[i]];
      if (!to) {
        result = std::move(made[i]);
        continue;
      }
      if (to->has_rest) result = cleared(of_[op.inputs[to->rest]], to->axis, to->begin, to->end);
      put(result, made[i], to->axis, to->begin);
    }
  }

  // ---- parts

  bool is_part(const Seen& seen, const Match& match, std::vector<Composition>& made,
               std::string& why) {
    const ir::Op& op = whole_.graph().op(match.op);
    ops::Part part{.attrs = op.attrs,
                   .inputs = std::vector<ops::SliceOf>(op.inputs.size()),
                   .outputs = std::vector<ops::SliceOf>(op.outputs.size()),
                   .merges = std::vector<ops::Merge>(op.outputs.size(), ops::Merge::kConcat)};
    if (match.axis >= 0) {
      auto cut =
          ops::part(ops::instance_of(whole_.graph(), match.op), match.axis, match.begin, match.end);
      if (!cut) return why = cut.error().message, false;
      part = std::move(*cut);
    }
    if (!same_attrs(seen, part.attrs, why)) return false;
    std::map<size_t, size_t> sums;  // operands, and the results that add into them
    for (const auto& [input, output] : ops::accumulators(seen.instance)) {
      const auto i = static_cast<size_t>(input);
      const bool before = i < op.inputs.size() && op.inputs[i].valid();
      if (!before || whole_.adds_into(match.op, i)) sums[i] = static_cast<size_t>(output);
    }
    const size_t most = std::max(seen.inputs.size(), op.inputs.size());
    for (size_t i = 0; i < most; ++i)
      if (!sums.contains(i) && !whole_.adds_into(match.op, i) &&
          !same_operand(seen, match.op, part, i, why))
        return false;
    for (size_t o = 0; o < op.outputs.size(); ++o) made.push_back(result(match, part, o));
    return std::all_of(sums.begin(), sums.end(), [&](const auto& sum) {
      return add_into(made[sum.second], *seen.inputs[sum.first], why);
    });
  }

  // What layouts, views and destinations add says nothing of what is computed.
  static bool same_attrs(const Seen& seen, const ir::Attrs& wanted, std::string& why) {
    const ops::Row& row = *ops::find(seen.kind);
    const auto of_layout = [&](std::string_view key) {
      for (size_t o = 0; o < 8; ++o)
        if (ops::free_layout_attr(row, o) == key) return true;
      return key == "view";
    };
    for (const auto& [key, value] : wanted) {
      const auto found = seen.attrs.find(key);
      if (of_layout(key) || (found != seen.attrs.end() && same_attr(found->second, value)))
        continue;
      return why = fmt::format("its '{}' is another than in the whole step", key), false;
    }
    for (const auto& [key, value] : seen.attrs)
      if (!of_layout(key) && !wanted.contains(key))
        return why = fmt::format("the whole step has no '{}'", key), false;
    return true;
  }

  bool same_operand(const Seen& seen, ir::OpId id, const ops::Part& part, size_t i,
                    std::string& why) const {
    const ir::Op& op = whole_.graph().op(id);
    const bool wanted = i < op.inputs.size() && op.inputs[i].valid() && !part.inputs[i].absent;
    const bool there = i < seen.inputs.size() && seen.inputs[i] != nullptr;
    if (wanted != there)
      return why = fmt::format("operand {} is {}there", i, there ? "" : "not "), false;
    if (!wanted) return true;
    Composition of_whole = whole_.of(op.inputs[i]);
    Numbers expected = whole_.dims(op.inputs[i]);
    if (const ops::SliceOf& slice = part.inputs[i]; !slice.whole) {
      const int64_t begin = *slice.begin.constant(), end = *slice.end.constant();
      of_whole = sliced(of_whole, static_cast<size_t>(slice.dim), begin, end);
      expected[static_cast<size_t>(slice.dim)] = end - begin;
    }
    if (expected == dims_of(seen, i) && same(of_whole, *seen.inputs[i], expected)) return true;
    why = fmt::format("operand {} is not {} of '{}'", i, part.inputs[i].whole ? "all" : "the slice",
                      whole_.graph().value(op.inputs[i]).name);
    return false;
  }

  Composition result(const Match& match, const ops::Part& part, size_t o) {
    const ir::ValueId value = whole_.graph().op(match.op).outputs[o];
    const ops::SliceOf& slice = part.outputs[o];
    Contents contents = table_.at(whole_.own(value));
    if (part.merges[o] != ops::Merge::kConcat) {
      const auto map = ops::axis_map(ops::instance_of(whole_.graph(), match.op));
      table_.set_extent(value, *map->axes[static_cast<size_t>(match.axis)].extent.constant());
      contents.terms[value] = {match.axis, {{match.begin, match.end}}};
      contents.largest = part.merges[o] == ops::Merge::kMax;
      contents.unweighted = slice.whole && part.scale != 1.0;
    }
    const ContentsId id = table_.id_of(contents);
    Composition made = all_of(table_, id);
    if (slice.whole) return made;
    made = sliced(made, static_cast<size_t>(slice.dim), *slice.begin.constant(),
                  *slice.end.constant());
    if (part.merges[o] == ops::Merge::kSum) nonzero_.insert_or_assign(id, made.front());
    return made;
  }

  bool add_into(Composition& made, const Composition& before, std::string& why) {
    why = "it adds into what is no other share of its sum";
    if (made.size() != 1 || before.size() != 1 || before[0].begin != made[0].begin ||
        before[0].end != made[0].end || before[0].shift != made[0].shift)
      return false;
    const auto sum = table_.sum(before[0].contents, made[0].contents);
    if (sum) made[0].contents = *sum;
    return sum.has_value();
  }

  // ---- ops that hand shares on

  std::optional<Composition> handed_on(const Seen& op) {
    if (op.inputs.empty() || op.inputs[0] == nullptr) return std::nullopt;
    if (op.kind == "Pad") return with_zeros(op);
    if (op.kind == "AffineScalar") return weighted(op);
    if ((op.kind != "Add" && op.kind != "Max") || op.inputs.size() != 2 || op.inputs[1] == nullptr)
      return std::nullopt;
    const Box *one = only_box(*op.inputs[0], op.dims), *other = only_box(*op.inputs[1], op.dims);
    if (one == nullptr || other == nullptr || one->shift != other->shift) return std::nullopt;
    const auto both = op.kind == "Add" ? table_.sum(one->contents, other->contents)
                                       : table_.maximum(one->contents, other->contents);
    if (!both) return std::nullopt;
    Box made = *one;
    made.contents = *both;
    return Composition{made};
  }

  // A share is zero outside of the slice that its part made.
  std::optional<Composition> with_zeros(const Seen& op) const {
    const Box* box = only_box(*op.inputs[0], dims_of(op, 0));
    const auto found = box == nullptr ? nonzero_.end() : nonzero_.find(box->contents);
    if (found == nonzero_.end() || found->second != *box || real(op.attrs, "value") != 0 ||
        table_.at(box->contents).dims != op.dims || list(op.attrs, "begins") != box->shift)
      return std::nullopt;
    return all_of(table_, box->contents);
  }

  std::optional<Composition> weighted(const Seen& op) {
    const auto contents = single(table_, *op.inputs[0], op.dims);
    if (!contents || !table_.at(*contents).unweighted) return std::nullopt;
    Contents made = table_.at(*contents);
    const auto& [term, share] = *made.terms.begin();
    const double part = static_cast<double>(share.ranges[0].second - share.ranges[0].first) /
                        static_cast<double>(table_.extent(term));
    if (std::abs(real(op.attrs, "scale") - part) > 1e-12 * part || real(op.attrs, "shift") != 0)
      return std::nullopt;
    made.unweighted = false;
    return all_of(table_, table_.id_of(made));
  }

  // ---- the end

  void check_results() {
    std::map<std::string_view, PlanValueId> results;
    for (const PlanValueId v : plan_.values.ids())
      if (plan_.values[v].is_output) results.emplace(plan_.values[v].name, v);
    for (const ir::ValueId id : whole_.graph().outputs()) {
      const std::string& name = whole_.graph().value(id).name;
      const auto found = results.find(name);
      if (found == results.end())
        wrong(fmt::format("the whole step returns '{}', the plan does not", name));
      else if (dims(found->second) != whole_.dims(id) ||
               !same(of_[found->second], whole_.of(id), whole_.dims(id)))
        wrong(fmt::format("result '{}' is not all of what the whole step returns", name));
    }
    const auto extra = static_cast<int64_t>(results.size()) -
                       static_cast<int64_t>(whole_.graph().outputs().size());
    if (extra > 0) wrong(fmt::format("the plan returns {} values more than the whole step", extra));
  }

  void check_updates() {
    for (const ir::OpId id : whole_.graph().ops()) {
      const ir::Op& op = whole_.graph().op(id);
      const bool updates = ops::traits(*ops::find(op.kind)).has_effect;
      if (updates && runs_[id] != 1)
        wrong(fmt::format("op '{}' ({}) updates, and is there {} times", op.name, op.kind,
                          runs_[id]));
    }
  }

  // Every part of an op waits for every part of those that the op waits for.
  void check_waits() {
    std::map<ir::OpId, std::vector<PlanOpId>> parts;
    for (const PlanOpId o : plan_.ops.ids())
      if (match_[o]) parts[match_[o]->op].push_back(o);
    std::vector<std::pair<PlanOpId, PlanOpId>> waits;
    for (const auto& [id, waiting] : parts)
      for (const ir::OpId first : whole_.graph().op(id).control)
        if (const auto before = parts.find(first); before != parts.end())
          for (const PlanOpId o : waiting)
            for (const PlanOpId b : before->second) waits.emplace_back(o, b);
    for (const auto& [waiting, first] : lost_waits(plan_, waits))
      wrong(fmt::format("op '{}' does not wait for op '{}', as in the whole step",
                        plan_.ops[waiting].name, plan_.ops[first].name));
  }

  const Facts facts_;
  const plan::Plan& plan_;
  ContentsTable table_;
  WholeStep whole_;
  IdVector<PlanOpId, std::optional<Match>> match_;
  IdVector<PlanValueId, Composition> of_;
  std::map<ContentsId, Box> nonzero_;
  IdVector<ir::OpId, int64_t> runs_;  // of ops of the whole step, uncut or a part
  PartsReport report_;
};

}  // namespace

PartsReport verify_parts(const plan::Plan& plan, const ir::Graph& whole) {
  return Parts(plan, whole).run();
}

}  // namespace lowtide::verify

#include "verify/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "ops/destinations.h"
#include "ops/op_table.h"
#include "plan/part_name.h"
#include "verify/beside.h"
#include "verify/composition.h"
#include "verify/facts.h"
#include "verify/nested_part.h"
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
  std::vector<AxisRange> cuts = {};  // the outer one first; none: it is all of the op
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

  using Place = std::vector<size_t>;  // which part, which part of that
  using PartsOf = std::map<Place, PlanOpId>;

  void match_ops() {
    std::map<ir::OpId, PartsOf> parts;
    for (const PlanOpId o : plan_.ops.ids()) {
      const plan::PlanOp& op = plan_.ops[o];
      Place place;
      std::string_view name = op.name;
      auto base = whole_.find(name, op.kind);
      for (auto part = plan::part_name(name); !base && part && place.size() < kMostAxesCut;
           part = plan::part_name(name)) {
        place.insert(place.begin(), part->part);
        name = part->op;
        base = whole_.find(name, op.kind);
      }
      if (!base) continue;
      if (place.empty())
        match_[o] = Match{*base};
      else
        parts[*base][place] = o;
    }
    for (const auto& [op, of_op] : parts) match_parts(op, of_op);
  }

  // The axis along which parts of these sizes follow one another, or the two of them. Sizes may not
  // say which of two axes is the outer one; what parts read does (decide).
  void match_parts(ir::OpId id, const PartsOf& parts) {
    const ops::Instance instance = ops::instance_of(whole_.graph(), id);
    report_.ops_in_parts += 1;
    report_.parts += static_cast<int64_t>(parts.size());
    const size_t depth = parts.begin()->first.size();
    for (const auto& [place, o] : parts)
      if (place.size() != depth) return;
    const std::vector<int> axes = axes_of(instance);
    std::vector<Matches> all;
    for (const int outer : axes)
      for (const int inner : depth == 1 ? std::vector<int>{-1} : axes)
        if (auto matches =
                inner != outer ? matches_along(instance, id, outer, inner, parts) : std::nullopt)
          all.push_back(*std::move(matches));
    if (all.empty()) return;
    for (const auto& [o, match] : all.front()) match_[o] = match;
    if (all.size() > 1) open_[id] = std::move(all);
  }

  using Matches = std::map<PlanOpId, Match>;
  std::optional<Matches> matches_along(const ops::Instance& whole, ir::OpId id, int outer,
                                       int inner, const PartsOf& parts) const {
    Matches matches;
    AxisRange range{outer, 0, 0};
    for (auto first = parts.begin(); first != parts.end();) {
      auto last = first;
      while (last != parts.end() && last->first.front() == first->first.front()) ++last;
      range.begin = std::exchange(range.end, end_along(whole, outer, range.end, first->second));
      if (range.end <= range.begin ||
          !match_part(whole, {id, {range}}, inner, {first, last}, matches))
        return std::nullopt;
      first = last;
    }
    return is_end(whole, range) ? std::optional(std::move(matches)) : std::nullopt;
  }

  // A part along the outer axis: one op, or parts of it along the inner one.
  struct Some {
    PartsOf::const_iterator first, last;
  };
  bool match_part(const ops::Instance& whole, const Match& part, int inner, Some some,
                  Matches& matches) const {
    const auto outer = NestedPart::make(whole, part.cuts);
    if (!outer) return false;
    if (inner < 0) {
      matches[some.first->second] = part;
      return has_shape(*outer, some.first->second);
    }
    const std::optional<int> axis = outer->axis_within(inner);
    if (!axis) return false;
    AxisRange range{inner, 0, 0};
    for (auto at = some.first; at != some.last; ++at) {
      range.begin =
          std::exchange(range.end, end_along(outer->instance(), *axis, range.end, at->second));
      Match match = part;
      match.cuts.push_back(range);
      const auto of_part = NestedPart::make(whole, match.cuts);
      if (range.end <= range.begin || !of_part || !has_shape(*of_part, at->second)) return false;
      matches[at->second] = std::move(match);
    }
    return is_end(whole, range);
  }

  static std::vector<int> axes_of(const ops::Instance& instance) {
    std::vector<int> axes;
    const auto map = ops::axis_map(instance);
    for (int axis = 0; map && axis < static_cast<int>(map->axes.size()); ++axis)
      if (ops::can_split(*map, axis)) axes.push_back(axis);
    return axes;
  }

  static bool is_end(const ops::Instance& instance, const AxisRange& range) {
    const auto map = ops::axis_map(instance);
    return map && map->axes[static_cast<size_t>(range.axis)].extent.constant() == range.end;
  }

  // Of the ways to match the parts of an op, those by which this part is right stay.
  void decide(PlanOpId o, const Seen& seen) {
    const auto open = match_[o] ? open_.find(match_[o]->op) : open_.end();
    if (open == open_.end()) return;
    std::vector<Matches>& all = open->second;
    const auto is_right = [&](const Matches& matches) {
      std::vector<Composition> made;
      std::string why;
      return is_part(seen, matches.at(o), made, why);
    };
    const auto first = std::find_if(all.begin(), all.end(), is_right);
    if (first == all.end()) return;  // what is wrong is told by the first way
    if (first != all.begin())
      for (const auto& [part, match] : *first) match_[part] = match;
    all.erase(all.begin(), first);
    all.erase(std::remove_if(all.begin() + 1, all.end(), std::not_fn(is_right)), all.end());
    if (all.size() == 1) open_.erase(open);
  }

  // Where on the axis the op of the plan ends that begins there, by the dimensions that walk it
  // alone, or by the rows that it has of its own; 0: none says so.
  int64_t end_along(const ops::Instance& whole, int axis, int64_t begin, PlanOpId o) const {
    const plan::PlanOp& op = plan_.ops[o];
    const auto map = ops::axis_map(whole);
    if (!map) return 0;
    const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
    for (const ops::AxisUse& use : map->uses) {
      const auto operand = static_cast<size_t>(use.operand), d = static_cast<size_t>(use.dim);
      const bool has_rows = is_of_rows(use);
      if (use.axis != axis || (use.kind == ops::LinkKind::kWindow && !has_rows) ||
          use.kind == ops::LinkKind::kShift || use.kind == ops::LinkKind::kBroadcast)
        continue;
      const auto& ids = use.is_output ? op.outputs : op.inputs;
      if (operand >= ids.size() || !ids[operand].valid()) continue;
      const Numbers now = use.is_output && operand == 0 ? slice_dims(o) : dims(ids[operand]);
      const int64_t was = use.is_output ? output_dim(whole, operand, d)
                                        : *whole.inputs[operand]->dims[d].constant();
      if (d >= now.size() || was <= 0) continue;
      if (!has_rows) return begin + extent * now[d] / was;
      const int64_t stride = *use.stride.constant(), last = stride * begin + now[d];
      return last == was ? extent : last / stride;
    }
    return 0;
  }

  // A result's dimension of which each position has so many rows as the stride says, and the last
  // one all that are left.
  static bool is_of_rows(const ops::AxisUse& use) {
    return use.is_output && use.kind == ops::LinkKind::kWindow && use.outermost &&
           use.halo_low.constant() == 0 && use.halo_high.constant() == 0;
  }

  static int64_t output_dim(const ops::Instance& whole, size_t output, size_t dim) {
    const auto made = ops::infer(whole);
    return made ? made->at(output).type.dims[dim].constant().value_or(0) : 0;
  }

  bool has_shape(const NestedPart& part, PlanOpId o) const {
    const ops::Instance wanted = part.instance();
    const ops::SliceOp now = bare(o);
    for (size_t i = 0; i < wanted.inputs.size() && i < now.inputs.size(); ++i)
      if (wanted.inputs[i] && now.inputs[i] &&
          numbers(wanted.inputs[i]->dims) != numbers(now.inputs[i]->dims))
        return false;
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
    if (!known(o)) return;
    if (op.outputs.empty()) return follow_effect(o);
    const ops::SliceOp alone = bare(o);
    Seen seen{op.kind, alone.attrs, {}, alone.instance(op.kind), slice_dims(o)};
    for (size_t i = 0; i < alone.inputs.size(); ++i)
      seen.inputs.push_back(op.inputs[i].valid() ? &of_[op.inputs[i]] : nullptr);
    std::vector<Composition> made;
    std::string why = "it is no op of the whole step, nor one of parts that make one";
    decide(o, seen);
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
  bool known(PlanOpId o) const {
    const size_t operands = bare(o).inputs.size();  // without what it goes on filling
    for (size_t i = 0; i < operands; ++i) {
      const PlanValueId input = plan_.ops[o].inputs[i];
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
      if (!scatters_.empty()) complete(made[i]);
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
    const ops::Instance whole = ops::instance_of(whole_.graph(), match.op);
    const auto part = NestedPart::make(whole, match.cuts);
    if (!part) return why = part.error().message, false;
    if (!same_attrs(seen, part->attrs(), why)) return false;
    std::map<size_t, size_t> sums;  // operands, and the results that add into them
    for (const auto& [input, output] : ops::accumulators(seen.instance)) {
      const auto i = static_cast<size_t>(input);
      const bool before = i < op.inputs.size() && op.inputs[i].valid();
      if (!before || whole_.adds_into(match.op, i)) sums[i] = static_cast<size_t>(output);
    }
    const size_t most = std::max(seen.inputs.size(), op.inputs.size());
    for (size_t i = 0; i < most; ++i)
      if (!sums.contains(i) && !whole_.adds_into(match.op, i) &&
          !same_operand(seen, match.op, *part, i, why))
        return false;
    for (size_t o = 0; o < op.outputs.size(); ++o) made.push_back(result(match.op, *part, o));
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

  bool same_operand(const Seen& seen, ir::OpId id, const NestedPart& part, size_t i,
                    std::string& why) const {
    const ir::Op& op = whole_.graph().op(id);
    const bool wanted = part.has_input(i);
    const bool there = i < seen.inputs.size() && seen.inputs[i] != nullptr;
    if (wanted != there)
      return why = fmt::format("operand {} is {}there", i, there ? "" : "not "), false;
    if (!wanted) return true;
    Numbers expected = whole_.dims(op.inputs[i]);
    const Composition read = part.read(i, whole_.of(op.inputs[i]), expected);
    if (expected == dims_of(seen, i) && same(read, *seen.inputs[i], expected)) return true;
    why = fmt::format("operand {} is not {} of '{}'", i, part.reads_all(i) ? "all" : "the slice",
                      whole_.graph().value(op.inputs[i]).name);
    return false;
  }

  Composition result(ir::OpId id, const NestedPart& part, size_t o) {
    const ir::ValueId value = whole_.graph().op(id).outputs[o];
    Contents contents = table_.at(whole_.own(value));
    contents.terms[value] = part.share(o, value, table_);
    contents.merge = part.merge(o);
    contents.unweighted = part.is_unweighted(o);
    const Composition all = all_of(table_, table_.id_of(contents));
    if (const auto scatter = part.scatter(o)) scatters_[{value, scatter->axis}] = *scatter;
    return part.make_of(o, all);
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

  static std::optional<ops::Merge> merge_of(std::string_view kind) {
    for (const auto merge : {ops::Merge::kSum, ops::Merge::kMax, ops::Merge::kLogSumExp})
      if (ops::merging_kind(merge) == kind) return merge;
    return std::nullopt;
  }

  std::optional<Composition> handed_on(const Seen& op) {
    if (op.inputs.empty() || op.inputs[0] == nullptr) return std::nullopt;
    if (op.kind == "Pad") return with_zeros(op);
    if (op.kind == "AffineScalar") return weighted(op);
    const auto merge = merge_of(op.kind);
    if (!merge || op.inputs.size() != 2 || op.inputs[1] == nullptr) return std::nullopt;
    const Box *one = only_box(*op.inputs[0], op.dims), *other = only_box(*op.inputs[1], op.dims);
    if (one == nullptr || other == nullptr || one->shift != other->shift) return std::nullopt;
    const auto both = table_.merged(one->contents, other->contents, *merge);
    if (!both) return std::nullopt;
    Box made = *one;
    made.contents = *both;
    return Composition{made};
  }

  // A share is zero where none of its positions adds.
  std::optional<Composition> with_zeros(const Seen& op) const {
    const Numbers from = dims_of(op, 0), before = list(op.attrs, "begins");
    const Box* box = only_box(*op.inputs[0], from);
    if (box == nullptr || real(op.attrs, "value") != 0) return std::nullopt;
    Box made = *box;
    const Numbers& all = table_.at(box->contents).dims;
    for (size_t d = 0; d < from.size(); ++d) {
      const int64_t was = box->shift[d], begin = was - before[d], end = begin + op.dims[d];
      if (begin < 0 || end > all[d] || !is_zero(box->contents, d, begin, was) ||
          !is_zero(box->contents, d, was + from[d], end))
        return std::nullopt;
      made.shift[d] = begin;
      made.end[d] = op.dims[d];
    }
    return Composition{made};
  }

  bool is_zero(ContentsId id, size_t dim, int64_t begin, int64_t end) const {
    if (begin == end) return true;
    const Contents& contents = table_.at(id);
    if (contents.terms.size() != 1) return false;
    const ir::ValueId term = contents.terms.begin()->first;
    const Share& share = contents.terms.begin()->second;
    return std::any_of(scatters_.begin(), scatters_.end(), [&](const auto& known) {
      const Scatter& scatter = known.second;
      if (known.first.first != term || scatter.dim != dim) return false;
      const std::pair<int64_t, int64_t> adds = scatter.positions_of(begin, end);
      if (adds.first >= adds.second) return true;
      return share.axis == scatter.axis && share.other < 0 &&
             std::none_of(share.ranges.begin(), share.ranges.end(), [&](const auto& range) {
               return range.first < adds.second && adds.first < range.second;
             });
    });
  }

  // Where all positions that add into what a box shows are in its share, it shows the whole sum.
  void complete(Composition& shown) {
    for (Box& box : shown) {
      Contents contents = table_.at(box.contents);
      bool is_complete = false;
      for (auto& [term, share] : contents.terms) {
        const auto found = scatters_.find({term, share.axis});
        if (found == scatters_.end() || share.other >= 0) continue;
        const size_t d = found->second.dim;
        const auto needed =
            found->second.positions_of(box.begin[d] + box.shift[d], box.end[d] + box.shift[d]);
        if (std::none_of(share.ranges.begin(), share.ranges.end(), [&](const auto& range) {
              return range.first <= needed.first && needed.second <= range.second;
            }))
          continue;
        share = {};
        is_complete = true;
      }
      if (is_complete) box.contents = table_.id_of(contents);
    }
  }

  std::optional<Composition> weighted(const Seen& op) {
    const auto contents = single(table_, *op.inputs[0], op.dims);
    if (!contents || !table_.at(*contents).unweighted) return std::nullopt;
    Contents made = table_.at(*contents);
    const auto& [term, share] = *made.terms.begin();
    if (share.ranges.size() != 1) return std::nullopt;
    const double part = static_cast<double>(share.ranges[0].second - share.ranges[0].first) /
                        static_cast<double>(table_.extent(term, share.axis));
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
  std::map<ir::OpId, std::vector<Matches>> open_;  // where there are several ways to match parts
  IdVector<PlanValueId, Composition> of_;
  std::map<std::pair<ir::ValueId, int>, Scatter> scatters_;  // by what they make, and axis
  IdVector<ir::OpId, int64_t> runs_;  // of ops of the whole step, uncut or a part
  PartsReport report_;
};

}  // namespace

PartsReport verify_parts(const plan::Plan& plan, const ir::Graph& whole) {
  return Parts(plan, whole).run();
}

}  // namespace lowtide::verify

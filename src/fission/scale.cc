#include "fission/scale.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using plan::SchedOpId;
using plan::SchedValueId;

// Of each level, the largest part of an axis that is cut so: as parts of a whole axis.
struct Share {
  int64_t part = 1, whole = 1;
  int64_t of(int64_t bytes) const {
    const __int128 product = static_cast<__int128>(bytes) * part;
    return static_cast<int64_t>((product + whole - 1) / whole);
  }
};

std::vector<Share> shares(const Levels& levels, const IdVector<OpId, int>& level_of,
                          const Cuts& cuts) {
  std::vector<Share> largest(levels.levels.size(), Share{0, 1});
  std::vector<const std::vector<int64_t>*> seen(levels.levels.size());
  for (const OpId id : level_of.ids()) {
    if (level_of[id] == Levels::kOutside || !cuts[id]) continue;
    const std::vector<int64_t>& bounds = cuts[id]->bounds.list();
    // Most ops of a level have the bounds of the one before.
    if (&bounds == seen[static_cast<size_t>(level_of[id])]) continue;
    seen[static_cast<size_t>(level_of[id])] = &bounds;
    Share& share = largest[static_cast<size_t>(level_of[id])];
    for (size_t k = 0; k + 1 < bounds.size(); ++k)
      if ((bounds[k + 1] - bounds[k]) * share.whole > share.part * bounds.back())
        share = {bounds[k + 1] - bounds[k], bounds.back()};
  }
  for (Share& share : largest)
    if (share.part == 0) share = {};  // nothing is cut so
  return largest;
}

int64_t parts_of(const Levels& levels, int level) {
  return level == Levels::kOutside ? 1 : levels.levels[static_cast<size_t>(level)].parts;
}

}  // namespace

Result<std::vector<LeastPart>> least_parts(const ir::Graph& graph) {
  std::vector<LeastPart> parts;
  for (const OpId id : graph.ops()) {
    const ir::Op& op = graph.op(id);
    if (op.kind != "MatMul" && op.kind != "Conv") continue;
    if (graph.value(op.outputs[0]).dtype != DType::kF32) continue;  // kernels may want another type
    LeastPart& part = parts.emplace_back();
    part.op = id;
    part.result_bytes = *ir::size_bytes(graph.value(op.outputs[0])).constant();
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph, id)));
    std::vector<int64_t> extents(kMostAxes, 1);
    for (const ops::AxisUse& use : map.uses)
      if (use.is_output && use.operand == 0 && walks_along(use) && ops::can_split(map, use.axis))
        extents.push_back(*map.axes[static_cast<size_t>(use.axis)].extent.constant());
    std::sort(extents.begin(), extents.end(), std::greater<>());
    for (size_t axis = 0; axis < kMostAxes; ++axis) part.parts *= extents[axis];
  }
  return parts;
}

Result<Scale> Scale::make(const ir::Graph& graph, const analysis::ScheduleView& view,
                          const AxisClass& axis_class, int64_t alignment_bytes,
                          std::span<const ViewInParts> views) {
  Scale scale(graph, view, alignment_bytes);
  LT_RETURN_IF_ERROR(scale.find_touches(axis_class, views));
  LT_ASSIGN(scale.passes_, passes_of(graph, axis_class));
  return scale;
}

Status Scale::find_touches(const AxisClass& axis_class, std::span<const ViewInParts> views) {
  touches_ = IdVector<SchedValueId, std::vector<Touch>>(view_.problem.values.size());
  sums_of_ = IdVector<SchedValueId, std::vector<OpId>>(view_.problem.values.size());
  views_ = IdVector<SchedValueId, std::optional<ViewInParts>>(view_.problem.values.size());
  for (const plan::SchedValue& value : view_.problem.values)
    maker_.push_back(view_.op[value.producer]);
  std::map<ir::StorageId, SchedValueId> value_of;
  for (const SchedValueId v : view_.storage.ids()) value_of[view_.storage[v]] = v;
  IdVector<OpId, int> axis_of(graph_.op_count(), -1);
  for (const ClassAxis& axis : axis_class.axes) axis_of[axis.op] = axis.axis;
  for (const OpId id : graph_.ops()) {
    const ir::Op& op = graph_.op(id);
    ops::AxisMap map;
    if (axis_of[id] >= 0) {
      LT_ASSIGN(map, ops::axis_map(ops::instance_of(graph_, id)));
    }
    const auto walks = [&](size_t operand, bool is_output) {
      return has_share_of(map, axis_of[id], static_cast<int>(operand), is_output);
    };
    const auto touch = [&](ir::ValueId value, bool along) {
      if (!value.valid()) return;
      const auto found = value_of.find(graph_.value(value).storage);
      if (found != value_of.end()) touches_[found->second].push_back({id, along});
    };
    for (size_t i = 0; i < op.inputs.size(); ++i)
      touch(op.inputs[i], walks(i, /*is_output=*/false));
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const bool along = walks(o, /*is_output=*/true);
      touch(op.outputs[o], along);
      const auto found = value_of.find(graph_.value(op.outputs[o]).storage);
      if (axis_of[id] >= 0 && !along && found != value_of.end())
        sums_of_[found->second].push_back(id);
    }
  }
  // An op that touches a view touches what it is a view on; from the last view to the first.
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const auto made = value_of.find(graph_.value(graph_.op(view->op).outputs[0]).storage);
    LT_CHECK(made != value_of.end(), "a view on what the step makes");
    views_[made->second] = *view;
    for (const ir::ValueId input : graph_.op(view->op).inputs) {
      const auto from = value_of.find(graph_.value(input).storage);
      if (from == value_of.end()) continue;
      const std::vector<Touch>& more = touches_[made->second];
      touches_[from->second].insert(touches_[from->second].end(), more.begin(), more.end());
    }
  }
  return {};
}

namespace {

// Of a value that is there in the parts of `level` and made in those of `made`: the outermost level
// around its producer whose parts are pieces of it; kOutside, if it is made in one.
int level_of_pieces(const Levels& levels, int level, int made) {
  int outermost = Levels::kOutside;
  for (int at = made; at != level && at != Levels::kOutside;
       at = levels.levels[static_cast<size_t>(at)].parent)
    if (parts_of(levels, at) > parts_of(levels, level)) outermost = at;
  return outermost;
}

}  // namespace

bool Scale::is_view(SchedValueId value, const Cuts& cuts) const {
  return views_[value] && views_[value]->is_view(cuts);
}

// The outermost level with parts that add up the value; kOutside, if there is none.
int Scale::level_of_sum(const Levels& levels, const IdVector<OpId, int>& level_of,
                        SchedValueId value) const {
  int outermost = Levels::kOutside;
  for (const OpId op : sums_of_[value])
    for (int level = level_of[op]; parts_of(levels, level) > 1;
         level = levels.levels[static_cast<size_t>(level)].parent)
      if (outermost == Levels::kOutside || level < outermost) outermost = level;
  return outermost;
}

// By level: its ops and those of what lies in it, as a problem has them.
std::vector<std::vector<SchedOpId>> Scale::ops_within(const Levels& levels,
                                                      const IdVector<OpId, int>& level_of) const {
  std::vector<std::vector<SchedOpId>> within(levels.levels.size());
  for (const SchedOpId id : view_.op.ids())
    for (int level = level_of[view_.op[id]]; level != Levels::kOutside;
         level = levels.levels[static_cast<size_t>(level)].parent)
      within[static_cast<size_t>(level)].push_back(id);
  return within;
}

// Read in a later pass than it is made in, by one of several.
bool Scale::crosses_passes(SchedValueId value) const {
  if (passes_.count == 1) return false;
  const int made = passes_.of[view_.op[view_.problem.values[value].producer]];
  return std::any_of(touches_[value].begin(), touches_[value].end(),
                     [&](const Touch& touch) { return passes_.of[touch.op] > made; });
}

IdVector<SchedOpId, std::vector<SchedOpId>> Scale::waits_for() const {
  IdVector<SchedOpId, std::vector<SchedOpId>> waits(view_.op.size());
  for (const SchedOpId op : view_.op.ids())
    for (const OpId before : passes_.waits_for[view_.op[op]])
      if (view_.sched_op[before].valid()) waits[op].push_back(view_.sched_op[before]);
  return waits;
}

// What a level reads from around it is what its head makes, as all ways to it lead past the head.
// It is there for the last part as for the first, so all the time; if it moves, in each of them.
void Scale::keep_heads(const Levels& levels, const std::vector<std::vector<SchedOpId>>& all_within,
                       plan::ScheduleProblem& problem) const {
  for (size_t level = 1; level < levels.levels.size(); ++level) {
    const std::vector<SchedOpId>& within = all_within[level];
    const ir::Op& head = graph_.op(levels.levels[level].head);
    for (const ir::ValueId output : head.outputs) {
      const OpId maker = analysis::version_producer(graph_, output);
      const SchedOpId from = maker.valid() ? view_.sched_op[maker] : SchedOpId::none();
      if (!from.valid() || within.empty()) continue;
      problem.ops[from].may_rerun = false;
      for (plan::SchedValue& value : problem.values) {
        const bool is_read =
            value.producer == from &&
            std::any_of(value.readers.begin(), value.readers.end(), [&](SchedOpId reader) {
              return std::binary_search(within.begin(), within.end(), reader);
            });
        const auto at = std::lower_bound(value.readers.begin(), value.readers.end(), within.back());
        if (!is_read) continue;
        value.moved_parts = std::max(value.moved_parts, levels.levels[level].parts);
        if (at == value.readers.end() || *at != within.back())
          value.readers.insert(at, within.back());
      }
    }
  }
}

// Of sums that add into each other in one place, the first is held, from where the outermost
// begins. What is held always is no matter of time: its bytes become resident.
void Scale::join_chains(std::vector<Held>& held, plan::ScheduleProblem& problem) const {
  IdVector<SchedValueId, size_t> at(problem.values.size(), held.size());
  for (size_t i = 0; i < held.size(); ++i) at[held[i].value] = i;
  std::vector<size_t> first(held.size());
  std::iota(first.begin(), first.end(), size_t{0});
  std::vector<size_t> adds_to(held.size(), held.size());  // by the first pair that says so
  for (const plan::InPlacePair& pair : problem.in_place) {
    const size_t input = at[pair.input], output = at[pair.output];
    if (input == held.size() || output == held.size()) continue;
    size_t& to = adds_to[output];
    if (to == held.size()) to = input;
  }
  // Values come in the order of their producers, so what is added to comes before.
  for (size_t i = 0; i < held.size(); ++i) {
    if (adds_to[i] == held.size()) continue;
    first[i] = first[adds_to[i]];
    held[first[i]].level = std::min(held[first[i]].level, held[i].level);
    held[first[i]].pass = std::min(held[first[i]].pass, held[i].pass);
  }
  std::vector<Held> kept;
  for (size_t i = 0; i < held.size(); ++i) {
    const bool is_first = first[i] == i;
    if (held[first[i]].level == 0 && passes_.count == 1) {
      if (is_first) problem.resident_bytes += problem.values[held[i].value].bytes;
      problem.values[held[i].value].bytes = 0;
    } else if (is_first) {
      kept.push_back(held[i]);
    }
  }
  held = std::move(kept);
}

// The innermost level that has all who touch a value; kOutside: somebody needs it whole.
int Scale::level_of_reads(const Levels& levels, const IdVector<OpId, int>& level_of,
                          SchedValueId value) const {
  if (view_.problem.values[value].is_output) return Levels::kOutside;
  int level = level_of[touches_[value].front().op];
  for (const Touch& touch : touches_[value]) {
    level = touch.walks ? levels.common(level, level_of[touch.op]) : Levels::kOutside;
    if (level == Levels::kOutside) break;
  }
  return level;
}

// Of what is read or added to whole in parts a transfer comes in each of them.
int64_t Scale::parts_that_move(const Levels& levels, const IdVector<OpId, int>& level_of,
                               SchedValueId value) const {
  int64_t parts = 1;
  for (const Touch& touch : touches_[value])
    if (!touch.walks) parts = std::max(parts, parts_of(levels, level_of[touch.op]));
  return parts;
}

bool Scale::is_head_of(SchedOpId head, SchedOpId op, const Levels& levels,
                       const IdVector<OpId, int>& level_of) const {
  for (int level = level_of[view_.op[op]]; level > 0;
       level = levels.levels[static_cast<size_t>(level)].parent)
    if (levels.levels[static_cast<size_t>(level)].head == view_.op[head]) return true;
  return false;
}

int64_t Scale::bytes_at(SchedOpId op, std::span<const SchedValueId> values, const Levels& levels,
                        const IdVector<OpId, int>& level_of, const Cuts& cuts) const {
  const std::vector<Share> share_of = shares(levels, level_of, cuts);
  const int around = level_of[view_.op[op]];
  int64_t all = 0;
  std::vector<OpId> heads;  // of the levels that the op runs in
  for (int level = around; level > 0; level = levels.levels[static_cast<size_t>(level)].parent)
    heads.push_back(levels.levels[static_cast<size_t>(level)].head);
  auto next = values.begin();
  for (const SchedValueId v : view_.problem.values.ids()) {
    while (next != values.end() && *next < v) ++next;
    const bool is_given = (next != values.end() && *next == v) ||
                          std::find(heads.begin(), heads.end(), maker_[v]) != heads.end();
    const int sum = level_of_sum(levels, level_of, v), made = level_of[maker_[v]];
    const bool may_be_held = sum != Levels::kOutside || made != Levels::kOutside;
    if (!is_given && (around == Levels::kOutside || !may_be_held)) continue;
    const bool is_whole = sum != Levels::kOutside || touches_[v].empty() || crosses_passes(v);
    const int level = is_whole ? Levels::kOutside : level_of_reads(levels, level_of, v);
    const int held = is_whole ? sum : level_of_pieces(levels, level, made);
    const bool is_there =
        is_given || (held != Levels::kOutside && levels.common(held, around) == held);
    if (!is_there || is_view(v, cuts)) continue;
    const int64_t bytes = view_.problem.values[v].bytes;
    all += level == Levels::kOutside
               ? bytes
               : align_up(share_of[static_cast<size_t>(level)].of(bytes), alignment_bytes_);
  }
  return all;
}

Scaled Scale::problem(const Levels& levels, const Cuts& cuts,
                      const IdVector<OpId, double>& seconds) const {
  plan::ScheduleProblem problem = view_.problem;
  const IdVector<OpId, int> level_of = levels_as_cut(levels, cuts);
  const std::vector<Share> share_of = shares(levels, level_of, cuts);
  const auto scaled = [&](int64_t bytes, int level) {
    if (level == Levels::kOutside) return bytes;
    return align_up(share_of[static_cast<size_t>(level)].of(bytes), alignment_bytes_);
  };
  for (const SchedOpId op : problem.ops.ids()) {
    const OpId id = view_.op[op];
    problem.ops[op].seconds = seconds[id];
    problem.ops[op].workspace_bytes = scaled(problem.ops[op].workspace_bytes, level_of[id]);
  }
  for (plan::SchedResident& resident : problem.residents)
    for (const SchedOpId reader : resident.readers)
      resident.moved_parts =
          std::max(resident.moved_parts, parts_of(levels, level_of[view_.op[reader]]));
  std::vector<Held> held;
  for (const SchedValueId v : problem.values.ids()) {
    plan::SchedValue& value = problem.values[v];
    if (is_view(v, cuts)) value.bytes = 0;
    const int pass = passes_.of[view_.op[value.producer]];
    if (const int level = level_of_sum(levels, level_of, v); level != Levels::kOutside) {
      held.push_back({v, level, pass});
      value.moved_parts = parts_that_move(levels, level_of, v);
      continue;
    }
    if (touches_[v].empty() || crosses_passes(v)) continue;
    const int level = level_of_reads(levels, level_of, v);
    value.bytes = scaled(value.bytes, level);
    value.moved_parts =
        level == Levels::kOutside ? parts_that_move(levels, level_of, v) : parts_of(levels, level);
    if (const int inner = level_of_pieces(levels, level, level_of[view_.op[value.producer]]);
        inner != Levels::kOutside)
      held.push_back({v, inner, pass});
  }
  const auto within = ops_within(levels, level_of);
  keep_heads(levels, within, problem);
  const auto drop_unequal = [&] {
    std::erase_if(problem.in_place, [&](const plan::InPlacePair& pair) {
      return problem.values[pair.input].bytes != problem.values[pair.output].bytes;
    });
  };
  // What is made in more parts than it is read in is a whole of pieces: nothing takes it over.
  std::erase_if(problem.in_place, [&](const plan::InPlacePair& pair) {
    const int made = level_of[view_.op[problem.values[pair.input].producer]];
    const int read = level_of[view_.op[pair.op]];
    return made != read && levels.common(made, read) == read;
  });
  drop_unequal();
  join_chains(held, problem);
  drop_unequal();
  return hold(within, held, std::move(problem));
}

namespace {

// New ops without operands, before ops of a problem: the ids of all others rise.
class Inserted {
 public:
  Inserted(plan::ScheduleProblem problem, std::vector<SchedOpId> before)
      : before_(std::move(before)) {
    std::sort(before_.begin(), before_.end());
    made_.problem = std::move(problem);
    plan::ScheduleProblem& p = made_.problem;
    auto old = std::exchange(p.ops, {});
    p.ops.reserve(old.size() + before_.size());
    made_.op.reserve(old.size() + before_.size());
    moved_.reserve(old.size());
    size_t next = 0;
    for (const SchedOpId id : old.ids()) {
      for (; next < before_.size() && before_[next] == id; ++next) add({});
      moved_.push_back(p.ops.push_back(std::move(old[id])));
      made_.op.push_back(id);
    }
    if (before_.empty()) return;
    const auto move_all = [&](std::vector<SchedOpId>& ids) {
      for (SchedOpId& id : ids) id = moved(id);
    };
    for (plan::SchedValue& value : p.values) {
      value.producer = moved(value.producer);
      move_all(value.readers);
      move_all(value.writers);
    }
    for (plan::SchedResident& resident : p.residents) {
      move_all(resident.readers);
      move_all(resident.writers);
    }
    for (plan::InPlacePair& pair : p.in_place) pair.op = moved(pair.op);
    for (auto& [first, second] : p.control) first = moved(first), second = moved(second);
  }

  SchedOpId moved(SchedOpId old) const { return moved_[old]; }
  // The k-th of the new ones, by position.
  SchedOpId inserted(size_t k) const { return SchedOpId(before_[k].index() + k); }
  Scaled& made() { return made_; }

 private:
  void add(plan::SchedOp op) {
    made_.problem.ops.push_back(std::move(op));
    made_.op.push_back(SchedOpId::none());
  }

  std::vector<SchedOpId> before_;
  IdVector<SchedOpId, SchedOpId> moved_;  // the new id of each old one
  Scaled made_;
};

}  // namespace

// What is added up is there before its last contribution.
Scaled Scale::hold(const std::vector<std::vector<SchedOpId>>& all_within,
                   const std::vector<Held>& held, plan::ScheduleProblem problem) const {
  // By the first op of a level in a pass, and the level: the pass, and the ops.
  std::map<std::pair<SchedOpId, int>, std::pair<int, std::vector<SchedOpId>>> begins;
  std::set<std::pair<int, int>> known;  // level and pass
  for (const Held& sum : held) {
    if (!known.insert({sum.level, sum.pass}).second) continue;
    const std::vector<SchedOpId>& all = all_within[static_cast<size_t>(sum.level)];
    std::vector<SchedOpId> within;
    std::copy_if(all.begin(), all.end(), std::back_inserter(within),
                 [&](SchedOpId op) { return passes_.of[view_.op[op]] == sum.pass; });
    if (within.empty()) within = all;  // of a chain through levels beside each other
    const std::pair first(within.front(), sum.level);
    begins.try_emplace(first, sum.pass, std::move(within));
  }
  std::vector<SchedOpId> before;
  for (const auto& [first, begun] : begins) before.push_back(first.first);
  Inserted inserted(std::move(problem), before);
  plan::ScheduleProblem& p = inserted.made().problem;
  std::vector<plan::InPlacePair> taken;
  size_t k = 0;
  for (const auto& [first, begun] : begins) {
    const SchedOpId begin = inserted.inserted(k++);
    for (const SchedOpId op : begun.second) p.control.emplace_back(begin, inserted.moved(op));
    for (const Held& sum : held) {
      if (sum.level != first.second || sum.pass != begun.first) continue;
      plan::SchedValue space;
      space.bytes = p.values[sum.value].bytes;
      space.moved_parts = p.values[sum.value].moved_parts;
      space.producer = begin;
      space.readers = {p.values[sum.value].producer};
      taken.push_back({space.readers[0], SchedValueId(p.values.size()), sum.value});
      p.values.push_back(std::move(space));
    }
  }
  // A sum has one place: what it took over before, it takes over no more.
  if (taken.empty()) return std::move(inserted.made());
  IdVector<SchedValueId, char> is_place(p.values.size(), 0);
  for (const plan::InPlacePair& pair : taken) is_place[pair.output] = 1;
  std::erase_if(p.in_place, [&](const auto& pair) { return is_place[pair.output] != 0; });
  const auto by_op = [](const plan::InPlacePair& a, const plan::InPlacePair& b) {
    return a.op < b.op;
  };
  std::stable_sort(taken.begin(), taken.end(), by_op);
  std::vector<plan::InPlacePair> given = std::exchange(p.in_place, {});
  p.in_place.reserve(given.size() + taken.size());
  std::merge(given.begin(), given.end(), taken.begin(), taken.end(), std::back_inserter(p.in_place),
             by_op);
  return std::move(inserted.made());
}

}  // namespace lowtide::fission

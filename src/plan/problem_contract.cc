// Contracting a region of ops into one, and expanding it.
//
// A visible op hides its members, and theirs; what one hides stands side by side in the order. A
// region is convex when no visible op outside both needs one of its ops and is needed by one.
// Whether it is shows in one walk over the stretch of the order from its first to its last op: a
// visible op of the stretch belongs behind the region when it needs one of its ops, or a visible op
// that does; a member that needs such a visible op is the proof that the region is not convex.
// Cost: the stretch with its edges, which is the region itself where nobody stands between.
//
// Visible ops that need nothing of the region go before it, the others after it, each in the order
// they had. Side by side in a valid order is all that being convex takes, so later changes
// elsewhere, checked against the order of the ops themselves, cannot break it.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "plan/problem_edit.h"

namespace lowtide::plan {

// ---- visible ops ----

// A contracted op holds others by construction, so this ends at an op of the order.
SchedOpId ProblemEdit::first_leaf(SchedOpId top) const {
  while (ops_[top].group) top = ops_[top].group->members.front();
  return top;
}

SchedOpId ProblemEdit::last_leaf(SchedOpId top) const {
  while (ops_[top].group) top = ops_[top].group->members.back();
  return top;
}

SchedOpId ProblemEdit::next_visible(SchedOpId top) const {
  const SchedOpId leaf = next_op(last_leaf(top));
  return leaf.valid() ? visible(leaf) : leaf;
}

SchedOpId ProblemEdit::previous_visible(SchedOpId top) const {
  const SchedOpId leaf = previous_op(first_leaf(top));
  return leaf.valid() ? visible(leaf) : leaf;
}

std::vector<SchedOpId> ProblemEdit::leaves(SchedOpId top) const {
  std::vector<SchedOpId> found{first_leaf(top)};
  for (const SchedOpId last = last_leaf(top); found.back() != last;)
    found.push_back(next_op(found.back()));
  return found;
}

std::vector<SchedOpId> ProblemEdit::needs(SchedOpId top) const {
  std::vector<SchedOpId> found;
  for (const SchedOpId leaf : leaves(top)) {
    for (const SchedValueId input : ops_[leaf].inputs)
      found.push_back(visible(value(input).producer));
    for (const SchedOpId first : op(leaf).control) found.push_back(visible(first));
  }
  std::erase(found, top);
  return found;
}

// Its last op is the return value: where the next visible op goes.
SchedOpId ProblemEdit::put_visible(SchedOpId top, SchedOpId at) {
  for (const SchedOpId leaf : leaves(top)) {
    if (previous_op(leaf) != at) {
      take_out(leaf);
      put(leaf, at);
    }
    at = leaf;
  }
  return at;
}

// ---- contract ----

// Brings the region together and notes in the group how it was. The group's members are in order.
Status ProblemEdit::arrange(std::span<const SchedOpId> region, Group& group) {
  const std::set<SchedOpId> inside(region.begin(), region.end());
  std::set<SchedOpId> behind;
  std::vector<SchedOpId> before, after;
  SchedOpId top = *std::min_element(region.begin(), region.end(), [&](SchedOpId a, SchedOpId b) {
    return this->before(first_leaf(a), first_leaf(b));
  });
  const SchedOpId place = previous_op(first_leaf(top));
  for (; group.members.size() < inside.size(); top = next_visible(top)) {
    group.span.push_back(top);
    const std::vector<SchedOpId> wanted = needs(top);
    const auto late = std::find_if(wanted.begin(), wanted.end(),
                                   [&](SchedOpId each) { return behind.contains(each); });
    if (inside.contains(top)) {
      if (late != wanted.end())
        return error(ErrorCode::kInput,
                     fmt::format("the region is not convex: op {} lies between its ops, op {} "
                                 "needs it",
                                 late->index(), top.index()));
      group.members.push_back(top);
    } else if (late != wanted.end() ||
               std::any_of(wanted.begin(), wanted.end(),
                           [&](SchedOpId each) { return inside.contains(each); })) {
      behind.insert(top);
      after.push_back(top);
    } else {
      before.push_back(top);
    }
  }
  if (group.span.size() == group.members.size()) {
    group.span.clear();
    return {};
  }
  SchedOpId at = place;
  for (const auto& tops : {before, group.members, after})
    for (const SchedOpId each : tops) at = put_visible(each, at);
  return {};
}

Result<SchedOpId> ProblemEdit::contract(std::span<const SchedOpId> region, std::string name) {
  LT_CHECK(!region.empty(), "a region has an op");
  for (const SchedOpId each : region) {
    LT_CHECK(alive(each), "a region has ops that are there");
    if (ops_[each].inside.valid())
      return error(ErrorCode::kInput, fmt::format("op {} is inside of contracted op {} already",
                                                  each.index(), ops_[each].inside.index()));
  }
  Group group;
  group.name = std::move(name);
  const Mark start = mark();
  if (Status done = arrange(region, group); !done) {
    rollback(start);
    return tl::unexpected<Error>(done.error());
  }
  const SchedOpId id = ops_.push_back({});
  write(GroupWas{id, std::move(group)});
  return id;
}

// ---- expand ----

bool ProblemEdit::is_order(std::span<const SchedOpId> tops) const {
  std::map<SchedOpId, size_t> at;
  for (size_t i = 0; i < tops.size(); ++i) at[tops[i]] = i;
  for (size_t i = 0; i < tops.size(); ++i)
    for (const SchedOpId wanted : needs(tops[i]))
      if (const auto found = at.find(wanted); found != at.end() && found->second > i) return false;
  return true;
}

// The first visible op of the stretch around the members that holds only visible ops of the old
// span.
SchedOpId ProblemEdit::first_of_stretch(const Group& group) const {
  const std::set<SchedOpId> span(group.span.begin(), group.span.end());
  SchedOpId top = group.members.front();
  for (SchedOpId previous = previous_visible(top); previous.valid() && span.contains(previous);
       previous = previous_visible(top))
    top = previous;
  return top;
}

// Whether the visible ops that stood between the members are still those on either side, and
// nothing forbids the old order.
bool ProblemEdit::may_be_as_before(const Group& group) const {
  if (group.span.empty()) return false;
  for (const SchedOpId each : group.span)
    if (!alive(each) || visible(each) != each) return false;
  const std::set<SchedOpId> span(group.span.begin(), group.span.end());
  SchedOpId top = first_of_stretch(group);
  for (size_t i = 0; i < group.span.size(); ++i, top = next_visible(top))
    if (!top.valid() || !span.contains(top)) return false;
  return is_order(group.span);
}

Status ProblemEdit::expand(SchedOpId id) {
  LT_CHECK(is_contracted(id), "only a contracted op can be expanded");
  if (ops_[id].inside.valid())
    return error(ErrorCode::kInput,
                 fmt::format("op {} is inside of contracted op {}; expand it first", id.index(),
                             ops_[id].inside.index()));
  const Group group = *ops_[id].group;
  write(GroupWas{id, std::nullopt});
  if (!may_be_as_before(group)) return {};
  SchedOpId at = previous_op(first_leaf(first_of_stretch(group)));
  for (const SchedOpId each : group.span) at = put_visible(each, at);
  return {};
}

// ---- what the contracted op is ----

bool ProblemEdit::crosses(const SchedValue& value, SchedOpId contracted) const {
  return value.is_output ||
         std::any_of(value.readers.begin(), value.readers.end(),
                     [&](SchedOpId reader) { return visible(reader) != contracted; });
}

namespace {

// Bytes inside a region while its ops run one after another, beside what was there before. What
// stays is said by the caller: values that somebody outside needs.
class Inside {
 public:
  using Pair = std::pair<SchedValueId, SchedValueId>;

  // `reads`: how often the region reads it; `stays`: it is not freed after the last of them.
  void use(SchedValueId id, const SchedValue& value, size_t reads, bool stays) {
    uses_[id] = {&value, reads, stays};
  }

  void run(const EditedOp& op, std::span<const SchedValueId> inputs,
           std::span<const SchedValueId> outputs) {
    int64_t during = live_ + op.op.workspace_bytes;
    for (const SchedValueId id : outputs) during += uses_.at(id).value->bytes;
    during -= take_pairs(op);
    peak_ = std::max(peak_, during);
    for (const SchedValueId id : outputs) {
      const Use& made = uses_.at(id);
      if (made.unread > 0 || made.stays) live_ += made.value->bytes;
    }
    for (const SchedValueId id : inputs) {
      Use& read = uses_.at(id);
      if (--read.unread == 0 && !read.stays) live_ -= read.value->bytes;
    }
  }

  int64_t peak() const { return peak_; }
  const std::vector<Pair>& taken() const { return taken_; }

 private:
  struct Use {
    const SchedValue* value;
    size_t unread;
    bool stays;
  };

  int64_t take_pairs(const EditedOp& op) {
    int64_t saved = 0;
    const auto first = static_cast<std::ptrdiff_t>(taken_.size());
    for (const Pair& pair : op.in_place) {
      const Use& input = uses_.at(pair.first);
      if (input.stays || input.unread != 1 ||
          input.value->bytes != uses_.at(pair.second).value->bytes)
        continue;
      if (std::any_of(taken_.begin() + first, taken_.end(), [&](const Pair& other) {
            return other.first == pair.first || other.second == pair.second;
          }))
        continue;
      taken_.push_back(pair);
      saved += input.value->bytes;
    }
    return saved;
  }

  std::map<SchedValueId, Use> uses_;
  std::vector<Pair> taken_;
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace

ProblemEdit::Summary ProblemEdit::summary(SchedOpId contracted) const {
  const std::vector<SchedOpId> members = leaves(contracted);
  Summary made;
  made.op.name = ops_[contracted].group->name;
  made.op.may_rerun = true;
  std::map<SchedValueId, size_t> reads;
  for (const SchedOpId leaf : members) {
    for (const SchedValueId id : ops_[leaf].outputs) reads[id];
    for (const SchedValueId id : ops_[leaf].inputs) ++reads[id];
  }
  Inside inside;
  int64_t outputs = 0;
  for (const auto& [id, count] : reads) {
    const bool stays = crosses(value(id), contracted);
    inside.use(id, value(id), count, stays);
    if (stays && visible(value(id).producer) == contracted) outputs += value(id).bytes;
  }
  for (const SchedOpId leaf : members) {
    made.op.seconds += op(leaf).op.seconds;
    made.op.may_rerun &= op(leaf).op.may_rerun;
    inside.run(op(leaf), ops_[leaf].inputs, ops_[leaf].outputs);
  }
  int64_t credit = 0;
  for (const auto& [input, output] : inside.taken()) {
    if (visible(value(input).producer) == contracted || !crosses(value(output), contracted))
      continue;
    made.in_place.emplace_back(input, output);
    credit += value(input).bytes;
  }
  made.op.workspace_bytes = std::max<int64_t>(0, inside.peak() - outputs + credit);
  return made;
}

}  // namespace lowtide::plan

#include "verify/composition.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace lowtide::verify {
namespace {

// Nothing where two of them overlap.
std::optional<Ranges> united(const Ranges& a, const Ranges& b) {
  Ranges all = a;
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  Ranges made;
  for (const auto& range : all) {
    if (!made.empty() && range.first < made.back().second) return std::nullopt;
    if (!made.empty() && range.first == made.back().second)
      made.back().second = range.second;
    else
      made.push_back(range);
  }
  return made;
}

// Of two boxes of one value.
int64_t common_places(const Box& a, const Box& b) {
  int64_t count = 1;
  for (size_t d = 0; d < a.begin.size(); ++d)
    count *= std::max<int64_t>(0, std::min(a.end[d], b.end[d]) - std::max(a.begin[d], b.begin[d]));
  return count;
}

// Whether `next` goes on where `box` ends, along one dimension.
bool joins(const Box& box, const Box& next, size_t dim) {
  if (box.contents != next.contents || box.shift != next.shift || box.end[dim] != next.begin[dim])
    return false;
  for (size_t d = 0; d < box.begin.size(); ++d)
    if (d != dim && (box.begin[d] != next.begin[d] || box.end[d] != next.end[d])) return false;
  return true;
}

struct Extent {
  std::vector<int64_t> begin, end;
};

int64_t product(std::span<const int64_t> dims) {
  int64_t all = 1;
  for (int64_t dim : dims) all *= dim;
  return all;
}

// Dimensions of two values that have the same elements in row-major order, up to where both have
// had as many places.
struct Stretch {
  size_t from = 0, from_end = 0, to = 0, to_end = 0;
};
std::vector<Stretch> stretches(std::span<const int64_t> from, std::span<const int64_t> to) {
  std::vector<Stretch> all;
  for (Stretch next; next.from < from.size() || next.to < to.size();
       next = {next.from_end, next.from_end, next.to_end, next.to_end}) {
    int64_t places = 1, others = 1;
    do {
      const bool is_behind =
          next.to_end == to.size() || (places <= others && next.from_end < from.size());
      if (is_behind)
        places *= from[next.from_end++];
      else
        others *= to[next.to_end++];
    } while (places != others && (next.from_end < from.size() || next.to_end < to.size()));
    all.push_back(next);
  }
  return all;
}

// The box of a value with dims `to` that has the same elements, if there is one. Of each stretch a
// box that is cut along one dimension only is the same run of places within each of so many equal
// runs.
bool reshape_stretch(const Extent& box, std::span<const int64_t> from, std::span<const int64_t> to,
                     const Stretch& at, Extent& made) {
  std::optional<size_t> cut;
  for (size_t d = at.from; d < at.from_end; ++d) {
    if (box.begin[d] == 0 && box.end[d] == from[d]) continue;
    if (cut) return false;
    cut = d;
  }
  if (!cut) return true;
  const int64_t runs = product(from.subspan(at.from, *cut - at.from));
  const int64_t inner = product(from.subspan(*cut + 1, at.from_end - *cut - 1));
  for (size_t d = at.to; d < at.to_end; ++d) {
    const int64_t step = product(to.subspan(d + 1, at.to_end - d - 1));
    const int64_t begin = box.begin[*cut] * inner, end = box.end[*cut] * inner;
    if (product(to.subspan(at.to, d - at.to)) != runs || begin % step != 0 || end % step != 0)
      continue;
    made.begin[d] = begin / step;
    made.end[d] = end / step;
    return true;
  }
  return false;
}

std::optional<Extent> reshaped(const Extent& box, std::span<const int64_t> from,
                               std::span<const int64_t> to) {
  Extent made{std::vector<int64_t>(to.size(), 0), {to.begin(), to.end()}};
  for (const Stretch& at : stretches(from, to))
    if (!reshape_stretch(box, from, to, at, made)) return std::nullopt;
  return made;
}

// The box in other dimensions, on contents with other dimensions.
std::optional<Box> reshaped(const ContentsTable& table, const Box& box,
                            std::span<const int64_t> from, std::span<const int64_t> to) {
  const auto place = reshaped(Extent{box.begin, box.end}, from, to);
  if (!place) return std::nullopt;
  Extent shown{box.begin, box.end};
  for (size_t d = 0; d < from.size(); ++d)
    shown.begin[d] += box.shift[d], shown.end[d] += box.shift[d];
  for (const ContentsId id : table.reshapes_of(box.contents)) {
    const auto elements = reshaped(shown, table.at(box.contents).dims, table.at(id).dims);
    if (!elements || elements->begin.size() != to.size()) continue;
    Box made{place->begin, place->end, elements->begin, id};
    bool fits = true;
    for (size_t d = 0; d < to.size(); ++d) {
      made.shift[d] -= made.begin[d];
      fits = fits && made.end[d] + made.shift[d] == elements->end[d];
    }
    if (fits) return made;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Composition> reshaped(const ContentsTable& table, const Composition& of,
                                    std::span<const int64_t> from, std::span<const int64_t> to) {
  Composition made;
  for (const Box& box : of) {
    auto now = reshaped(table, box, from, to);
    if (!now) return std::nullopt;
    made.push_back(std::move(*now));
  }
  return made;
}

ContentsId ContentsTable::id_of(const Contents& contents) {
  const auto [at, is_new] = ids_.try_emplace(contents, ContentsId(by_id_.size()));
  if (!is_new) return at->second;
  by_id_.push_back(&at->first);
  reshapes_[contents.elements_of.valid() ? contents.elements_of : at->second].push_back(at->second);
  return at->second;
}

const std::vector<ContentsId>& ContentsTable::reshapes_of(ContentsId id) const {
  const ContentsId inner = at(id).elements_of;
  return reshapes_.at(inner.valid() ? inner : id);
}

std::optional<ContentsId> ContentsTable::united(ContentsId a, ContentsId b) {
  Contents made = at(a);
  const Contents& other = at(b);
  if (made.elements_of.valid() || other.elements_of.valid() || made.unweighted ||
      other.unweighted || made.merge != other.merge || made.dims != other.dims)
    return std::nullopt;
  for (const auto& [term, share] : other.terms) {
    const auto [found, is_new] = made.terms.try_emplace(term, share);
    if (is_new) continue;
    auto both = united(term, found->second, share);
    if (!both) return std::nullopt;
    found->second = *std::move(both);
  }
  return id_of(made);
}

std::optional<Share> ContentsTable::united(ir::ValueId term, const Share& a, const Share& b) const {
  if (a.all() || b.all()) return std::nullopt;
  if (a.other >= 0 || b.other >= 0 || a.axis != b.axis) return united_in_slabs(term, a, b);
  auto ranges = verify::united(a.ranges, b.ranges);
  if (!ranges) return std::nullopt;
  return simplest(term, {.axis = a.axis, .ranges = *std::move(ranges)});
}

namespace {

// What a share has of the second axis where the first is in a range between two neighbouring
// bounds.
Ranges ranges_at(const Share& share, int first, int64_t place, const Ranges& all_of_second) {
  if (share.other < 0 && share.axis != first) return share.ranges;
  for (const auto& range : share.ranges)
    if (range.first <= place && place < range.second) return all_of_second;
  for (const auto& [range, ranges] : share.slabs)
    if (range.first <= place && place < range.second) return ranges;
  return {};
}

}  // namespace

std::optional<Share> ContentsTable::united_in_slabs(ir::ValueId term, const Share& a,
                                                    const Share& b) const {
  std::set<int> axes = {a.axis, b.axis};
  for (const Share* share : {&a, &b})
    if (share->other >= 0) axes.insert(share->other);
  if (axes.size() != 2) return std::nullopt;
  Share made{.axis = *axes.begin(), .other = *axes.rbegin()};
  const Ranges all_of_second = {{0, extent(term, made.other)}};
  std::set<int64_t> bounds = {0, extent(term, made.axis)};
  for (const Share* share : {&a, &b}) {
    for (const auto& [range, ranges] : share->slabs) bounds.insert({range.first, range.second});
    if (share->other < 0 && share->axis == made.axis)
      for (const auto& range : share->ranges) bounds.insert({range.first, range.second});
  }
  for (auto at = bounds.begin(); std::next(at) != bounds.end(); ++at) {
    auto both = verify::united(ranges_at(a, made.axis, *at, all_of_second),
                               ranges_at(b, made.axis, *at, all_of_second));
    if (!both) return std::nullopt;
    const int64_t end = *std::next(at);
    if (both->empty()) continue;
    if (!made.slabs.empty() && made.slabs.back().first.second == *at &&
        made.slabs.back().second == *both)
      made.slabs.back().first.second = end;
    else
      made.slabs.push_back({{*at, end}, *std::move(both)});
  }
  return simplest(term, std::move(made));
}

// The same with fewer axes, where these say it.
Share ContentsTable::simplest(ir::ValueId term, Share share) const {
  const auto all_of = [&](int axis) { return Ranges{{0, extent(term, axis)}}; };
  if (share.other >= 0) {
    const bool is_of_first =
        std::all_of(share.slabs.begin(), share.slabs.end(),
                    [&](const auto& slab) { return slab.second == all_of(share.other); });
    Ranges places;
    for (const auto& slab : share.slabs) places.push_back(slab.first);
    if (is_of_first)
      share = {.axis = share.axis, .ranges = std::move(places)};
    else if (places == all_of(share.axis))
      share = {.axis = share.other, .ranges = share.slabs.front().second};
    else
      return share;
  }
  return share.ranges == all_of(share.axis) ? Share{} : share;
}

// Sums of several values are contents, too; of others there is one.
std::optional<ContentsId> ContentsTable::merged(ContentsId a, ContentsId b, ops::Merge merge) {
  if (at(a).merge != merge) return std::nullopt;
  const auto made = united(a, b);
  if (!made || merge == ops::Merge::kSum) return made;
  if (at(*made).terms.size() != 1) return std::nullopt;
  if (!at(*made).terms.begin()->second.all()) return made;
  Contents whole = at(*made);
  whole.merge = ops::Merge::kSum;
  return id_of(whole);
}

Composition all_of(const ContentsTable& table, ContentsId contents) {
  const std::vector<int64_t>& dims = table.at(contents).dims;
  const std::vector<int64_t> zeros(dims.size(), 0);
  return {{.begin = zeros, .end = dims, .shift = zeros, .contents = contents}};
}

Composition sliced(const Composition& of, size_t dim, int64_t begin, int64_t end) {
  Composition made;
  for (Box box : of) {
    box.begin[dim] = std::max(box.begin[dim], begin) - begin;
    box.end[dim] = std::min(box.end[dim], end) - begin;
    box.shift[dim] += begin;
    if (box.begin[dim] < box.end[dim]) made.push_back(std::move(box));
  }
  return made;
}

void put(Composition& to, const Composition& added, size_t dim, int64_t at) {
  for (Box box : added) {
    box.begin[dim] += at;
    box.end[dim] += at;
    box.shift[dim] -= at;
    for (auto each = to.begin(); each != to.end();) {
      const bool before = joins(*each, box, dim), after = joins(box, *each, dim);
      if (before) box.begin[dim] = each->begin[dim];
      if (after) box.end[dim] = each->end[dim];
      each = before || after ? to.erase(each) : each + 1;
    }
    to.push_back(std::move(box));
  }
}

Composition cleared(const Composition& of, size_t dim, int64_t begin, int64_t end) {
  Composition made;
  for (const Box& box : of) {
    Box low = box, high = box;
    low.end[dim] = std::min(box.end[dim], begin);
    high.begin[dim] = std::max(box.begin[dim], end);
    for (Box* each : {&low, &high})
      if (each->begin[dim] < each->end[dim]) made.push_back(std::move(*each));
  }
  return made;
}

bool same(const Composition& a, const Composition& b, std::span<const int64_t> dims) {
  int64_t all = 1, equal = 0;
  for (int64_t dim : dims) all *= dim;
  for (const Box& one : a)
    for (const Box& other : b)
      if (one.contents == other.contents && one.shift == other.shift)
        equal += common_places(one, other);
  return equal == all;
}

const Box* only_box(const Composition& of, std::span<const int64_t> dims) {
  if (of.size() != 1 || of.front().begin.size() != dims.size()) return nullptr;
  const Box& box = of.front();
  for (size_t d = 0; d < dims.size(); ++d)
    if (box.begin[d] != 0 || box.end[d] != dims[d]) return nullptr;
  return &box;
}

std::optional<ContentsId> single(const ContentsTable& table, const Composition& of,
                                 std::span<const int64_t> dims) {
  const Box* box = only_box(of, dims);
  if (box == nullptr || table.at(box->contents).dims != box->end) return std::nullopt;
  if (std::any_of(box->shift.begin(), box->shift.end(), [](int64_t by) { return by != 0; }))
    return std::nullopt;
  return box->contents;
}

}  // namespace lowtide::verify

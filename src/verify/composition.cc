#include "verify/composition.h"

#include <algorithm>

namespace lowtide::verify {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

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

// The box of a value with dims `to` that has the same elements, if there is one. A box that is cut
// along one dimension only is the same run of places within each of so many equal runs.
std::optional<Extent> reshaped(const Extent& box, std::span<const int64_t> from,
                               std::span<const int64_t> to) {
  Extent made{std::vector<int64_t>(to.size(), 0), {to.begin(), to.end()}};
  std::optional<size_t> cut;
  for (size_t d = 0; d < from.size(); ++d) {
    if (box.begin[d] == 0 && box.end[d] == from[d]) continue;
    if (cut) return std::nullopt;
    cut = d;
  }
  if (!cut) return made;
  const int64_t runs = product(from.first(*cut)), inner = product(from.subspan(*cut + 1));
  for (size_t d = 0; d < to.size(); ++d) {
    const int64_t step = product(to.subspan(d + 1));
    const int64_t begin = box.begin[*cut] * inner, end = box.end[*cut] * inner;
    if (product(to.first(d)) != runs || begin % step != 0 || end % step != 0) continue;
    made.begin[d] = begin / step;
    made.end[d] = end / step;
    return made;
  }
  return std::nullopt;
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
      other.unweighted || made.largest != other.largest || made.dims != other.dims)
    return std::nullopt;
  for (const auto& [term, share] : other.terms) {
    const auto [found, is_new] = made.terms.try_emplace(term, share);
    if (is_new) continue;
    Share& mine = found->second;
    if (mine.all() || share.all() || mine.axis != share.axis) return std::nullopt;
    auto ranges = verify::united(mine.ranges, share.ranges);
    if (!ranges) return std::nullopt;
    const bool all =
        ranges->size() == 1 && ranges->front() == std::pair<int64_t, int64_t>(0, extents_.at(term));
    mine = all ? Share{} : Share{mine.axis, std::move(*ranges)};
  }
  return id_of(made);
}

std::optional<ContentsId> ContentsTable::sum(ContentsId a, ContentsId b) {
  return at(a).largest ? std::nullopt : united(a, b);
}

std::optional<ContentsId> ContentsTable::maximum(ContentsId a, ContentsId b) {
  if (!at(a).largest) return std::nullopt;
  const auto made = united(a, b);
  if (!made || at(*made).terms.size() != 1) return std::nullopt;
  if (!at(*made).terms.begin()->second.all()) return made;
  Contents whole = at(*made);
  whole.largest = false;
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

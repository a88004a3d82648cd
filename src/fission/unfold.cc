#include "fission/unfold.h"

#include <algorithm>

namespace lowtide::fission {
namespace {

using plan::SchedOpId;

class Unfolder {
 public:
  Unfolder(const plan::ScheduleProblem& problem, const Levels& levels,
           const IdVector<SchedOpId, int>& level_of,
           const IdVector<SchedOpId, std::vector<SchedOpId>>& waits_for)
      : levels_(levels),
        level_of_(level_of),
        waits_for_(waits_for),
        part_(levels.levels.size(), 0),
        feeds_(problem.ops.size()) {
    for (const plan::SchedValue& value : problem.values)
      for (const SchedOpId reader : value.readers) feeds_[value.producer].push_back(reader);
  }

  // `runs` of `level` and of what is deeper or around, in the parts that are current.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as levels lie in each other
  void emit(const std::vector<SchedOpId>& runs, int level) {
    const Places places = places_of(runs);
    for (size_t i = 0; i < runs.size() && !failed_; ++i) {
      const int here = level_of_[runs[i]];
      if (is_around(here, level)) {
        made_.push_back({runs[i], here == Levels::kOutside ? 0 : part_[static_cast<size_t>(here)]});
        continue;
      }
      const int child = child_towards(level, here);
      if (child == Levels::kOutside) {
        failed_ = true;  // of a level beside this one
        return;
      }
      const size_t end = end_of_loop(runs, places, i, child);
      loop({runs.begin() + static_cast<ptrdiff_t>(i), runs.begin() + static_cast<ptrdiff_t>(end)},
           level, child);
      i = end - 1;
    }
  }

  std::vector<PartRun> take() { return failed_ ? std::vector<PartRun>{} : std::move(made_); }

 private:
  int64_t parts(int level) const {
    return level == Levels::kOutside ? 1 : levels_.levels[static_cast<size_t>(level)].parts;
  }
  int parent(int level) const { return levels_.levels[static_cast<size_t>(level)].parent; }

  // Is `one` the level `other` or one that it lies in? Outside is around all.
  bool is_around(int one, int other) const { return levels_.common(one, other) == one; }

  // The level right below `level` in which `deeper` lies; none: it lies elsewhere.
  int child_towards(int level, int deeper) const {
    while (deeper != Levels::kOutside && parent(deeper) != level) deeper = parent(deeper);
    return deeper;
  }

  using Places = IdVector<SchedOpId, std::vector<size_t>>;  // where each op runs, ascending

  Places places_of(const std::vector<SchedOpId>& runs) const {
    Places places(feeds_.size());
    for (size_t i = 0; i < runs.size(); ++i) places[runs[i]].push_back(i);
    return places;
  }

  // The last of the level's runs that reads what the i-th makes; itself if none does.
  size_t last_reader(const std::vector<SchedOpId>& runs, const Places& places, size_t i,
                     int level) const {
    const std::vector<size_t>& own = places[runs[i]];
    const auto again = std::upper_bound(own.begin(), own.end(), i);
    const size_t before = again == own.end() ? runs.size() : *again;
    size_t last = i;
    for (const SchedOpId reader : feeds_[runs[i]]) {
      if (!is_around(level, level_of_[reader])) continue;
      const auto& theirs = places[reader];
      const auto behind = std::lower_bound(theirs.begin(), theirs.end(), before);
      if (behind != theirs.begin()) last = std::max(last, *(behind - 1));
    }
    return last;
  }

  // A loop that begins with the i-th run is as long as parts hand something on to later runs of the
  // same part.
  size_t end_of_loop(const std::vector<SchedOpId>& runs, const Places& places, size_t i,
                     int level) const {
    size_t end = i + 1;
    for (size_t j = i, last = i; j <= last && !waits(runs, i, j); ++j) {
      if (!is_around(level, level_of_[runs[j]])) continue;
      last = std::max(last, last_reader(runs, places, j, level));
      end = j + 1;
    }
    return end;
  }

  // Does the j-th run wait for all parts of one of those from the i-th on?
  bool waits(const std::vector<SchedOpId>& runs, size_t i, size_t j) const {
    if (waits_for_.empty() || level_of_[runs[j]] == Levels::kOutside) return false;
    const std::vector<SchedOpId>& before = waits_for_[runs[j]];
    if (before.empty()) return false;
    const auto from = runs.begin() + static_cast<ptrdiff_t>(i);
    const auto to = runs.begin() + static_cast<ptrdiff_t>(j);
    return std::any_of(from, to, [&](SchedOpId run) {
      return std::binary_search(before.begin(), before.end(), run);
    });
  }

  // All parts of `child` within the current part of `level`.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as levels lie in each other
  void loop(const std::vector<SchedOpId>& runs, int level, int child) {
    std::vector<char> early(runs.size(), 0);  // of those around: with the first part
    for (size_t i = 0; i < runs.size(); ++i)
      early[i] = is_around(level_of_[runs[i]], level) && makes_for(runs, i, child);
    const int64_t factor = parts(child) / parts(level);
    const int64_t before = level == Levels::kOutside ? 0 : part_[static_cast<size_t>(level)];
    for (int64_t k = 0; k < factor; ++k) {
      std::vector<SchedOpId> now;
      for (size_t i = 0; i < runs.size(); ++i) {
        const bool is_inside = !is_around(level_of_[runs[i]], level);
        if (is_inside || (early[i] ? k == 0 : k + 1 == factor)) now.push_back(runs[i]);
      }
      part_[static_cast<size_t>(child)] = before * factor + k;
      emit(now, child);
    }
  }

  // Does the i-th run make what a later run of the level reads?
  bool makes_for(const std::vector<SchedOpId>& runs, size_t i, int level) const {
    const std::vector<SchedOpId>& readers = feeds_[runs[i]];
    for (size_t j = i + 1; j < runs.size() && runs[j] != runs[i]; ++j)
      if (is_around(level, level_of_[runs[j]]) &&
          std::find(readers.begin(), readers.end(), runs[j]) != readers.end())
        return true;
    return false;
  }

  const Levels& levels_;
  const IdVector<SchedOpId, int>& level_of_;
  const IdVector<SchedOpId, std::vector<SchedOpId>>& waits_for_;
  std::vector<int64_t> part_;  // of each level, the current one
  IdVector<SchedOpId, std::vector<SchedOpId>> feeds_;
  std::vector<PartRun> made_;
  bool failed_ = false;
};

}  // namespace

std::vector<PartRun> unfold(const plan::ScheduleProblem& problem, const Levels& levels,
                            const IdVector<SchedOpId, int>& level_of,
                            std::span<const SchedOpId> runs,
                            const IdVector<SchedOpId, std::vector<SchedOpId>>& waits_for) {
  Unfolder unfolder(problem, levels, level_of, waits_for);
  unfolder.emit({runs.begin(), runs.end()}, Levels::kOutside);
  return unfolder.take();
}

}  // namespace lowtide::fission

#include "baselines/chen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "baselines/forward.h"
#include "plan/problem_index.h"

namespace lowtide::baselines {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ChenTuning {
  int segment_sizes = 48;  // that are tried, from one value's bytes to those of all
  // How much further a segment may go, as a share of its size, to end where fewer bytes cross.
  std::array<double, 4> further = {0.0, 0.25, 0.5, 1.0};
};
constexpr ChenTuning kChen;

class Segments {
 public:
  Segments(const plan::ScheduleProblem& problem, IdVector<SchedOpId, char> is_forward)
      : problem_(problem),
        index_(problem),
        is_forward_(std::move(is_forward)),
        place_(problem.ops.size(), 0),
        last_place_(problem.values.size(), 0) {
    for (const SchedOpId op : problem.ops.ids()) {
      if (is_forward_[op] == 0) continue;
      place_[op] = forward_.size();
      forward_.push_back(op);
    }
    find_crossing();
  }

  bool empty() const { return forward_.empty(); }
  int64_t largest_bytes() const { return *std::max_element(made_.begin(), made_.end()); }
  int64_t all_bytes() const {
    int64_t sum = 0;
    for (const int64_t bytes : made_) sum += bytes;
    return sum;
  }

  // Places before which a new segment begins.
  std::vector<size_t> borders(double segment_bytes, double further) const {
    std::vector<size_t> borders;
    double bytes = 0;
    for (size_t i = 0; i + 1 < forward_.size(); ++i) {
      bytes += static_cast<double>(made_[i]);
      if (bytes <= segment_bytes) continue;
      size_t narrowest = i;
      for (size_t k = i + 1; k + 1 < forward_.size(); ++k) {
        bytes += static_cast<double>(made_[k]);
        if (bytes > (1 + further) * segment_bytes) break;
        if (crossing_[k] < crossing_[narrowest]) narrowest = k;
      }
      borders.push_back(narrowest + 1);
      bytes = 0;
      i = narrowest;
    }
    return borders;
  }

  std::vector<SchedAction> schedule(const std::vector<size_t>& borders) const {
    std::vector<std::vector<SchedOpId>> again(borders.size());  // by segment, but the last
    IdVector<SchedValueId, int> left_by(problem_.values.size(), -1);
    for (size_t k = 0; k < borders.size(); ++k)
      again[k] = runs_again(k == 0 ? 0 : borders[k - 1], borders[k], static_cast<int>(k), left_by);
    std::vector<SchedAction> sequence;
    IdVector<SchedOpId, char> ran(problem_.ops.size(), 0);
    for (const SchedOpId op : problem_.ops.ids()) {
      if (is_forward_[op] == 0) {
        for (const SchedValueId v : index_.reads[op]) {
          if (left_by[v] < 0) continue;
          for (const SchedOpId rerun : std::exchange(again[static_cast<size_t>(left_by[v])], {}))
            if (may_run_again(rerun, ran)) sequence.push_back(SchedAction::run(rerun));
        }
      }
      sequence.push_back(SchedAction::run(op));
      ran[op] = 1;
    }
    return sequence;
  }

 private:
  bool may_run_again(SchedOpId op, const IdVector<SchedOpId, char>& ran) const {
    const auto after = index_.waits_after[op];
    return ran[op] != 0 && std::none_of(after.begin(), after.end(),
                                        [&](SchedOpId later) { return ran[later] != 0; });
  }

  bool read_backward(SchedValueId v) const {
    const auto& readers = problem_.values[v].readers;
    return std::any_of(readers.begin(), readers.end(),
                       [&](SchedOpId reader) { return is_forward_[reader] == 0; });
  }

  void find_crossing() {
    made_.assign(forward_.size() + 1, 0);
    crossing_.assign(forward_.size() + 1, 0);
    for (const SchedValueId v : problem_.values.ids()) {
      const plan::SchedValue& value = problem_.values[v];
      if (is_forward_[value.producer] == 0) continue;
      const size_t made = place_[value.producer];
      size_t last = made;
      for (const SchedOpId reader : value.readers)
        if (is_forward_[reader] != 0) last = std::max(last, place_[reader]);
      last_place_[v] = last;
      if (read_backward(v)) made_[made] += value.bytes;
      crossing_[made] += value.bytes;
      crossing_[last] -= value.bytes;
    }
    for (size_t i = 1; i < crossing_.size(); ++i) crossing_[i] += crossing_[i - 1];
  }

  // The runs that bring back what the segment [from, to) leaves out, in order; `left_by` says which
  // values those are.
  std::vector<SchedOpId> runs_again(size_t from, size_t to, int segment,
                                    IdVector<SchedValueId, int>& left_by) const {
    const auto leaves = [&](SchedValueId v) {
      const plan::SchedValue& value = problem_.values[v];
      return is_forward_[value.producer] != 0 && place_[value.producer] >= from &&
             place_[value.producer] < to && last_place_[v] < to && !value.is_output &&
             problem_.ops[value.producer].may_rerun;
    };
    IdVector<SchedOpId, char> needed(problem_.ops.size(), 0);
    std::vector<SchedOpId> runs;
    for (size_t i = to; i-- > from;) {
      const SchedOpId op = forward_[i];
      for (const SchedValueId v : index_.makes[op])
        if (leaves(v) && read_backward(v)) left_by[v] = segment, needed[op] = 1;
      if (needed[op] == 0) continue;
      runs.push_back(op);
      for (const SchedValueId v : index_.reads[op])
        if (leaves(v)) needed[problem_.values[v].producer] = 1;
    }
    std::reverse(runs.begin(), runs.end());
    return runs;
  }

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex index_;
  const IdVector<SchedOpId, char> is_forward_;
  std::vector<SchedOpId> forward_;             // in order
  IdVector<SchedOpId, size_t> place_;          // in it
  IdVector<SchedValueId, size_t> last_place_;  // of the last forward reader
  std::vector<int64_t> made_;                  // by place: bytes made there for the backward part
  std::vector<int64_t> crossing_;  // by place: bytes made there or before, read forward behind it
};

}  // namespace

void add_chen(const plan::ScheduleProblem& problem, const IdVector<SchedOpId, char>& forward,
              Judge& judge) {
  const Segments segments(
      problem, forward.empty() ? forward_part(problem, plan::ProblemIndex(problem)) : forward);
  if (segments.empty()) return;
  const double least = std::max(1.0, static_cast<double>(segments.largest_bytes()));
  const double most = std::max(least, static_cast<double>(segments.all_bytes()));
  std::set<std::vector<size_t>> tried;
  for (const double further : kChen.further) {
    for (int i = 0; i < kChen.segment_sizes && judge.work().look(); ++i) {
      // 0, the smallest first: each value that the backward part reads is a segment of its own.
      const double bytes =
          i == 0 ? 0
                 : least * std::pow(most / least, static_cast<double>(i - 1) / kChen.segment_sizes);
      std::vector<size_t> borders = segments.borders(bytes, further);
      if (borders.empty() || !tried.insert(borders).second) continue;
      judge.score(segments.schedule(borders));
      if (judge.work().exhausted()) return;
    }
  }
}

}  // namespace lowtide::baselines

// The queue of a best-first search that has two opinions of what is best: by what is proven of an
// entry, and by what is guessed of it. Proofs leave much open where transfers may hide everything;
// a guess may be wrong for whole families of labels. So entries are taken in turns, the best by one
// and the best by the other (as portfolios of search heuristics do), and neither can starve the
// search. Where the guess is the proof, that is a plain priority queue.
//
// Tests: label_queue_test.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace lowtide::pipeline {

// Smaller keys are better; of equal keys the one that came first.
template <class Key, class Entry>
class LabelQueue {
 public:
  // `in_turns`: by both; else by what is proven alone.
  explicit LabelQueue(bool in_turns = false) : in_turns_(in_turns) {}

  void push(const Key& proven, const Key& guessed, Entry entry) {
    by_proof_.emplace(proven, entries_.size());
    if (in_turns_) by_guess_.emplace(guessed, entries_.size());
    entries_.push_back({std::move(entry)});
    ++waiting_;
  }

  bool empty() const { return waiting_ == 0; }

  // Not of an empty one.
  Entry pop() {
    Heap& from = in_turns_ && guess_is_next_ ? by_guess_ : by_proof_;
    guess_is_next_ = !guess_is_next_;
    while (entries_[from.top().second].is_taken) from.pop();
    Waiting& next = entries_[from.top().second];
    from.pop();
    next.is_taken = true;
    --waiting_;
    return std::move(next.entry);
  }

  void clear() { *this = LabelQueue(in_turns_); }

 private:
  struct Waiting {
    Entry entry;
    bool is_taken = false;
  };
  using Place = std::pair<Key, size_t>;
  using Heap = std::priority_queue<Place, std::vector<Place>, std::greater<>>;

  bool in_turns_ = false, guess_is_next_ = false;
  std::vector<Waiting> entries_;
  Heap by_proof_, by_guess_;
  size_t waiting_ = 0;
};

}  // namespace lowtide::pipeline

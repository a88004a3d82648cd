// The queue of a best-first search that has two opinions of what is best: by what is proven of an
// entry, and by what is guessed of it. Proofs leave much open where transfers may hide everything;
// a guess may be wrong for whole families of labels. So entries are taken in turns, the best by one
// and the best by the other (as portfolios of search heuristics do), and neither can starve the
// search. Where the guess is the proof, that is a plain priority queue.
//
// Tests: label_queue_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
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
    entries_.push_back({std::move(entry), proven, guessed});
  }

  bool empty() const { return by_proof_.empty(); }

  // Not of an empty one.
  Entry pop() {
    const size_t at = (guess_is_next_ ? by_guess_ : by_proof_).begin()->second;
    guess_is_next_ = in_turns_ && !guess_is_next_;
    by_proof_.erase({entries_[at].proven, at});
    if (in_turns_) by_guess_.erase({entries_[at].guessed, at});
    return std::move(entries_[at].entry);
  }

  // At most so many entries in the order in which they will be taken if none is added. They stay
  // where they are until one is.
  std::vector<Entry*> next(size_t most) {
    std::vector<Entry*> found;
    std::set<size_t> is_taken;
    auto proof = by_proof_.begin(), guess = by_guess_.begin();
    for (bool by_guess = guess_is_next_; found.size() < std::min(most, by_proof_.size());) {
      auto& place = by_guess ? guess : proof;
      while (is_taken.contains(place->second)) ++place;
      is_taken.insert(place->second);
      found.push_back(&entries_[place->second].entry);
      by_guess = in_turns_ && !by_guess;
    }
    return found;
  }

  void clear() { *this = LabelQueue(in_turns_); }

 private:
  struct Waiting {
    Entry entry;
    Key proven, guessed;
  };

  bool in_turns_ = false, guess_is_next_ = false;
  std::vector<Waiting> entries_;  // in the order in which they came
  std::set<std::pair<Key, size_t>> by_proof_, by_guess_;
};

}  // namespace lowtide::pipeline

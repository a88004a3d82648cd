// Minimum s-t cut by augmenting paths with capacity scaling (Edmonds and Karp 1972, section 1.2;
// Ahuja, Magnanti and Orlin 1993, section 7.3): while there is a path whose arcs all have room for
// `delta`, send as much as fits; then halve delta. One search of the network finds a path to every
// arc into the sink, and each that still has room when its turn comes is used: the plans of deep
// steps have as many short paths as layers. O(m^2 log U), on real plans close to linear per phase.
// Written for the verifier alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lowtide::verify {

class MinCut {
 public:
  static constexpr int64_t kUnlimited = int64_t{1} << 62;

  explicit MinCut(size_t nodes) : first_(nodes, -1) {}
  void add_arc(size_t from, size_t to, int64_t capacity);
  // The value of the least cut; at least kUnlimited when none is finite. Call once.
  int64_t run(size_t source, size_t sink);

 private:
  struct Arc {
    size_t to;
    int64_t room;
    int next;  // of the same node; -1: last. The reverse arc differs in the last bit of the index.
  };
  void reach(size_t source, size_t sink, int64_t delta);
  int64_t push(size_t source, size_t last, int64_t delta);

  std::vector<Arc> arcs_;
  std::vector<int> first_;
  std::vector<int> reached_by_;  // arc
  std::vector<size_t> queue_;
};

}  // namespace lowtide::verify

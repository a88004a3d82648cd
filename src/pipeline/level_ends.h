// What it costs where a level of labels (fission/labels.h) ends: an op that runs in fewer parts
// than what it reads was made in reads joins of several pieces, a Concat for each of its parts.
// Where these can be views on the pieces (rewrite/pieces.h) they cost nothing, else they copy.
//
//     4 parts      weights.0   weights.1   weights.2   weights.3
//                          \   /                   \   /
//     2 parts             join                    join
//                           |                       |
//                       product.0               product.1       views: a product works in no place
//                       softmax_grad.0     softmax_grad.1       copies: it may, on what it reads
//
// Which are copies is judged by the rules of rewrite/pieces.h on the step before it is cut. Of
// pieces that interleave kernels may write into the whole (rewrite/destinations.h): with kernels
// these count as views. What ops outside of the class read whole is not looked at.
//
// Tests: level_ends_test.cc, tests/label_oracle_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_seconds.h"
#include "ir/graph.h"

namespace lowtide::pipeline {

class LevelEnds {
 public:
  struct Options {
    int64_t alignment_bytes = 1;
    bool pieces = true;    // joins may be views
    bool kernels = false;  // that may write into wholes
  };
  // The graph must stay. Error: as ops::axis_map.
  static Result<LevelEnds> make(const ir::Graph& graph, const fission::AxisClass& axis_class,
                                fission::Price price, const Options& options);

  // Adds to what each op takes the copies that it reads. Several threads may ask at once. Error: as
  // the price.
  Status add_copies(const fission::Cuts& cuts, IdVector<ir::OpId, double>& seconds) const;

 private:
  // An op reads what another op of the class makes, both along the class.
  struct End {
    ir::OpId maker, reader;
    ir::ValueId value;
    int dim = 0;
    ir::OpId root = {};                 // who makes the storage
    bool may_be_view = false;           // as far as places in memory say it
    bool takes_over = false;            // the reader may work in place on it
    std::vector<ir::OpId> others = {};  // who else may, on anything in that storage
  };

  LevelEnds(const ir::Graph& graph, fission::Price price, const Options& options)
      : graph_(graph), price_(std::move(price)), options_(options) {}
  Status find(const fission::AxisClass& axis_class);
  bool is_outermost(ir::ValueId value, int dim) const;
  bool lies_in_its_storage(ir::ValueId value, int dim) const;
  void find_takers();
  bool takes_over(ir::OpId reader, ir::StorageId storage) const;
  bool is_copy(const End& end, const fission::Cuts& cuts) const;
  bool is_aligned(const End& end, const fission::Cuts& cuts) const;
  Result<double> copy(size_t end, int64_t size) const;

  const ir::Graph& graph_;
  fission::Price price_;
  Options options_;
  IdVector<ir::OpId, std::vector<ir::StorageId>> may_take_;  // in whose place ops may work
  std::vector<End> ends_;
  // By end and elements of a join.
  mutable std::map<std::pair<size_t, int64_t>, double> known_ = {};
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace lowtide::pipeline

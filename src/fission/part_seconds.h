// What an op takes in parts: the seconds of all of its parts together, each priced at its own
// shape, and of what weighs and adds them where an op cannot add into what the parts before made.
// Slices and wholes are not priced: among ops that are cut alike there are none.
//
// Equal ops (of layers that are alike) are priced once, and the parts of equal cuts are added up
// once: a search asks for the same cuts of every state. Several threads may ask at once.
//
// Tests: scale_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "fission/expand.h"
#include "ir/graph.h"
#include "plan/op_desc.h"

namespace lowtide::ops {
struct Part;
}  // namespace lowtide::ops

namespace lowtide::fission {

// Of one run of a kernel.
using Price = std::function<Result<double>(const plan::OpDesc&)>;

class PartSeconds {
 public:
  // The graph must stay. Error: kInput, naming a value whose size is symbolic.
  static Result<PartSeconds> make(const ir::Graph& graph, Price price);

  // Of the whole op without a cut. Error: as ops::part, and as the price.
  Result<double> of(ir::OpId op, const Cut* cut);
  // Of all ops as they are cut.
  Result<IdVector<ir::OpId, double>> all(const Cuts& cuts);

 private:
  // Equal op, axis, whether it is the first part, size, and places before and behind it as far as
  // windows reach: the same seconds.
  using Key = std::tuple<size_t, int, bool, int64_t, int64_t, int64_t>;
  struct KnownCut {
    size_t desc = 0;
    Cut cut;
    double seconds = 0;
  };

  PartSeconds(const ir::Graph& graph, Price price) : graph_(graph), price_(std::move(price)) {}
  // Without what is not known.
  std::optional<double> known(ir::OpId op, const Cut* cut) const;
  Result<double> priced_anew(ir::OpId op, const Cut* cut);
  Result<int64_t> reach_of(ir::OpId op, int axis);
  Result<double> all_parts(ir::OpId id, const Cut& cut);
  Result<double> weighing(ir::OpId op, const ops::Part& part) const;
  Result<double> once(const Key& key, const std::function<Result<double>()>& compute);
  Result<double> part(ir::OpId op, int axis, int64_t begin, int64_t end, bool is_first);
  Result<double> priced(ir::OpId op, const ir::Attrs& attrs,
                        const std::vector<std::optional<ir::Dims>>& inputs);

  const ir::Graph& graph_;
  Price price_;
  std::vector<plan::OpDesc> descs_;  // of ops that differ
  IdVector<ir::OpId, size_t> desc_of_;
  std::map<Key, double> known_;
  std::map<std::pair<size_t, int>, int64_t> reach_;
  std::vector<std::optional<double>> whole_;                        // by desc
  std::unordered_map<uint64_t, std::vector<KnownCut>> known_cuts_;  // by a hash of desc and cut
  // Whoever adds to what is known is alone.
  std::unique_ptr<std::shared_mutex> mutex_ = std::make_unique<std::shared_mutex>();
};

}  // namespace lowtide::fission

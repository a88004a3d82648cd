// A graph written again in which some ops give way to several that compute the same results: what
// passes that take ops apart share. Values keep their names and what they are for, and the op that
// comes last in the place of another stands for it in control edges.
//
// Tests: batch_norm_test.cc, loss_classes_test.cc.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/id_order.h"

namespace lowtide::rewrite {

class TakenApart {
 public:
  // Begins with the values that no op makes. `graph` must stay.
  explicit TakenApart(const ir::Graph& graph);

  // The op as it was.
  Status keep(ir::OpId id);
  // One op in the place of `of`, called after it and `suffix`; it makes these results of it, or,
  // where there are none, what is only for the others. Error: as ops::append.
  Status add(ir::OpId of, std::string_view suffix, std::string_view kind,
             std::vector<ir::ValueId> inputs, ir::Attrs attrs,
             const std::vector<ir::ValueId>& results);

  // What old values are now.
  std::vector<ir::ValueId> now(const std::vector<ir::ValueId>& old) const { return made_.now(old); }
  ir::ValueId now(ir::ValueId old) const { return made_.value[old]; }
  // The first result of the op that was added last.
  ir::ValueId last() const { return last_; }

  // Error: as ir::check.
  Result<ir::Graph> graph() &&;

 private:
  const ir::Graph& old_;
  ir::Rewritten made_;
  ir::ValueId last_ = ir::ValueId::none();
};

}  // namespace lowtide::rewrite

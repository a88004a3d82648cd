// What one run of a kernel has to do, from its description alone: the op table's FLOPs and bytes.
//
// Tests: store_test.cc.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "ops/op_table.h"
#include "plan/op_desc.h"

namespace lowtide::cost {

struct OpWork {
  double flops = 0;
  double bytes = 0;         // every operand touched once, read and written
  bool only_views = false;  // nothing runs
};

// A description as the op table takes it. Stays where it is.
class TableInstance {
 public:
  explicit TableInstance(const plan::OpDesc& op);
  TableInstance(const TableInstance&) = delete;
  TableInstance& operator=(const TableInstance&) = delete;
  const ops::Instance& instance() const { return instance_; }

 private:
  ir::Attrs attrs_;
  ops::Instance instance_;
};

// Error: kInput (a kind without row, operands that do not fit it, sizes beyond 64 bits).
Result<OpWork> op_work(const plan::OpDesc& op);

}  // namespace lowtide::cost

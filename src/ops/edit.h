// Ops into and inside of an edit of a graph: what append does for graphs.
#pragma once

#include "ir/edit.h"
#include "ops/op_table.h"

namespace lowtide::ops {

// The instance of an op of an edit.
Instance instance_of(const ir::GraphEdit& edit, ir::OpId op);

// Infers and adds at a place. Error: as infer, and where the op cannot stand there; then the edit
// is as it was.
Result<ir::OpId> append(ir::GraphEdit& edit, ir::Place place, std::string_view kind,
                        std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                        const AppendOptions& options = {});

// Gives the outputs of an op the types and storages that follow from its attributes and operands as
// they are now, and so on through those who read them, until nothing changes. Error: as infer; then
// the edit is as it was.
Status infer_again(ir::GraphEdit& edit, ir::OpId op);

}  // namespace lowtide::ops

// Rows of the ops that look along one axis, or read and write at places given by data. Their
// `positions` may say "1:v..": the integers of input 1 are positions along one of the axes v0, v1,
// ... each. Internal to this folder.
//
// Tests: op_table_test.cc, random_instance_test.cc.
#pragma once

#include <span>

#include "ops/row.h"

namespace lowtide::ops {

std::span<const Row> indexing_rows();

}  // namespace lowtide::ops

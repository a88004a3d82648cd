// Rows of the recurrent networks. Internal to this folder.
//
// Tests: op_table_test.cc, random_instance_test.cc.
#pragma once

#include <span>

#include "ops/row.h"

namespace lowtide::ops {

std::span<const Row> recurrent_rows();

}  // namespace lowtide::ops

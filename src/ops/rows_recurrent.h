// Rows of the recurrent networks. Internal to this folder.
#pragma once

#include <span>

#include "ops/row.h"

namespace lowtide::ops {

std::span<const Row> recurrent_rows();

}  // namespace lowtide::ops

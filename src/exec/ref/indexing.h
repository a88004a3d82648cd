// Kernels of ops along one axis, and of ops that read or write at places given by data. Internal to
// this folder.
#pragma once

#include "exec/ref/kernels.h"

namespace lowtide::ref {

void add_indexing(KernelTable& table);

}  // namespace lowtide::ref

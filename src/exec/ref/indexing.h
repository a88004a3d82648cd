// Kernels of ops along one axis, and of ops that read or write at places given by data. Internal to
// this folder.
//
// Tests: interpreter_test.cc, fission_test.cc.
#pragma once

#include "exec/ref/kernels.h"

namespace lowtide::ref {

void add_indexing(KernelTable& table);

}  // namespace lowtide::ref

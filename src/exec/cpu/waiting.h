// How threads wait for each other at the end of a kernel. See waiting.cc.
//
// Tests: kernel_test.cc.
#pragma once

namespace lowtide::exec_cpu {

// Makes the threads of OpenMP's team sleep soon, instead of spinning for milliseconds, when one of
// them is late. Once per process, for teams of `threads`; does nothing where the user chose a way
// of waiting (OMP_WAIT_POLICY, GOMP_SPINCOUNT) or the team leaves processors free.
void wait_briefly(int threads);

}  // namespace lowtide::exec_cpu

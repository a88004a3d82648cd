// A bug of ours, for tests: the packer gives two buffers that live at one moment the same address.
// The linker puts this function in the place of pack::solve (ld's --wrap;
// refused_plans_test.cmake), so that everything around it, down to the command line, is the code
// that ships.
#include "pack/pack.h"

#define LT_PACK_SOLVE "_ZN7lowtide4pack5solveERKNS_4plan11PackProblemERKNS0_11PackOptionsE"

namespace lowtide::pack {

plan::PackOutcome right_solve(const plan::PackProblem& problem,
                              const PackOptions& options) asm("__real_" LT_PACK_SOLVE);
plan::PackOutcome wrong_solve(const plan::PackProblem& problem,
                              const PackOptions& options) asm("__wrap_" LT_PACK_SOLVE);

namespace {

bool may_share(const plan::Buffer& a, const plan::Buffer& b) {
  return !a.live.overlaps(b.live) || a.size_bytes == 0 || b.size_bytes == 0;
}

}  // namespace

plan::PackOutcome wrong_solve(const plan::PackProblem& problem, const PackOptions& options) {
  plan::PackOutcome packed = right_solve(problem, options);
  if (packed.offsets.size() != problem.buffers.size()) return packed;
  for (plan::BufferId a : problem.buffers.ids()) {
    for (plan::BufferId b : problem.buffers.ids()) {
      const plan::Buffer &large = problem.buffers[a], &small = problem.buffers[b];
      if (a == b || small.size_bytes > large.size_bytes || may_share(large, small)) continue;
      packed.offsets[b] = packed.offsets[a];  // the height stays
      return packed;
    }
  }
  return packed;
}

}  // namespace lowtide::pack

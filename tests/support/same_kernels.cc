// The same kernels of oneDNN on every processor: it picks those of the widest instructions that it
// finds, and layouts and workspaces come with them. Plans of the small steps that are tested here
// would be others on a processor with AVX-512, and so would what is fastest or just fits. So before
// oneDNN is asked for the first time it is told to stop at AVX2, unless the environment says
// otherwise (DNNL_MAX_CPU_ISA=ALL: what the processor has). Loops of our own (exec/cpu/simd.h) have
// no workspace, and use what there is; so do the kernels' own tests (src/exec/cpu) and all Python
// tests.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kAsked = setenv("DNNL_MAX_CPU_ISA", "AVX2", /*overwrite=*/0);

}  // namespace

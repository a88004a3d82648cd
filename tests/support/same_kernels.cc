// The same kernels on every processor: oneDNN picks those of the widest instructions that it finds,
// and layouts and workspaces come with them. Plans of the small steps that are tested here would be
// others on a processor with AVX-512, and so would what is fastest or just fits. So before oneDNN
// is asked for the first time it is told to stop at AVX2, unless the environment says otherwise.
// The kernels' own tests (src/exec/cpu) and those in Python run what the processor has.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kAsked = setenv("DNNL_MAX_CPU_ISA", "AVX2", /*overwrite=*/0);

}  // namespace

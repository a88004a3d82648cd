// The vector loops for x86-64-v3 (AVX2 and FMA); packages.cmake gives the compiler flags.
#define LT_SIMD avx2
#include "exec/cpu/simd_body.h"

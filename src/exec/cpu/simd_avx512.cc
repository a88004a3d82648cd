// The vector loops for x86-64-v4 (AVX-512); packages.cmake gives the compiler flags.
#define LT_SIMD avx512
#include "exec/cpu/simd_body.h"

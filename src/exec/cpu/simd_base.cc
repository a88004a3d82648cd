// The vector loops for any processor; packages.cmake gives the compiler flags.
#define LT_SIMD base
#include "exec/cpu/simd_body.h"

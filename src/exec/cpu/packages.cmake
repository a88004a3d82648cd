# oneDNN for products and convolutions, OpenMP shared with it. The vector loops are compiled once per instruction set and
# chosen at run time, so that one program runs on any machine and still uses AVX-512 where there is one.
# Found by hand: Debian's dnnl-config.cmake demands OpenCL's development files, which nothing here needs.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
target_include_directories(${lowtide_target} SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
target_link_libraries(${lowtide_target} PRIVATE ${DNNL_LIBRARY} OpenMP::OpenMP_CXX)

set(loop_options -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd)
set(loop_dir ${PROJECT_SOURCE_DIR}/src/exec/cpu)
set_source_files_properties(${loop_dir}/simd_base.cc PROPERTIES COMPILE_OPTIONS "${loop_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${loop_dir}/simd_avx2.cc PROPERTIES COMPILE_OPTIONS "${loop_options};-march=x86-64-v3")
  set_source_files_properties(${loop_dir}/simd_avx512.cc PROPERTIES
    COMPILE_OPTIONS "${loop_options};-march=x86-64-v4;-mprefer-vector-width=512")
endif()

# Compiled by themselves, for their options.
set_source_files_properties(${loop_dir}/simd_base.cc ${loop_dir}/simd_avx2.cc ${loop_dir}/simd_avx512.cc
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# The presets' toolchain file: uses ccache to repeat compilations and mold to link, where they are installed. It changes
# neither compiler nor flags that reach the code, so a build without it gives the same program.
find_program(LOWTIDE_CCACHE ccache)
find_program(LOWTIDE_MOLD mold)
mark_as_advanced(LOWTIDE_CCACHE LOWTIDE_MOLD)

if(LOWTIDE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOWTIDE_CCACHE})
endif()
if(LOWTIDE_MOLD)
  foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=mold)
  endforeach()
endif()

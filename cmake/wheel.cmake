# What a Python wheel has beside the package's modules: the library, the program, and the shared libraries that both need, so that
# nothing of the distribution is needed at run time but the C and C++ runtimes.
#
#   include(wheel)
#   lowtide_wheel(lowtide_shared lowtide_tool)
#
# Everything is found by $ORIGIN. It is an RPATH, not a RUNPATH: only that is asked for the libraries of libraries, too.
include_guard()

# Parts of every Linux system, or of the process that loads the library (the C++ runtime is PyTorch's as well).
set(LOWTIDE_OF_THE_SYSTEM "^ld-linux" "^libc\\.so" "^libm\\.so" "^libpthread\\.so" "^libdl\\.so" "^librt\\.so"
  "^libstdc\\+\\+\\.so" "^libgcc_s\\.so")

function(lowtide_wheel library program)
  target_link_options(${library} PRIVATE -Wl,--disable-new-dtags)
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN" VERSION "" SOVERSION "")
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${library} RUNTIME_DEPENDENCY_SET lowtide_needed
    LIBRARY DESTINATION lowtide/lib COMPONENT wheel NAMELINK_SKIP)
  install(TARGETS ${program} RUNTIME_DEPENDENCY_SET lowtide_needed RUNTIME DESTINATION lowtide/bin COMPONENT wheel)
  install(RUNTIME_DEPENDENCY_SET lowtide_needed PRE_EXCLUDE_REGEXES ${LOWTIDE_OF_THE_SYSTEM}
    LIBRARY DESTINATION lowtide/lib COMPONENT wheel)
endfunction()

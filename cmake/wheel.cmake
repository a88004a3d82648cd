# What a Python wheel has beside the package's modules: the library, the program, and the shared libraries that both need, so that
# nothing of the distribution is needed at run time but the C and C++ runtimes.
#
#   include(wheel)
#   lowtide_wheel(lowtide_shared lowtide_tool)
#
# Everything is found by $ORIGIN. It is an RPATH, not a RUNPATH: only that is asked for the libraries of libraries, too.
include_guard()

# Parts of every Linux system, or of the process that loads the library (the C++ runtime is PyTorch's as well).
set(LOWTIDE_OF_THE_SYSTEM "^(ld-linux.*|libc|libm|libpthread|libdl|librt|libstdc[+][+]|libgcc_s)[.]so")

function(lowtide_wheel library program)
  target_link_options(${library} PRIVATE -Wl,--disable-new-dtags)
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
  set_property(TARGET ${library} PROPERTY VERSION)  # a wheel has no symbolic links: one file, one name
  set_property(TARGET ${library} PROPERTY SOVERSION)
  set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${library} LIBRARY DESTINATION lowtide/lib COMPONENT wheel)
  install(TARGETS ${program} RUNTIME DESTINATION lowtide/bin COMPONENT wheel)
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:${library}>\" EXECUTABLES \"$<TARGET_FILE:${program}>\"
      RESOLVED_DEPENDENCIES_VAR found PRE_EXCLUDE_REGEXES \"${LOWTIDE_OF_THE_SYSTEM}\")
    foreach(path IN LISTS found)
      get_filename_component(name \"\${path}\" NAME)
      file(REAL_PATH \"\${path}\" whole)
      configure_file(\"\${whole}\" \"\${CMAKE_INSTALL_PREFIX}/lowtide/lib/\${name}\" COPYONLY)
    endforeach()" COMPONENT wheel)
endfunction()

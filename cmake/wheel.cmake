# What a Python wheel has beside the package's modules: the library, the program, and the shared libraries that both need, so that
# nothing of the distribution is needed at run time but the C and C++ runtimes.
#
#   include(wheel)
#   lowtide_wheel(lowtide_shared lowtide_tool)
#
# The two are linked once more, from the same objects: a build folder that has compiled everything makes a wheel in seconds,
# and what is installed otherwise stays as it is. Everything is found by $ORIGIN. It is an RPATH, not a RUNPATH: only that is
# asked for the libraries of libraries, too. The library has no version in its name: a wheel has no symbolic links.
include_guard()

# Parts of every Linux system, or of the process that loads the library (the C++ runtime is PyTorch's as well).
set(LOWTIDE_OF_THE_SYSTEM "^(ld-linux.*|libc|libm|libpthread|libdl|librt|libstdc[+][+]|libgcc_s)[.]so")

# What `target` was linked with, for `again`.
function(lowtide_link_again again target rpath)
  target_link_libraries(${again} PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
  target_link_options(${again} PRIVATE $<TARGET_PROPERTY:${target},LINK_OPTIONS> -Wl,--disable-new-dtags)
  set_target_properties(${again} PROPERTIES OUTPUT_NAME lowtide LINKER_LANGUAGE CXX INSTALL_RPATH "${rpath}"
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/wheel-parts RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/wheel-parts)
endfunction()

function(lowtide_wheel library program)
  get_target_property(objects ${library} SOURCES)
  add_library(lowtide_wheel_library SHARED EXCLUDE_FROM_ALL ${objects})
  lowtide_link_again(lowtide_wheel_library ${library} "$ORIGIN")
  add_executable(lowtide_wheel_program EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
  lowtide_link_again(lowtide_wheel_program ${program} "$ORIGIN/../lib")
  add_custom_target(lowtide_wheel DEPENDS lowtide_wheel_library lowtide_wheel_program)
  install(TARGETS lowtide_wheel_library LIBRARY DESTINATION lowtide/lib COMPONENT wheel EXCLUDE_FROM_ALL)
  install(TARGETS lowtide_wheel_program RUNTIME DESTINATION lowtide/bin COMPONENT wheel EXCLUDE_FROM_ALL)
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:lowtide_wheel_library>\"
      EXECUTABLES \"$<TARGET_FILE:lowtide_wheel_program>\"
      RESOLVED_DEPENDENCIES_VAR found PRE_EXCLUDE_REGEXES \"${LOWTIDE_OF_THE_SYSTEM}\")
    foreach(path IN LISTS found)
      get_filename_component(name \"\${path}\" NAME)
      file(REAL_PATH \"\${path}\" whole)
      configure_file(\"\${whole}\" \"\${CMAKE_INSTALL_PREFIX}/lowtide/lib/\${name}\" COPYONLY)
    endforeach()" COMPONENT wheel EXCLUDE_FROM_ALL)
endfunction()

# Installing Lowtide: one shared library with a C++ and a C face, its headers, CMake and pkg-config files, the program.
#
#   include(install)
#   lowtide_install(API lowtide_api [PROGRAM lowtide_tool] [WHOLE lowtide_x ...])
#
# API is the static library whose objects are the public interface (declarations in include/lowtide/, marked LOWTIDE_API):
# all of it goes in. Of the others the linker takes what is reached, except those under WHOLE, of which it takes
# everything (libraries that register themselves at start-up). Every symbol without LOWTIDE_API is hidden, and so is
# everything that comes from static archives of others, so that two versions of them can live in one process.
#
# A user then writes find_package(lowtide) and links lowtide::lowtide, or asks pkg-config for lowtide.
include_guard()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(CheckCXXSourceCompiles)

set(LOWTIDE_CMAKE_FOLDER ${CMAKE_CURRENT_LIST_DIR})

# protobuf can only be hidden if it is linked statically, and that only if its archive was made for shared libraries, which
# some distributions' (Debian 12's among them) is not. So this tries, and swaps the archive in for the targets that a
# folder's packages.cmake names; otherwise the shared protobuf stays a run-time dependency.
function(lowtide_use_static_protobuf)
  set(CMAKE_REQUIRED_FLAGS -fPIC)
  foreach(flavour libprotobuf libprotobuf-lite)
    find_library(LOWTIDE_STATIC_${flavour} NAMES ${flavour}.a)
    mark_as_advanced(LOWTIDE_STATIC_${flavour})
    if(NOT TARGET protobuf::${flavour} OR NOT LOWTIDE_STATIC_${flavour})
      continue()
    endif()
    set(CMAKE_REQUIRED_LINK_OPTIONS -shared
      -Wl,--whole-archive ${LOWTIDE_STATIC_${flavour}} -Wl,--no-whole-archive)
    check_cxx_source_compiles("int nothing;" LOWTIDE_CAN_HIDE_${flavour})
    if(LOWTIDE_CAN_HIDE_${flavour})
      foreach(configuration "" _RELEASE _DEBUG _RELWITHDEBINFO)
        set_property(TARGET protobuf::${flavour}
          PROPERTY IMPORTED_LOCATION${configuration} ${LOWTIDE_STATIC_${flavour}})
      endforeach()
    endif()
  endforeach()
endfunction()

function(lowtide_shared_library api whole)
  add_library(lowtide_shared SHARED $<TARGET_OBJECTS:${api}>)
  add_library(lowtide::lowtide ALIAS lowtide_shared)
  set_target_properties(lowtide_shared PROPERTIES
    OUTPUT_NAME lowtide EXPORT_NAME lowtide LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(lowtide_shared PUBLIC cxx_std_20)
  target_include_directories(lowtide_shared PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(lowtide_shared PRIVATE ${api})
  foreach(library IN LISTS whole)
    target_link_libraries(lowtide_shared PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${library}>)
    # Where it is also reached through another library, whole wins.
    set_property(TARGET lowtide_shared APPEND PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${library}")
  endforeach()
  target_link_options(lowtide_shared PRIVATE -Wl,-z,defs)
  # One option each: mold 1.10 never ends on a list with colons.
  foreach(archive libprotobuf.a libprotobuf-lite.a libfmt.a liblowtide_onnx_wire.a)
    target_link_options(lowtide_shared PRIVATE -Wl,--exclude-libs,${archive})
  endforeach()
endfunction()

function(lowtide_install)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "API;PROGRAM" "WHOLE")
  if(NOT TARGET ${arg_API})
    message(FATAL_ERROR "lowtide_install: API names no target: ${arg_API}")
  endif()
  lowtide_use_static_protobuf()
  lowtide_shared_library(${arg_API} "${arg_WHOLE}")

  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lowtide)
  install(TARGETS lowtide_shared EXPORT lowtide_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lowtide DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
  install(EXPORT lowtide_targets NAMESPACE lowtide:: DESTINATION ${package_folder} FILE lowtide-targets.cmake)
  if(arg_PROGRAM)
    install(TARGETS ${arg_PROGRAM} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()

  set(generated ${PROJECT_BINARY_DIR}/package)
  configure_package_config_file(${LOWTIDE_CMAKE_FOLDER}/lowtide-config.cmake.in ${generated}/lowtide-config.cmake
    INSTALL_DESTINATION ${package_folder})
  # Before 1.0 a new minor version may change the interface.
  write_basic_package_version_file(${generated}/lowtide-config-version.cmake COMPATIBILITY SameMinorVersion)
  file(RELATIVE_PATH path_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${LOWTIDE_CMAKE_FOLDER}/lowtide.pc.in ${generated}/lowtide.pc @ONLY)
  install(FILES ${generated}/lowtide-config.cmake ${generated}/lowtide-config-version.cmake DESTINATION ${package_folder})
  install(FILES ${generated}/lowtide.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()

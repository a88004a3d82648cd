# lowtide_layers(file): one static library lowtide_<folder> for each line "folder: deps" of the layers file, made from
# src/<folder>/*.cc; one library lowtide_<folder>_testing from src/<folder>/testing, for tests only; and one test program
# <folder>_test from src/<folder>/*_test.cc. A folder that needs third-party packages says so in
# src/<folder>/packages.cmake with lowtide_packages(PUBLIC|PRIVATE targets...).

add_library(lowtide_options INTERFACE)
target_include_directories(lowtide_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_compile_options(lowtide_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  -Wnon-virtual-dtor
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>  # takes a source for a header
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>  # wrong on std::string sums in 12
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>  # kB; by default it collects from 256 MB on: a tenth of the time
  $<$<BOOL:${LOWTIDE_WERROR}>:-Werror>)
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
target_link_libraries(lowtide_options INTERFACE fmt::fmt Threads::Threads)

# Folders whose loops take the time of a search or of a step: the build type's own level (-O3). What else there is runs
# once for a model: lowtide_cold, which compiles in six tenths of the time.
set(lowtide_hot_folders base solver sym plan verify order pack remat/bounds remat/search remat/starts
  remat/transfers remat fission baselines runtime exec/cpu exec/ref)
add_library(lowtide_cold INTERFACE)
target_compile_options(lowtide_cold INTERFACE $<$<CONFIG:Release>:-O1>)

# The sources of tests: what they call was compiled as above, and their own loops are short, so that -Og saves more of the
# compiler's time (three tenths of -O1's) than it takes of theirs. Where their oracles search, -O1 is the better.
set(lowtide_searching_tests pack remat/bounds)
add_library(lowtide_test_code INTERFACE)
target_compile_options(lowtide_test_code INTERFACE $<$<CONFIG:Release>:-Og>)

# Folders with so many small tests that a process for each takes most of the time (ctest and it take 10 ms): they run in a few
# processes, these in so many. The rest have tests of seconds, which should begin early and side by side.
set(lowtide_many_tests_8 exec/cpu exec/ref)
set(lowtide_many_tests_4 ops autodiff rewrite io plan)
set(lowtide_many_tests_2 base sym ir analysis cost fission runtime report report/data remat/search remat/starts)

# Folders that are judges of others and nothing that a product runs: built when a test asks for them.
set(lowtide_oracle_folders exec/ref)

function(lowtide_layers file)
  file(STRINGS ${file} lines REGEX "^[a-z]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z/]+):(.*)$" _ "${line}")
    lowtide_folder(${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  endforeach()
endfunction()

function(lowtide_folder folder deps)
  string(REPLACE "/" "_" name ${folder})
  string(STRIP "${deps}" deps)
  string(REPLACE "/" "_" deps "${deps}")
  separate_arguments(deps)
  list(TRANSFORM deps PREPEND lowtide_)
  set(dir ${PROJECT_SOURCE_DIR}/src/${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    return()
  endif()
  add_library(lowtide_${name} STATIC ${sources})
  if(folder IN_LIST lowtide_oracle_folders)
    set_target_properties(lowtide_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_link_libraries(lowtide_${name} PUBLIC lowtide_options)
  foreach(dep IN LISTS deps)
    if(TARGET ${dep})
      target_link_libraries(lowtide_${name} PUBLIC ${dep})
    endif()
  endforeach()
  if(EXISTS ${dir}/packages.cmake)
    set(lowtide_target lowtide_${name})
    include(${dir}/packages.cmake)
  endif()
  if(NOT folder IN_LIST lowtide_hot_folders)
    target_link_libraries(lowtide_${name} PRIVATE lowtide_cold)
  endif()
  lowtide_testing(${folder} ${name} "${deps}")
  if(LOWTIDE_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE lowtide_${name}_testing GTest::gtest GTest::gtest_main)
    if(folder IN_LIST lowtide_searching_tests)
      target_link_libraries(${name}_test PRIVATE lowtide_cold)
    else()
      target_link_libraries(${name}_test PRIVATE lowtide_test_code)
    endif()
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(${name}_test PRIVATE LOWTIDE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(EXISTS ${dir}/test_packages.cmake)
      set(lowtide_target ${name}_test)
      include(${dir}/test_packages.cmake)
    endif()
    foreach(parts 8 4 2)
      if(folder IN_LIST lowtide_many_tests_${parts})
        lowtide_tests_in_parts(${name}_test ${folder} ${parts})
        return()
      endif()
    endforeach()
    # The files hold what tests record about themselves (RecordProperty), which ctest does not pass on.
    gtest_discover_tests(${name}_test TEST_PREFIX ${folder}. XML_OUTPUT_DIR ${CMAKE_BINARY_DIR}/results/recorded
      NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  endif()
endfunction()

# The tests of a program as `parts` tests of ctest, <folder>.1 and so on, each of which runs its share of them in one process.
# Its report, results/several/<folder>.1.xml, says how each went; scripts/count_results.py counts them by it.
function(lowtide_tests_in_parts target folder parts)
  foreach(part RANGE 1 ${parts})
    math(EXPR index "${part} - 1")
    add_test(NAME ${folder}.${part} COMMAND ${target} --gtest_output=xml:${CMAKE_BINARY_DIR}/results/several/${folder}.${part}.xml)
    set_tests_properties(${folder}.${part} PROPERTIES TIMEOUT 300 ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# lowtide_<folder>_testing: the oracles and drawn problems of src/<folder>/testing, with those of the folders below. Tests
# and fuzz targets alone link it; it is not built where none is.
function(lowtide_testing folder name deps)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/testing/*.cc)
  set(kind INTERFACE)
  if(sources)
    set(kind PUBLIC)
    add_library(lowtide_${name}_testing STATIC EXCLUDE_FROM_ALL ${sources})
    if(NOT folder IN_LIST lowtide_hot_folders)
      target_link_libraries(lowtide_${name}_testing PRIVATE lowtide_cold)
    endif()
  else()
    add_library(lowtide_${name}_testing INTERFACE)
  endif()
  target_link_libraries(lowtide_${name}_testing ${kind} lowtide_${name})
  foreach(dep IN LISTS deps)
    if(TARGET ${dep}_testing)
      target_link_libraries(lowtide_${name}_testing ${kind} ${dep}_testing)
    endif()
  endforeach()
endfunction()

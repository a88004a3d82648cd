# lowtide_report_page(target): the page of HTML reports, bundled from web/report into one file, as a source of the target that
# defines lowtide::report::bundled_page() (src/report/html/page.h).
#
#   LOWTIDE_REPORT_PAGE=AUTO   bundled where npm is found and its packages can be fetched (the default); else without
#   LOWTIDE_REPORT_PAGE=ON     npm must be there, and a bundle that fails fails the build
#   LOWTIDE_REPORT_PAGE=OFF    without; `lowtide report -o FILE` says then what is missing
#
# The sources are copied into the build tree and `npm ci` runs there, so that nothing is written beside them. The packages
# are those of web/report/package-lock.json. A bundle depends on every file of web/report but its tests.
include_guard()

set(LOWTIDE_REPORT_PAGE AUTO CACHE STRING "Bundle the page of HTML reports: AUTO, ON or OFF")
set_property(CACHE LOWTIDE_REPORT_PAGE PROPERTY STRINGS AUTO ON OFF)
set(LOWTIDE_PAGE_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_page.cmake)

function(lowtide_report_page target)
  set(web ${PROJECT_SOURCE_DIR}/web/report)
  set(source ${PROJECT_BINARY_DIR}/generated/report_page.cc)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${web} ${web}/*)
  list(FILTER files EXCLUDE REGEX "(^|/)(node_modules|dist|build|test|testing|browser)/")
  find_program(LOWTIDE_NPM npm)
  mark_as_advanced(LOWTIDE_NPM)
  set(bundle ${LOWTIDE_REPORT_PAGE})
  if(bundle STREQUAL "ON" AND NOT LOWTIDE_NPM)
    message(FATAL_ERROR "LOWTIDE_REPORT_PAGE=ON: there is no npm; install Debian's nodejs and npm, or set it to AUTO or OFF")
  endif()
  if(NOT LOWTIDE_NPM OR NOT EXISTS ${web}/package-lock.json)
    set(bundle OFF)
  endif()
  set(inputs "")
  if(bundle)
    list(TRANSFORM files PREPEND ${web}/ OUTPUT_VARIABLE inputs)
  endif()
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DBUNDLE=${bundle} -DNPM=${LOWTIDE_NPM} -DWEB=${web} -DFOLDER=${PROJECT_BINARY_DIR}/web/report
      "-DFILES=${files}" -DSOURCE=${source} -P ${LOWTIDE_PAGE_SCRIPT}
    DEPENDS ${inputs} ${LOWTIDE_PAGE_SCRIPT} COMMENT "Bundling the page of HTML reports" VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

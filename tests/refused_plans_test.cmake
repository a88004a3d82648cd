# pack::solve is support/wrong_addresses.cc here, and in a copy of the program.
set(wrong_addresses ${CMAKE_CURRENT_SOURCE_DIR}/support/wrong_addresses.cc)
set(pack_solve _ZN7lowtide4pack5solveERKNS_4plan11PackProblemERKNS0_11PackOptionsE)

add_executable(lowtide_with_wrong_addresses $<TARGET_OBJECTS:lowtide_tool> ${wrong_addresses})
target_link_libraries(lowtide_with_wrong_addresses PRIVATE lowtide_api lowtide_remat lowtide_baselines
  lowtide_report_data lowtide_report_html lowtide_report_plot)
target_link_options(lowtide_with_wrong_addresses PRIVATE -Wl,--wrap=${pack_solve})

target_sources(${lowtide_target} PRIVATE ${wrong_addresses})
target_link_libraries(${lowtide_target} PRIVATE lowtide_api)
target_link_options(${lowtide_target} PRIVATE -Wl,--wrap=${pack_solve})
target_compile_definitions(${lowtide_target} PRIVATE PROGRAM_WITH_WRONG_ADDRESSES="$<TARGET_FILE:lowtide_with_wrong_addresses>")
add_dependencies(${lowtide_target} lowtide_with_wrong_addresses)

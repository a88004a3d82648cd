target_link_libraries(${lowtide_target} PRIVATE lowtide_pack_testing)
target_include_directories(${lowtide_target} PRIVATE ${PROJECT_SOURCE_DIR})

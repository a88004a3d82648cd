target_link_libraries(${lowtide_target} PRIVATE lowtide_remat)
target_include_directories(${lowtide_target} PRIVATE ${PROJECT_SOURCE_DIR})

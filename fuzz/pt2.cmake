target_link_libraries(${lowtide_target} PRIVATE lowtide_io lowtide_io_testing)

target_link_libraries(${lowtide_target} PRIVATE lowtide_api)

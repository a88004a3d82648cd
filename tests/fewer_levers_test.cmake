target_link_libraries(${lowtide_target} PRIVATE lowtide_pipeline lowtide_autodiff)

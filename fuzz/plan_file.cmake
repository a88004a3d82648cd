target_link_libraries(${lowtide_target} PRIVATE lowtide_plan_testing lowtide_verify)

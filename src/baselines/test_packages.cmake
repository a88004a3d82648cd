# Answers are held against the exhaustive search.
target_link_libraries(${lowtide_target} PRIVATE lowtide_remat_bounds_testing)

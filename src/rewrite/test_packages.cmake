# What a graph computes before and after a pass is compared on the reference executor.
target_link_libraries(${lowtide_target} PRIVATE lowtide_exec_ref)

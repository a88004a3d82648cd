# Gradients are checked by finite differences on the reference executor.
target_link_libraries(${lowtide_target} PRIVATE lowtide_exec_ref)

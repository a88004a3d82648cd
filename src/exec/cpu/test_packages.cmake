# The oracle of the kernels is the reference executor, on instances that the op table generates.
target_link_libraries(${lowtide_target} PRIVATE lowtide_exec_ref lowtide_ops_testing lowtide_analysis)

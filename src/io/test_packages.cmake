# Tests write models with the generated classes and run graphs on the reference executor.
target_link_libraries(${lowtide_target} PRIVATE lowtide_onnx_wire lowtide_exec_ref)

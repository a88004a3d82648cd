# Edits are tried on training steps.
target_link_libraries(${lowtide_target} PRIVATE lowtide_autodiff)

# What is read off plans is held against what the verifier's replay sees.
target_link_libraries(${lowtide_target} PRIVATE lowtide_verify_testing)

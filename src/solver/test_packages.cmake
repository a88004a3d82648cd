# Files are read back by CBC's own readers.
target_include_directories(${lowtide_target} SYSTEM PRIVATE ${CBC_INCLUDE_DIR} ${CBC_INCLUDE_DIR}/coin)

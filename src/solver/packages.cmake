# Clp, COIN-OR's linear programs, by its C interface.
find_path(CLP_INCLUDE_DIR coin/Clp_C_Interface.h REQUIRED)
find_library(CLP_LIBRARY Clp REQUIRED)
target_include_directories(${lowtide_target} SYSTEM PRIVATE ${CLP_INCLUDE_DIR})
target_link_libraries(${lowtide_target} PRIVATE ${CLP_LIBRARY})

# COIN-OR's solvers: Clp for linear programs, by its C interface; CBC for integer ones, which is built on it. HiGHS is
# not here: its library is looked for when it is wanted (highs_library.h).
find_path(COIN_INCLUDE_DIR coin/Clp_C_Interface.h REQUIRED)
find_path(CBC_INCLUDE_DIR coin/CbcSolver.hpp REQUIRED)
target_include_directories(${lowtide_target} SYSTEM PRIVATE ${COIN_INCLUDE_DIR} ${CBC_INCLUDE_DIR}/coin)
foreach(coin_library CbcSolver Cbc OsiClp Clp Osi CoinUtils)
  find_library(COIN_${coin_library}_LIBRARY ${coin_library} REQUIRED)
  target_link_libraries(${lowtide_target} PRIVATE ${COIN_${coin_library}_LIBRARY})
endforeach()
target_link_libraries(${lowtide_target} PRIVATE ${CMAKE_DL_LIBS})

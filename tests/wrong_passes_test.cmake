# rewrite::order_sums and fission::expand are support/wrong_passes.cc here.
set(order_sums _ZN7lowtide7rewrite10order_sumsERKNS_2ir5GraphERKSt6vectorINS_8analysis3SumESaIS7_EE)
set(expand _ZN7lowtide7fission6expandERKNS_2ir5GraphERKSt6vectorINS_8IdVectorINS_2IdINS1_5OpTagEEESt8optionalINS0_3CutEEEESaISD_EENS0_7WindowsE)
target_sources(${lowtide_target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/wrong_passes.cc)
target_link_libraries(${lowtide_target} PRIVATE lowtide_api lowtide_fission)
target_link_options(${lowtide_target} PRIVATE -Wl,--wrap=${order_sums} -Wl,--wrap=${expand})

find_package(PkgConfig REQUIRED)
pkg_check_modules(cairo REQUIRED IMPORTED_TARGET GLOBAL cairo)
target_link_libraries(${lowtide_target} PRIVATE PkgConfig::cairo)

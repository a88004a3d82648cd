find_package(nlohmann_json REQUIRED)
target_link_libraries(${lowtide_target} PRIVATE nlohmann_json::nlohmann_json)
include(report_page)
lowtide_report_page(${lowtide_target})

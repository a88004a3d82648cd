target_link_libraries(${lowtide_target} PRIVATE lowtide_report_data nlohmann_json::nlohmann_json)

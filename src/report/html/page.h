// A report as one HTML file that opens anywhere without a network: the page of web/, bundled into
// one file and built into this library, with the report's data in it.
//
// The data stands in a script element of type application/json, which nothing runs. Every '<' in it
// is written as \u003c, so that no name in a plan, whatever it is, can end that element.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lowtide::report {

// Where the data goes in the bundled page; it stands there once.
inline constexpr std::string_view kDataMark = "@LOWTIDE_REPORT@";

// The bundled page; empty where it was not built (there was no npm: cmake/report_page.cmake).
std::string_view bundled_page();

// Error: kUsage, where there is no page, with how to build it; kInternal, where the page does not
// have the mark once.
Result<std::string> html_report(const nlohmann::ordered_json& data, std::string_view page);

}  // namespace lowtide::report

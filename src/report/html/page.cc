#include "report/html/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string without_tags(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

}  // namespace

Result<std::string> html_report(const OrderedJson& data, std::string_view page) {
  if (page.empty())
    return error(ErrorCode::kUsage,
                 "this lowtide was built without the page of HTML reports (npm was missing, or "
                 "could not bundle it): install nodejs and npm (scripts/setup does), configure "
                 "with -DLOWTIDE_REPORT_PAGE=ON and build again; --json and --trace need no page");
  const size_t at = page.find(kDataMark);
  if (at == std::string_view::npos || page.find(kDataMark, at + 1) != std::string_view::npos)
    return error(ErrorCode::kInternal,
                 fmt::format("the page of HTML reports does not have {} once", kDataMark));
  const std::string json =
      without_tags(data.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  std::string html;
  html.reserve(page.size() + json.size());
  html += page.substr(0, at);
  html += json;
  html += page.substr(at + kDataMark.size());
  return html;
}

}  // namespace lowtide::report

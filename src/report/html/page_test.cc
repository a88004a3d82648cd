// That the data reaches the page as it is, and that no name in it can become a part of the page.
#include "report/html/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lowtide::report {
namespace {

constexpr std::string_view kPage =
    "<html><script type=\"application/json\" id=\"lowtide-report\">@LOWTIDE_REPORT@</script>"
    "</html>\n";

// What stands between the script's tags.
std::string data_of(const std::string& html) {
  const std::string open = "id=\"lowtide-report\">";
  const size_t begin = html.find(open) + open.size();
  return html.substr(begin, html.find("</script>", begin) - begin);
}

TEST(Page, HoldsTheDataAndNothingElseChanges) {
  const nlohmann::ordered_json data = {{"b", 1}, {"a", {1.5, "two", nullptr}}};
  const auto html = html_report(data, kPage);
  ASSERT_TRUE(html);
  EXPECT_EQ(data_of(*html), R"({"b":1,"a":[1.5,"two",null]})");
  EXPECT_EQ(html->size(), kPage.size() - kDataMark.size() + data_of(*html).size());
  EXPECT_TRUE(html->starts_with(kPage.substr(0, kPage.find(kDataMark))));
}

TEST(Page, NamesWithTagsStayNames) {
  const std::string name = "</script><script>alert('x')</script><!-- \xE2\x80\xA8 &amp; \\ \"";
  const auto html = html_report({{"name", name}}, kPage);
  ASSERT_TRUE(html);
  EXPECT_EQ(data_of(*html).find('<'), std::string::npos);
  EXPECT_EQ(html->find("<script>"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(data_of(*html))["name"], name);
}

TEST(Page, BytesThatAreNoTextAreReplaced) {
  const auto html = html_report({{"name",
                                  "a\xFF"
                                  "b"}},
                                kPage);
  ASSERT_TRUE(html);
  EXPECT_EQ(nlohmann::json::parse(data_of(*html))["name"],
            "a\xEF\xBF\xBD"
            "b");
}

TEST(Page, WithoutABundleSaysHowToBuildIt) {
  const auto html = html_report({}, "");
  ASSERT_FALSE(html);
  EXPECT_EQ(html.error().code, ErrorCode::kUsage);
  EXPECT_NE(html.error().message.find("nodejs and npm"), std::string::npos);
}

TEST(Page, APageWithoutTheMarkOrWithTwoIsABug) {
  for (const char* page : {"<html></html>", "@LOWTIDE_REPORT@ @LOWTIDE_REPORT@"}) {
    const auto html = html_report({}, page);
    ASSERT_FALSE(html) << page;
    EXPECT_EQ(html.error().code, ErrorCode::kInternal);
  }
}

// The bundle that this library was built with, if there is one.
TEST(Page, TheBundledPageTakesData) {
  if (bundled_page().empty()) GTEST_SKIP() << "built without npm";
  const auto html = html_report({{"format", "lowtide-report"}}, bundled_page());
  ASSERT_TRUE(html) << html.error().message;
  EXPECT_EQ(data_of(*html), R"({"format":"lowtide-report"})");
}

}  // namespace
}  // namespace lowtide::report

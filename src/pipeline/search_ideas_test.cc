// The ideas of a plan's searches by name: each has a switch of its own, and none is without. What
// they decide: tests/label_ideas_test.cc, tests/nested_parts_test.cc and src/remat/ideas_test.cc.
#include "pipeline/search_ideas.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "pipeline/optimize.h"

namespace lowtide::pipeline {
namespace {

auto switches_of(const OptimizeOptions& options) {
  const auto& [forecast, waist, more_cuts, windows] = options.ideas;
  return std::tie(forecast, waist, more_cuts, windows, options.schedule.remat.de_remat,
                  options.schedule.swap.de_swap);
}

TEST(SearchIdeas, TheListHasEverySwitch) {
  OptimizeOptions all, none;
  for (const SearchIdea& idea : search_ideas()) {
    EXPECT_TRUE(idea.of(all)) << idea.name;
    EXPECT_TRUE(idea.of(none)) << idea.name << " and another one are one switch";
    ASSERT_TRUE(do_without({std::string(idea.name)}, none).has_value());
    EXPECT_FALSE(idea.of(none)) << idea.name;
  }
  EXPECT_EQ(switches_of(none), std::tuple(false, false, false, false, false, false));
}

TEST(SearchIdeas, AnUnknownOneIsAnErrorOfUse) {
  OptimizeOptions options;
  const auto refused = do_without({"waist", "hope"}, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_EQ(
      refused.error().message,
      "--without: there is no idea 'hope' of the searches (known: forecast, waist, more-cuts, "
      "windows, de-remat, de-swap; `lowtide remat --help` lists those of bare problems)");
}

}  // namespace
}  // namespace lowtide::pipeline

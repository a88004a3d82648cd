#include "pipeline/search_ideas.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/optimize.h"

namespace lowtide::pipeline {
namespace {

constexpr SearchIdea kSearchIdeas[] = {
    {"forecast", [](OptimizeOptions& o) -> bool& { return o.ideas.forecast; }},
    {"waist", [](OptimizeOptions& o) -> bool& { return o.ideas.waist; }},
    {"more-cuts", [](OptimizeOptions& o) -> bool& { return o.ideas.more_cuts; }},
    {"windows", [](OptimizeOptions& o) -> bool& { return o.ideas.windows; }},
    {"de-remat", [](OptimizeOptions& o) -> bool& { return o.schedule.remat.de_remat; }},
    {"de-swap", [](OptimizeOptions& o) -> bool& { return o.schedule.swap.de_swap; }}};

}  // namespace

std::span<const SearchIdea> search_ideas() {
  return kSearchIdeas;
}

Status do_without(const std::vector<std::string>& names, OptimizeOptions& options) {
  for (const std::string& name : names) {
    const auto named = std::find_if(std::begin(kSearchIdeas), std::end(kSearchIdeas),
                                    [&](const SearchIdea& idea) { return idea.name == name; });
    if (named == std::end(kSearchIdeas)) {
      std::string known;
      for (const SearchIdea& idea : kSearchIdeas)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", idea.name);
      return error(
          ErrorCode::kUsage,
          fmt::format("--without: there is no idea '{}' of the searches (known: {}; `lowtide remat "
                      "--help` lists those of bare problems)",
                      name, known));
    }
    named->of(options) = false;
  }
  return {};
}

}  // namespace lowtide::pipeline

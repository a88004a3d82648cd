// Ideas of the searches of a plan, each to be left out to see what it is worth: `lowtide plan
// --without NAME`. Those of steps in parts (split.h) are switches here, MAGIS's inverse
// transformations (section 5.2) switches of the search under a budget. The other ideas of that one
// are left out of bare problems (remat/ideas.h). None makes a plan wrong.
//
// Tests: search_ideas_test.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide::pipeline {

struct OptimizeOptions;

struct SplitIdeas {
  // Labels wait to be judged by what the prices of their parent's cut forecast of them; off: by
  // what is known of the parent.
  bool forecast = true;
  // The order that a state inherits is scheduled anew around its peak; off: it stays as it is.
  bool waist = true;
  // Cuts along axes of other classes than that of the labels are tried (more_cuts.h).
  bool more_cuts = true;
  // What a part reads of several pieces may be a copy of as much as it needs of them, where wholes
  // miss the budget; off: a slice of the whole (fission::Windows).
  bool windows = true;
  bool operator==(const SplitIdeas&) const = default;
};

struct SearchIdea {
  std::string_view name;
  bool& (*of)(OptimizeOptions& options);  // its switch
};

std::span<const SearchIdea> search_ideas();

// Error: kUsage, naming a name that is no idea's.
Status do_without(const std::vector<std::string>& names, OptimizeOptions& options);

}  // namespace lowtide::pipeline

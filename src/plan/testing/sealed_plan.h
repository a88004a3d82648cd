// Plan files edited by hand, with a checksum that fits: what lies behind the checksum can be tested
// and fuzzed so.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan_words.h"

namespace lowtide::plan {

// The same text with the checksum that belongs to it, in place of the one at its end or added
// there.
inline std::string seal_plan_text(std::string_view text) {
  if (ends_in_checksum(text)) text.remove_suffix(kTailSize);
  std::string sealed(text);
  return sealed.append(kTailStart).append(plan_checksum(text)).append(kTailEnd);
}

}  // namespace lowtide::plan

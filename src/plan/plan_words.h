// The words and the checksum that the plan's printer and reader share. Schema: docs/formats.md,
// section "Plan".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowtide::plan {

inline constexpr std::string_view kPlanFormat = "lowtide-plan";
inline constexpr std::array<std::string_view, 3> kAliasWords = {"own", "view", "update"};
inline constexpr std::array<std::string_view, 5> kInitialWords = {"fed", "seeded", "zero", "inline",
                                                                  "external"};
inline constexpr std::array<std::string_view, 5> kStepWords = {"compute", "free", "store", "load",
                                                               "wait"};

// The end of every plan file: kTailStart, 16 lower-case hexadecimal digits, kTailEnd.
inline constexpr std::string_view kTailStart = "\"checksum\": \"";
inline constexpr std::string_view kTailEnd = "\"\n}\n";
inline constexpr size_t kTailSize = kTailStart.size() + 16 + kTailEnd.size();

// Whether the text ends in the form of a checksum member; its digits may be wrong.
bool ends_in_checksum(std::string_view text);

// The digits for the text that comes before kTailStart.
std::string plan_checksum(std::string_view before);

}  // namespace lowtide::plan

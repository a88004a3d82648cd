// The words and the checksum that the plan's printer and reader share. Schema: docs/formats.md,
// section "Plan".
//
// Tests: plan_text_test.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowtide::plan {

inline constexpr std::string_view kPlanFormat = "lowtide-plan";
inline constexpr std::array<std::string_view, 4> kAliasWords = {"own", "view", "update", "pieces"};
inline constexpr std::array<std::string_view, 5> kInitialWords = {"fed", "seeded", "zero", "inline",
                                                                  "external"};
inline constexpr std::array<std::string_view, 5> kStepWords = {"compute", "free", "store", "load",
                                                               "wait"};
inline constexpr std::array<std::string_view, 3> kProofVariableWords = {"runs", "stays",
                                                                        "runs_later"};
inline constexpr std::array<std::string_view, 7> kProofRowWords = {
    "capacity", "need", "keep", "once", "later_need", "later_run", "later_first"};

// What names a row of a proof of this kind, beside the cut.
struct ProofFields {
  bool op = false, storage = false, divisor = false;
  size_t numbers() const { return size_t{2} + op + storage + divisor; }  // cut and value included
};
inline constexpr std::array<ProofFields, 7> kProofFields = {{{.divisor = true},
                                                             {.op = true, .storage = true},
                                                             {.storage = true},
                                                             {.op = true},
                                                             {.op = true, .storage = true},
                                                             {.op = true},
                                                             {.op = true}}};

// The end of every plan file: kTailStart, 16 lower-case hexadecimal digits, kTailEnd.
inline constexpr std::string_view kTailStart = "\"checksum\": \"";
inline constexpr std::string_view kTailEnd = "\"\n}\n";
inline constexpr size_t kTailSize = kTailStart.size() + 16 + kTailEnd.size();

// Whether the text ends in the form of a checksum member; its digits may be wrong.
bool ends_in_checksum(std::string_view text);

// The digits for the text that comes before kTailStart.
std::string plan_checksum(std::string_view before);

}  // namespace lowtide::plan

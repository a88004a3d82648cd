#include "pipeline/label_mutations.h"

#include <fmt/format.h>

#include <algorithm>

namespace lowtide::pipeline {
namespace {

constexpr LabelMutation kMutations[] = {{"outer", &LabelMutations::outer},
                                        {"enable", &LabelMutations::enable},
                                        {"disable", &LabelMutations::disable},
                                        {"lift", &LabelMutations::lift},
                                        {"mutate", &LabelMutations::mutate}};

}  // namespace

std::span<const LabelMutation> label_mutations() {
  return kMutations;
}

Result<LabelMutations> mutations_without(const std::vector<std::string>& names) {
  LabelMutations left;
  for (const std::string& name : names) {
    const auto named =
        std::find_if(std::begin(kMutations), std::end(kMutations),
                     [&](const LabelMutation& mutation) { return mutation.name == name; });
    if (named == std::end(kMutations)) {
      std::string known;
      for (const LabelMutation& mutation : kMutations)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", mutation.name);
      return error(ErrorCode::kUsage,
                   fmt::format("--no-mutation: there is no mutation of labels '{}' (known: {})",
                               name, known));
    }
    left.*(named->member) = false;
  }
  return left;
}

}  // namespace lowtide::pipeline

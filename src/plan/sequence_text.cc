#include "plan/sequence_text.h"

#include <fmt/format.h>

#include <iterator>

namespace lowtide::plan {
namespace {

using Kind = SchedAction::Kind;

constexpr std::string_view word_of(Kind kind) {
  switch (kind) {
    case Kind::kRun:
      return "";
    case Kind::kStore:
      return "store:";
    case Kind::kDrop:
      return "drop:";
    case Kind::kLoad:
      return "load:";
  }
  return "";
}

}  // namespace

std::string print(std::span<const SchedAction> sequence) {
  std::string out;
  const auto put = std::back_inserter(out);
  for (const SchedAction& action : sequence) {
    if (!out.empty()) out += ' ';
    out += word_of(action.kind);
    if (action.kind == Kind::kRun) {
      fmt::format_to(put, "{}", action.op.index());
    } else if (action.value.valid()) {
      fmt::format_to(put, "{}", action.value.index());
    } else {
      fmt::format_to(put, "r{}", action.resident.index());
    }
    if (action.kind != Kind::kRun && action.tier > 0) fmt::format_to(put, "@{}", action.tier);
  }
  return out;
}

}  // namespace lowtide::plan

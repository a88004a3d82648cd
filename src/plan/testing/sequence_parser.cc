#include "plan/testing/sequence_parser.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "plan/schedule_scanner.h"

namespace lowtide::plan {
namespace {

using Kind = SchedAction::Kind;

constexpr std::pair<std::string_view, Kind> kMoves[] = {
    {"store:", Kind::kStore}, {"drop:", Kind::kDrop}, {"load:", Kind::kLoad}};

std::optional<size_t> index_of(std::string_view digits) {
  int64_t index = -1;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (code != std::errc() || end != digits.data() + digits.size() || index < 0 ||
      index > kMostIndex)
    return {};
  return static_cast<size_t>(index);
}

// Takes "@1" off the end of a move.
bool take_tier(std::string_view& word, uint8_t& tier) {
  const size_t at = word.find('@');
  if (at == std::string_view::npos) return true;
  const auto index = index_of(word.substr(at + 1));
  if (!index || *index > std::numeric_limits<uint8_t>::max()) return false;
  tier = static_cast<uint8_t>(*index);
  word = word.substr(0, at);
  return true;
}

std::optional<SchedAction> action_of(std::string_view word) {
  SchedAction action;
  for (const auto& [begins, kind] : kMoves) {
    if (!word.starts_with(begins)) continue;
    action.kind = kind;
    word.remove_prefix(begins.size());
    break;
  }
  if (action.kind != Kind::kRun && !take_tier(word, action.tier)) return {};
  const bool is_resident = action.kind != Kind::kRun && word.starts_with('r');
  if (is_resident) word.remove_prefix(1);
  const auto index = index_of(word);
  if (!index) return {};
  if (is_resident) {
    action.resident = SchedResidentId(*index);
  } else if (action.kind == Kind::kRun) {
    action.op = SchedOpId(*index);
  } else {
    action.value = SchedValueId(*index);
  }
  return action;
}

}  // namespace

Result<std::vector<SchedAction>> parse_sequence(std::string_view text, std::string_view origin) {
  ScheduleScanner scanner(text, origin);
  std::vector<SchedAction> sequence;
  while (scanner.next_line())
    while (!scanner.at_line_end()) {
      const std::string_view word = scanner.word();
      const auto action = action_of(word);
      if (!action)
        return scanner.bad(fmt::format(
            "'{}' is no action; actions are an op number, store:3, drop:3, load:3, or store:r1, "
            "drop:r1, load:r1 of a resident",
            ScheduleScanner::shown(word)));
      sequence.push_back(*action);
    }
  return sequence;
}

}  // namespace lowtide::plan

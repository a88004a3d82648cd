#include "tools/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace lowtide::tools {
namespace {

// The number that is the whole text.
template <class T>
bool parse_whole_text(const std::string& text, T& number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

}  // namespace

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  const std::string range = most >= kMostWhole
                                ? fmt::format("a whole number of at least {}", least)
                                : fmt::format("a whole number from {} to {}", least, most);
  const auto check = [least, most, range](std::string& text) -> std::string {
    uint64_t number = 0;
    if (parse_whole_text(text, number) && number >= least && number <= most) return {};
    return fmt::format("'{}' is not {}", text, range);
  };
  return CLI::Validator(check, "");
}

CLI::Validator any_whole_number() {
  const auto check = [](std::string& text) -> std::string {
    int64_t number = 0;
    if (parse_whole_text(text, number)) return {};
    return fmt::format("'{}' is not a whole number", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator real_number(const RealRange& range) {
  std::string words =
      fmt::format("a number {} {}", range.above ? "above" : "of at least", range.least);
  if (std::isfinite(range.below)) words += fmt::format(" and below {}", range.below);
  const auto check = [range, words](std::string& text) -> std::string {
    double number = 0;
    if (parse_whole_text(text, number) && std::isfinite(number) &&
        (range.above ? number > range.least : number >= range.least) && number < range.below)
      return {};
    return fmt::format("'{}' is not {}", text, words);
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return {};
    return fmt::format("'{}' is not known; known are {}", text, fmt::join(words, ", "));
  };
  return CLI::Validator(check, "");
}

CLI::Validator file_name() {
  const auto check = [](std::string& text) -> std::string {
    return text.empty() ? "an empty name was given; the name of a file or folder is needed" : "";
  };
  return CLI::Validator(check, "");
}

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string usage_line(const CLI::App& app, const CLI::ParseError& failure) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const std::vector<std::string> left = app.remaining(true);
  const std::string command = given.empty() ? "" : given.front()->get_name();
  const std::string in_command = command.empty() ? "" : command + ": ";
  const std::string help =
      fmt::format("`lowtide {}{}--help` lists them", command, command.empty() ? "" : " ");
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&failure) != nullptr;
  if (missing || dynamic_cast<const CLI::ExtrasError*>(&failure) != nullptr) {
    const auto flag = std::find_if(left.begin(), left.end(), [](const std::string& text) {
      return text.size() > 1 && text.starts_with('-');
    });
    if (flag != left.end())
      return fmt::format("{}there is no flag '{}'; {}", in_command, *flag, help);
    if (command.empty()) {
      const std::string known = fmt::format("{}", fmt::join(command_names(app), ", "));
      return left.empty()
                 ? fmt::format("a command is needed: one of {}", known)
                 : fmt::format("there is no command '{}'; known are {}", left.front(), known);
    }
    if (!missing && !left.empty())
      return fmt::format("{}'{}' is one argument too many; {}", in_command, left.front(), help);
    return fmt::format("{}{}; {}", in_command, failure.what(), help);
  }
  return in_command + failure.what();
}

}  // namespace lowtide::tools

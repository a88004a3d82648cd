// What the commands share: checks of flags that say in one line what is right, and the one way in
// which text gets out.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide::tools {

inline constexpr uint64_t kMostWhole = std::numeric_limits<int64_t>::max();
inline constexpr uint64_t kMostThreads = 1024;

// Of --max-units, everywhere.
inline constexpr const char* kMaxUnitsHelp = "limit of work, in units of about 5 ns of one core";

// Validators see a flag's text before it is converted; the flag's name goes in front of what they
// say.
CLI::Validator whole_number(uint64_t least, uint64_t most = kMostWhole);
CLI::Validator any_whole_number();  // negative ones, too

struct RealRange {
  double least = 0;
  bool above = false;  // `least` itself is not allowed
  double below = std::numeric_limits<double>::infinity();
};
CLI::Validator real_number(const RealRange& range);
CLI::Validator one_of(std::vector<std::string> words);
CLI::Validator file_name();  // not empty

// Writes to stdout; main.cc notices at the end when that failed.
void put(std::string_view text);

// The line for arguments that could not be parsed: names the flag, argument or command.
std::string usage_line(const CLI::App& app, const CLI::ParseError& failure);

}  // namespace lowtide::tools

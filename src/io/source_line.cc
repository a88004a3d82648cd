#include "io/source_line.h"

#include <algorithm>
#include <optional>

namespace lowtide::io {
namespace {

struct Call {
  std::string_view path, line;
};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// File "PATH", line N, in NAME
std::optional<Call> python_call(std::string_view text) {
  constexpr std::string_view kStart = "File \"", kMiddle = "\", line ";
  const size_t start = text.find_first_not_of(' ');
  if (start == std::string_view::npos || !text.substr(start).starts_with(kStart))
    return std::nullopt;
  text.remove_prefix(start + kStart.size());
  const size_t middle = text.rfind(kMiddle);
  if (middle == std::string_view::npos) return std::nullopt;
  std::string_view line = text.substr(middle + kMiddle.size());
  line = line.substr(0, line.find(','));
  if (middle == 0 || !is_number(line)) return std::nullopt;
  return Call{text.substr(0, middle), line};
}

// PATH(N): NAME
std::optional<Call> script_call(std::string_view text) {
  const size_t end = text.find("): ");
  if (end == std::string_view::npos) return std::nullopt;
  const size_t begin = text.substr(0, end).rfind('(');
  if (begin == std::string_view::npos || begin == 0) return std::nullopt;
  const std::string_view line = text.substr(begin + 1, end - begin - 1);
  if (!is_number(line)) return std::nullopt;
  return Call{text.substr(0, begin), line};
}

// What lies below the folder of packages; of other files the last folder and the file.
std::string_view end_of(std::string_view path) {
  for (const std::string_view packages : {"site-packages/", "dist-packages/"})
    if (const size_t at = path.rfind(packages); at != std::string_view::npos)
      return path.substr(at + packages.size());
  const size_t file = path.rfind('/');
  if (file == std::string_view::npos || file == 0) return path.substr(file == 0 ? 1 : 0);
  const size_t folder = path.rfind('/', file - 1);
  return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

}  // namespace

std::string source_line(std::string_view stack_trace) {
  std::optional<Call> innermost, own;
  while (!stack_trace.empty()) {
    const std::string_view text = stack_trace.substr(0, stack_trace.find('\n'));
    stack_trace.remove_prefix(std::min(text.size() + 1, stack_trace.size()));
    const auto python = python_call(text);
    const auto call = python ? python : script_call(text);
    if (!call) continue;
    const bool later_is_deeper = python.has_value();
    if (later_is_deeper || !innermost) innermost = call;
    if (!end_of(call->path).starts_with("torch/") && (later_is_deeper || !own)) own = call;
  }
  const std::optional<Call> told = own ? own : innermost;
  if (!told) return {};
  return std::string(end_of(told->path)).append(":").append(told->line);
}

}  // namespace lowtide::io

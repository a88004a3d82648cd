#include "io/graph_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "io/graph_admission.h"
#include "io/graph_json.h"
#include "ir/graph_text.h"

namespace lowtide::io {
namespace {

// The line that declares a value, from 1: ids are given in the order of the `given` and `out`
// lines.
size_t line_of(std::string_view text, ir::ValueId id) {
  size_t declared = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const bool declares = line.starts_with("given ") || line.starts_with("out ");
    if (declares && declared++ == id.index()) return number;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return 0;
}

// JSON begins with a brace, text with the word "graph".
bool is_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace

Result<ir::Graph> read_graph_text(std::string_view text, const std::string& origin,
                                  const sym::Bindings& bindings) {
  if (is_json(text)) return read_graph_json(text, origin, bindings);
  LT_ASSIGN(const ir::Graph graph, ir::parse_graph(text, origin));
  // A claim is refused at its line; what an op says of itself names the op.
  const GraphPlaces places = {
      .of_value = [&](ir::ValueId id) { return fmt::format("{}", line_of(text, id)); },
      .of_op = [](ir::OpId) { return std::string(); }};
  return admit_graph(graph, origin, bindings, places);
}

Result<ir::Graph> read_graph_file(const std::string& path, const sym::Bindings& bindings) {
  LT_ASSIGN(const std::string text, read_file(path));
  return read_graph_text(text, path, bindings);
}

bool is_graph_path(std::string_view path) {
  return path.ends_with(".graph") || path.ends_with(".json");
}

}  // namespace lowtide::io

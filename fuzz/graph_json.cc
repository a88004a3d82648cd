// The JSON form of graphs, as such and through the door that holds it against the op table: what is
// accepted round-trips.
#include "io/graph_json.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto graph = lowtide::io::parse_graph_json(text, "fuzz")) {
    const std::string printed = lowtide::io::print_graph_json(*graph);
    const auto again = lowtide::io::parse_graph_json(printed, "again");
    LT_CHECK(again.has_value() && *again == *graph, "print and parse give the graph back");
    LT_CHECK(lowtide::io::print_graph_json(*again) == printed, "the same graph, the same bytes");
  }
  if (const auto graph = lowtide::io::read_graph_json(text, "fuzz")) {
    const std::string printed = lowtide::io::print_graph_json(*graph);
    const auto again = lowtide::io::read_graph_json(printed, "again");
    LT_CHECK(again.has_value() && *again == *graph, "the door takes what it gave");
  }
  return 0;
}

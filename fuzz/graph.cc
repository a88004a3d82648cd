// The text form of graphs, as such and through the door that holds it against the op table:
// whatever is accepted round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "io/graph_file.h"
#include "ir/graph_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto graph = lowtide::ir::parse_graph(text, "fuzz")) {
    const auto again = lowtide::ir::parse_graph(lowtide::ir::print(*graph), "again");
    LT_CHECK(again.has_value() && *again == *graph, "print and parse give the graph back");
  }
  if (const auto graph = lowtide::io::read_graph_text(text, "fuzz")) {
    const auto again = lowtide::io::read_graph_text(lowtide::ir::print(*graph), "again");
    LT_CHECK(again.has_value() && *again == *graph, "the door takes what it gave");
  }
  return 0;
}

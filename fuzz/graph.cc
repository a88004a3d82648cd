// The text form of graphs: whatever is accepted round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "ir/graph_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto graph = lowtide::ir::parse_graph(text, "fuzz")) {
    const auto again = lowtide::ir::parse_graph(lowtide::ir::print(*graph), "again");
    LT_CHECK(again.has_value() && *again == *graph, "print and parse give the graph back");
  }
  return 0;
}

// The JSON members of a .pt2 archive: the program (PyTorch's export schema, major 8) and the lists
// of its weights and constants. What messages name is the path in the document:
// "m.pt2: models/m.json: graph_module.graph.nodes[3].target".
//
// Tests: pt2_reader_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/pt2_model.h"

namespace lowtide::io {

// Adds what the document says to `program`. Error: kInput, naming `origin` and the path.
Status read_program_json(const nlohmann::json& document, const std::string& origin,
                         Pt2Program& program);
// Of a list of weights, whose members lie in `folder` of the archive.
Status read_weights_json(const nlohmann::json& document, const std::string& origin,
                         std::string_view folder, Pt2Program& program);

}  // namespace lowtide::io

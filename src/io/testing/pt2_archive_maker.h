// Small exported programs written by hand, as zip archives in memory, for tests of the door.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lowtide::io {

// A zip archive of these members, in their order, below the folder "m"; stored as PyTorch does, or
// deflated.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members,
                   bool deflated = false);

// One program, put together from the parts of its JSON.
struct Pt2Maker {
  std::string schema = R"({"major": 8, "minor": 20})";
  std::string nodes;                                            // a list's entries
  std::string tensors;                                          // members of tensor_values
  std::string sizes;                                            // members of sym_int_values
  std::string inputs;                                           // input_specs
  std::string outputs;                                          // output_specs
  std::string ranges;                                           // members of range_constraints
  std::string weights;                                          // members of the weights' config
  std::vector<std::pair<std::string, std::string>> files = {};  // other members of the archive

  std::string json() const;
  std::string bytes(bool deflated = false) const;
};

// {"dtype": .., "sizes": [..], ..} of a tensor that lies row-major; dims are numbers or expressions
// of sympy's.
std::string pt2_meta(const std::vector<std::string>& dims, int dtype = 7, bool trained = false);
// "name": {...} of a tensor.
std::string pt2_tensor(const std::string& name, const std::vector<std::string>& dims, int dtype = 7,
                       bool trained = false);
// A node; arguments are pairs of a name and an Argument in JSON.
std::string pt2_node(const std::string& target,
                     const std::vector<std::pair<std::string, std::string>>& arguments,
                     const std::vector<std::string>& outputs);
std::string as_tensor(const std::string& name);
std::string pt2_fed(const std::string& name);
std::string pt2_parameter(const std::string& name, const std::string& path);
std::string pt2_result(const std::string& name);
std::string pt2_weight(const std::string& path, const std::string& member,
                       const std::vector<std::string>& dims, int dtype = 7, bool pickled = false);

}  // namespace lowtide::io

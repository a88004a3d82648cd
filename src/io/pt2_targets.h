// What the names of PyTorch's ops say, beside what the ATen table knows of them (aten_call.h).
//
// Tests: pt2_reader_test.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowtide::io {

// "slice" of "aten.slice.Tensor".
std::string_view base_name(std::string_view target);

// "aten.relu.default" of "aten.relu_.default"; none: it does not write in place.
std::optional<std::string> written_apart(std::string_view target);

// Whether results may show the memory of the first operand.
bool may_show_operand(std::string_view target);
// Whether it computes sizes, or holds them against what was assumed.
bool is_passed_over(std::string_view target);
bool draws_at_random(std::string_view target);

}  // namespace lowtide::io

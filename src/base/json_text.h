// How our JSON files write strings, reals and bytes: the same in plans and in graphs, so that what
// is written reads back as the same bits.
//
// Strings are UTF-8, with control characters as \uHHHH. Reals always have a point or an exponent
// and as many digits as bring the same bits back; what JSON has no digits for is an object,
// {"real": "inf"}. Bytes are base64 (RFC 4648, padded, without line ends).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowtide {

// Length of the UTF-8 character at the start of `text`; 0 where there is none (overlong forms and
// surrogates are none).
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// In quotes. What is not UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
void append_json_real(std::string& out, double value);

std::string to_base64(std::string_view bytes);
// None where `text` is no base64, or has bits set behind its last byte.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lowtide

#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace lowtide {
namespace {

uint32_t byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Length of the UTF-8 character at `at` with its code point, or 0 where there is none.
size_t decode(std::string_view text, size_t at, uint32_t& code) {
  const uint32_t first = byte_at(text, at);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  code = length < 2 ? first : first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const uint32_t next = byte_at(text, at + i);
    if ((next & 0xC0) != 0x80) return 0;
    code = code << 6 | (next & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

bool steers(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

void append_escaped(std::string& out, std::string_view bytes) {
  for (char c : bytes) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else
      fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<unsigned char>(c));
  }
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t length = decode(text, at, code);
    const std::string_view bytes = text.substr(at, length == 0 ? 1 : length);
    if (length == 0 || steers(code))
      append_escaped(out, bytes);
    else
      out += bytes;
    at += bytes.size();
  }
  return out;
}

// The first character at or after `at` that does not continue another one.
size_t character_start(std::string_view text, size_t at) {
  while (at < text.size() && (byte_at(text, at) & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  if (text.size() <= most) return escaped(text);
  const size_t head = character_start(text, most - most / 3);
  const size_t tail = character_start(text, text.size() - most / 3);
  if (head >= tail) return escaped(text);
  return fmt::format("{} ... {} bytes left out ... {}", escaped(text.substr(0, head)), tail - head,
                     escaped(text.substr(tail)));
}

}  // namespace lowtide

// What readers of JSON (plans: plan_read.cc; graphs and exported programs: src/io) take single
// members of a document with: each is checked for type and range, and a message gives the path of
// the member, such as ops[12].attrs.axis.
//
// Tests: plan_text_test.cc.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide::plan {

using Json = nlohmann::json;

// A place in the document. Lives on the stack of the reader; the path is put together only for a
// message.
struct Place {
  const Json* json = nullptr;
  const Place* parent = nullptr;
  std::string_view key;  // in an object, or
  size_t index = 0;      // in an array

  std::string path() const;
};

struct JsonLimits {
  size_t bytes = size_t{1} << 30;
  size_t depth = 64;  // of arrays and objects within each other
};

// Error: kInput, naming `origin`: no JSON, or beyond the limits.
Result<Json> parse_json(std::string_view text, std::string_view origin, const JsonLimits& limits);

class FieldReader {
 public:
  explicit FieldReader(std::string_view origin) : origin_(origin) {}

 protected:
  using ReadMember = std::function<Status(std::string_view key, const Place& member)>;
  using ReadEntry = std::function<Status(const Place& entry)>;

  tl::unexpected<Error> fail(const Place& place, std::string_view expected) const;
  Status unknown(const Place& member) const { return fail(member, "no member of this name"); }

  // Calls read(key, place) for every member. Error when one of `required` is absent or read answers
  // an unknown name.
  Status object(const Place& place, std::initializer_list<std::string_view> required,
                const ReadMember& read) const;
  Status array(const Place& place, const ReadEntry& read) const;

  Status integer(const Place& place, int64_t& out) const;
  Status integers(const Place& place, std::vector<int64_t>& out) const;
  Status size(const Place& place, int64_t& out) const;  // of bytes: 0 to 2^62
  Status index(const Place& place, int32_t& out) const;
  Status real(const Place& place, double& out) const;
  Status boolean(const Place& place, bool& out) const;
  Status text(const Place& place, std::string& out) const;
  Status bytes(const Place& place, std::string& out) const;  // from base64
  // A number of either form, or 'inf', '-inf' or 'nan': what stands in {"real": ...}.
  Status real_word(const Place& place, double& out) const;

  template <class IdType>
  Status id(const Place& place, IdType& out) const {
    uint32_t number = 0;
    LT_RETURN_IF_ERROR(id_number(place, number));
    out = IdType(number);
    return {};
  }
  template <class IdType>
  Status ids(const Place& place, std::vector<IdType>& out, bool may_be_absent = false) const {
    return array(place, [&](const Place& entry) -> Status {
      IdType value;
      if (!may_be_absent || !is_null(entry)) LT_RETURN_IF_ERROR(id(entry, value));
      out.push_back(value);
      return {};
    });
  }

  // One of the words of an enumeration that starts at 0 without holes.
  template <class Enum, size_t n>
  Status word(const Place& place, const std::array<std::string_view, n>& words, Enum& out) const {
    size_t index = 0;
    LT_RETURN_IF_ERROR(word_index(place, words, index));
    out = static_cast<Enum>(index);
    return {};
  }
  template <class Enum>
  Status word(const Place& place, std::optional<Enum> (*parse_word)(std::string_view), Enum& out,
              std::string_view what) const {
    const std::optional<std::string_view> word = string_at(place);
    const std::optional<Enum> parsed = word ? parse_word(*word) : std::nullopt;
    if (!parsed) return fail(place, what);
    out = *parsed;
    return {};
  }

  std::string_view origin_;

 private:
  static bool is_null(const Place& place);
  static std::optional<std::string_view> string_at(const Place& place);  // none: something else
  Status id_number(const Place& place, uint32_t& out) const;
  Status word_index(const Place& place, std::span<const std::string_view> words, size_t& out) const;
};

}  // namespace lowtide::plan

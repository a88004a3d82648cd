// What the reader of plans (plan_read.cc) takes single members of a JSON document with: each is
// checked for type and range, and a message gives the path of the member, such as
// ops[12].attrs.axis.
//
// Tests: plan_text_test.cc.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
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

  std::string path() const {  // NOLINT(misc-no-recursion): as deep as the form of a plan, six
    if (parent == nullptr) return "";
    const std::string above = parent->path();
    if (parent->json->is_array()) return fmt::format("{}[{}]", above, index);
    return above.empty() ? std::string(key) : fmt::format("{}.{}", above, key);
  }
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view origin) : origin_(origin) {}

 protected:
  tl::unexpected<Error> fail(const Place& place, std::string_view expected) const {
    const std::string path = place.path();
    return error(ErrorCode::kInput,
                 fmt::format("{}: {}: expected {}, found {}", origin_,
                             path.empty() ? "the file" : path, expected, found(*place.json)));
  }
  static std::string found(const Json& json) {
    if (json.is_number()) return json.dump();
    if (json.is_string())
      return fmt::format("'{}'", json.get_ref<const std::string&>().substr(0, 40));
    return json.type_name();
  }

  // Calls read(key, place) for every member. Error when one of `required` is absent or read answers
  // an unknown name.
  template <class Read>
  Status object(const Place& place, std::initializer_list<std::string_view> required,
                Read read) const {
    if (!place.json->is_object()) return fail(place, "an object");
    size_t needed = 0;
    for (const auto& [key, child] : place.json->items()) {
      const Place member{&child, &place, key, 0};
      LT_RETURN_IF_ERROR(read(std::string_view(key), member));
      for (std::string_view name : required) needed += name == key ? 1 : 0;
    }
    if (needed == required.size()) return {};
    for (std::string_view name : required)
      if (!place.json->contains(name)) return fail(place, fmt::format("a member '{}'", name));
    return {};
  }
  Status unknown(const Place& member) const { return fail(member, "no member of this name"); }

  template <class Read>
  Status array(const Place& place, Read read) const {
    if (!place.json->is_array()) return fail(place, "an array");
    size_t index = 0;
    for (const Json& child : *place.json)
      LT_RETURN_IF_ERROR(read(Place{&child, &place, {}, index++}));
    return {};
  }

  Status integer(const Place& place, int64_t& out) const {
    const Json& json = *place.json;
    const bool fits = json.is_number_unsigned()
                          ? json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                          : json.is_number_integer();
    if (!fits) return fail(place, "an integer of 64 bits");
    out = json.get<int64_t>();
    return {};
  }
  Status integers(const Place& place, std::vector<int64_t>& out) const {
    return array(place,
                 [&](const Place& entry) -> Status { return integer(entry, out.emplace_back()); });
  }
  Status size(const Place& place, int64_t& out) const {
    LT_RETURN_IF_ERROR(integer(place, out));
    if (out < 0 || out > kMaxBytes) return fail(place, "a size from 0 to 2^62");
    return {};
  }
  Status index(const Place& place, int32_t& out) const {
    int64_t number = 0;
    LT_RETURN_IF_ERROR(integer(place, number));
    if (number < 0 || number > std::numeric_limits<int32_t>::max()) return fail(place, "an index");
    out = static_cast<int32_t>(number);
    return {};
  }
  Status real(const Place& place, double& out) const {
    if (!place.json->is_number_float()) return fail(place, "a number with a point or an exponent");
    out = place.json->get<double>();
    return {};
  }
  Status boolean(const Place& place, bool& out) const {
    if (!place.json->is_boolean()) return fail(place, "true or false");
    out = place.json->get<bool>();
    return {};
  }
  Status text(const Place& place, std::string& out) const {
    if (!place.json->is_string()) return fail(place, "a string");
    out = place.json->get_ref<const std::string&>();
    return {};
  }

  template <class IdType>
  Status id(const Place& place, IdType& out) const {
    const Json& json = *place.json;
    if (!json.is_number_unsigned() || json.get<uint64_t>() >= std::numeric_limits<uint32_t>::max())
      return fail(place, "an id");
    out = IdType(json.get<uint32_t>());
    return {};
  }
  template <class IdType>
  Status ids(const Place& place, std::vector<IdType>& out, bool may_be_absent = false) const {
    return array(place, [&](const Place& entry) -> Status {
      IdType value;
      if (!may_be_absent || !entry.json->is_null()) LT_RETURN_IF_ERROR(id(entry, value));
      out.push_back(value);
      return {};
    });
  }

  // One of the words of an enumeration that starts at 0 without holes.
  template <class Enum, size_t n>
  Status word(const Place& place, const std::array<std::string_view, n>& words, Enum& out) const {
    for (size_t i = 0; place.json->is_string() && i < n; ++i) {
      if (place.json->get_ref<const std::string&>() != words[i]) continue;
      out = static_cast<Enum>(i);
      return {};
    }
    return fail(place, fmt::format("a word such as '{}'", words[0]));
  }
  template <class Enum>
  Status word(const Place& place, std::optional<Enum> (*parse_word)(std::string_view), Enum& out,
              std::string_view what) const {
    std::optional<Enum> parsed;
    if (place.json->is_string()) parsed = parse_word(place.json->get_ref<const std::string&>());
    if (!parsed) return fail(place, what);
    out = *parsed;
    return {};
  }

  std::string_view origin_;
};

}  // namespace lowtide::plan

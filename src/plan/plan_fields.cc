#include "plan/plan_fields.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/json_text.h"

namespace lowtide::plan {
namespace {

std::string found(const Json& json) {
  if (json.is_number()) return json.dump();
  if (json.is_string())
    return fmt::format("'{}'", json.get_ref<const std::string&>().substr(0, 40));
  return json.type_name();
}

// The most arrays and objects that are open at once.
size_t depth_of(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view origin, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return error(ErrorCode::kInput, fmt::format("{}: {} bytes of JSON; at most {} are read", origin,
                                                text.size(), limits.bytes));
  if (const size_t depth = depth_of(text); depth > limits.depth)
    return error(ErrorCode::kInput,
                 fmt::format("{}: no JSON that is read: arrays and objects {} deep, at most {} are "
                             "read",
                             origin, depth, limits.depth));
  try {
    return Json::parse(text);
  } catch (const Json::exception& problem) {
    std::string what = problem.what();
    for (char& c : what)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    return error(ErrorCode::kInput, fmt::format("{}: no JSON: {}", origin, what));
  }
}

std::string Place::path() const {  // NOLINT(misc-no-recursion): as deep as the form of a plan, six
  if (parent == nullptr) return "";
  const std::string above = parent->path();
  if (parent->json->is_array()) return fmt::format("{}[{}]", above, index);
  return above.empty() ? std::string(key) : fmt::format("{}.{}", above, key);
}

tl::unexpected<Error> FieldReader::fail(const Place& place, std::string_view expected) const {
  const std::string path = place.path();
  return error(ErrorCode::kInput,
               fmt::format("{}: {}: expected {}, found {}", origin_,
                           path.empty() ? "the file" : path, expected, found(*place.json)));
}

Status FieldReader::object(const Place& place, std::initializer_list<std::string_view> required,
                           const ReadMember& read) const {
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

Status FieldReader::array(const Place& place, const ReadEntry& read) const {
  if (!place.json->is_array()) return fail(place, "an array");
  size_t index = 0;
  for (const Json& child : *place.json)
    LT_RETURN_IF_ERROR(read(Place{&child, &place, {}, index++}));
  return {};
}

Status FieldReader::integer(const Place& place, int64_t& out) const {
  const Json& json = *place.json;
  const bool fits = json.is_number_unsigned()
                        ? json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                        : json.is_number_integer();
  if (!fits) return fail(place, "an integer of 64 bits");
  out = json.get<int64_t>();
  return {};
}

Status FieldReader::integers(const Place& place, std::vector<int64_t>& out) const {
  return array(place,
               [&](const Place& entry) -> Status { return integer(entry, out.emplace_back()); });
}

Status FieldReader::size(const Place& place, int64_t& out) const {
  LT_RETURN_IF_ERROR(integer(place, out));
  if (out < 0 || out > kMaxBytes) return fail(place, "a size from 0 to 2^62");
  return {};
}

Status FieldReader::index(const Place& place, int32_t& out) const {
  int64_t number = 0;
  LT_RETURN_IF_ERROR(integer(place, number));
  if (number < 0 || number > std::numeric_limits<int32_t>::max()) return fail(place, "an index");
  out = static_cast<int32_t>(number);
  return {};
}

Status FieldReader::real(const Place& place, double& out) const {
  if (!place.json->is_number_float()) return fail(place, "a number with a point or an exponent");
  out = place.json->get<double>();
  return {};
}

Status FieldReader::boolean(const Place& place, bool& out) const {
  if (!place.json->is_boolean()) return fail(place, "true or false");
  out = place.json->get<bool>();
  return {};
}

Status FieldReader::text(const Place& place, std::string& out) const {
  if (!place.json->is_string()) return fail(place, "a string");
  out = place.json->get_ref<const std::string&>();
  return {};
}

Status FieldReader::bytes(const Place& place, std::string& out) const {
  const std::optional<std::string_view> encoded = string_at(place);
  std::optional<std::string> decoded = encoded ? from_base64(*encoded) : std::nullopt;
  if (!decoded) return fail(place, "base64");
  out = std::move(*decoded);
  return {};
}

Status FieldReader::real_word(const Place& place, double& out) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::optional<std::string_view> word = string_at(place);
  if (place.json->is_number())
    out = place.json->get<double>();
  else if (word == "inf" || word == "-inf")
    out = word == "inf" ? kInfinity : -kInfinity;
  else if (word == "nan")
    out = std::numeric_limits<double>::quiet_NaN();
  else
    return fail(place, "a number, 'inf', '-inf' or 'nan'");
  return {};
}

bool FieldReader::is_null(const Place& place) {
  return place.json->is_null();
}

std::optional<std::string_view> FieldReader::string_at(const Place& place) {
  if (!place.json->is_string()) return std::nullopt;
  return place.json->get_ref<const std::string&>();
}

Status FieldReader::id_number(const Place& place, uint32_t& out) const {
  const Json& json = *place.json;
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= std::numeric_limits<uint32_t>::max())
    return fail(place, "an id");
  out = json.get<uint32_t>();
  return {};
}

Status FieldReader::word_index(const Place& place, std::span<const std::string_view> words,
                               size_t& out) const {
  const std::optional<std::string_view> word = string_at(place);
  const auto at = word ? std::find(words.begin(), words.end(), *word) : words.end();
  if (at == words.end()) return fail(place, fmt::format("a word such as '{}'", words[0]));
  out = static_cast<size_t>(at - words.begin());
  return {};
}

}  // namespace lowtide::plan

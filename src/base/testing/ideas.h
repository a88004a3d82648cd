// Lists of ideas, as tests go through them: whether a list has every switch of the options.
//
// An idea is a name and a function that turns it over: off, or on if it is off by default. A list
// is whole if each idea turns exactly one field over and each bool is turned over by exactly one
// idea. The fields come as a tuple of references, from a structured binding that names all of them,
// so that a new field does not compile before somebody has entered it there.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lowtide {

template <class Options>
struct Idea {
  std::string_view name;
  void (*turn)(Options&);
};

namespace ideas {

template <class Field>
bool differ(const Field& a, const Field& b) {
  if constexpr (std::is_arithmetic_v<Field>) return a != b;
  return false;  // lists, limits, callbacks: no idea is one
}

// By place in the tuple: whether that field differs.
template <class... Fields>
std::array<bool, sizeof...(Fields)> differing(const std::tuple<const Fields&...>& a,
                                              const std::tuple<const Fields&...>& b) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<bool, sizeof...(Fields)>{differ(std::get<I>(a), std::get<I>(b))...};
  }
  (std::index_sequence_for<Fields...>());
}

template <class... Fields>
constexpr std::array<bool, sizeof...(Fields)> are_bools(const std::tuple<const Fields&...>&) {
  return {std::is_same_v<Fields, bool>...};
}

}  // namespace ideas

// What is wrong with the list; empty: nothing. `fields_of` gives the tuple of the options' fields.
template <class Options, class FieldsOf>
std::string fault_of_ideas(const std::vector<Idea<Options>>& list, FieldsOf fields_of) {
  const Options by_default;
  const auto fields = fields_of(by_default);
  std::array<std::string_view, std::tuple_size_v<decltype(fields)>> turned_by;
  for (const Idea<Options>& idea : list) {
    Options other;
    idea.turn(other);
    const auto differs = ideas::differing(fields, fields_of(other));
    int count = 0;
    for (size_t field = 0; field < differs.size(); ++field) {
      if (!differs[field]) continue;
      ++count;
      if (!turned_by[field].empty())
        return std::string(idea.name) + " and " + std::string(turned_by[field]) + " are one field";
      turned_by[field] = idea.name;
    }
    if (count != 1)
      return std::string(idea.name) + " turns " + std::to_string(count) + " fields over, not 1";
  }
  const auto bools = ideas::are_bools(fields);
  for (size_t field = 0; field < bools.size(); ++field)
    if (bools[field] && turned_by[field].empty())
      return "no idea turns field " + std::to_string(field) + " over, which is a bool";
  return "";
}

}  // namespace lowtide

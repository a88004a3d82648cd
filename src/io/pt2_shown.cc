#include "io/pt2_shown.h"

#include <fmt/format.h>

namespace lowtide::io {

size_t ShownTensors::new_memory() {
  memory_.emplace_back();
  return memory_.size() - 1;
}

void ShownTensors::show(const std::string& tensor, Shown shown) {
  Memory& memory = memory_[shown.memory];
  if (!memory.shown) memory.first = shown_.size();
  memory.shown = true;
  place_of_[tensor] = shown_.size();
  shown_.push_back(std::move(shown));
}

std::optional<size_t> ShownTensors::find(const std::string& tensor) const {
  const auto found = place_of_.find(tensor);
  return found == place_of_.end() ? std::nullopt : std::optional(found->second);
}

bool ShownTensors::is_trained(const std::string& tensor) const {
  const auto place = find(tensor);
  return place && shown_[*place].trained;
}

std::string ShownTensors::read(const std::string& tensor, std::string& why) const {
  const auto place = find(tensor);
  if (!place) {
    why = fmt::format("reads '{}', which nothing before it makes", tensor);
    return {};
  }
  const Shown& shown = shown_[*place];
  const Memory& memory = memory_[shown.memory];
  if (shown.version == memory.version) return shown.name;
  why = fmt::format("reads '{}' after node '{}' wrote into the memory that it shows", tensor,
                    memory.writer);
  return {};
}

void ShownTensors::begin_write(size_t place, const std::string& name, const std::string& node,
                               bool trained) {
  Memory& memory = memory_[shown_[place].memory];
  ++memory.version;
  memory.writer = node;
  see_write(place, name, trained);
}

void ShownTensors::see_write(size_t place, const std::string& name, bool trained) {
  Shown& shown = shown_[place];
  shown.name = name;
  shown.version = memory_[shown.memory].version;
  shown.trained |= trained;
}

bool ShownTensors::brought_memory(size_t place) const {
  return memory_[shown_[place].memory].first == place;
}

}  // namespace lowtide::io

#include "pipeline/label_neighbours.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lowtide::pipeline {

using fission::Labels;

LabelNeighbours::LabelNeighbours(const ir::Graph& step, std::span<const fission::Region> regions,
                                 int64_t most_parts, int64_t most_of_level,
                                 std::span<const int64_t> factors)
    : most_parts_(most_parts),
      most_of_level_(most_of_level),
      factors_(factors.begin(), factors.end()),
      around_(regions.size()) {
  for (const fission::Region& region : regions) heads_.push_back(step.op(region.head).name);
  for (size_t inner = 0; inner < regions.size(); ++inner)
    for (size_t outer = 0; outer < regions.size(); ++outer) {  // the largest come first
      const std::vector<ir::OpId>& ops = regions[outer].ops;
      if (std::binary_search(ops.begin(), ops.end(), regions[inner].head)) around_[inner] = outer;
    }
}

std::vector<Labels> LabelNeighbours::of(const Labels& labels, const LabelMutations& may) const {
  std::vector<Labels> made;
  if (may.outer)
    for (const int64_t parts : {labels.parts - 1, labels.parts + 1, labels.parts * 2,
                                labels.parts * 3 / 2, labels.parts / 2})
      if (parts != labels.parts)
        if (auto next = with_parts(labels, parts)) made.push_back(std::move(*next));
  for (size_t region = 0; region < heads_.size(); ++region) mutate(labels, region, may, made);
  return made;
}

// With these parts of the whole class; what is deeper has the next multiple of them.
std::optional<Labels> LabelNeighbours::with_parts(Labels labels, int64_t parts) const {
  if (parts < 1 || parts > most_parts_) return std::nullopt;
  labels.parts = parts;
  for (fission::Nest& nest : labels.nests) nest.parts = (nest.parts + parts - 1) / parts * parts;
  std::erase_if(labels.nests, [&](const fission::Nest& nest) { return nest.parts == parts; });
  return labels;
}

// The labels in which one region's own parts change.
void LabelNeighbours::mutate(const Labels& labels, size_t region, const LabelMutations& may,
                             std::vector<Labels>& made) const {
  const std::string& head = heads_[region];
  const auto nest = std::find_if(labels.nests.begin(), labels.nests.end(),
                                 [&](const fission::Nest& one) { return one.head == head; });
  const bool has_own = nest != labels.nests.end();
  Labels without = labels;
  std::erase_if(without.nests, [&](const fission::Nest& one) { return one.head == head; });
  if (has_own && may.disable) made.push_back(without);
  if (has_own && may.lift && around_[region]) add(without, *around_[region], nest->parts, made);
  if (has_own ? !may.mutate : !may.enable) return;
  const int64_t around = parts_around(without, region);
  for (const int64_t factor : factors_) add(without, region, around * factor, made);
}

// Of the innermost region around it that has parts of its own, or of the whole class.
int64_t LabelNeighbours::parts_around(const Labels& labels, size_t region) const {
  for (std::optional<size_t> at = around_[region]; at; at = around_[*at])
    for (const fission::Nest& nest : labels.nests)
      if (nest.head == heads_[*at]) return nest.parts;
  return labels.parts;
}

// With so many parts in all of a region that has none of its own.
void LabelNeighbours::add(Labels with, size_t region, int64_t parts,
                          std::vector<Labels>& made) const {
  const std::string& head = heads_[region];
  if (std::any_of(with.nests.begin(), with.nests.end(),
                  [&](const fission::Nest& one) { return one.head == head; }))
    return;
  with.nests.push_back({head, parts});
  std::sort(with.nests.begin(), with.nests.end(), [](const auto& a, const auto& b) {
    return std::tie(a.parts, a.head) < std::tie(b.parts, b.head);
  });
  if (with.nests.back().parts <= most_of_level_) made.push_back(std::move(with));
}

std::set<int64_t> even_numbers(int64_t most_parts) {
  std::set<int64_t> numbers = {most_parts};
  for (int64_t parts = 2; parts <= most_parts; parts *= 2)
    numbers.insert({parts, std::min(most_parts, parts * 3 / 2)});
  numbers.erase(1);
  return numbers;
}

}  // namespace lowtide::pipeline

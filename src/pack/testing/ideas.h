// The ideas of the packer, one for each switch of its options, for tests that go through all.
#pragma once

#include <tuple>
#include <vector>

#include "base/testing/ideas.h"
#include "pack/pack.h"

namespace lowtide::pack {

template <bool PackOptions::*flag>
void turn(PackOptions& options) {
  options.*flag = !(options.*flag);
}

inline std::vector<Idea<PackOptions>> all_ideas() {
  return {
      {"gcd_scaling", turn<&PackOptions::gcd_scaling>},
      {"partition", turn<&PackOptions::partition>},
      {"order_by_size", turn<&PackOptions::order_by_size>},
      {"order_by_area", turn<&PackOptions::order_by_area>},
      {"order_by_duration", turn<&PackOptions::order_by_duration>},
      {"order_by_start", turn<&PackOptions::order_by_start>},
      {"first_fit", turn<&PackOptions::first_fit>},
      {"best_fit", turn<&PackOptions::best_fit>},
      {"class_orders", turn<&PackOptions::class_orders>},
      {"search", turn<&PackOptions::search>},
      {"sections", turn<&PackOptions::sections>},
      {"canonical", turn<&PackOptions::canonical>},
      {"dominance", turn<&PackOptions::dominance>},
      {"section_inference", turn<&PackOptions::section_inference>},
      {"monotonic_floor", turn<&PackOptions::monotonic_floor>},
      {"unallocated_floor", turn<&PackOptions::unallocated_floor>},
      {"dynamic_order", turn<&PackOptions::dynamic_order>},
      {"decomposition", turn<&PackOptions::decomposition>},
      {"release_bound", turn<&PackOptions::release_bound>},
      {"memo", turn<&PackOptions::memo>},
      {"restarts", turn<&PackOptions::restarts>},
      {"tightest_first", turn<&PackOptions::tightest_first>},
      {"section_weights", turn<&PackOptions::section_weights>},
      {"not_first", turn<&PackOptions::not_first>},
      {"twins", turn<&PackOptions::twins>},
  };
}

inline auto fields_of(const PackOptions& options) {
  const auto& [gcd_scaling, partition, order_by_size, order_by_area, order_by_duration,
               order_by_start, first_fit, best_fit, class_orders, search, sections, canonical,
               dominance, section_inference, monotonic_floor, unallocated_floor, dynamic_order,
               decomposition, release_bound, memo, restarts, tightest_first, section_weights,
               not_first, twins, static_orders, limits, threads] = options;
  return std::tie(gcd_scaling, partition, order_by_size, order_by_area, order_by_duration,
                  order_by_start, first_fit, best_fit, class_orders, search, sections, canonical,
                  dominance, section_inference, monotonic_floor, unallocated_floor, dynamic_order,
                  decomposition, release_bound, memo, restarts, tightest_first, section_weights,
                  not_first, twins, static_orders, limits, threads);
}

}  // namespace lowtide::pack

// The packer's own form of a problem, after exact reductions: time reduced to sections, sizes to
// units, fixed buffers to obstacles, and the whole cut into parts that never coexist.
//
// A section is a maximal set of buffers that are alive together (a maximal clique of the interval
// graph of lives), numbered along time; each buffer is alive in a range of sections, and two
// buffers coexist exactly when their ranges meet. There are at most n sections.
//
// Tests: pack_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack_problem.h"

namespace lowtide::pack {

struct Item {
  plan::BufferId id;
  int64_t size = 0;       // in units, > 0
  int64_t alignment = 1;  // in units
  int32_t begin = 0;      // sections [begin, end) of its part
  int32_t end = 0;
  int64_t lower = 0;  // the original life, for static orders
  int64_t upper = 0;
};

// A buffer whose offset was given: addresses [low, high) are taken during sections [begin, end).
struct Obstacle {
  int64_t low = 0;
  int64_t high = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

struct Part {
  std::vector<Item> items;
  std::vector<Obstacle> obstacles;
  int32_t sections = 0;
  int64_t bound = 0;  // no packing of the part is lower; in units
};

struct Instance {
  int64_t unit_bytes = 1;
  std::vector<Part> parts;
  bool fixed_clash = false;  // two fixed buffers overlap: there is no packing at all
};

struct InstanceOptions {
  bool gcd_scaling = true;
  bool partition = true;
};

// O(n log n). Buffers of size zero do not appear: they overlap nothing and lie at 0 unless they are
// fixed.
Instance make_instance(const plan::PackProblem& problem, const InstanceOptions& options);

}  // namespace lowtide::pack

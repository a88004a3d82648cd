// The ideas of the search under a budget by name, each with how to do without it: `lowtide remat
// --without`, the ablation and the tests go by this list. A new switch of the options is entered
// here. None makes an answer wrong; without `recompute` and `transfers` there are fewer schedules.
//
// Tests: ideas_test.cc.
#pragma once

#include <array>

#include "remat/joint.h"

namespace lowtide::remat {

struct NamedIdea {
  const char* name;
  void (*switch_off)(JointOptions&);
};

inline constexpr auto kIdeas = std::to_array<NamedIdea>({
    {"recompute", [](JointOptions& o) { o.recompute = false; }},
    {"transfers", [](JointOptions& o) { o.transfers = false; }},
    {"order-moves", [](JointOptions& o) { o.remat.order_moves = false; }},
    {"stretch-moves", [](JointOptions& o) { o.remat.stretch_moves = false; }},
    {"exchanges", [](JointOptions& o) { o.remat.exchanges = false; }},
    {"de-remat", [](JointOptions& o) { o.remat.de_remat = false; }},
    {"repeats", [](JointOptions& o) { o.remat.repeats = false; }},
    {"aimed-drops", [](JointOptions& o) { o.remat.aimed_drops = false; }},
    {"aimed-moves", [](JointOptions& o) { o.remat.aimed_moves = false; }},
    {"cut-start", [](JointOptions& o) { o.remat.cut_start = false; }},
    {"mixed-start", [](JointOptions& o) { o.remat.mixed_start = false; }},
    {"order-start", [](JointOptions& o) { o.remat.order_start = false; }},
    {"greedy-start", [](JointOptions& o) { o.remat.greedy_start = false; }},
    {"chain-start", [](JointOptions& o) { o.remat.chain_start = false; }},
    {"restarts", [](JointOptions& o) { o.remat.restarts = false; }},
    {"cut-bound", [](JointOptions& o) { o.remat.cut_bound = false; }},
    {"several-cuts", [](JointOptions& o) { o.remat.several_cuts = false; }},
    {"exact-small", [](JointOptions& o) { o.remat.exact_small = false; }},
    {"swap-search", [](JointOptions& o) { o.swap.local_search = false; }},
    {"swap-values", [](JointOptions& o) { o.swap.spans.values = false; }},
    {"swap-residents", [](JointOptions& o) { o.swap.spans.residents = false; }},
    {"de-swap", [](JointOptions& o) { o.swap.de_swap = false; }},
    {"swap-tidy", [](JointOptions& o) { o.swap.tidy_units = 0; }},
    {"each-alone", [](JointOptions& o) { o.each_alone = false; }},
    {"rules", [](JointOptions& o) { o.rules = false; }},
});

}  // namespace lowtide::remat

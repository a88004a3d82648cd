// The tightest-first search: place or postpone one buffer, in the section where fewest can come
// next (after "schedule or postpone", Le Pape, Couronne, Vergamini and Gosselin 1994).
#pragma once

#include <memory>

#include "pack/pack.h"
#include "pack/search.h"
#include "pack/topology.h"

namespace lowtide::pack {

std::unique_ptr<Decider> make_tightest_search(const Topology& topology, const PackOptions& options);

}  // namespace lowtide::pack

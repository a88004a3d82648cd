// What the files that draw random instances share. Internal to this folder.
#pragma once

#include "ops/testing/random_instance.h"

namespace lowtide::ops {

bool chance(Rng& rng, uint64_t one_in);
ir::Dims random_dims(Rng& rng, int64_t rank);  // extents 1 to 5
int64_t number(const sym::Expr& extent);       // of a constant

// Whether a kind reads or writes at places that are data (rows_indexing.cc), and an instance of
// one: operands, attributes, and indices so drawn that no two name one place where an op
// overwrites.
bool is_indexing(std::string_view kind);
void draw_indexing(RandomInstance& made, Rng& rng);

// The same for the recurrent networks (rows_recurrent.cc).
bool is_recurrent(std::string_view kind);
void draw_recurrent(RandomInstance& made, Rng& rng);

}  // namespace lowtide::ops

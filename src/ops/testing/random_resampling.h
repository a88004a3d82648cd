// Attributes of resampling ops for random_instance.h.
#pragma once

#include "ops/testing/random_instance.h"

namespace lowtide::ops {

// Attributes for an input of `dims` that stands in made.inputs already.
void draw_resize(RandomInstance& made, const ir::Dims& dims, Rng& rng);
// Of a type that is only copied.
void copy_nearest(RandomInstance& made);
void draw_pad_repeat(RandomInstance& made, const ir::Dims& dims, Rng& rng);
// All of it, inputs too.
void draw_grid_sample(RandomInstance& made, Rng& rng);
void draw_roi_align(RandomInstance& made, Rng& rng);

// Attributes of a window without padding, for taps that are drawn already; how many it has.
int64_t draw_positions(RandomInstance& made, Rng& rng);

}  // namespace lowtide::ops

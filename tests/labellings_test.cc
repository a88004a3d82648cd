// The property that any labelling is right: of the training steps of several families of networks,
// ops drawn at random run in parts, along axes and with boundaries drawn at random, alone and on
// top of the levels of a class with nests. The reference executor, in double precision, gets the
// same results and the same updated parameters from the step in parts. A labelling that fails is
// told as small as it can be made.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "support/compare_effects.h"
#include "support/drawn_cuts.h"
#include "support/long_checks.h"
#include "support/shrink_cuts.h"
#include "support/small_steps.h"
#include "support/step_families.h"

namespace lowtide::labellings_test {
namespace {

using fission::Cuts;
// In the order of the ops, and part by part.
std::string wrong_in_parts(const ir::Graph& step, const Cuts& cuts, const Effects& wanted) {
  const auto expanded = fission::expand(step, cuts);
  if (!expanded) return expanded.error().message;
  std::string why = difference(effects(expanded->graph), wanted);
  if (!why.empty()) return why;
  why = difference(effects(fission::part_by_part(*expanded).graph), wanted);
  return why.empty() ? why : "part by part: " + why;
}

Cuts draw_cuts(const ir::Graph& step, Rng& rng, DrawnCuts& drawn) {
  Cuts cuts(step.op_count());
  const size_t way = rng.below(3);  // levels, both, ops alone
  if (way < 2) cuts = levels_of_a_class(step, classes_of(step), rng, drawn.nests);
  const size_t rate = way == 0 ? 0 : 1 + rng.below(4);
  for (const ir::OpId id : step.ops()) {
    if (rng.below(4) >= rate) continue;
    const std::vector<Choice> all = choices(step, id, rng);
    if (!all.empty()) cuts[id] = all[rng.below(all.size())].cut;
  }
  count_cuts(step, cuts, drawn);
  return cuts;
}

TEST(Labellings, OfEveryFamilyOfStepsEqualTheStep) {
  DrawnCuts drawn;
  const auto seeds = static_cast<uint64_t>(some_of(2400, 16));
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Rng rng(seed * 17 + 9);
    const ir::Graph step = step_of_family(seed, rng);
    if (HasFailure()) return;
    const Effects wanted = effects(step);
    for (int draw = 0; draw < 2; ++draw) {
      const Cuts cuts = draw_cuts(step, rng, drawn);
      const std::string why = wrong_in_parts(step, cuts, wanted);
      if (why.empty() && !HasFailure()) continue;
      const Cuts least = shrunk(cuts, [&](const Cuts& smaller) {
        return !wrong_in_parts(step, smaller, wanted).empty();
      });
      FAIL() << "family " << kFamilies[seed % std::size(kFamilies)] << ", seed " << seed << ": "
             << wrong_in_parts(step, least, wanted) << "\n"
             << say(step, least);
    }
  }
  std::printf("%d labellings, %d ops in %d parts, %d nests, %zu kinds of axis\n", drawn.labellings,
              drawn.ops, drawn.parts, drawn.nests, drawn.kinds.size());
  EXPECT_GT(drawn.kinds.size(), 100U);
  EXPECT_GT(drawn.nests, drawn.labellings / 4);
}

// Fails where the first of its ops is in three parts or more and the last is cut at all: so few
// cuts are left.
TEST(Labellings, AreShrunkToWhatFails) {
  Rng rng(3);
  const ir::Graph step = step_of_family(1, rng);
  Cuts cuts(step.op_count());
  for (const ir::OpId id : step.ops()) {
    const std::vector<Choice> all = choices(step, id, rng);
    if (!all.empty()) cuts[id] = all.front().cut;
  }
  const std::vector<ir::OpId> ops = ops_cut(cuts);
  ASSERT_GT(ops.size(), 20U);
  const ir::OpId first = ops[3], last = ops[ops.size() - 2];
  cuts[first]->bounds = {0, 1, 2, 3, 4, 5, 6, 7};
  int asked = 0;
  const Cuts least = shrunk(cuts, [&](const Cuts& smaller) {
    ++asked;
    return smaller[first] && smaller[first]->bounds.size() > 3 && smaller[last];
  });
  EXPECT_EQ(ops_cut(least), (std::vector<ir::OpId>{first, last}));
  EXPECT_EQ(least[first]->bounds, (std::vector<int64_t>{0, 2, 4, 6, 7}));
  EXPECT_EQ(least[last]->bounds.size(), 3U);
  EXPECT_LT(asked, 200);
  const std::string said = say(step, least);
  EXPECT_NE(said.find("'" + step.op(first).name + "' along "), std::string::npos) << said;
  EXPECT_NE(said.find(" at 0 2 4 6 7\n"), std::string::npos) << said;
}

// Fails where one op is in more than two parts along its second axis and another one is cut along
// what was its second axis: of that one its first axis goes, of all others both.
TEST(Labellings, AlongTwoAxesAreShrunkToWhatFails) {
  Rng rng(5);
  const ir::Graph step = step_of_family(1, rng);
  DrawnCuts drawn;
  fission::NestedCuts cuts = {Cuts(step.op_count()), Cuts(step.op_count())};
  while (drawn.along_two < 8) {
    for (const ir::OpId id : step.ops()) {
      const std::vector<Choice> all = choices(step, id, rng);
      if (!all.empty()) cuts[0][id] = all[rng.below(all.size())].cut;
    }
    cuts = with_second_axes(step, std::move(cuts[0]), rng, drawn);
  }
  ASSERT_TRUE(can_nest(step, cuts));
  const std::vector<ir::OpId> nested = ops_cut(cuts[1]);
  const ir::OpId one = nested[1], other = nested[nested.size() - 2];
  cuts[1][one]->bounds = {0, 1, 2, 3, 4, 5};
  const int axis = cuts[1][other]->axis;
  const auto is_cut = [&](const std::optional<fission::Cut>& cut) {
    return cut && cut->axis == axis;
  };
  const fission::NestedCuts least = shrunk(cuts, [&](const fission::NestedCuts& some) {
    return some.size() > 1 && some[1][one] && some[1][one]->bounds.size() > 3 &&
           (is_cut(some[0][other]) || is_cut(some[1][other]));
  });
  ASSERT_EQ(least.size(), 2U);
  EXPECT_EQ(ops_cut(least[0]), (std::vector<ir::OpId>{one, other}));
  EXPECT_EQ(ops_cut(least[1]), std::vector<ir::OpId>{one});
  EXPECT_EQ(least[1][one]->bounds, (std::vector<int64_t>{0, 2, 4, 5}));
  EXPECT_EQ(least[0][one]->bounds.size(), 3U);
  EXPECT_EQ(least[0][other]->axis, axis);
  const std::string said = say(step, least);
  EXPECT_NE(said.find(", along "), std::string::npos) << said;
}

}  // namespace
}  // namespace lowtide::labellings_test

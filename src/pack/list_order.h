// The orders in which the list heuristics place buffers: four plain ones, and orders by classes of
// size.
//
// By falling size first fit leaves little room above the large buffers, but among buffers of much
// the same size it matters more when they live. An order by classes takes sizes to be equal that
// lie between two cuts, and orders the buffers of a class by their lives. Which cuts and which key
// are best differs from problem to problem, and a pass of first fit is cheap: many are drawn.
//
// Tests: pack_test.cc, pack_scale_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "pack/instance.h"

namespace lowtide::pack {

enum class PlainOrder { kSize, kArea, kDuration, kStart };

// Items by descending size, size x life or life, or by ascending begin; ties: larger first.
std::vector<int32_t> plain_order(const Part& part, PlainOrder order);

// Within a class: earliest begin, longest life, latest end, largest area, or nearest to the section
// of the greatest load first. Equal keys: larger first.
enum class ClassKey { kBegin, kLife, kEnd, kArea, kDistance };

struct ClassRecipe {
  std::vector<double> cuts;  // of sizes, rising
  ClassKey key = ClassKey::kBegin;
  // Above 0: within a class, buffers that are alive while the load is at least this part of the
  // greatest come first.
  double crowded = 0;
};

// Draws orders by classes of size for one part.
class ClassOrders {
 public:
  explicit ClassOrders(const Part& part);
  // A few that are good on many problems, then random ones: all new, or new cuts or a new key in
  // the best one so far.
  ClassRecipe draw();
  void set_best(const ClassRecipe& recipe) { best_ = recipe; }
  std::vector<int32_t> order(const ClassRecipe& recipe) const;

 private:
  std::vector<double> draw_cuts();
  double key_of(const Item& item, ClassKey key) const;

  const Part& part_;
  std::vector<int64_t> sizes_;  // distinct, rising
  std::vector<int64_t> loads_;  // by section
  int32_t peak_ = 0;            // the section of the greatest load
  int64_t drawn_ = 0;
  std::optional<ClassRecipe> best_;
  Rng rng_;
};

}  // namespace lowtide::pack

// Lists in one array against vectors, under random insertions and removals.
#include "remat/search/pooled_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace lowtide::remat {
namespace {

struct KeyTag;
using Key = Id<KeyTag>;

TEST(PooledLists, AreVectorsUnderRandomEdits) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    IdVector<Key, uint32_t> room;
    for (int i = 0; i < 7; ++i) room.push_back(static_cast<uint32_t>(rng.below(4)));
    PooledLists<Key, int> lists(room);
    IdVector<Key, std::vector<int>> plain(room.size());
    for (int step = 0; step < 600; ++step) {
      const Key key(rng.below(room.size()));
      std::vector<int>& list = plain[key];
      const size_t size = list.size();
      if (size > 0 && rng.below(5) < 2) {
        const size_t place = rng.below(size);
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(place));
        lists.erase(key, place);
      } else if (rng.below(3) == 0) {
        list.push_back(step);
        lists.push_back(key, step);
      } else {
        const size_t place = rng.below(size + 1);
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), step);
        lists.insert(key, place, step);
      }
      for (const Key each : room.ids())
        ASSERT_TRUE(std::ranges::equal(lists[each], plain[each])) << "list " << each.index();
    }
  }
}

}  // namespace
}  // namespace lowtide::remat

// The timeline against a plain list of nodes with bytes, under random edits: many more nodes than a
// bucket has places, often in the same spot, so that buckets are spread and the array grows.
#include "remat/search/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/rng.h"

namespace lowtide::remat {
namespace {

struct Plain {
  NodeId node;
  double bytes = 0;
};

class TimelineTest : public testing::Test {
 protected:
  void begin(double capacity) {
    timeline_.emplace(0, capacity);
    plain_.clear();
    nodes_ = 0;
  }

  size_t draw_place(Rng& rng) { return static_cast<size_t>(rng.below(plain_.size())); }

  void append() {
    timeline_->append(NodeId(nodes_));
    plain_.push_back({NodeId(nodes_++)});
  }
  void insert_after(size_t at) {
    timeline_->insert_after(plain_[at].node, NodeId(nodes_));
    plain_.insert(plain_.begin() + static_cast<int64_t>(at) + 1, {NodeId(nodes_++)});
  }
  void insert_beside(size_t at, double more) {
    timeline_->insert_beside(plain_[at].node, NodeId(nodes_), more);
    plain_.insert(plain_.begin() + static_cast<int64_t>(at) + 1,
                  {NodeId(nodes_++), plain_[at].bytes + more});
  }
  void remove(size_t at) {
    timeline_->remove(plain_[at].node);
    EXPECT_FALSE(timeline_->slot(plain_[at].node).valid());
    plain_.erase(plain_.begin() + static_cast<int64_t>(at));
  }
  void add(size_t from, size_t to, int kind, double bytes) {
    const NodeId a = plain_[from].node, b = plain_[to].node;
    if (kind == 0) timeline_->add_at(a, bytes), to = from;
    if (kind == 1) timeline_->add_after(a, b, bytes), ++from;
    if (kind == 2) timeline_->add_between(a, b, bytes), ++from;
    for (size_t i = from; kind == 2 ? i < to : i <= to; ++i) plain_[i].bytes += bytes;
  }

  void random_edit(Rng& rng, size_t spot) {
    const uint64_t kind = rng.below(8);
    if (kind == 0) return insert_beside(draw_place(rng), static_cast<double>(rng.between(-4, 9)));
    if (kind < 4) return insert_after(rng.below(2) == 0 ? spot % plain_.size() : draw_place(rng));
    if (kind == 4 && plain_.size() > 1) return remove(draw_place(rng));
    size_t from = draw_place(rng), to = draw_place(rng);
    if (from > to) std::swap(from, to);
    add(from, to, static_cast<int>(rng.below(3)), static_cast<double>(rng.between(-4, 9)));
  }

  // The first above the capacity from here on, cyclically; none.
  NodeId overflowing_from(size_t at) const {
    for (size_t i = 0; i < plain_.size(); ++i) {
      const Plain& here = plain_[(at + i) % plain_.size()];
      if (here.bytes > timeline_->capacity()) return here.node;
    }
    return NodeId::none();
  }

  void expect_equal(Rng& rng) const {
    ASSERT_EQ(timeline_->size(), static_cast<int>(plain_.size()));
    double overflow = 0, peak = 0;
    NodeId before = NodeId::none(), at = timeline_->first();
    for (const Plain& here : plain_) {
      ASSERT_EQ(at, here.node);
      ASSERT_EQ(timeline_->previous(at), before);
      ASSERT_EQ(timeline_->bytes(at), here.bytes);
      ASSERT_TRUE(!before.valid() || timeline_->before(before, at));
      overflow += std::max(0.0, here.bytes - timeline_->capacity());
      peak = std::max(peak, here.bytes);
      before = at;
      at = timeline_->next(at);
    }
    ASSERT_FALSE(at.valid());
    ASSERT_EQ(timeline_->last(), before);
    ASSERT_EQ(timeline_->overflow(), overflow);
    ASSERT_EQ(timeline_->peak(), peak);
    const auto fullest =
        std::max_element(plain_.begin(), plain_.end(),
                         [](const Plain& a, const Plain& b) { return a.bytes < b.bytes; });
    ASSERT_EQ(timeline_->fullest(), fullest == plain_.end() ? NodeId::none() : fullest->node);
    const size_t from = rng.below(plain_.size());
    const SlotId slot = timeline_->slot(plain_[from].node);
    ASSERT_EQ(timeline_->node_from(slot), plain_[from].node);
    ASSERT_EQ(timeline_->overflowing_from(slot), overflowing_from(from));
  }

  std::optional<Timeline> timeline_;
  std::vector<Plain> plain_;
  size_t nodes_ = 0;
};

TEST_F(TimelineTest, EqualsAPlainListAfterEveryEdit) {
  size_t most = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    begin(seed % 5 == 0 ? std::numeric_limits<double>::infinity()
                        : static_cast<double>(rng.between(0, 60)));
    append();
    while (rng.below(20) != 0) append();
    const size_t spot = draw_place(rng);
    for (int edit = 0; edit < 400; ++edit) {
      random_edit(rng, spot);
      ASSERT_NO_FATAL_FAILURE(expect_equal(rng)) << "edit " << edit;
    }
    most = std::max(most, plain_.size());
  }
  EXPECT_GT(most, size_t{4} * Timeline::kBucket);
}

// Over dozens of buckets, so that what is added waits; work and places are those of one that is
// looked at after every edit.
TEST_F(TimelineTest, ItIsNoMatterHowOftenItIsLookedAt) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::vector<SlotId> places[2];
    int64_t work[2] = {};
    for (const uint64_t rarely : {1, 24}) {
      Rng rng(seed), looks(seed);
      begin(static_cast<double>(rng.between(0, 60)));
      for (int i = 0; i < 600; ++i) append();
      for (int edit = 0; edit < 500; ++edit) {
        random_edit(rng, 300);
        if (looks.below(rarely) == 0) {
          ASSERT_NO_FATAL_FAILURE(expect_equal(looks)) << "edit " << edit;
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_equal(looks));
      work[rarely > 1] = timeline_->work();
      for (const Plain& here : plain_) places[rarely > 1].push_back(timeline_->slot(here.node));
    }
    EXPECT_EQ(work[0], work[1]);
    EXPECT_EQ(places[0], places[1]);
  }
}

TEST_F(TimelineTest, IsEmptyAndFilledAgain) {
  Rng rng(1);
  begin(3);
  EXPECT_FALSE(timeline_->first().valid());
  EXPECT_FALSE(timeline_->last().valid());
  EXPECT_EQ(timeline_->peak(), 0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) append();
    add(0, 99, 1, 5);
    ASSERT_NO_FATAL_FAILURE(expect_equal(rng));
    while (!plain_.empty()) remove(draw_place(rng));
    EXPECT_FALSE(timeline_->first().valid());
    EXPECT_EQ(timeline_->overflow(), 0);
  }
}

}  // namespace
}  // namespace lowtide::remat

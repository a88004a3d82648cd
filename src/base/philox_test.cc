// Philox against the known answers of its authors' distribution, and the stream against its
// definition.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace lowtide {
namespace {

constexpr uint32_t kOnes = 0xFFFFFFFFu;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox::block({0, 0, 0, 0}, {0, 0}),
            (Philox::Counter{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(Philox::block({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Philox::Counter{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(Philox::block({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
                          {0xa4093822u, 0x299f31d0u}),
            (Philox::Counter{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(RandomStream, IsAFunctionOfSeedStreamStepAndElement) {
  const uint64_t seed = 0x0123456789ABCDEFu;
  const RandomStream stream(seed, 7, 3);
  for (const uint64_t element : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40}) {
    const uint64_t group = element / 4;
    const auto words =
        Philox::block({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), 7, 3},
                      {0x89ABCDEFu, 0x01234567u});
    EXPECT_EQ(stream.words(group), words);
    EXPECT_EQ(stream.uniform(element), static_cast<float>(words[element % 4] >> 8) / 16777216.0f);
  }
  std::set<float> first;
  for (const RandomStream& other :
       {stream, RandomStream(seed + 1, 7, 3), RandomStream(seed, 8, 3), RandomStream(seed, 7, 4)})
    first.insert(other.uniform(0));
  EXPECT_EQ(first.size(), 4u);
}

TEST(RandomStream, UniformsLieInTheUnitIntervalAndFillIt) {
  const RandomStream stream(1, 2, 3);
  double sum = 0;
  int low = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const float u = stream.uniform(static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    low += u < 0.1f;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_NEAR(low / double{kDraws}, 0.1, 0.01);
}

}  // namespace
}  // namespace lowtide

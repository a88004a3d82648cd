// Slow tiers in memory and in files: what goes in comes out; folders that are not there, full
// disks, files that end too early.
#include "runtime/slow_tier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

namespace lowtide::runtime {
namespace {

std::vector<std::byte> pattern(size_t bytes, int start) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>((static_cast<size_t>(start) + i * 31) % 251);
  return made;
}

class SlowTierTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() /
              ("lowtide_slow_tier_" + name + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // An empty file of the folder, open.
  int open_named() const {
    return ::open((folder_ / "tier").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }

  std::filesystem::path folder_;
};

TEST_F(SlowTierTest, GivesBackWhatWasStored) {
  for (const std::string& folder : {std::string(), folder_.string()}) {
    auto tier = open_slow_tier({.bytes = 3000, .folder = folder});
    ASSERT_TRUE(tier.has_value()) << tier.error().message;
    EXPECT_EQ((*tier)->bytes(), 3000);
    const auto a = pattern(1000, 1), b = pattern(2000, 7);
    ASSERT_TRUE(store_bytes(**tier, 1000, b, "b"));
    ASSERT_TRUE(store_bytes(**tier, 0, a, "a"));
    std::vector<std::byte> back(2000);
    ASSERT_TRUE(load_bytes(**tier, 1000, back, "b"));
    EXPECT_EQ(back, b);
    back.resize(1000);
    ASSERT_TRUE(load_bytes(**tier, 0, back, "a"));
    EXPECT_EQ(back, a);
    EXPECT_TRUE(store_bytes(**tier, 3000, {}, "nothing"));
  }
}

TEST_F(SlowTierTest, ItsFileHasNoNameAndItsRoomIsReserved) {
  auto tier = open_slow_tier({.bytes = 1 << 20, .folder = folder_.string()});
  ASSERT_TRUE(tier.has_value());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_NE((*tier)->described().find(folder_.string()), std::string::npos);
  std::vector<std::byte> back(1 << 20, std::byte{1});
  ASSERT_TRUE(load_bytes(**tier, 0, back, "all"));
  EXPECT_EQ(back, std::vector<std::byte>(1 << 20));
}

TEST_F(SlowTierTest, SaysWhyAFileCannotBeMade) {
  const auto message = [](const SlowTierOptions& options) {
    const auto tier = open_slow_tier(options);
    EXPECT_TRUE(!tier && tier.error().code == ErrorCode::kInput);
    return tier ? std::string() : tier.error().message;
  };
  const std::string absent = (folder_ / "absent").string();
  EXPECT_EQ(message({.name = "disk", .bytes = 64, .folder = absent}),
            "slow tier 'disk': cannot make a file in '" + absent + "': No such file or directory");
  const std::string file = (folder_ / "file").string();
  std::ofstream(file) << "x";
  EXPECT_NE(message({.bytes = 64, .folder = file}).find("Not a directory"), std::string::npos);
  // No disk has 2^60 bytes.
  const std::string full = message({.bytes = int64_t{1} << 60, .folder = folder_.string()});
  EXPECT_NE(full.find("cannot reserve 1152921504606846976 bytes (1024.00 PiB) in"),
            std::string::npos)
      << full;
}

TEST_F(SlowTierTest, SaysHowMuchOfAStorageAFullDiskTook) {
  const auto tier = slow_tier_on_file(::open("/dev/full", O_RDWR | O_CLOEXEC), 4096, "the tier");
  const Status stored = store_bytes(*tier, 0, pattern(100, 0), "layer.weight");
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().message,
            "the tier: only 0 of 100 bytes of 'layer.weight' could be stored: No space left on "
            "device");
}

TEST_F(SlowTierTest, CountsTheBytesOfAShortWrite) {
  // The largest file that this process may write ends in the middle of the second storage.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1500, .rlim_max = before.rlim_max};
  const auto tier = slow_tier_on_file(open_named(), 4096, "the tier");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status first = store_bytes(*tier, 0, pattern(1000, 0), "a");
  const Status second = store_bytes(*tier, 1000, pattern(1000, 0), "b");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_TRUE(first.has_value());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().message,
            "the tier: only 500 of 1000 bytes of 'b' could be stored: File too large");
  std::vector<std::byte> back(1000);
  ASSERT_TRUE(load_bytes(*tier, 0, back, "a"));
  EXPECT_EQ(back, pattern(1000, 0));
}

TEST_F(SlowTierTest, NoticesAFileThatWasMadeShorter) {
  const auto tier = slow_tier_on_file(open_named(), 4096, "the tier");
  ASSERT_TRUE(store_bytes(*tier, 0, pattern(4096, 3), "a"));
  std::filesystem::resize_file(folder_ / "tier", 4000);
  std::vector<std::byte> back(4096);
  const Status loaded = load_bytes(*tier, 0, back, "a");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().message,
            "the tier: only 4000 of 4096 bytes of 'a' could be loaded: the file ends there; it was "
            "made shorter");
}

TEST_F(SlowTierTest, SurvivesTheLossOfItsFolder) {
  auto tier = open_slow_tier({.bytes = 4096, .folder = folder_.string()});
  ASSERT_TRUE(tier.has_value());
  ASSERT_TRUE(store_bytes(**tier, 0, pattern(4096, 3), "a"));
  std::filesystem::remove_all(folder_);
  std::vector<std::byte> back(4096);
  ASSERT_TRUE(load_bytes(**tier, 0, back, "a"));
  EXPECT_EQ(back, pattern(4096, 3));
}

}  // namespace
}  // namespace lowtide::runtime

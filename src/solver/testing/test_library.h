// Tests only: where HiGHS is looked for. The Python environment of the tests has a library of it
// (scripts/setup --tests).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace lowtide::solver {

// Sets LOWTIDE_HIGHS while it lives.
class HighsAt {
 public:
  explicit HighsAt(const char* path) {
    if (const char* named = std::getenv("LOWTIDE_HIGHS")) before_ = named;
    setenv("LOWTIDE_HIGHS", path, 1);
  }
  ~HighsAt() {
    if (before_) setenv("LOWTIDE_HIGHS", before_->c_str(), 1);
    if (!before_) unsetenv("LOWTIDE_HIGHS");
  }
  HighsAt(const HighsAt&) = delete;
  HighsAt& operator=(const HighsAt&) = delete;

 private:
  std::optional<std::string> before_;
};

// Names the library of the tests' Python environment, if it is there and no other is named.
inline void name_test_library() {
  namespace fs = std::filesystem;
  std::error_code none;
  for (const auto& python : fs::directory_iterator(LOWTIDE_SOURCE_DIR "/.venv/lib", none)) {
    const fs::path library = python.path() / "site-packages/highsbox/highs_dist/lib/libhighs.so";
    if (fs::exists(library, none)) setenv("LOWTIDE_HIGHS", library.c_str(), 0);
  }
}

}  // namespace lowtide::solver

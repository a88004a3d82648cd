// Where tests find problems.
//
//   captured_steps()  training steps captured from PyTorch, in git (tests/data/README.md)
//   test_data()       what others publish, which is not: the folder `data` of what LOWTIDE_SHARED
//                     names, by default of ../shared beside the checkout. It may be absent; tests
//                     that read it then skip.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace lowtide {

inline std::filesystem::path captured_steps() {
  return LOWTIDE_SOURCE_DIR "/tests/data";
}

inline std::filesystem::path test_data() {
  const char* shared = std::getenv("LOWTIDE_SHARED");
  return std::filesystem::path(shared != nullptr ? shared : LOWTIDE_SOURCE_DIR "/../shared") /
         "data";
}

}  // namespace lowtide

#include "solver/highs_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace lowtide::solver {
namespace {

constexpr int kMajor = 1, kLeastMinor = 7;  // versions whose C interface is as declared

// What a function of the library is called, and where its address goes.
class Binder {
 public:
  explicit Binder(void* handle) : handle_(handle) {}

  template <class Function>
  void bind(Function& to, const char* name) {
    to = reinterpret_cast<Function>(dlsym(handle_, name));
    if (to == nullptr) missing_ += fmt::format("{}{}", missing_.empty() ? "" : ", ", name);
  }
  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

std::string bind_all(void* handle, HighsLibrary& library) {
  Binder b(handle);
  b.bind(library.create, "Highs_create");
  b.bind(library.destroy, "Highs_destroy");
  b.bind(library.set_bool, "Highs_setBoolOptionValue");
  b.bind(library.set_int, "Highs_setIntOptionValue");
  b.bind(library.set_double, "Highs_setDoubleOptionValue");
  b.bind(library.set_string, "Highs_setStringOptionValue");
  b.bind(library.pass_mip, "Highs_passMip");
  b.bind(library.set_solution, "Highs_setSolution");
  b.bind(library.set_callback, "Highs_setCallback");
  b.bind(library.start_callback, "Highs_startCallback");
  b.bind(library.callback_item, "Highs_getCallbackDataOutItem");
  b.bind(library.run, "Highs_run");
  b.bind(library.model_status, "Highs_getModelStatus");
  b.bind(library.get_int, "Highs_getIntInfoValue");
  b.bind(library.get_int64, "Highs_getInt64InfoValue");
  b.bind(library.get_double, "Highs_getDoubleInfoValue");
  b.bind(library.get_solution, "Highs_getSolution");
  return b.missing().empty() ? "" : "it has no " + b.missing();
}

// What is wrong with the version or the integers of an opened library, or nothing.
std::string fault_of_version(void* handle, HighsLibrary& library) {
  const char* (*version)() = nullptr;
  int (*major)() = nullptr;
  int (*minor)() = nullptr;
  int (*size_of_int)(const void*) = nullptr;
  Binder b(handle);
  b.bind(version, "Highs_version");
  b.bind(major, "Highs_versionMajor");
  b.bind(minor, "Highs_versionMinor");
  b.bind(size_of_int, "Highs_getSizeofHighsInt");
  if (!b.missing().empty()) return "it has no " + b.missing();
  library.version = version();
  if (major() != kMajor || minor() < kLeastMinor)
    return fmt::format("its version is {}, and has to be {}.{} or later, and below {}",
                       library.version, kMajor, kLeastMinor, kMajor + 1);
  void* highs = library.create();
  const int size = size_of_int(highs);
  library.destroy(highs);
  return size == sizeof(int)
             ? ""
             : fmt::format("its integers have {} bytes, and have to have {}", size, sizeof(int));
}

// Nothing if it is as it has to be.
std::string fault_of_file(const std::string& path, HighsLibrary& library) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return reason != nullptr ? reason : "it cannot be opened";
  }
  library.path = path;
  std::string fault = bind_all(handle, library);
  return fault.empty() ? fault_of_version(handle, library) : fault;
}

}  // namespace

Result<HighsLibrary> load_highs() {
  const char* named = std::getenv("LOWTIDE_HIGHS");
  const std::vector<std::string> places =
      named != nullptr ? std::vector<std::string>{named}
                       : std::vector<std::string>{"libhighs.so", "libhighs.so.1"};
  std::string tried;
  for (const std::string& place : places) {
    HighsLibrary library;
    const std::string fault = fault_of_file(place, library);
    if (fault.empty()) return library;
    tried += fmt::format("{}'{}' ({})", tried.empty() ? "" : " and ", place, fault);
  }
  return error(ErrorCode::kUsage,
               fmt::format("HiGHS was not found: looked for {}{}; install the Python package "
                           "highsbox, or HiGHS 1.7 or later, and name its libhighs.so in the "
                           "environment variable LOWTIDE_HIGHS",
                           tried, named != nullptr ? ", which LOWTIDE_HIGHS names" : ""));
}

}  // namespace lowtide::solver

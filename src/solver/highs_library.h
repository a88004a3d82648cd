// HiGHS (Huangfu and Hall 2018), where its shared library is found when it is wanted: the functions
// of its C interface that are used here, and nothing of it is needed to build.
//
// Where it is looked for: the file that the environment variable LOWTIDE_HIGHS names, and only
// there if it is set; else where the loader finds libhighs.so or libhighs.so.1. The Python package
// highsbox brings one.
//
// Tests: solve_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace lowtide::solver {

// What an interrupt callback may answer; the first member of HiGHS's own struct.
struct HighsReply {
  int user_interrupt;
};
using HighsCallback = void (*)(int type, const char* message, const void* data, HighsReply* reply,
                               void* user);

// HighsInt is int, which load_highs() makes sure of. Calls answer -1 for an error.
struct HighsLibrary {
  std::string path, version;

  void* (*create)() = nullptr;
  void (*destroy)(void*) = nullptr;
  int (*set_bool)(void*, const char*, int) = nullptr;
  int (*set_int)(void*, const char*, int) = nullptr;
  int (*set_double)(void*, const char*, double) = nullptr;
  int (*set_string)(void*, const char*, const char*) = nullptr;
  // columns, rows, entries, format, sense, constant; costs, bounds of columns and of rows; starts,
  // indices and values of entries; whether columns are integer
  int (*pass_mip)(void*, int, int, int, int, int, double, const double*, const double*,
                  const double*, const double*, const double*, const int*, const int*,
                  const double*, const int*) = nullptr;
  int (*set_solution)(void*, const double*, const double*, const double*, const double*) = nullptr;
  int (*set_callback)(void*, HighsCallback, void*) = nullptr;
  int (*start_callback)(void*, int) = nullptr;
  const void* (*callback_item)(const void*, const char*) = nullptr;
  int (*run)(void*) = nullptr;
  int (*model_status)(const void*) = nullptr;
  int (*get_int)(const void*, const char*, int*) = nullptr;
  int (*get_int64)(const void*, const char*, int64_t*) = nullptr;
  int (*get_double)(const void*, const char*, double*) = nullptr;
  // of columns: values, reduced costs; of rows: sums, duals
  int (*get_solution)(const void*, double*, double*, double*, double*) = nullptr;
};

// An error says where was looked, what was wrong there, and what to install. The library stays
// loaded until the program ends: it has threads of its own.
Result<HighsLibrary> load_highs();

}  // namespace lowtide::solver

// What the files of the C ABI have in common: the handles, and the way in which a failure becomes a
// status. Internal to this folder.
//
// Tests: c_api_test.cc.
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lowtide/api.h"
#include "lowtide/lowtide.h"

struct lowtide_model {
  lowtide::Model model;
  std::string name;
  std::vector<std::string> free_dims;
  std::optional<std::string> text, json;  // made when asked for
};

struct lowtide_plan {
  lowtide::Plan plan;
  std::optional<std::string> text, json;  // made when asked for
  std::vector<std::string> layouts;       // by value; made when asked for
};

struct lowtide_front {
  lowtide::Front front;
  std::optional<std::string> text, json, lines;  // made when asked for
};

struct lowtide_session {
  lowtide::Session session;
  std::vector<lowtide::ValueInfo> values[3];  // by role
};

namespace lowtide {

// What lowtide_last_error says next, and the status that goes with it.
lowtide_status fail(const Error& failure);
lowtide_status fail_without_memory(const char* what);

// The status of a body that answers a Status.
template <class Body>
lowtide_status guarded(const Body& body) noexcept {
  try {
    const Status status = body();
    return status ? LOWTIDE_OK : fail(status.error());
  } catch (const std::bad_alloc&) {
    return fail_without_memory("out of memory");
  } catch (const std::exception& failure) {
    try {
      return fail({ErrorCode::kInternal, std::string("internal error: ") + failure.what()});
    } catch (...) {
      return fail_without_memory("internal error");
    }
  } catch (...) {
    return fail_without_memory("internal error");
  }
}

inline Status missing(const char* argument) {
  return error(ErrorCode::kUsage, std::string(argument) + " is NULL");
}

inline std::string_view text_of(const char* options) {
  return options == nullptr ? std::string_view() : std::string_view(options);
}

// A text made when it is first asked for; NULL where it cannot be.
template <class Make>
const char* cached(std::optional<std::string>& text, const Make& make) noexcept {
  const lowtide_status status = guarded([&]() -> Status {
    if (!text) text = make();
    return {};
  });
  return status == LOWTIDE_OK ? text->c_str() : nullptr;
}

inline Status check_index(size_t index, size_t count) {
  if (index < count) return {};
  return error(ErrorCode::kUsage,
               "index " + std::to_string(index) + " is not below " + std::to_string(count));
}

}  // namespace lowtide

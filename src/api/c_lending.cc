// The C ABI of sessions on lent memory, straight over the runtime's session.
#include <cstddef>
#include <cstdint>

#include "api/c_handles.h"
#include "api/state.h"
#include "lowtide/lending.h"
#include "runtime/session.h"

namespace {

lowtide::runtime::Session& inside(lowtide_session* session) {
  return session->session.state().session;
}

}  // namespace

using lowtide::Status;

extern "C" {

lowtide_status lowtide_session_lend(lowtide_session* session, const char* name, void* memory,
                                    size_t bytes) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (name == nullptr) return lowtide::missing("name");
    return inside(session).lend(name, {static_cast<std::byte*>(memory), bytes});
  });
}

int64_t lowtide_session_lent_bytes(const lowtide_session* session) {
  return session == nullptr ? 0 : session->session.state().session.lent_bytes();
}

lowtide_status lowtide_session_set_update(lowtide_session* session, const char* parameter,
                                          const lowtide_update* update) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (parameter == nullptr) return lowtide::missing("parameter");
    if (update == nullptr) return lowtide::missing("update");
    return inside(session).set_update(parameter, {.learning_rate = update->learning_rate,
                                                  .weight_decay = update->weight_decay,
                                                  .momentum = update->momentum,
                                                  .beta1 = update->beta1,
                                                  .beta2 = update->beta2,
                                                  .epsilon = update->epsilon,
                                                  .step = update->step,
                                                  .nesterov = update->nesterov != 0,
                                                  .coupled = update->coupled != 0});
  });
}

lowtide_status lowtide_session_set_seed(lowtide_session* session, uint64_t seed) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    inside(session).set_seed(seed);
    return {};
  });
}

lowtide_status lowtide_session_run_if_finite(lowtide_session* session, const char* name,
                                             int32_t* done) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (name == nullptr) return lowtide::missing("name");
    if (done == nullptr) return lowtide::missing("done");
    LT_ASSIGN(const bool whole, inside(session).run_if_finite(name));
    *done = whole ? 1 : 0;
    return {};
  });
}

lowtide_status lowtide_session_rehearse(lowtide_session* session, double* seconds) {
  return lowtide::guarded([&]() -> Status {
    if (session == nullptr) return lowtide::missing("session");
    if (seconds == nullptr) return lowtide::missing("seconds");
    LT_ASSIGN(*seconds, inside(session).rehearse());
    return {};
  });
}

}  // extern "C"

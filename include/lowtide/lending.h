// Training steps on tensors that somebody else owns: parameters, optimizer state and buffers stay
// where they are, and a session changes them there.
//
//     lowtide_session_open(plan, "{\"lent\": [\"w\", \"adam_m/w\", \"adam_v/w\"]}", &session);
//     lowtide_session_lend(session, "w", weights, bytes);  // and the others
//     lowtide_update now = {.learning_rate = 1e-3, .beta1 = 0.9, ..., .step = 1};
//     lowtide_session_set_update(session, "w", &now);
//     lowtide_session_run(session, 1);
//
// What is lent counts in the plan's arena as everything resident does; the session has no memory
// for it. A value can be lent that is there before the step, is no view, piece or slow resident,
// and lies row-major; else opening the session is LOWTIDE_USAGE and says why. Lent memory is at
// least aligned to its elements, belongs to the session while a step runs, and may be exchanged
// between steps by lending other.
#ifndef LOWTIDE_LENDING_H
#define LOWTIDE_LENDING_H

#include "lowtide/lowtide.h"

#ifdef __cplusplus
extern "C" {
#endif

// What an optimizer's update does, in PyTorch's words. SGD reads learning_rate, weight_decay,
// momentum and nesterov; AdamW all but these last two.
typedef struct lowtide_update {
  double learning_rate, weight_decay, momentum, beta1, beta2, epsilon;
  int64_t step;      // of this parameter, from 1
  int32_t nesterov;  // 1 or 0
  int32_t coupled;   // 1: weight decay is added to the gradient, as Adam does
} lowtide_update;

// `bytes` must be the value's. It is contents already; nothing is copied.
LOWTIDE_API lowtide_status lowtide_session_lend(lowtide_session* session, const char* name,
                                                void* memory, size_t bytes);
// Of all bytes of the plan's arena those that are lent.
LOWTIDE_API int64_t lowtide_session_lent_bytes(const lowtide_session* session);

// From now on, in place of what the plan was made with. Memory and time do not depend on it.
LOWTIDE_API lowtide_status lowtide_session_set_update(lowtide_session* session,
                                                      const char* parameter,
                                                      const lowtide_update* update);
// Of dropout and other random ops from now on, which draw as in a first step.
LOWTIDE_API lowtide_status lowtide_session_set_seed(lowtide_session* session, uint64_t seed);

// One step, or nothing: `done` is 0 where the result `name`, one number, is not finite; whatever
// was there before the step is then as it was.
LOWTIDE_API lowtide_status lowtide_session_run_if_finite(lowtide_session* session, const char* name,
                                                         int32_t* done);
// The seconds of a step that changes nothing of what is there before it. Results of the last step
// are gone.
LOWTIDE_API lowtide_status lowtide_session_rehearse(lowtide_session* session, double* seconds);

#ifdef __cplusplus
}
#endif

#endif  // LOWTIDE_LENDING_H

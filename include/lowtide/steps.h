// What a plan says, step by step: for who runs it with kernels and an arena of their own.
//
//     for (size_t i = 0; i < lowtide_plan_step_count(plan); ++i) {
//       lowtide_step step;
//       lowtide_plan_step(plan, i, &step);
//       if (step.kind == LOWTIDE_STEP_COMPUTE) run(step.op, arena + ...);
//     }
//
// An op whose outputs are views computes nothing. Ops, values and storages are numbers from 0, in
// the order of the plan file; -1: none. A value lies `offset_bytes` into its storage. A storage
// that is resident lies at its own address for the whole step; any other at that of the stay which
// a compute step (lowtide_plan_step_make) or a load began for it. docs/formats.md, "Plan files",
// says what the steps mean. All pointers belong to the plan. A bad number is LOWTIDE_USAGE.
#ifndef LOWTIDE_STEPS_H
#define LOWTIDE_STEPS_H

#include "lowtide/lowtide.h"

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(readability-identifier-naming)
typedef int32_t lowtide_step_kind;
enum {
  LOWTIDE_STEP_COMPUTE = 0,
  LOWTIDE_STEP_FREE = 1,
  LOWTIDE_STEP_STORE = 2,  // begins a copy to the slow tier
  LOWTIDE_STEP_LOAD = 3,   // begins a copy from there to `address`
  LOWTIDE_STEP_WAIT = 4    // ends the storage's copy
};

typedef int32_t lowtide_alias;
enum {
  LOWTIDE_ALIAS_OWN = 0,
  LOWTIDE_ALIAS_VIEW = 1,
  LOWTIDE_ALIAS_UPDATE = 2,
  // A whole: the storages of its producer's inputs (or the pieces of those), one behind the
  // other. Its own storage has no bytes; it begins where its first piece is while an op runs that
  // makes or reads it.
  LOWTIDE_ALIAS_PIECES = 3
};
// NOLINTEND(readability-identifier-naming)

typedef struct lowtide_step {
  lowtide_step_kind kind;
  int64_t op;                 // that computes; -1 of the other kinds
  int64_t storage;            // of the other kinds; -1 where an op computes
  int64_t address;            // of a load: where it arrives
  int64_t workspace_address;  // of an op that has workspace
  size_t make_count;          // stays that begin when the op runs
} lowtide_step;

// A stay that begins, in place of the storage `reuses` if that is not -1.
typedef struct lowtide_placement {
  int64_t storage, address, reuses;
} lowtide_placement;

typedef struct lowtide_plan_op_info {
  const char* kind;
  const char* name;
  const char* foreign;  // what the owner of an opaque op calls it; NULL of others
  size_t input_count, output_count;
  int64_t workspace_bytes;
  double predicted_seconds;  // of one run
} lowtide_plan_op_info;

typedef struct lowtide_plan_value_info {
  const char* name;
  const char* dtype;    // "f32", "i64", ...
  const int64_t* dims;  // `rank` of them
  size_t rank;
  // "row_major", "perm:0231", "strided:1,128,0" of a view (elements between neighbours along each
  // dimension), or blocked: what its kernel made of it.
  const char* layout;
  lowtide_alias alias;
  int64_t base;  // of views and updates; else -1
  int64_t storage;
  int64_t offset_bytes;  // of the first element in the storage
  int64_t producer;      // -1: there before the step
  int32_t is_output;     // 1 or 0
} lowtide_plan_value_info;

typedef struct lowtide_plan_storage_info {
  int64_t bytes;         // rounded up to the plan's alignment
  const char* category;  // "parameter", "activation", ...
  int64_t root;          // the value that brought it
  int32_t resident;      // 1: there before the step
  int32_t home_slow;     // 1: resident in slow memory, not at `address`
  int64_t address;       // of a resident of the arena; else 0
  int64_t slow_tier;     // -1: it never moves
  int64_t slow_address;  // of its slot there
} lowtide_plan_storage_info;

LOWTIDE_API size_t lowtide_plan_step_count(const lowtide_plan* plan);
LOWTIDE_API lowtide_status lowtide_plan_step(const lowtide_plan* plan, size_t index,
                                             lowtide_step* step);
LOWTIDE_API lowtide_status lowtide_plan_step_make(const lowtide_plan* plan, size_t index,
                                                  size_t make, lowtide_placement* placement);

LOWTIDE_API size_t lowtide_plan_op_count(const lowtide_plan* plan);
LOWTIDE_API lowtide_status lowtide_plan_op(const lowtide_plan* plan, size_t index,
                                           lowtide_plan_op_info* op);
// The value of an input, -1 for an optional one that is absent; of an output.
LOWTIDE_API lowtide_status lowtide_plan_op_input(const lowtide_plan* plan, size_t index,
                                                 size_t input, int64_t* value);
LOWTIDE_API lowtide_status lowtide_plan_op_output(const lowtide_plan* plan, size_t index,
                                                  size_t output, int64_t* value);

LOWTIDE_API size_t lowtide_plan_value_count(const lowtide_plan* plan);
LOWTIDE_API lowtide_status lowtide_plan_value(lowtide_plan* plan, size_t index,
                                              lowtide_plan_value_info* value);

LOWTIDE_API size_t lowtide_plan_storage_count(const lowtide_plan* plan);
LOWTIDE_API lowtide_status lowtide_plan_storage(const lowtide_plan* plan, size_t index,
                                                lowtide_plan_storage_info* storage);

#ifdef __cplusplus
}
#endif

#endif  // LOWTIDE_STEPS_H

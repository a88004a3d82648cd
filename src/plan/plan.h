// The Plan: the executable artefact. An explicit graph with concrete sizes, a list of steps, an
// address for every buffer, and what is claimed about it: predicted peak and time, a proven bound
// with its certificate, and where it came from. Plain data, no pointers; the runtime needs nothing
// else, and the verifier recomputes every claim from it alone.
//
// Memory: every value lies in a storage (own, or a view or update of its base's, as in ir/graph.h).
// Every storage has one address in the arena [0, arena_bytes). `resident` storages (there before
// the step) hold theirs for the whole step; the others from the step that makes them to the step
// after which they are freed. A storage with `reuses` took over the buffer of a dying input of its
// producer: same address, same bytes. While a compute step runs it may also use its workspace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/id.h"
#include "base/result.h"
#include "plan/op_desc.h"

namespace lowtide::plan {

struct PlanOpTag;
struct PlanValueTag;
struct PlanStorageTag;
using PlanOpId = Id<PlanOpTag>;
using PlanValueId = Id<PlanValueTag>;
using PlanStorageId = Id<PlanStorageTag>;

enum class PlanAlias : uint8_t { kOwn, kView, kUpdate };

// See ir::InitialValue.
struct PlanInitial {
  enum class Kind : uint8_t { kFed, kSeeded, kZero, kInline, kExternal };
  Kind kind = Kind::kFed;
  std::string bytes{};
  std::string file{};
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const PlanInitial&) const = default;
};

struct PlanValue {
  std::string name{};
  TensorDesc type{};
  PlanAlias alias = PlanAlias::kOwn;
  PlanValueId base{};        // for views and updates
  int64_t offset_bytes = 0;  // of the first element in the storage
  PlanStorageId storage{};
  PlanOpId producer{};  // none: there before the step
  bool is_output = false;
  PlanInitial initial{};  // when producer is none
  bool operator==(const PlanValue&) const = default;
};

struct PlanStorage {
  PlanValueId root{};
  int64_t bytes = 0;  // rounded up to the plan's alignment
  Category category = Category::kActivation;
  bool resident = false;
  int64_t address = 0;     // offset in the arena, a multiple of the alignment
  PlanStorageId reuses{};  // none, or the storage whose buffer this one took over
  bool operator==(const PlanStorage&) const = default;
};

struct PlanOp {
  std::string kind{};
  std::string name{};
  std::string module{};
  Phase phase = Phase::kForward;
  Attrs attrs{};
  std::vector<PlanValueId> inputs{};  // none() where an optional input is absent
  std::vector<PlanValueId> outputs{};
  std::vector<PlanOpId> control{};  // must run before this op
  int64_t workspace_bytes = 0;      // rounded up to the alignment
  double predicted_seconds = 0;     // of one run, by the device profile
  bool operator==(const PlanOp&) const = default;
};

struct Step {
  enum class Kind : uint8_t { kCompute, kFree };
  Kind kind = Kind::kCompute;
  PlanOpId op{};                  // kCompute
  int64_t workspace_address = 0;  // kCompute, when the op has workspace
  PlanStorageId storage{};  // kFree: not readable from here on (a reused one is freed by its heir)
  bool operator==(const Step&) const = default;
};

// Evidence for the lower bound; see CutCertificate in schedule_problem.h, in terms of the plan's
// ops.
struct BoundCertificate {
  PlanOpId op{};
  std::vector<PlanOpId> prefix{};  // ops that ran before `op` in the cheapest such state, ascending
  int64_t value_bytes = 0;
  bool operator==(const BoundCertificate&) const = default;
};

struct Claims {
  int64_t peak_bytes = 0;         // of this order, everything on the device
  int64_t peak_before_bytes = 0;  // of the ops in their given order, nothing reused in place
  int64_t lower_bound_bytes = 0;  // proven for every order of these ops: the certificate's value;
                                  // without one what is resident
  bool order_proven = false;      // peak_bytes == lower_bound_bytes
  std::optional<BoundCertificate> certificate;
  double predicted_seconds = 0;  // of the step
  bool operator==(const Claims&) const = default;
};

struct Plan {
  static constexpr int kVersion = 1;
  std::string model{};  // name of the model
  std::map<std::string, std::string, std::less<>>
      provenance;  // options, device, seed: what would make it again
  std::map<std::string, int64_t, std::less<>> bindings;  // guards: the sizes it holds for
  int64_t alignment_bytes = 64;
  int64_t arena_bytes = 0;
  IdVector<PlanValueId, PlanValue> values;
  IdVector<PlanStorageId, PlanStorage> storages;
  IdVector<PlanOpId, PlanOp> ops;  // in the given (program) order; steps say when they run
  std::vector<Step> steps{};
  Claims claims;
  bool operator==(const Plan&) const = default;
};

// The op with its operands' types, as kernels want it.
OpDesc describe(const Plan& plan, PlanOpId op);

}  // namespace lowtide::plan

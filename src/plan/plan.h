// The Plan: the executable artefact. An explicit graph with concrete sizes, a list of steps, an
// address for every buffer, and what is claimed about it: predicted peak and time, proven bounds
// with their certificates, and where it came from. Plain data, no pointers; the runtime needs
// nothing else, and the verifier recomputes every claim from it alone.
//
// Stays. Every value lies in a storage (own, or a view or update of its base's, as in ir/graph.h).
// A storage is in the arena [0, arena_bytes) during its *stays*, each at one address. `resident`
// storages (there before the step) have one stay, the whole step, at PlanStorage::address. The
// others begin a stay where a compute step makes them (Step::makes) or a load brings them back, and
// end it where a step frees them, or where a compute step makes another storage in their buffer
// (Placement::reuses: same address, same bytes, a dying input of that op). A storage has one stay
// at a time. While a compute step runs it may also use its workspace.
//
// Pieces. A value of alias kPieces is a *whole*: the storages of its producer's inputs, one behind
// the other. Its own storage has no bytes and no stay. While an op runs that makes or reads it
// (or a view of it), and at the end where it is a result, the stays of all pieces lie at the
// distances that their sizes ask for; at other times each piece comes and goes by itself.
//
// Reruns. An op may run several times if its kind may (op table: recomputable). Every run makes all
// of its outputs anew, at addresses of its own; their earlier stays have ended by then. A value is
// what the last run made: who reads a version must find its storage showing that version. Ops that
// only make views compute nothing; they run again after each run of the op that makes their base,
// those on pieces before the next op that reads them.
//
// Transfers. A storage with a slow tier has a slot there. A store begins a copy from the arena to
// the slot: until its wait the buffer may be read, but not written, freed or taken over. A load
// begins a copy from the slot to a new stay: the bytes are occupied from there on, and readable
// only after the wait. At most one transfer of a storage is under way at a time; transfers of one
// tier run one after another in each direction, beside the ops. Residents with `home_slow` have
// their contents in the slot before and after the step and are absent from the arena then.
//
// Tests: plan_text_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/id.h"
#include "base/result.h"
#include "plan/certificate.h"
#include "plan/op_desc.h"

namespace lowtide::plan {

struct PlanOpTag;
struct PlanValueTag;
struct PlanStorageTag;
using PlanOpId = Id<PlanOpTag>;
using PlanValueId = Id<PlanValueTag>;
using PlanStorageId = Id<PlanStorageTag>;

enum class PlanAlias : uint8_t { kOwn, kView, kUpdate, kPieces };
// Whether a value of this alias is made without computing anything.
constexpr bool is_view(PlanAlias alias) {
  return alias == PlanAlias::kView || alias == PlanAlias::kPieces;
}

// See ir::InitialValue.
struct PlanInitial {
  enum class Kind : uint8_t { kFed, kSeeded, kZero, kInline, kExternal };
  Kind kind = Kind::kFed;
  std::string bytes{};
  std::string file{};
  int64_t offset = 0;
  int64_t length = 0;
  int64_t limit = 0;  // of fed integers: drawn from a seed they stay below; 0: nothing bounds them
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
  int64_t output_rank = 0;  // outputs are listed by rank, then by id
  PlanInitial initial{};    // when producer is none
  bool operator==(const PlanValue&) const = default;
};

struct PlanStorage {
  PlanValueId root{};
  int64_t bytes = 0;  // rounded up to the plan's alignment; 0 of a whole
  Category category = Category::kActivation;
  bool resident = false;
  bool home_slow = false;  // resident only: between steps it lies in its slot, not in the arena
  int64_t address = 0;     // residents whose home is the arena; 0 for all others
  // Into Plan::slow_tiers; -1: never stored or loaded, as all residents whose home is the arena.
  int32_t slow_tier = -1;
  int64_t slow_address = 0;  // of the slot in that tier
  bool operator==(const PlanStorage&) const = default;
};

// What an op of a step in parts is in the step in one part: the first part of an op stands for all
// of it, other parts and what cuts and joins for nothing.
struct PlanUnsplit {
  double seconds = 0;  // predicted, of one run
  int64_t workspace_bytes = 0;
  std::vector<int64_t> output_bytes{};  // of a first part; rounded up to the alignment
  bool operator==(const PlanUnsplit&) const = default;
};

struct PlanOp {
  std::string kind{};
  std::string name{};
  std::string module{};
  std::string source{};  // line of the model's code; may be empty
  Phase phase = Phase::kForward;
  Attrs attrs{};
  std::vector<PlanValueId> inputs{};  // none() where an optional input is absent
  std::vector<PlanValueId> outputs{};
  std::vector<PlanOpId> control{};       // must run before this op
  int64_t workspace_bytes = 0;           // rounded up to the alignment
  double predicted_seconds = 0;          // of one run, by the device profile
  std::optional<PlanUnsplit> unsplit{};  // in a step in parts, where it is another than this op
  bool operator==(const PlanOp&) const = default;
};

// The beginning of one stay of a storage in the arena.
struct Placement {
  PlanStorageId storage{};
  int64_t address = 0;
  // None, or the storage whose buffer this one takes over and whose stay ends here.
  PlanStorageId reuses{};
  bool operator==(const Placement&) const = default;
};

struct Step {
  enum class Kind : uint8_t { kCompute, kFree, kStore, kLoad, kWait };
  Kind kind = Kind::kCompute;
  PlanOpId op{};                   // kCompute
  int64_t workspace_address = 0;   // kCompute, when the op has workspace
  std::vector<Placement> makes{};  // kCompute: one per output with a storage of its own, in order
  PlanStorageId storage{};         // the others
  int64_t address = 0;             // kLoad: where it arrives
  bool operator==(const Step&) const = default;
};

// Slow memory that storages may be moved to, with a link to it. Both directions share nothing.
struct SlowTier {
  std::string name{};
  int64_t bytes = 0;
  double bytes_per_second_out = 0;  // arena -> tier
  double bytes_per_second_in = 0;
  double latency_seconds = 0;
  double compute_seconds_per_byte = 0;  // that a copy keeps the device from computing
  bool operator==(const SlowTier&) const = default;
};

// Evidence in terms of the plan's ops and storages.
struct PlanIds {
  using Op = PlanOpId;
  using Storage = PlanStorageId;
};
using PeakCut = PeakCutOf<PlanIds>;
using CutPrice = CutPriceOf<PlanIds>;
using TimeCuts = TimeCutsOf<PlanIds>;
using ProofMultiplier = ProofMultiplierOf<PlanIds>;
using ProofNode = ProofNodeOf<PlanIds>;
using Cases = CasesOf<PlanIds>;
using BackwardWay = BackwardWayOf<PlanIds>;
using Certificate = CertificateOf<PlanIds>;

// What every schedule needs in whatever parts ops run, `op` of the step in one part in at most
// `parts`: residents that cannot be elsewhere, and one part of the op's first result.
struct PartsFloor {
  int64_t bytes = 0;
  std::string op{};
  int64_t parts = 1;
  int64_t part_bytes = 0;
  bool operator==(const PartsFloor&) const = default;
};

struct Claims {
  int64_t peak_bytes = 0;         // of these steps, everything on the device
  int64_t peak_before_bytes = 0;  // of the ops in their given order, nothing reused in place
  // Proven for every order in which each op runs once and nothing moves: the value of the
  // certificate's peak cut; without one what is resident.
  int64_t lower_bound_bytes = 0;
  // peak_bytes == lower_bound_bytes, in a plan in which each op runs once and nothing moves; false
  // in all others.
  bool order_proven = false;
  std::optional<int64_t> budget_bytes;  // the plan was asked to stay within; arena_bytes does
  std::optional<int64_t> floor_bytes;   // proven for every schedule, reruns and transfers included
  // Of a plan in parts only the step in one part can show it (verify/parts.h).
  std::optional<PartsFloor> parts_floor{};
  double once_seconds = 0;       // all ops, each once
  double predicted_seconds = 0;  // of the step, with reruns and transfers not hidden
  double exposed_seconds = 0;    // part of it that transfers add to the ops
  // Proven for every schedule within the budget: what a certificate shows, else each op once.
  int64_t lower_bound_ticks = 0;
  double lower_bound_seconds = 0;  // that in seconds, at most predicted_seconds
  // Of the peak, of the time, cases where they show more of it, and of the floor where no single
  // op sets it.
  Certificate certificate{};
  bool operator==(const Claims&) const = default;
};

struct Plan {
  // These six are in the .cc: else each file that copies one has their code again.
  Plan();
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();
  static constexpr int kVersion = 3;
  std::string model{};  // name of the model
  // Options, device, seed: what would make it again.
  std::map<std::string, std::string, std::less<>> provenance;
  std::map<std::string, int64_t, std::less<>> bindings;  // guards: the sizes it holds for
  int64_t alignment_bytes = 64;
  int64_t arena_bytes = 0;
  std::vector<SlowTier> slow_tiers{};
  IdVector<PlanValueId, PlanValue> values;
  IdVector<PlanStorageId, PlanStorage> storages;
  IdVector<PlanOpId, PlanOp> ops;  // in the given order; steps say when they run
  std::vector<Step> steps{};
  Claims claims;
  bool operator==(const Plan&) const = default;
};

// A storage in memory that is part of a whole, and where it begins in it.
struct PlanPiece {
  PlanStorageId storage{};
  int64_t offset_bytes = 0;
  bool operator==(const PlanPiece&) const = default;
};

// By storage: of a whole its pieces by rising offset, none of them a whole itself; of others
// nothing.
IdVector<PlanStorageId, std::vector<PlanPiece>> pieces_of(const Plan& plan);
// By storage: what occupies memory for it, its pieces or itself.
IdVector<PlanStorageId, std::vector<PlanStorageId>> memory_of(const Plan& plan);

// Whether some op runs more than once or something is stored or loaded.
bool reruns_or_moves(const Plan& plan);

// Whether the claimed bound on the time is what the steps take, in ticks: no schedule is faster.
bool is_fastest(const Plan& plan);

// Whether all outputs of the op are views: nothing is computed.
bool only_views(const Plan& plan, PlanOpId op);

// The op with its operands' types, as kernels want it.
OpDesc describe(const Plan& plan, PlanOpId op);

}  // namespace lowtide::plan

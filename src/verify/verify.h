// The independent verifier. It takes a Plan and nothing else, and recomputes by definition
// everything the plan says or relies on: what each op makes of its inputs (from the op table), who
// may read what when, which buffers are alive, that none of them overlap in time and address, the
// peak before and after planning, and the evidence for the bound (with a maximum flow of its own).
// No code is shared with the planners, so a mistake of theirs is not repeated here.
//
//   Report report = verify(plan);
//   if (!report.ok())
//     for (const Finding& f : report.findings) ...
//     // "read_after_free: op 'add3' reads 'relu2.out' ..."
//
// The memory model is the one of plan/schedule_problem.h, with two readings made explicit. Ops
// whose outputs are all views compute nothing: they must run while their base lives, but do not
// count as readers in peak_before or in the bound. Where an output reuses a dying input, that input
// must fill its storage from its first byte and be read through one operand only.
//
// Time is the one of plan/sequence_simulator.h: ops one after another, and beside them one stream
// per tier and direction; a transfer begins when the ops before it and the stream's earlier
// transfers have ended, and a wait holds up the ops until the transfer has ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plan/plan.h"

namespace lowtide::verify {

// One kind for each way in which a plan can be wrong.
enum class Violation : uint8_t {
  // Ids or numbers that refer to nothing (plan/plan_check.h); nothing else is looked at then.
  kMalformed,
  kUnknownOp,    // the op table has no such kind
  kOperands,     // the op table refuses the operands or attributes
  kOutputType,   // an output has another dtype, shape or layout than the op makes
  kOutputAlias,  // an output owns, views or updates what the op does not
  kViewOffset,   // a view or update starts at another byte than the op says
  kViewOutside,  // a view or update ends behind its storage
  // Overwrites what is no parameter, state or running statistic, or only a part of it.
  kUpdateTarget,
  // Joins what cannot be a piece; or a whole that is written in slices lacks one or has one twice.
  kPieces,
  kPiecesApart,        // a whole is seen while its pieces do not lie at their distances
  kContents,           // initial contents of the wrong length
  kStorageBytes,       // not the root's size rounded up to the alignment
  kCategory,           // a role that the buffer's use rules out (roles.cc)
  kResidency,          // resident although an op makes it, or the reverse
  kGivenOrder,         // in the given order already, an op reads a version that was overwritten
  kOpMissing,          // never runs
  kOpRepeated,         // runs again though its kind may not
  kInputNotReady,      // runs before its input is made (a view: made again since its base was)
  kControlOrder,       // runs before an op it must wait for, or again after one that waits for it
  kStaleRead,          // reads a storage that shows another version
  kReadAfterFree,      // reads a storage that was freed
  kReadAfterReuse,     // reads a storage whose buffer was taken over
  kFreeNotAlive,       // frees what is not there (not yet made, freed already, taken over)
  kFreeResident,       // frees what must stay for the whole step
  kFreeOutput,         // a result of the step is not there at its end
  kNeverFreed,         // there at the end, and neither an output nor a resident of the arena
  kOutputOverwritten,  // a result of the step was overwritten or taken over before the end
  // The op table does not list the pair, or the dying input is an output, resident or read twice.
  kReusePair,
  kReuseMisplaced,         // the heir has another address or size
  kReuseNotAlive,          // takes over what its producer does not find alive
  kMadeAlive,              // makes a storage whose last stay has not ended
  kReadInFlight,           // reads what a load has not brought yet
  kWriteInFlight,          // overwrites, frees or takes over what is being stored or loaded
  kStoreNotAlive,          // stores what is not there
  kTransferPending,        // stores before the last transfer of the storage was waited for
  kLoadAlive,              // loads what is there
  kLoadNotStored,          // loads what its slot never got
  kWaitIdle,               // waits for nothing
  kTransferOpen,           // nothing waits for a transfer
  kHomeStale,              // a resident of a slow tier was overwritten and not stored after that
  kSlotOutside,            // a slot ends behind its tier
  kSlotOverlap,            // two slots share bytes at the same time
  kMisaligned,             // an address or workspace size that is no multiple of the alignment
  kOutsideArena,           // ends behind the arena
  kOverlap,                // two buffers share bytes at the same time
  kPeak,                   // claimed peak
  kPeakBefore,             // claimed peak of the given order
  kBudget,                 // the arena is larger than the claimed budget
  kFloor,                  // claimed floor above what every schedule needs
  kPartsFloor,             // claimed floor of whatever parts above what stays and a part
  kOnceSeconds,            // claimed time of all ops, each once
  kSeconds,                // claimed time of the step
  kExposedSeconds,         // claimed time in which no op runs
  kTimeBoundAboveTime,     // claimed bound on the time above the claimed time
  kTimeBoundUncertified,   // without a certificate, a bound on the time other than each op once
  kTimeCertificate,        // the certificate does not show the bound on the time
  kTimeBoundSeconds,       // that bound in seconds is not what its ticks are
  kBoundAbovePeak,         // claimed bound above the claimed peak, each op running once
  kBoundBelowCertificate,  // claimed bound below its own evidence
  // Claimed bound above its evidence: the certificate or, without one, what is resident.
  kBoundUncertified,
  // order_proven says another thing than peak and bound; or is claimed of a plan with reruns or
  // transfers.
  kOrderProven,
  // The state is not closed, or lacks an ancestor of the op, or has the op or a descendant.
  kCertificatePrefix,
  kCertificateValue,     // the state costs another number of bytes
  kCertificateNotLeast,  // another state is cheaper, so nothing is proven
};
inline constexpr int kViolations = 64;
// "read_after_free"
std::string_view name(Violation violation);

struct Finding {
  Violation kind;
  std::string message;  // one line: names and numbers
};

struct Report {
  std::vector<Finding> findings;   // at most kMaxFindings; empty: the plan is right
  std::vector<std::string> notes;  // true and worth knowing, not wrong
  // What the step in one part says of the claimed floor of any parts, the plan does not
  // (parts.h); empty: nothing is left open.
  std::string open_parts_floor;
  int64_t peak_bytes = 0;         // of the steps
  size_t peak_step = 0;           // first step at the peak
  int64_t peak_before_bytes = 0;  // the given order, nothing reused
  // The least state for the certificate's op, recomputed; 0 without certificate.
  int64_t cut_bytes = 0;
  int64_t arena_high_water_bytes = 0;  // end of the highest buffer
  int64_t resident_bytes = 0;
  // No schedule needs less: the dearest op with what must stay beside it, or the claimed bytes if
  // the certificate shows them.
  int64_t floor_bytes = 0;
  double once_seconds = 0;       // sum over ops
  double run_seconds = 0;        // sum over runs
  double predicted_seconds = 0;  // of the step, transfers included
  double exposed_seconds = 0;    // predicted_seconds - run_seconds
  // No schedule within the budget is faster: what the certificate shows; each op once without one
  // (plan/tick_scale.h).
  int64_t time_bound_ticks = 0;
  double time_bound_seconds = 0;  // that in seconds
  int64_t reruns = 0;             // runs of ops that compute something and ran before
  int64_t stored_bytes = 0, loaded_bytes = 0;

  bool ok() const { return findings.empty(); }
  bool has(Violation kind) const;
};
inline constexpr size_t kMaxFindings = 200;

// How much is asked of the floor: all that there is to find, or as much as the plan claims. The
// latter finds the same wrong claims; Report::floor_bytes may then be less, where the search for
// more ended.
struct FloorAsked {
  bool as_claimed = false;
  // Then an op that is looked at before all others, whatever it is; none: as they come.
  plan::PlanOpId first = {};
};

// O(n^2) in buffers, and one maximum flow; well under 2 s for 2,500 ops. Survives any plan.
Report verify(const plan::Plan& plan, const FloorAsked& asked = {});

}  // namespace lowtide::verify

// ScheduleProblem: which op runs when (and, under a budget, how often and what is moved to the slow
// tier), as plain data.
//
// The model of a step (MODeL section 3; HiREmate section 3.2.2). Ops run one after another. A value
// appears when its producer runs and is freed after its last reader has run; a value without
// readers is freed right after its producer, one with `is_output` stays to the end. While an op
// runs, its inputs, its outputs and its workspace are all present:
//
//     peak = resident_bytes
//          + max over steps (live before the step + outputs + workspace - reused in place)
//
// In place: if (op, input, output) is an in-place pair, both have the same bytes, input is no graph
// output, and op is the last reader of input still to run, then output takes over input's buffer
// and costs nothing while op runs. An op uses each input and each output in one pair at most: its
// pairs are tried in the order listed. It is always taken when it is legal. (It never hurts: what
// is live after the op is the same, and while it runs less is present.)
//
// Values are storages, not tensors: views have been merged into their bases, readers of a view are
// readers of its base. Buffers that stay for the whole step (parameters, optimizer state, inputs)
// are in `resident_bytes` only; what their in-place updates demand of the order is in `control`.
//
// Tests: schedule_text_test.cc, schedule_simulator_test.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "plan/certificate.h"
#include "plan/outcome.h"

namespace lowtide::plan {

struct SchedOpTag;
struct SchedValueTag;
struct SchedResidentTag;
using SchedOpId = Id<SchedOpTag>;
using SchedValueId = Id<SchedValueTag>;
using SchedResidentId = Id<SchedResidentTag>;

struct SchedOp {
  std::string name;             // for people; may be empty
  double seconds = 0;           // time of one run
  bool may_rerun = false;       // may run again to make its outputs anew
  int64_t workspace_bytes = 0;  // present only while the op runs
  bool operator==(const SchedOp&) const = default;
};

struct SchedValue {
  std::string name;                // for people; may be empty
  int64_t bytes = 0;               // rounded up to the alignment already
  SchedOpId producer;              // always valid
  std::vector<SchedOpId> readers;  // ascending, no duplicates, never the producer
  bool is_output = false;          // stays until the end of the step
  // Ascending, all of them readers too: who overwrites it (what was stored before is stale then);
  // neither they nor the producer may run again.
  std::vector<SchedOpId> writers;
  // A transfer stands for one of so many parts of a whole, one after another: in a problem of one
  // part of everything (fission/scale.h). Its bytes are those of one of them.
  int64_t moved_parts = 1;
  int64_t moved_bytes() const { return bytes * moved_parts; }
  bool operator==(const SchedValue&) const = default;
};

struct InPlacePair {
  SchedOpId op;
  SchedValueId input;   // read by op
  SchedValueId output;  // produced by op
  bool operator==(const InPlacePair&) const = default;
};

// A buffer that is there before and after the step (a parameter, optimizer state) and that a link
// may move. Its bytes are part of resident_bytes.
struct SchedResident {
  std::string name;                // for people; may be empty
  int64_t bytes = 0;               // rounded up to the alignment already
  std::vector<SchedOpId> readers;  // ascending: whoever needs it present
  std::vector<SchedOpId> writers;  // ascending, all of them readers too: whoever changes it
  int64_t moved_parts = 1;         // as of values: it is moved so often
  int64_t moved_bytes() const { return bytes * moved_parts; }
  bool operator==(const SchedResident&) const = default;
};

// A path to a slower tier (host memory, a file). Both directions share nothing, nor do two links.
// Where the processor that computes also copies, each byte moved keeps it from computing for a
// while, whether or not anybody waits.
struct Link {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  double bytes_per_second_out = 0;
  double bytes_per_second_in = 0;
  double latency_seconds = 0;
  double compute_seconds_per_byte = 0;
  int64_t bytes = kUnlimited;  // that the tier has room for
  bool operator==(const Link&) const = default;
};

struct ScheduleProblem {
  // These six are in the .cc: else each file that copies one has their code again.
  ScheduleProblem();
  ScheduleProblem(const ScheduleProblem&);
  ScheduleProblem(ScheduleProblem&&) noexcept;
  ScheduleProblem& operator=(const ScheduleProblem&);
  ScheduleProblem& operator=(ScheduleProblem&&) noexcept;
  ~ScheduleProblem();
  IdVector<SchedOpId, SchedOp> ops;  // in the order that came in, which must be a valid one
  IdVector<SchedValueId, SchedValue> values;
  std::vector<InPlacePair> in_place;  // sorted by op; within an op by preference
  // Every run of first comes before every run of second.
  std::vector<std::pair<SchedOpId, SchedOpId>> control;
  IdVector<SchedResidentId, SchedResident> residents;  // only those that may be moved
  int64_t resident_bytes = 0;
  std::optional<int64_t> budget_bytes;  // of the whole device, resident bytes included
  std::optional<Link> link;
  std::vector<Link> more_links;  // further tiers, in order of preference; only with a link
  bool operator==(const ScheduleProblem&) const = default;
};

// Tiers are numbered as they are preferred: 0 is that of `link`.
std::vector<Link> links_of(const ScheduleProblem& problem);

// One link that is at least as good as all of them together: what a bound may count on. Nothing
// without a link.
std::optional<Link> combined_link(const ScheduleProblem& problem);

// Takes the links away.
void forbid_transfers(ScheduleProblem& problem);

// Checks what the comments above demand: producers valid, readers sorted and after no cycle, nobody
// who overwrites may rerun, in-place pairs consistent, the given order topological, residents
// within resident_bytes, sums at most kMaxBytes, times from 0 to 1e12 s, at least one moved part
// and at most kMaxBytes of all of a value's, links of at least 1 byte per second and at most 255 of
// them. Error: kInput, naming the op, value or resident.
Status check(const ScheduleProblem& problem);

// One thing that happens in a step: an op runs, or a buffer moves between the device and the slow
// tier. A sequence of actions is a whole schedule; everything else follows from it (see
// sequence_simulator.h):
//
//   run op      An op that may_rerun may run any number of times, any other exactly once. Each run
//               makes all outputs anew. A value that is made is present until its last reader
//               before the next time it appears, then freed; an output, the last time, to the end.
//   store v     Begins to copy v, which is present, to the slow tier. v may be read meanwhile.
//   drop v      Waits until the store of v has ended and frees v. Every store has its drop; what
//               was stored once and was not overwritten since can be dropped again without one.
//   load v      Begins to copy v back; its buffer is occupied from here. The first reader waits
//               until it has arrived.
//
// Each move names its tier; what moves keeps to one tier.
//
// A resident that moves has its home in the slow tier: it is absent when the step begins, its first
// action is a load, and it is absent again at the end, stored after its last writer.
struct SchedAction {
  enum class Kind : uint8_t { kRun, kStore, kDrop, kLoad };
  Kind kind = Kind::kRun;
  SchedOpId op{};        // kRun
  SchedValueId value{};  // else, one of these two
  SchedResidentId resident{};
  uint8_t tier = 0;  // of a move
  static SchedAction run(SchedOpId op) { return {Kind::kRun, op, {}, {}}; }
  static SchedAction store(SchedValueId v) { return {Kind::kStore, {}, v, {}}; }
  static SchedAction drop(SchedValueId v) { return {Kind::kDrop, {}, v, {}}; }
  static SchedAction load(SchedValueId v) { return {Kind::kLoad, {}, v, {}}; }
  static SchedAction store(SchedResidentId r) { return {Kind::kStore, {}, {}, r}; }
  static SchedAction drop(SchedResidentId r) { return {Kind::kDrop, {}, {}, r}; }
  static SchedAction load(SchedResidentId r) { return {Kind::kLoad, {}, {}, r}; }
  bool operator==(const SchedAction&) const = default;
};

// The runs among them: the schedule without its transfers.
std::vector<SchedAction> runs_of(std::span<const SchedAction> sequence);

// Evidence in terms of the problem's ops and values.
struct ProblemIds {
  using Op = SchedOpId;
  using Storage = SchedValueId;
};
using ProblemCertificate = CertificateOf<ProblemIds>;

struct ScheduleOutcome {
  SolveStatus status = SolveStatus::kLimit;
  std::vector<SchedOpId> sequence;  // op runs, each once; empty when there is no solution
  int64_t peak_bytes = 0;           // of sequence, resident bytes included
  int64_t lower_bound_bytes = 0;    // proven for every order
  ProblemCertificate certificate;   // its peak cut's value_bytes <= lower_bound_bytes
  SolveWork work;
};

}  // namespace lowtide::plan

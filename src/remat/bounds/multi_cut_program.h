// A multi-cut as an integer program of variables that are 0 or 1, and the bound that any
// multipliers of its rows prove (weak duality).
//
// With the segments of cut_segments.h, and
//     R[k,o] = "o runs in segment k"         S[k,v] = "v stays in memory at t_k, past its start"
//     Y[k,o] = "o runs once t_k has begun"
// every schedule within the budget satisfies
//
//     S[k,u] + R[k, producer of u] >= R[k,q]          each u that q != t_k reads        kNeed
//     S[k-1,v] + R[k-1, producer of v] >= S[k,v]      (1 for what t_k reads)            kStay
//     sum of R[k,o] over the segments of o's first run >= 1                             kOnce
//     bytes of S[k,.] <= capacity at t_k                                                kCapacity
//     S[k,u] + Y[k, producer of u] >= Y[k,o]          each u that o != t_k reads        kAgainNeed
//     sum of R[j,o] over j >= k >= Y[k,o]                                               kAgainRuns
//     Y[k,o] + sum of R[j,o] over j < k >= 1          if o may first run after t_k      kAgainLate
//
// and takes at least the sum of R[k,o] * seconds of o. An output counts as read once more at the
// end. A capacity also holds in whole parts of d bytes each, those of a value and of the capacity
// rounded down: with the sizes that most values have for d, the room that no such value could fill
// is cut off (Chvatal and Gomory's rounding). R is 1 where the first run must be, Y of all that
// first runs then; both are 0 where the op can no longer run. The rows of Y follow from the others
// in whole numbers, not in fractions: with them the relaxation is never below the closure cut's
// bound of any of the ops.
//
// For multipliers m >= 0 of the rows (sum of a * x >= b), and 0 <= x <= 1,
//
//     least time >= m b + sum over variables of min over the x allowed of (time - m a) x
//
// holds whatever the multipliers are, so an LP solver's floating point needs no trust. Values of a
// few bytes are left out (they always stay, for nothing), which only weakens the bound.
//
// Tests: bound_program_test.cc, branch_cut_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/certificate.h"
#include "remat/bounds/cut_segments.h"

namespace lowtide::remat {

using CutRowKind = plan::ProofRow;
struct CutRowName {
  CutRowKind kind = CutRowKind::kCapacity;
  size_t cut = 0;        // k; of kOnce 0
  SchedOpId op{};        // q or o; none: at the end of the step
  SchedValueId value{};  // u or v
  int64_t divisor = 0;   // of kCapacity
  bool operator==(const CutRowName&) const = default;
};
// Are the row's coefficients bytes?
inline bool counts_bytes(const CutRowName& row) {
  return row.kind == CutRowKind::kCapacity && row.divisor == 1;
}

using CutVariableKind = plan::ProofVariable;
struct CutVariable {
  CutVariableKind kind = CutVariableKind::kRun;
  size_t cut = 0;  // k
  size_t id = 0;   // index of an op, or of a value for kStay
  bool operator==(const CutVariable&) const = default;
};

struct CutTerm {
  uint32_t variable = 0;
  int64_t coefficient = 0;  // 1 or -1; of kCapacity less the bytes, or parts
};
struct CutRow {  // sum of coefficient * variable >= least
  CutRowName name;
  int64_t least = 0;
  std::vector<CutTerm> terms;
};

// Of a row, by index; in MultiCutProgram::unit_ticks; where the row counts bytes, for 2^20 of them.
struct CutMultiplier {
  uint32_t row = 0;
  int32_t value = 0;
  bool operator==(const CutMultiplier&) const = default;
};

// What a variable is fixed to; kFree: 0 or 1.
inline constexpr int8_t kFree = -1;

struct MultiCutProgram {
  // Values of at most `small_bytes` are left out. Borrows `segments`.
  MultiCutProgram(const CutSegments& segments, int64_t small_bytes);

  // In ticks, beyond each op once, rounded down. `fixed` by variable.
  int64_t bound(std::span<const CutMultiplier> multipliers, std::span<const int8_t> fixed) const;

  std::vector<CutVariable> variables;
  std::vector<int64_t> ticks;  // by variable
  std::vector<CutRow> rows;
  int64_t forced_ticks = 0;  // of runs that no variable stands for, less each op once; <= 0
  int64_t once_ticks = 0;    // each op once
  int64_t unit_ticks = 1;
};

}  // namespace lowtide::remat

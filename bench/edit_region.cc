#include "edit_region.h"

#include <time.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ops/edit.h"

namespace lowtide::bench {

using ir::OpId;
using ir::ValueId;

void recompute_region(ir::GraphEdit& edit, size_t first) {
  std::vector<std::pair<ValueId, ValueId>> again;
  const auto now = [&](ValueId id) {
    for (const auto& [was, is] : again)
      if (was == id) return is;
    return id;
  };
  OpId place;
  for (OpId id = edit.first_op(); id.valid() && !place.valid(); id = edit.next_op(id))
    if (edit.op(id).phase == Phase::kBackward) place = id;
  for (size_t i = first; i < first + kRegion; ++i) {
    const ir::Op op = edit.op(OpId(i));
    std::vector<ValueId> inputs = op.inputs;
    for (ValueId& input : inputs) input = now(input);
    const auto made =
        ops::append(edit, ir::Place::before(place), op.kind, inputs, op.attrs, {.name = op.name});
    LT_CHECK(made.has_value(), made ? std::string() : made.error().message);
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const ValueId was = op.outputs[o], is = edit.op(*made).outputs[o];
      again.emplace_back(was, is);
      std::vector<OpId> later;
      for (const OpId reader : edit.readers(was))
        if (edit.op(reader).phase == Phase::kBackward) later.push_back(reader);
      LT_CHECK(edit.replace_reads(was, is, later).has_value(), op.name);
    }
  }
}

Result<analysis::OpCost> no_cost(const ir::GraphEdit&, OpId) {
  return analysis::OpCost{1e-3, 0};
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double>& seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace lowtide::bench

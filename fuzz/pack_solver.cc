// The address packer on any problem: buffers that coexist do not overlap, offsets are aligned and,
// where they were fixed, kept, and height, bound and status say what is so. Inputs that parse are
// taken as they are; of all others the bytes are the choices by which a small problem is drawn.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "fuzz/choices.h"
#include "pack/pack.h"
#include "plan/pack_text.h"
#include "plan/testing/max_load.h"

namespace {

using namespace lowtide;

constexpr size_t kMaxBuffers = 64;

void check_offsets(const plan::PackProblem& problem, const plan::PackOutcome& outcome) {
  int64_t height = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const plan::BufferId a(i);
    const plan::Buffer& buffer = problem.buffers[a];
    const int64_t offset = outcome.offsets[a];
    LT_CHECK(offset >= 0 && offset % buffer.alignment_bytes == 0, "offsets are aligned");
    LT_CHECK(!buffer.fixed_offset || *buffer.fixed_offset == offset, "fixed offsets are kept");
    height = std::max(height, offset + buffer.size_bytes);
    for (size_t j = 0; j < i; ++j) {
      const plan::BufferId b(j);
      const plan::Buffer& other = problem.buffers[b];
      const bool coexist = buffer.live.begin < other.live.end && other.live.begin < buffer.live.end;
      const bool apart = offset + buffer.size_bytes <= outcome.offsets[b] ||
                         outcome.offsets[b] + other.size_bytes <= offset;
      LT_CHECK(!coexist || apart || buffer.size_bytes == 0 || other.size_bytes == 0,
               "buffers that coexist do not overlap");
    }
  }
  LT_CHECK(outcome.height_bytes == height, "the height is the highest end of a buffer");
  LT_CHECK(outcome.lower_bound_bytes <= height, "the bound is below the height");
}

void check_answer(const plan::PackProblem& problem) {
  if (problem.buffers.size() > kMaxBuffers) return;
  pack::PackOptions options;
  options.limits.max_units = 200'000;
  const plan::PackOutcome outcome = pack::solve(problem, options);
  if (outcome.offsets.size() == problem.buffers.size()) check_offsets(problem, outcome);
  LT_CHECK(outcome.offsets.size() == problem.buffers.size() || outcome.offsets.empty(),
           "all buffers have an offset, or none");
  const bool fixed =
      std::any_of(problem.buffers.begin(), problem.buffers.end(),
                  [](const plan::Buffer& buffer) { return buffer.fixed_offset.has_value(); });
  if (fixed) return;
  LT_CHECK(outcome.offsets.size() == problem.buffers.size(), "without fixed offsets all can lie");
  LT_CHECK(outcome.lower_bound_bytes >= plan::max_load_bytes(problem),
           "the bound is at least the max load");
}

plan::PackProblem drawn(fuzz::Choices& choices) {
  plan::PackProblem problem;
  while (choices.live() && problem.buffers.size() < 16) {
    const auto lower = static_cast<int64_t>(choices.below(12));
    plan::Buffer buffer;
    buffer.live = {lower, lower + 1 + static_cast<int64_t>(choices.below(6))};
    buffer.size_bytes = static_cast<int64_t>(choices.below(20));
    buffer.alignment_bytes = int64_t{1} << choices.below(3);
    problem.buffers.push_back(buffer);
  }
  return problem;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto problem = plan::parse_pack_csv(text, "fuzz")) check_answer(*problem);
  fuzz::Choices choices(data, size);
  const plan::PackProblem problem = drawn(choices);
  LT_CHECK(plan::check(problem).has_value(), "a drawn problem is consistent");
  check_answer(problem);
  return 0;
}

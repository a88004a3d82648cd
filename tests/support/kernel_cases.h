// What tests of kernels share: a case drawn from the op table with what the reference executor
// makes of it, operands in memory in any layout between red zones, and comparing the two.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/build.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"
#include "ops/testing/random_instance.h"

namespace lowtide::exec_cpu {

constexpr runtime::StepContext kStep{.seed = 0x1234567890ABCDEFu, .step = 3};

// The bytes of one operand between red zones. A kernel that writes into these is found when they
// are looked at; one that reads them computes with garbage, and is stopped by the address sanitizer
// in a build that has it.
class Guarded {
 public:
  explicit Guarded(int64_t bytes, std::byte fill = std::byte{0xFF});
  std::byte* data() { return all_.data() + start_; }
  const std::byte* data() const { return all_.data() + start_; }
  int64_t size() const { return bytes_; }
  std::vector<std::byte> contents() const { return {data(), data() + bytes_}; }
  bool intact() const;   // the red zones
  void forbid(bool on);  // to the address sanitizer

 private:
  std::vector<std::byte> all_;
  int64_t start_, bytes_;
};

enum class Form { kRowMajor, kChannelsLast, kPermuted, kWished };

struct Case {
  ops::RandomInstance made;
  OpDesc desc;  // all row-major
  std::vector<std::optional<ref::Tensor>> inputs;
  std::vector<ref::Tensor> expected;
};

struct CaseOptions {
  std::optional<DType> type = std::nullopt;  // of the operands that share one
  // Infinities, NaN, zeros of both signs, denormals, ties, and the ends of integer types, here and
  // there in the operands whose values are free.
  bool special = false;
};

// Nothing for an op whose output is a view of this operand: it has no kernel.
std::optional<Case> case_of(ops::RandomInstance made, const CaseOptions& options, Rng& rng);

// One of the op table's random instances.
std::optional<Case> make_case(std::string_view kind, const CaseOptions& options, Rng& rng);

// The op with its operands in the layouts of a form.
OpDesc in_form(const runtime::KernelFactory& factory, OpDesc op, Form form, Rng& rng);

// Runs the case in the layouts of `op`, outputs over inputs as `in_place` (input, output) says;
// reports what was written outside of the outputs. The outputs' bytes.
std::vector<std::vector<std::byte>> run_case(const runtime::KernelFactory& factory, const Case& c,
                                             const OpDesc& op,
                                             const std::vector<std::pair<int, int>>& in_place);

// Runs an op on buffers; reports what was written behind the workspace.
void run_kernel(const runtime::KernelFactory& factory, const OpDesc& op,
                const std::vector<Guarded*>& inputs, const std::vector<Guarded*>& outputs);

// Reports elements that are further from the reference than the type's rounding explains.
void expect_close(const runtime::KernelFactory& factory, const std::vector<std::byte>& got,
                  const TensorDesc& type, const ref::Tensor& want, std::string_view what);

// The pairs (input, output) that may share a buffer, one set per run: each listed pair alone, and
// all updates together.
std::vector<std::vector<std::pair<int, int>>> in_place_runs(const Case& c);

// All that there is to say about one case in one set of layouts: the implementation is no reference
// one; the results are the reference's, with one and two threads and in place; nothing is written
// elsewhere.
void check_case(const Case& c, const OpDesc& op, const runtime::KernelFactory& one,
                const runtime::KernelFactory& two);

// Of the same only that nothing is written elsewhere.
void check_guards(const Case& c, const OpDesc& op, const runtime::KernelFactory& factory);

// The kinds that have kernels.
std::vector<std::string> computed_kinds();

// "MatMul [2,3,] row_major ... k=v": for messages.
std::string describe(const OpDesc& op);

}  // namespace lowtide::exec_cpu

// The only header of ours that sees oneDNN (2.6, the C++ API with operation descriptors). Included
// by .cc files of this folder only. It translates layouts to memory descriptors and back, refuses
// oneDNN's reference implementations (hundreds of times slower than the others, and chosen silently
// when layouts do not fit), and keeps a primitive with its operands bound, so that a run only
// changes pointers.
//
// Tests: kernel_test.cc.
#pragma once

#include <dnnl.hpp>
#include <string>
#include <vector>

#include "base/layout.h"
#include "base/result.h"
#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

using MemoryDesc = dnnl::memory::desc;

const dnnl::engine& dnnl_engine();
// "oneDNN 2.6.3".
std::string dnnl_version_text();

// Descriptors of f32 and bf16.
MemoryDesc plain_desc(const TensorDesc& type);
MemoryDesc strided_desc(DType type, const std::vector<int64_t>& dims,
                        const std::vector<int64_t>& strides);
MemoryDesc any_desc(DType type, const std::vector<int64_t>& dims);

// Error when oneDNN would compute this type by instructions that the processor does not have, which
// is slower than f32 after a cast.
Status check_native(const OpDesc& op, DType type);

// The text of a blocked descriptor in Layout::blocked,
//
//   d<dims>_p<padded dims>_s<strides>_b<size>o<dim>...
//
// numbers joined by dots; enough to make the same descriptor again. The dims are the descriptor's,
// which for the weights of a grouped convolution have the group in front.
Layout blocked_layout(const MemoryDesc& desc);
Result<MemoryDesc> parse_blocked(const OpDesc& op, const TensorDesc& type);

// Error naming the op when the implementation is a reference one.
Status check_fast(const OpDesc& op, const std::string& implementation);

// User-managed scratchpad: its bytes are the kernel's workspace.
dnnl::primitive_attr scratchpad_attr();

// A primitive whose memory objects and argument list are made once; a run changes pointers only.
// (oneDNN itself still allocates a few small nodes per execution, for its own argument map; never
// tensors.)
class BoundPrimitive {
 public:
  explicit BoundPrimitive(dnnl::primitive primitive) : primitive_(std::move(primitive)) {}
  void bind(int argument, const MemoryDesc& desc);
  void point(int argument, const void* pointer);
  void execute();

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_{dnnl_engine()};
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // in step with memories_
};

// Runs f, which talks to oneDNN, and turns its exceptions into an error naming the op.
template <class F>
auto guard_dnnl(const OpDesc& op, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    return unsupported(op, std::string("oneDNN: ") + e.what());
  }
}

}  // namespace lowtide::exec_cpu

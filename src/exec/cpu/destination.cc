#include "exec/cpu/destination.h"

#include <utility>

#include "base/words.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {

Result<SlicePart> slice_part(const Entry& entry, const OpDesc& op) {
  SlicePart part{.op = op, .rest = {}};
  const std::vector<int64_t> into = list_attr(op, "into", {});
  if (op.outputs.size() != 1 || into.size() != 4)
    return unsupported(op,
                       "into is no list of axis, begin, end and extent, or there are more outputs");
  const TensorDesc& whole = op.outputs[0];
  const auto axis = static_cast<size_t>(into[0]);
  if (into[0] < 0 || axis >= whole.dims.size() || into[1] < 0 || into[1] >= into[2] ||
      into[2] > into[3] || whole.dims[axis] != into[3] || !whole.layout.blocked.empty())
    return unsupported(op, "into is no slice of the output");
  const size_t rest = words_of(entry.operands.substr(0, entry.operands.find("->"))).size() +
                      words_of(entry.adds_into).size();
  if (has_input(op, rest)) {
    if (!same_order(*op.inputs[rest], whole) || op.inputs[rest]->dtype != whole.dtype)
      return unsupported(op, "the rest lies otherwise in memory than the output");
    part.rest = rest;
  }
  if (op.inputs.size() > rest) part.op.inputs.resize(rest);
  while (!part.op.inputs.empty() && !part.op.inputs.back()) part.op.inputs.pop_back();
  part.op.attrs.erase("into");
  TensorDesc& slice = part.op.outputs[0];
  const std::vector<int64_t> strides = strides_of(whole);
  slice.dims[axis] = into[2] - into[1];
  slice.layout = layout_of_strides(slice.dims, strides);
  part.offset_bytes = into[1] * strides[axis] * size_bytes(whole.dtype);
  part.whole_bytes = plan::size_bytes(whole);
  return part;
}

Built into_slice(const SlicePart& part, Built own) {
  Built built;
  built.implementation = own.implementation;
  built.accepts = std::move(own.accepts);  // its own operands stand first
  built.workspace_bytes = own.workspace_bytes;
  built.run = [offset = part.offset_bytes, bytes = part.whole_bytes, rest = part.rest,
               inputs = part.op.inputs.size(), run = std::move(own.run)](const KernelArgs& args) {
    if (rest) parallel_copy(args.outputs[0], args.inputs[*rest], bytes);
    void* slice = static_cast<char*>(args.outputs[0]) + offset;
    KernelArgs own_args = args;
    own_args.inputs = args.inputs.first(inputs);
    own_args.outputs = std::span(&slice, 1);
    run(own_args);
  };
  return built;
}

}  // namespace lowtide::exec_cpu

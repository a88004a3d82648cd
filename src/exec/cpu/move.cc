// Ops that move elements without computing: Transpose, Slice, Pad, Concat, Expand, Reorder, and
// Fill and Trilu. Each is one or more strided copies: loops ordered by the output, whole runs where
// both sides are contiguous, and a tiled transpose where the fastest dims of the two sides differ.
// The operand may be a strided view.
// A Reorder from or to a blocked format is oneDNN's.
#include <cmath>
#include <cstring>
#include <memory>

#include "base/element.h"
#include "exec/cpu/dnnl_seam.h"
#include "exec/cpu/map_nest.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

// Copies a box of elements from one strided place to another.
class BoxCopy {
 public:
  // Strides and starts in elements, per logical dim of the box.
  static Result<BoxCopy> make(const OpDesc& op, const Dims& dims, Dims out_strides,
                              int64_t out_start, Dims in_strides, int64_t in_start, DType dtype) {
    BoxCopy copy;
    copy.bytes_ = size_bytes(dtype);
    copy.out_start_ = out_start * copy.bytes_;
    copy.in_start_ = in_start * copy.bytes_;
    for (int64_t dim : dims)
      if (dim == 0) copy.empty_ = true;
    if (copy.empty_) return copy;
    Nest nest = make_nest(dims, {std::move(out_strides), std::move(in_strides)});
    if (nest.strides[0].back() != 1) {  // the loops want a contiguous innermost output dim
      nest.dims.push_back(1);
      nest.strides[0].push_back(1);
      nest.strides[1].push_back(1);
    }
    const char code = static_cast<char>('0' + copy.bytes_);
    MapLoop loop = find_map("Copy", code, code, 1);
    if (loop == nullptr) return unsupported(op, "elements of this size");
    copy.find_tiles(nest);
    copy.map_ = std::make_shared<MapNest>(nest, loop,
                                          std::vector<MapOperand>{{copy.bytes_}, {copy.bytes_}});
    copy.nest_ = std::move(nest);
    return copy;
  }

  void run(void* out, const void* in) const {
    if (empty_) return;
    char* to = static_cast<char*>(out) + out_start_;
    const char* from = static_cast<const char*>(in) + in_start_;
    if (tile_dim_ < 0)
      map_->run(to, {from, nullptr, nullptr});
    else
      run_tiles(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from));
  }

 private:
  static constexpr int64_t kStrip = 64;

  // Tiles when 4-byte elements are contiguous along the last dim in the output and along another
  // one in the input.
  void find_tiles(const Nest& nest) {
    const size_t last = nest.dims.size() - 1;
    if (bytes_ != 4 || nest.strides[0][last] != 1 || nest.strides[1][last] <= 1 ||
        nest.dims[last] < 4)
      return;
    for (size_t d = 0; d < last; ++d)
      if (nest.strides[1][d] == 1 && nest.dims[d] >= 4) tile_dim_ = static_cast<int>(d);
  }

  // The loops other than the two of the tile, cut into strips along the tile dim, are the units of
  // work.
  void run_tiles(uint32_t* to, const uint32_t* from) const {
    const size_t last = nest_.dims.size() - 1, tile = static_cast<size_t>(tile_dim_);
    const int64_t strips = (nest_.dims[tile] + kStrip - 1) / kStrip;
    int64_t units = strips;
    for (size_t d = 0; d < last; ++d)
      if (d != tile) units *= nest_.dims[d];
    const int64_t unit_elements = std::min(kStrip, nest_.dims[tile]) * nest_.dims[last];
    parallel_ranges(units, 1 + 16384 / unit_elements, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        int64_t rest = unit / strips, out_offset = 0, in_offset = 0;
        for (size_t d = last; d-- > 0;) {
          if (d == tile) continue;
          out_offset += rest % nest_.dims[d] * nest_.strides[0][d];
          in_offset += rest % nest_.dims[d] * nest_.strides[1][d];
          rest /= nest_.dims[d];
        }
        const int64_t c0 = unit % strips * kStrip;
        const int64_t cols = std::min(kStrip, nest_.dims[tile] - c0);
        loops().transpose_tile(from + in_offset + c0, nest_.strides[1][last],
                               to + out_offset + c0 * nest_.strides[0][tile],
                               nest_.strides[0][tile], nest_.dims[last], cols);
      }
    });
  }

  Nest nest_;
  std::shared_ptr<MapNest> map_;
  int64_t bytes_ = 4, out_start_ = 0, in_start_ = 0;
  int tile_dim_ = -1;
  bool empty_ = false;
};

Status check_move(const OpDesc& op, size_t most = 1) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, most, 1));
  for (const auto& input : op.inputs) {
    if (!input) return unsupported(op, "an operand is absent");
  }
  return {};
}

Built single(BoxCopy copy) {
  Built built;
  built.run = [copy = std::move(copy)](const KernelArgs& args) {
    copy.run(args.outputs[0], args.inputs[0]);
  };
  return built;
}

Result<Built> build_transpose(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_move(op));
  const TensorDesc& y = op.outputs[0];
  const Dims in = strides_of(*op.inputs[0]);
  const Dims perm = list_attr(op, "perm", {});
  if (perm.size() != in.size() || y.dims.size() != in.size())
    return unsupported(op, "perm does not match the rank");
  Dims strides(in.size());
  for (size_t d = 0; d < in.size(); ++d) strides[d] = in[static_cast<size_t>(perm[d])];
  LT_ASSIGN(BoxCopy copy, BoxCopy::make(op, y.dims, strides_of(y), 0, strides, 0, y.dtype));
  return single(std::move(copy));
}

Result<Built> build_slice(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_move(op));
  const TensorDesc& y = op.outputs[0];
  Dims strides = strides_of(*op.inputs[0]);
  const Dims starts = list_attr(op, "starts", {});
  const Dims steps = list_attr(op, "steps", Dims(strides.size(), 1));
  if (starts.size() != strides.size() || steps.size() != strides.size() ||
      y.dims.size() != strides.size())
    return unsupported(op, "starts and steps do not match the rank");
  int64_t start = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    start += starts[d] * strides[d];
    strides[d] *= steps[d];
  }
  LT_ASSIGN(BoxCopy copy, BoxCopy::make(op, y.dims, strides_of(y), 0, strides, start, y.dtype));
  return single(std::move(copy));
}

Result<Built> build_expand(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_move(op));
  const TensorDesc& y = op.outputs[0];
  LT_ASSIGN(BoxCopy copy, BoxCopy::make(op, y.dims, strides_of(y), 0,
                                        broadcast_strides(*op.inputs[0], y.dims), 0, y.dtype));
  return single(std::move(copy));
}

Result<Built> build_concat(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_move(op, op.inputs.size()));
  const TensorDesc& y = op.outputs[0];
  int64_t axis = int_attr(op, "axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(y.dims.size());
  const Dims out = strides_of(y);
  std::vector<BoxCopy> copies;
  int64_t start = 0;
  for (const auto& x : op.inputs) {
    LT_ASSIGN(BoxCopy copy, BoxCopy::make(op, x->dims, out, start * out[static_cast<size_t>(axis)],
                                          strides_of(*x), 0, y.dtype));
    copies.push_back(std::move(copy));
    start += x->dims[static_cast<size_t>(axis)];
  }
  Built built;
  built.run = [copies = std::move(copies)](const KernelArgs& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(args.outputs[0], args.inputs[i]);
  };
  return built;
}

// The attribute `value` of Fill and Pad as an element.
std::vector<char> value_bytes(const OpDesc& op, DType dtype) {
  std::vector<char> bytes(static_cast<size_t>(size_bytes(dtype)));
  if (is_integer(dtype))
    write_integer(dtype, integer_attr(op, dtype, "value", 0), bytes.data());
  else
    write_real(dtype, real_attr(op, "value", 0), bytes.data());
  return bytes;
}

// A constant spread over a whole output.
struct Filler {
  std::vector<char> value;
  std::shared_ptr<MapNest> map;
  void run(void* out) const { map->run(static_cast<char*>(out), {value.data(), nullptr, nullptr}); }
};

Result<Filler> make_filler(const OpDesc& op, const TensorDesc& y) {
  const int64_t bytes = size_bytes(y.dtype);
  MapLoop loop =
      find_map("Copy", static_cast<char>('0' + bytes), static_cast<char>('0' + bytes), 1);
  if (loop == nullptr) return unsupported(op, "this element type");
  const Nest nest{{plan::element_count(y)}, {{1}, {0}}};
  return Filler{value_bytes(op, y.dtype),
                std::make_shared<MapNest>(nest, loop, std::vector<MapOperand>{{bytes}, {bytes}})};
}

Result<Built> build_fill(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 0, 0, 1));
  LT_ASSIGN(Filler filler, make_filler(op, op.outputs[0]));
  Built built;
  built.run = [filler = std::move(filler)](const KernelArgs& args) { filler.run(args.outputs[0]); };
  return built;
}

// Fills the whole output, then copies the box that the input and the output share; negative pads
// crop.
Result<Built> build_pad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_move(op));
  const TensorDesc& x = *op.inputs[0];
  const TensorDesc& y = op.outputs[0];
  const Dims begins = list_attr(op, "begins", Dims(x.dims.size(), 0));
  if (begins.size() != x.dims.size()) return unsupported(op, "begins does not match the rank");
  const Dims in = strides_of(x), out = strides_of(y);
  Dims dims(x.dims.size());
  int64_t in_start = 0, out_start = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t skip_in = std::max<int64_t>(0, -begins[d]),
                  skip_out = std::max<int64_t>(0, begins[d]);
    dims[d] = std::max<int64_t>(0, std::min(x.dims[d] - skip_in, y.dims[d] - skip_out));
    in_start += skip_in * in[d];
    out_start += skip_out * out[d];
  }
  LT_ASSIGN(BoxCopy copy, BoxCopy::make(op, dims, out, out_start, in, in_start, y.dtype));
  LT_ASSIGN(Filler filler, make_filler(op, y));
  Built built;
  built.run = [copy = std::move(copy), filler = std::move(filler)](const KernelArgs& args) {
    filler.run(args.outputs[0]);
    copy.run(args.outputs[0], args.inputs[0]);
  };
  return built;
}

// Keeps the upper or lower triangle of the last two dims.
Result<Built> build_trilu(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_move(op));
  const TensorDesc& x = *op.inputs[0];
  const TensorDesc row_major{.dtype = x.dtype, .dims = x.dims, .layout = {}};
  if (x.dims.size() < 2 || !same_order(x, row_major) || !same_order(op.outputs[0], row_major))
    return unsupported(op, "row-major operands of rank two or more");
  const size_t rank = x.dims.size();
  const int64_t rows = x.dims[rank - 2], cols = x.dims[rank - 1], bytes = size_bytes(x.dtype);
  const int64_t batch = plan::element_count(x) / std::max<int64_t>(1, rows * cols);
  const int64_t k = int_attr(op, "k", 0);
  const bool upper = int_attr(op, "upper", 1) != 0;
  Built built;
  built.run = [=](const KernelArgs& args) {
    parallel_ranges(batch * rows, 1 + 65536 / (cols * bytes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        char* out = static_cast<char*>(args.outputs[0]) + r * cols * bytes;
        const char* in = static_cast<const char*>(args.inputs[0]) + r * cols * bytes;
        // The diagonal's column (upper: first kept; lower: first dropped).
        const int64_t edge = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, cols);
        const int64_t keep_begin = upper ? edge : 0, keep_end = upper ? cols : edge;
        if (out != in)
          std::memcpy(out + keep_begin * bytes, in + keep_begin * bytes,
                      static_cast<size_t>((keep_end - keep_begin) * bytes));
        std::memset(out + (upper ? 0 : edge) * bytes, 0,
                    static_cast<size_t>((upper ? edge : cols - edge) * bytes));
      }
    });
  };
  return built;
}

// ---- Reorder ----

// The descriptor of a plain value, with the group in front when the blocked side has one.
Result<MemoryDesc> side_desc(const OpDesc& op, const TensorDesc& side, const TensorDesc& other) {
  if (!side.layout.blocked.empty()) return parse_blocked(op, side);
  if (other.layout.blocked.empty()) return plain_desc(side);
  LT_ASSIGN(const MemoryDesc blocked, parse_blocked(op, other));
  const Dims dims = blocked.dims();
  if (dims == side.dims) return plain_desc(side);
  Dims strides = strides_of(side);
  if (dims.size() != side.dims.size() + 1 || dims[0] * dims[1] != side.dims[0])
    return unsupported(op, "the blocked side has other dims");
  strides.insert(strides.begin(), strides[0] * dims[1]);
  return strided_desc(side.dtype, dims, strides);
}

Result<Built> make_dnnl_reorder(const OpDesc& op) {
  LT_ASSIGN(const MemoryDesc from, side_desc(op, *op.inputs[0], op.outputs[0]));
  LT_ASSIGN(const MemoryDesc to, side_desc(op, op.outputs[0], *op.inputs[0]));
  const dnnl::reorder::primitive_desc pd(dnnl_engine(), from, dnnl_engine(), to, scratchpad_attr());
  Built built;
  built.implementation = pd.impl_info_str();
  LT_RETURN_IF_ERROR(check_fast(op, built.implementation));
  built.workspace_bytes = static_cast<int64_t>(pd.scratchpad_desc().get_size());
  auto primitive = std::make_shared<BoundPrimitive>(dnnl::reorder(pd));
  primitive->bind(DNNL_ARG_FROM, from);
  primitive->bind(DNNL_ARG_TO, to);
  primitive->bind(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  built.run = [primitive](const KernelArgs& args) {
    primitive->point(DNNL_ARG_FROM, args.inputs[0]);
    primitive->point(DNNL_ARG_TO, args.outputs[0]);
    primitive->point(DNNL_ARG_SCRATCHPAD, args.workspace);
    primitive->execute();
  };
  return built;
}

Result<Built> build_reorder(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  const TensorDesc& x = *op.inputs[0];
  const TensorDesc& y = op.outputs[0];
  if (x.dims != y.dims) return unsupported(op, "dims differ");
  if (x.layout.blocked.empty() && y.layout.blocked.empty()) {
    LT_ASSIGN(BoxCopy copy, BoxCopy::make(op, y.dims, strides_of(y), 0, strides_of(x), 0, y.dtype));
    return single(std::move(copy));
  }
  if (x.layout.strided() || y.layout.strided())
    return unsupported(op, "from a strided view to a blocked layout, or the reverse");
  return guard_dnnl(op, [&] { return make_dnnl_reorder(op); });
}

constexpr Entry kMoveEntries[] = {
    {"Transpose", "T -> T", "*", build_transpose, nullptr, false, {}, true, true},
    {"Slice", "T -> T", "*", build_slice, nullptr, false, {}, true, true},
    {"Expand", "T -> T", "*", build_expand, nullptr, false, {}, true, true},
    {"Concat", "T -> T", "*", build_concat, nullptr, false, {}, true, true},
    {"Pad", "T -> T", "*", build_pad, nullptr, false, {}, true},
    {"Fill", "-> T", "*", build_fill},
    {"Trilu", "T -> T", "*", build_trilu, wish_row_major},
    {"Reorder", "T -> T", "*", build_reorder, nullptr, true, {}, true, true},
};

}  // namespace

std::span<const Entry> move_kernels() {
  return kMoveEntries;
}

}  // namespace lowtide::exec_cpu

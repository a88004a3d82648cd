// Dropout and RandomUniform: functions of (seed, step, stream, position in the whole tensor), see
// base/philox.h. A row is a line along the last logical dim; its elements have consecutive
// positions, so their draws come from consecutive Philox groups, made a few hundred at a time.
// Attributes whole_dims and part_begin say where a part of a split tensor lies.
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/half.h"
#include "base/philox.h"
#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/number_types.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

constexpr int64_t kChunk = 1024;  // elements drawn at a time

// Walks lines along the last logical dim: position in the whole tensor and offset in memory of
// each.
struct DrawnLines {
  Dims dims;           // all but the last, joined where whole and part agree
  Dims whole_strides;  // of those dims, in the whole tensor
  Dims memory_strides;
  int64_t first = 0;   // position of the part's first element
  int64_t length = 1;  // of a line
  int64_t step = 1;    // in memory between neighbours of a line
  int64_t count = 1;   // of lines
};

Result<DrawnLines> make_lines(const OpDesc& op) {
  const TensorDesc& y = op.outputs[0];
  const Dims whole = list_attr(op, "whole_dims", y.dims);
  const Dims begin = list_attr(op, "part_begin", Dims(y.dims.size(), 0));
  if (whole.size() != y.dims.size() || begin.size() != y.dims.size())
    return unsupported(op, "whole_dims and part_begin do not match the rank");
  TensorDesc row_major{.dtype = y.dtype, .dims = whole, .layout = {}};
  const Dims whole_strides = strides_of(row_major), memory = strides_of(y);
  DrawnLines lines;
  for (size_t d = 0; d < whole.size(); ++d) lines.first += begin[d] * whole_strides[d];
  for (size_t d = 0; d < whole.size(); ++d) {
    const bool joins = !lines.dims.empty() &&
                       lines.whole_strides.back() == whole_strides[d] * y.dims[d] &&
                       lines.memory_strides.back() == memory[d] * y.dims[d];
    if (joins) {
      lines.dims.back() *= y.dims[d];
      lines.whole_strides.back() = whole_strides[d];
      lines.memory_strides.back() = memory[d];
    } else {
      lines.dims.push_back(y.dims[d]);
      lines.whole_strides.push_back(whole_strides[d]);
      lines.memory_strides.push_back(memory[d]);
    }
  }
  if (!lines.dims.empty()) {
    lines.length = lines.dims.back();
    lines.step = lines.memory_strides.back();
    lines.dims.pop_back();
  }
  for (int64_t dim : lines.dims) lines.count *= dim;
  return lines;
}

struct Place {
  int64_t position, memory;
};

Place place_of(const DrawnLines& lines, int64_t line) {
  Place place{lines.first, 0};
  for (size_t d = lines.dims.size(); d-- > 0;) {
    const int64_t index = line % lines.dims[d];
    line /= lines.dims[d];
    place.position += index * lines.whole_strides[d];
    place.memory += index * lines.memory_strides[d];
  }
  return place;
}

struct Key {
  uint32_t words[2], stream, step;
};

// Calls use(memory offset, words, n) for runs of at most kChunk elements of a line.
template <class Use>
void draw_line(const DrawnLines& lines, int64_t begin, int64_t end, Place place, const Key& key,
               const Use& use) {
  uint32_t words[kChunk + 8];
  for (int64_t i = begin; i < end; i += kChunk) {
    const int64_t n = std::min(kChunk, end - i);
    const uint64_t position = static_cast<uint64_t>(place.position + i);
    const int64_t lead = static_cast<int64_t>(position % 4);
    loops().philox(position / 4, (lead + n + 3) / 4, key.words, key.stream, key.step, words);
    use(place.memory + i * lines.step, words + lead, n);
  }
}

template <class Use>
void draw(const DrawnLines& lines, const Key& key, const Use& use) {
  if (lines.count == 1) {
    parallel_ranges(lines.length, 8192, [&](int64_t begin, int64_t end) {
      draw_line(lines, begin, end, place_of(lines, 0), key, use);
    });
    return;
  }
  parallel_ranges(lines.count, 1 + 8192 / std::max<int64_t>(lines.length, 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t line = begin; line < end; ++line)
                      draw_line(lines, 0, lines.length, place_of(lines, line), key, use);
                  });
}

Key key_of(const KernelArgs& args, int64_t stream) {
  return {
      {static_cast<uint32_t>(args.context.seed), static_cast<uint32_t>(args.context.seed >> 32)},
      static_cast<uint32_t>(stream),
      static_cast<uint32_t>(args.context.step - args.context.seed_set_after)};
}

// The smallest float that is at least `ratio`: comparing a float with it equals comparing with the
// double.
float at_least(double ratio) {
  const float rounded = static_cast<float>(ratio);
  return static_cast<double>(rounded) >= ratio ? rounded : std::nextafter(rounded, 2.0f);
}

// How elements of a type lie in memory, and the number in which they are computed.
struct F32 {
  using Raw = float;
  using Number = float;
  static float load(float raw) { return raw; }
  static float store(float number) { return number; }
};
struct F64 {
  using Raw = double;
  using Number = double;
  static double load(double raw) { return raw; }
  static double store(double number) { return number; }
};
struct F16 {
  using Raw = uint16_t;
  using Number = float;
  static float load(uint16_t raw) { return f16_value(raw); }
  static uint16_t store(float number) { return f16_bits(number); }
};
struct BF16 {
  using Raw = uint16_t;
  using Number = float;
  static float load(uint16_t raw) { return bf16_value(raw); }
  static uint16_t store(float number) { return bf16_bits(number); }
};

template <class Use>
auto with_element(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kF64:
      return use(F64{});
    case DType::kF16:
      return use(F16{});
    case DType::kBF16:
      return use(BF16{});
    default:
      return use(F32{});
  }
}

template <class Element>
Built make_dropout(const OpDesc& op, const DrawnLines& lines) {
  using Raw = typename Element::Raw;
  using Number = typename Element::Number;
  const double ratio = real_attr(op, "ratio", 0);
  const float edge = at_least(ratio);
  const Number scale = static_cast<Number>(1 / (1 - ratio));
  const int64_t stream = int_attr(op, "stream", 0);
  Built built;
  built.run = [=](const KernelArgs& args) {
    const Raw* x = static_cast<const Raw*>(args.inputs[0]);
    Raw* y = static_cast<Raw*>(args.outputs[0]);
    draw(lines, key_of(args, stream), [&](int64_t offset, const uint32_t* words, int64_t n) {
      if constexpr (std::is_same_v<Element, F32>)
        if (lines.step == 1) return loops().dropout(x + offset, words, n, edge, scale, y + offset);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = offset + i * lines.step;
        const bool keeps = RandomStream::to_uniform(words[i]) >= edge;
        y[at] = Element::store(keeps ? Element::load(x[at]) * scale : Number(0));
      }
    });
  };
  return built;
}

Result<Built> build_dropout(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  if (!same_order(*op.inputs[0], op.outputs[0]))
    return unsupported(op, "operands in different layouts");
  LT_ASSIGN(const DrawnLines lines, make_lines(op));
  return with_element(op.outputs[0].dtype,
                      [&]<class Element>(Element) { return make_dropout<Element>(op, lines); });
}

template <class Element>
Built make_uniform(const OpDesc& op, const DrawnLines& lines) {
  using Raw = typename Element::Raw;
  using Number = typename Element::Number;
  const Number low = static_cast<Number>(real_attr(op, "low", 0)),
               high = static_cast<Number>(real_attr(op, "high", 1));
  const int64_t stream = int_attr(op, "stream", 0);
  Built built;
  built.run = [=](const KernelArgs& args) {
    Raw* out = static_cast<Raw*>(args.outputs[0]);
    draw(lines, key_of(args, stream), [&](int64_t offset, const uint32_t* words, int64_t n) {
      if constexpr (std::is_same_v<Element, F32>)
        if (lines.step == 1) return loops().uniform(words, n, low, high, out + offset);
      for (int64_t i = 0; i < n; ++i)
        out[offset + i * lines.step] = Element::store(
            low + (high - low) * static_cast<Number>(RandomStream::to_uniform(words[i])));
    });
  };
  return built;
}

Result<Built> build_uniform(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const DrawnLines lines, make_lines(op));
  return with_element(op.outputs[0].dtype,
                      [&]<class Element>(Element) { return make_uniform<Element>(op, lines); });
}

constexpr Entry kRandomEntries[] = {{"Dropout", "T -> T", kFloats, build_dropout},
                                    {"RandomUniform", "T -> T", kFloats, build_uniform}};

}  // namespace

std::span<const Entry> random_kernels() {
  return kRandomEntries;
}

}  // namespace lowtide::exec_cpu

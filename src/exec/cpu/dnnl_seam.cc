#include "exec/cpu/dnnl_seam.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "base/check.h"
#include "base/dtype.h"
#include "exec/cpu/nest.h"

namespace lowtide::exec_cpu {
namespace {

using dnnl::memory;

memory::data_type data_type(DType type) {
  return type == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

std::string join(const dnnl_dim_t* values, int count) {
  return fmt::format("{}", fmt::join(values, values + count, "."));
}

// Reads "12.3.4" up to a character that is no digit and no dot, and moves `text` there.
std::vector<int64_t> take_numbers(std::string_view& text) {
  std::vector<int64_t> numbers;
  while (!text.empty()) {
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc()) break;
    numbers.push_back(value);
    text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
    if (text.empty() || text.front() != '.') break;
    text.remove_prefix(1);
  }
  return numbers;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool parse_into(std::string_view text, DType type, dnnl_memory_desc_t& d) {
  d = {};
  if (!take(text, "d")) return false;
  const std::vector<int64_t> dims = take_numbers(text);
  if (!take(text, "_p")) return false;
  const std::vector<int64_t> padded = take_numbers(text);
  if (!take(text, "_s")) return false;
  const std::vector<int64_t> strides = take_numbers(text);
  if (dims.empty() || dims.size() > 6 || padded.size() != dims.size() ||
      strides.size() != dims.size())
    return false;
  d.ndims = static_cast<int>(dims.size());
  d.data_type = memory::convert_to_c(data_type(type));
  d.format_kind = dnnl_blocked;
  std::copy(dims.begin(), dims.end(), d.dims);
  std::copy(padded.begin(), padded.end(), d.padded_dims);
  std::copy(strides.begin(), strides.end(), d.format_desc.blocking.strides);
  if (!take(text, "_b")) return false;
  auto& blocking = d.format_desc.blocking;
  while (!text.empty()) {
    const std::vector<int64_t> size = take_numbers(text);
    if (size.size() != 1 || !take(text, "o")) return false;
    const std::vector<int64_t> dim = take_numbers(text);
    if (dim.size() != 1 || dim[0] < 0 || dim[0] >= d.ndims ||
        blocking.inner_nblks >= DNNL_MAX_NDIMS)
      return false;
    blocking.inner_blks[blocking.inner_nblks] = size[0];
    blocking.inner_idxs[blocking.inner_nblks++] = dim[0];
    if (!text.empty() && !take(text, "-")) return false;
  }
  return true;
}

}  // namespace

std::string dnnl_version_text() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

MemoryDesc strided_desc(DType type, const std::vector<int64_t>& dims,
                        const std::vector<int64_t>& strides) {
  return MemoryDesc(dims, data_type(type), strides);
}

MemoryDesc plain_desc(const TensorDesc& type) {
  return strided_desc(type.dtype, type.dims, strides_of(type));
}

MemoryDesc any_desc(DType type, const std::vector<int64_t>& dims) {
  return MemoryDesc(dims, data_type(type), memory::format_tag::any);
}

Status check_native(const OpDesc& op, DType type) {
  if (type == DType::kF32) return {};
  const auto has = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  if (type == DType::kBF16 && (has & wanted) == wanted) return {};
  return unsupported(op, fmt::format("this processor has no instructions for {}", name(type)));
}

Layout blocked_layout(const MemoryDesc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const auto& blocking = d.format_desc.blocking;
  std::string blocks;
  for (int i = 0; i < blocking.inner_nblks; ++i)
    blocks +=
        fmt::format("{}{}o{}", i > 0 ? "-" : "", blocking.inner_blks[i], blocking.inner_idxs[i]);
  Layout layout;
  layout.blocked =
      fmt::format("d{}_p{}_s{}_b{}", join(d.dims, d.ndims), join(d.padded_dims, d.ndims),
                  join(blocking.strides, d.ndims), blocks);
  layout.blocked_bytes = static_cast<int64_t>(desc.get_size());
  return layout;
}

Result<MemoryDesc> parse_blocked(const OpDesc& op, const TensorDesc& type) {
  dnnl_memory_desc_t d;
  const bool known = type.dtype == DType::kF32 || type.dtype == DType::kBF16;
  if (!known || !parse_into(type.layout.blocked, type.dtype, d))
    return unsupported(
        op, "the blocked layout \"" + type.layout.blocked + "\" is not one of this device");
  int64_t count = 1;
  for (int i = 0; i < d.ndims; ++i) count *= d.dims[i];
  MemoryDesc desc(d);
  if (count != plan::element_count(type) ||
      static_cast<int64_t>(desc.get_size()) != type.layout.blocked_bytes)
    return unsupported(op, "the blocked layout \"" + type.layout.blocked + "\" is of another size");
  return desc;
}

Status check_fast(const OpDesc& op, const std::string& implementation) {
  if (implementation.find("ref") == std::string::npos) return {};
  return unsupported(op, "oneDNN has only its reference implementation (" + implementation +
                             ") for these shapes and layouts, which is hundreds of times slower");
}

dnnl::primitive_attr scratchpad_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void BoundPrimitive::bind(int argument, const MemoryDesc& desc) {
  memories_.emplace_back(desc, dnnl_engine(), nullptr);
  arguments_.push_back({argument, memories_.back().get()});
}

void BoundPrimitive::point(int argument, const void* pointer) {
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].arg == argument) {
      dnnl_memory_set_data_handle(arguments_[i].memory, const_cast<void*>(pointer));
      return;
    }
  LT_CHECK(false, "an argument that was not bound");
}

void BoundPrimitive::execute() {
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  LT_CHECK(status == dnnl_success,
           fmt::format("a oneDNN primitive that was made must run; status {}",
                       static_cast<int>(status)));
}

}  // namespace lowtide::exec_cpu

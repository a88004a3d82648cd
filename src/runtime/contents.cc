#include "runtime/contents.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "runtime/seeded.h"

namespace lowtide::runtime {
namespace {

// Walks a value in row-major order; calls move(offset in memory, offset in row-major), in bytes,
// for each element.
template <class Move>
void walk(const plan::TensorDesc& type, const Move& move) {
  const size_t rank = type.dims.size();
  const int64_t bytes = lowtide::size_bytes(type.dtype);
  const std::vector<int64_t> strides = strides_of(type.layout, type.dims);
  std::vector<int64_t> index(rank, 0);
  int64_t here = 0;
  const int64_t count = plan::element_count(type);
  for (int64_t i = 0; i < count; ++i) {
    move(here * bytes, i * bytes);
    for (size_t d = rank; d-- > 0;) {
      here += strides[d];
      if (++index[d] < type.dims[d]) break;
      here -= strides[d] * type.dims[d];
      index[d] = 0;
    }
  }
}

Status check_layout(const plan::PlanValue& value, size_t bytes) {
  if (!value.type.layout.blocked.empty())
    return error(ErrorCode::kInput,
                 fmt::format("value '{}' lies in a kernel's own format ({}) and cannot be copied "
                             "in or out",
                             value.name, print(value.type.layout)));
  const int64_t expected = plan::size_bytes(value.type);
  if (static_cast<int64_t>(bytes) != expected)
    return error(ErrorCode::kInput,
                 fmt::format("value '{}' has {} bytes, not {}", value.name, expected, bytes));
  return {};
}

Status store_seeded(const plan::PlanValue& value, uint64_t seed, std::byte* memory) {
  std::vector<std::byte> bytes(static_cast<size_t>(plan::size_bytes(value.type)));
  fill_seeded(value.name, value.type, seed, 1, bytes);
  return store_row_major(value, bytes, memory);
}

// Whether a path, its links followed, leads out of the folder it is given relative to.
bool leaves_folder(const std::filesystem::path& folder, const std::filesystem::path& file) {
  if (file.is_absolute()) return true;
  std::error_code failure;
  const auto root = std::filesystem::weakly_canonical(folder, failure);
  if (failure) return true;
  const auto full = std::filesystem::weakly_canonical(root / file, failure);
  if (failure) return true;
  const auto inside = full.lexically_relative(root);
  return inside.empty() || *inside.begin() == "..";
}

Status store_external(const plan::PlanValue& value, const InitialOptions& options,
                      std::byte* memory) {
  const plan::PlanInitial& initial = value.initial;
  if (options.model_folder.empty()) return store_seeded(value, options.seed, memory);
  const std::filesystem::path file(initial.file);
  if (leaves_folder(options.model_folder, file))
    return error(ErrorCode::kInput,
                 fmt::format("weights of '{}' lie in '{}', outside the model's folder", value.name,
                             initial.file));
  LT_ASSIGN(const MappedFile mapped, MappedFile::open((options.model_folder / file).string()));
  const std::string_view bytes = mapped.bytes();
  const int64_t wanted = plan::size_bytes(value.type);
  if (initial.offset < 0 || initial.length != wanted ||
      initial.offset > static_cast<int64_t>(bytes.size()) ||
      wanted > static_cast<int64_t>(bytes.size()) - initial.offset)
    return error(
        ErrorCode::kInput,
        fmt::format("weights of '{}': {} bytes wanted, {} at offset {} of '{}', which has {}",
                    value.name, wanted, initial.length, initial.offset, initial.file,
                    bytes.size()));
  const std::string_view part =
      bytes.substr(static_cast<size_t>(initial.offset), static_cast<size_t>(wanted));
  return store_row_major(value, std::as_bytes(std::span(part.data(), part.size())), memory);
}

}  // namespace

Status store_row_major(const plan::PlanValue& value, std::span<const std::byte> row_major,
                       std::byte* memory) {
  LT_RETURN_IF_ERROR(check_layout(value, row_major.size()));
  if (value.type.layout.row_major()) {
    if (!row_major.empty()) std::memcpy(memory, row_major.data(), row_major.size());
    return {};
  }
  const size_t bytes = static_cast<size_t>(lowtide::size_bytes(value.type.dtype));
  walk(value.type, [&](int64_t here, int64_t there) {
    std::memcpy(memory + here, row_major.data() + there, bytes);
  });
  return {};
}

Status load_row_major(const plan::PlanValue& value, const std::byte* memory,
                      std::span<std::byte> row_major) {
  LT_RETURN_IF_ERROR(check_layout(value, row_major.size()));
  if (value.type.layout.row_major()) {
    if (!row_major.empty()) std::memcpy(row_major.data(), memory, row_major.size());
    return {};
  }
  const size_t bytes = static_cast<size_t>(lowtide::size_bytes(value.type.dtype));
  walk(value.type, [&](int64_t here, int64_t there) {
    std::memcpy(row_major.data() + there, memory + here, bytes);
  });
  return {};
}

Status store_initial(const plan::PlanValue& value, const InitialOptions& options,
                     std::byte* memory) {
  using Initial = plan::PlanInitial::Kind;
  switch (value.initial.kind) {
    case Initial::kFed:
      return {};
    case Initial::kSeeded:
      return store_seeded(value, options.seed, memory);
    case Initial::kZero:
      std::memset(memory, 0, static_cast<size_t>(plan::size_bytes(value.type)));
      return {};
    case Initial::kInline:
      return store_row_major(
          value, std::as_bytes(std::span(value.initial.bytes.data(), value.initial.bytes.size())),
          memory);
    case Initial::kExternal:
      return store_external(value, options, memory);
  }
  return {};
}

}  // namespace lowtide::runtime

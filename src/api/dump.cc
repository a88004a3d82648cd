#include "api/dump.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace lowtide {
namespace {

std::string_view numpy_code(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kF16:
      return "<f2";
    case DType::kBF16:
      return "<V2";
    case DType::kI64:
      return "<i8";
    case DType::kI32:
      return "<i4";
    case DType::kU8:
      return "|u1";
    case DType::kBool:
      return "|b1";
    case DType::kI8:
      return "|i1";
    case DType::kI16:
      return "<i2";
    case DType::kU16:
      return "<u2";
    case DType::kU32:
      return "<u4";
    case DType::kU64:
      return "<u8";
  }
  return "|V1";
}

// Version 1.0 of NumPy's format: magic, header length, a Python literal padded with blanks to 64
// bytes.
std::string npy(const plan::TensorDesc& type, std::span<const std::byte> bytes) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   numpy_code(type.dtype), fmt::join(type.dims, ", "),
                                   type.dims.size() == 1 ? "," : "");
  constexpr size_t kPrefix = 10;
  while ((kPrefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return file;
}

std::string file_name(size_t index) {
  return fmt::format("{:05}.npy", index);
}

}  // namespace

bool is_result(const plan::Plan& plan, plan::PlanValueId id) {
  const plan::PlanValue& value = plan.values[id];
  return value.is_output || value.alias == plan::PlanAlias::kUpdate ||
         plan.storages[value.storage].category == Category::kGradient;
}

std::vector<plan::PlanValueId> given_outputs(const plan::Plan& plan) {
  std::vector<plan::PlanValueId> given;
  for (const plan::PlanValueId id : plan.values.ids()) {
    const plan::PlanValue& value = plan.values[id];
    if (value.is_output && !value.producer.valid() && value.type.layout.row_major())
      given.push_back(id);
  }
  return given;
}

Status Dump::open() {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure)
    return error(ErrorCode::kUsage, fmt::format("--dump: cannot make the folder '{}': {}", folder_,
                                                failure.message()));
  return {};
}

Status Dump::add(plan::PlanValueId value, std::span<const std::byte> bytes) {
  const std::string path = folder_ + "/" + file_name(written_.size());
  LT_RETURN_IF_ERROR(write_file_atomically(path, npy(plan_.values[value].type, bytes)));
  written_.push_back(value);
  return {};
}

Status Dump::close() {
  auto manifest = nlohmann::ordered_json::array();
  for (size_t i = 0; i < written_.size(); ++i) {
    const plan::PlanValue& value = plan_.values[written_[i]];
    manifest.push_back({{"file", file_name(i)},
                        {"name", value.name},
                        {"dtype", name(value.type.dtype)},
                        {"dims", value.type.dims}});
  }
  return write_file_atomically(folder_ + "/manifest.json", manifest.dump(1) + "\n");
}

}  // namespace lowtide

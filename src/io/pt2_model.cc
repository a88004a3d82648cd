// The archive holds one program at models/NAME.json; its weights and constants are listed in
// data/weights/NAME_weights_config.json and data/constants/NAME_constants_config.json, each entry a
// member with raw bytes and how a tensor lies in them (several may share one). Members of the JSON
// that are not known are passed over: minor versions of the schema add some.
#include "io/pt2_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/layout.h"
#include "io/pt2_archive.h"
#include "io/pt2_json.h"
#include "plan/plan_fields.h"

namespace lowtide::io {
namespace {

using plan::Json;

constexpr int64_t kMostJson = int64_t{1} << 30;
constexpr size_t kMostPt2Depth = 200;                // graphs within graphs; their members
constexpr int64_t kMostInflated = int64_t{1} << 31;  // of all weights that are deflated

struct Pt2TypeRow {
  int64_t code;
  std::string_view name;
  std::optional<DType> dtype;
};
const std::array<Pt2TypeRow, 21> kPt2Types = {
    {{1, "BYTE", DType::kU8},        {2, "CHAR", DType::kI8},     {3, "SHORT", DType::kI16},
     {4, "INT", DType::kI32},        {5, "LONG", DType::kI64},    {6, "HALF", DType::kF16},
     {7, "FLOAT", DType::kF32},      {8, "DOUBLE", DType::kF64},  {9, "COMPLEXHALF", {}},
     {10, "COMPLEXFLOAT", {}},       {11, "COMPLEXDOUBLE", {}},   {12, "BOOL", DType::kBool},
     {13, "BFLOAT16", DType::kBF16}, {28, "UINT16", DType::kU16}, {29, "FLOAT8E4M3FN", {}},
     {30, "FLOAT8E5M2", {}},         {31, "FLOAT8E4M3FNUZ", {}},  {32, "FLOAT8E5M2FNUZ", {}},
     {33, "FLOAT8E8M0FNU", {}},      {34, "UINT32", DType::kU32}, {35, "UINT64", DType::kU64}}};

const Pt2TypeRow* find_type(int64_t code) {
  const auto* found = std::find_if(kPt2Types.begin(), kPt2Types.end(),
                                   [&](const Pt2TypeRow& row) { return row.code == code; });
  return found == kPt2Types.end() ? nullptr : found;
}

// ---- what lies where

// Numbers of sizes, none of them negative.
std::optional<std::vector<int64_t>> numbers_of(const std::vector<sym::Expr>& sizes) {
  std::vector<int64_t> numbers;
  for (const sym::Expr& size : sizes) {
    const auto number = size.constant();
    if (!number || *number < 0) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// None beyond 64 bits.
std::optional<int64_t> product_of(const std::vector<int64_t>& dims, int64_t element) {
  int64_t bytes = element;
  for (const int64_t dim : dims) {
    const auto next = checked_mul(bytes, dim);
    if (!next) return std::nullopt;
    bytes = *next;
  }
  return bytes;
}

// Elements one by one, as strides say, row-major.
std::string gathered(std::string_view from, const std::vector<int64_t>& dims,
                     const std::vector<int64_t>& strides, int64_t first, int64_t element) {
  std::string out;
  std::vector<int64_t> index(dims.size(), 0);
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = first;
    for (size_t d = 0; d < dims.size(); ++d) at += index[d] * strides[d];
    out += from.substr(static_cast<size_t>(at * element), static_cast<size_t>(element));
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

// Where the contents of weights lie; those that are deflated or not row-major are read.
class WeightFinder {
 public:
  WeightFinder(const Archive& archive, Pt2Program& program)
      : archive_(archive), program_(program) {}

  Status run() {
    for (auto& [path, weight] : program_.weights) LT_RETURN_IF_ERROR(find(path, weight));
    return {};
  }

 private:
  tl::unexpected<Error> fail(const std::string& path, std::string_view why) const {
    return error(ErrorCode::kInput, fmt::format("{}: weight '{}' {}", archive_.origin, path, why));
  }

  Status find(const std::string& path, Pt2Weight& weight) {
    if (weight.pickled || !weight.meta.dtype) return {};  // refused where somebody reads it
    const auto dims = numbers_of(weight.meta.dims), strides = numbers_of(weight.meta.strides);
    const auto first = numbers_of({weight.meta.storage_offset});
    if (!dims || !strides || !first) return fail(path, "has a size or stride that is no number");
    const int64_t element = size_bytes(*weight.meta.dtype);
    const std::optional<int64_t> bytes = product_of(*dims, element);
    const auto span = strided_span(*dims, *strides);
    const auto end = span ? checked_add(*span, (*first)[0]) : std::nullopt;
    const auto last = end ? checked_mul(*end, element) : std::nullopt;
    if (!bytes || !last || *bytes > kMaxBytes) return fail(path, "has a size beyond 2^62 bytes");
    const auto member = archive_.members.find(weight.member);
    if (member == archive_.members.end())
      return fail(path, fmt::format("is in no member of the archive ('{}')", weight.member));
    weight.length = *bytes;
    if (member->second.bytes == 0 && *bytes > 0) return {};  // saved without weights
    const bool whole = *bytes > 0;
    if (whole && *last > member->second.bytes)
      return fail(path, fmt::format("ends at byte {} of member '{}', which has {}", *last,
                                    weight.member, member->second.bytes));
    const bool row_major = layout_of_strides(*dims, *strides).row_major();
    if (member->second.stored && row_major) {
      weight.mapped = true;
      weight.offset = member->second.offset + (*first)[0] * element;
      return {};
    }
    return read(path, weight, *dims, *strides, (*first)[0]);
  }

  Status read(const std::string& path, Pt2Weight& weight, const std::vector<int64_t>& dims,
              const std::vector<int64_t>& strides, int64_t first) {
    const ArchiveMember& member = archive_.members.at(weight.member);
    if (inflated_ + weight.length > kMostInflated)
      return fail(path, fmt::format("is deflated or strided, as are {} bytes before it; at most {} "
                                    "are read so",
                                    inflated_, kMostInflated));
    if (last_name_ != weight.member) {
      LT_ASSIGN(last_, read_member(archive_, weight.member, kMostInflated));
      last_name_ = weight.member;
    }
    if (static_cast<int64_t>(last_.size()) != member.bytes)
      return fail(path, "has another size than the archive says");
    weight.bytes = gathered(last_, dims, strides, first, size_bytes(*weight.meta.dtype));
    inflated_ += weight.length;
    return {};
  }

  const Archive& archive_;
  Pt2Program& program_;
  int64_t inflated_ = 0;
  std::string last_name_, last_;  // the member that was read last, and its contents
};

// "models/model.json": the name of the one program.
Result<std::string> program_name(const Archive& archive) {
  constexpr std::string_view kFolder = "models/", kSuffix = ".json";
  std::vector<std::string> names;
  for (const auto& [name, member] : archive.members)
    if (name.starts_with(kFolder) && name.ends_with(kSuffix))
      names.push_back(name.substr(kFolder.size(), name.size() - kFolder.size() - kSuffix.size()));
  if (names.size() == 1) return names[0];
  if (names.empty() && archive.members.contains("serialized_exported_program.json"))
    return error(ErrorCode::kInput, fmt::format("{}: an exported program of PyTorch before 2.7; "
                                                "export it again",
                                                archive.origin));
  return error(ErrorCode::kInput,
               fmt::format("{}: no exported program of PyTorch: the archive has {} members "
                           "'models/NAME.json', and one is wanted",
                           archive.origin, names.size()));
}

Result<Json> read_json(const Archive& archive, const std::string& name) {
  LT_ASSIGN(const std::string text, read_member(archive, name, kMostJson));
  return plan::parse_json(text, fmt::format("{}: {}", archive.origin, name),
                          {.bytes = static_cast<size_t>(kMostJson), .depth = kMostPt2Depth});
}

Status read_program(const Archive& archive, Pt2Program& program) {
  LT_ASSIGN(const std::string name, program_name(archive));
  const std::string member = fmt::format("models/{}.json", name);
  LT_ASSIGN(const Json document, read_json(archive, member));
  LT_RETURN_IF_ERROR(
      read_program_json(document, fmt::format("{}: {}", archive.origin, member), program));
  for (const char* kind : {"weights", "constants"}) {
    const std::string folder = fmt::format("data/{}", kind);
    const std::string config = fmt::format("{}/{}_{}_config.json", folder, name, kind);
    if (!archive.members.contains(config)) continue;
    LT_ASSIGN(const Json listed, read_json(archive, config));
    LT_RETURN_IF_ERROR(
        read_weights_json(listed, fmt::format("{}: {}", archive.origin, config), folder, program));
  }
  return {};
}

}  // namespace

std::optional<DType> pt2_dtype(int64_t code) {
  const Pt2TypeRow* row = find_type(code);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::string pt2_type_name(int64_t code) {
  const Pt2TypeRow* row = find_type(code);
  return row == nullptr ? fmt::format("type {}", code) : std::string(row->name);
}

Result<Pt2Program> decode_pt2(std::string_view bytes, const std::string& origin,
                              const std::string& folder, const std::string& file) {
  LT_ASSIGN(const Archive archive, open_archive(bytes, origin));
  Pt2Program program;
  program.origin = origin;
  program.folder = folder;
  program.file = file;
  program.contents = bytes;
  Status status = read_program(archive, program);
  if (status) status = WeightFinder(archive, program).run();
  if (status) return program;
  for (char& c : status.error().message)  // names may hold anything; messages are one line
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return tl::unexpected<Error>(status.error());
}

}  // namespace lowtide::io

#include "io/testing/pt2_archive_maker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cctype>
#include <cstring>

namespace lowtide::io {
namespace {

// A file in memory that minizip writes into.
struct Sink {
  std::string bytes;
  size_t at = 0;
};

void* open_sink(void* opaque, const void* /*name*/, int /*mode*/) {
  return opaque;
}
uLong read_sink(void* /*opaque*/, void* stream, void* out, uLong size) {
  auto& sink = *static_cast<Sink*>(stream);
  const size_t count =
      std::min<size_t>(size, sink.bytes.size() - std::min(sink.at, sink.bytes.size()));
  std::memcpy(out, sink.bytes.data() + sink.at, count);
  sink.at += count;
  return static_cast<uLong>(count);
}
uLong write_sink(void* /*opaque*/, void* stream, const void* from, uLong size) {
  auto& sink = *static_cast<Sink*>(stream);
  if (sink.bytes.size() < sink.at + size) sink.bytes.resize(sink.at + size);
  std::memcpy(sink.bytes.data() + sink.at, from, size);
  sink.at += size;
  return size;
}
ZPOS64_T tell_sink(void* /*opaque*/, void* stream) {
  return static_cast<Sink*>(stream)->at;
}
long seek_sink(void* /*opaque*/, void* stream, ZPOS64_T offset, int origin) {
  auto& sink = *static_cast<Sink*>(stream);
  sink.at = offset + (origin == ZLIB_FILEFUNC_SEEK_CUR   ? sink.at
                      : origin == ZLIB_FILEFUNC_SEEK_END ? sink.bytes.size()
                                                         : 0);
  return 0;
}
int close_sink(void* /*opaque*/, void* /*stream*/) {
  return 0;
}

}  // namespace

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members, bool deflated) {
  Sink sink;
  zlib_filefunc64_def functions = {};
  functions.zopen64_file = open_sink;
  functions.zread_file = read_sink;
  functions.zwrite_file = write_sink;
  functions.ztell64_file = tell_sink;
  functions.zseek64_file = seek_sink;
  functions.zclose_file = close_sink;
  functions.zerror_file = close_sink;
  functions.opaque = &sink;
  zipFile zip = zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &functions);
  for (const auto& [name, contents] : members) {
    const zip_fileinfo info = {};
    zipOpenNewFileInZip64(zip, ("m/" + name).c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                          deflated ? Z_DEFLATED : 0, deflated ? 6 : 0, 0);
    zipWriteInFileInZip(zip, contents.data(), static_cast<unsigned>(contents.size()));
    zipCloseFileInZip(zip);
  }
  zipClose(zip, nullptr);
  return std::move(sink.bytes);
}

std::string Pt2Maker::json() const {
  return fmt::format(
      R"({{"schema_version": {}, "torch_version": "2.13.0", "range_constraints": {{{}}},
"graph_module": {{"graph": {{"inputs": [], "outputs": [], "nodes": [{}], "tensor_values": {{{}}},
"sym_int_values": {{{}}}}}, "signature": {{"input_specs": [{}], "output_specs": [{}]}}}}}})",
      schema, ranges, nodes, tensors, sizes, inputs, outputs);
}

std::string Pt2Maker::bytes(bool deflated) const {
  std::vector<std::pair<std::string, std::string>> members = {
      {"models/model.json", json()},
      {"data/weights/model_weights_config.json", fmt::format(R"({{"config": {{{}}}}})", weights)}};
  members.insert(members.end(), files.begin(), files.end());
  return zip_of(members, deflated);
}

std::string pt2_meta(const std::vector<std::string>& dims, int dtype, bool trained) {
  std::vector<std::string> sizes, strides;
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    const bool number = std::isdigit(static_cast<unsigned char>(dims[d][0])) != 0;
    sizes.insert(sizes.begin(),
                 number ? fmt::format(R"({{"as_int": {}}})", dims[d])
                        : fmt::format(R"({{"as_expr": {{"expr_str": "{}"}}}})", dims[d]));
    strides.insert(strides.begin(), fmt::format(R"({{"as_int": {}}})", stride));
    stride *= number ? std::stoll(dims[d]) : 1;
  }
  return fmt::format(R"({{"dtype": {}, "sizes": [{}], "requires_grad": {}, "strides": [{}],
"storage_offset": {{"as_int": 0}}, "layout": 7}})",
                     dtype, fmt::join(sizes, ", "), trained, fmt::join(strides, ", "));
}

std::string pt2_tensor(const std::string& name, const std::vector<std::string>& dims, int dtype,
                       bool trained) {
  return fmt::format(R"("{}": {})", name, pt2_meta(dims, dtype, trained));
}

std::string as_tensor(const std::string& name) {
  return fmt::format(R"({{"as_tensor": {{"name": "{}"}}}})", name);
}

std::string pt2_node(const std::string& target,
                     const std::vector<std::pair<std::string, std::string>>& arguments,
                     const std::vector<std::string>& outputs) {
  std::vector<std::string> inputs, made;
  for (const auto& [name, argument] : arguments)
    inputs.push_back(fmt::format(R"({{"name": "{}", "arg": {}}})", name, argument));
  for (const std::string& output : outputs) made.push_back(as_tensor(output));
  return fmt::format(
      R"({{"target": "torch.ops.{}", "name": "{}", "inputs": [{}], "outputs": [{}], "metadata":
{{"nn_module_stack": "L__self__,,m.M;L__self___l,l,torch.nn.Linear",
"stack_trace": "  File \"/users/me/net/model.py\", line 12, in forward\n    x\n"}}}})",
      target, outputs.empty() ? "none" : outputs[0], fmt::join(inputs, ", "),
      fmt::join(made, ", "));
}

std::string pt2_fed(const std::string& name) {
  return fmt::format(R"({{"user_input": {{"arg": {}}}}})", as_tensor(name));
}
std::string pt2_parameter(const std::string& name, const std::string& path) {
  return fmt::format(R"({{"parameter": {{"arg": {{"name": "{}"}}, "parameter_name": "{}"}}}})",
                     name, path);
}
std::string pt2_result(const std::string& name) {
  return fmt::format(R"({{"user_output": {{"arg": {}}}}})", as_tensor(name));
}
std::string pt2_weight(const std::string& path, const std::string& member,
                       const std::vector<std::string>& dims, int dtype, bool pickled) {
  return fmt::format(
      R"("{}": {{"path_name": "{}", "is_param": true, "use_pickle": {}, "tensor_meta": {}}})", path,
      member, pickled, pt2_meta(dims, dtype));
}

}  // namespace lowtide::io

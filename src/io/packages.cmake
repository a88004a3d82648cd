# The ONNX schema (onnx.proto) compiled at build time into a library of its own: generated code is not held to the
# project's warnings, and its headers reach only this folder's .cc files and tests.
find_package(Protobuf REQUIRED)
set(wire_dir ${PROJECT_BINARY_DIR}/generated/io)
set(wire_proto ${CMAKE_CURRENT_LIST_DIR}/onnx.proto)
file(MAKE_DIRECTORY ${wire_dir})
add_custom_command(
  OUTPUT ${wire_dir}/onnx.pb.cc ${wire_dir}/onnx.pb.h
  COMMAND protobuf::protoc --proto_path=${CMAKE_CURRENT_LIST_DIR} --cpp_out=${wire_dir} ${wire_proto}
  DEPENDS ${wire_proto} VERBATIM)
add_library(lowtide_onnx_wire STATIC ${wire_dir}/onnx.pb.cc ${wire_dir}/onnx.pb.h)
target_include_directories(lowtide_onnx_wire SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
target_compile_options(lowtide_onnx_wire PRIVATE -w)
target_link_libraries(lowtide_onnx_wire PUBLIC protobuf::libprotobuf-lite)
target_link_libraries(${lowtide_target} PRIVATE lowtide_onnx_wire)
# Archives of exported programs (.pt2), and the JSON in them and of graphs.
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(minizip REQUIRED IMPORTED_TARGET minizip)
target_link_libraries(${lowtide_target} PRIVATE nlohmann_json::nlohmann_json PkgConfig::minizip)

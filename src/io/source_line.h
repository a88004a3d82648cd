// The line of a model's own code that a node comes from, as stack traces of PyTorch's exporters
// tell it: "gpt2/model.py:123".
//
// Two forms are known. Python's own, outermost call first (exported programs; ONNX files of the
// exporter with torch.export, in the nodes' metadata):
//     File "/users/me/gpt2/model.py", line 123, in forward
// and that of the exporter with TorchScript, innermost call first (the nodes' doc_string):
//     /users/me/gpt2/model.py(123): forward
// The innermost call outside of PyTorch is the answer, or of all where there is none. Of its path
// only the end is kept, what lies below site-packages or the file with its folder, so that plans do
// not depend on where a machine keeps its files.
//
// Tests: source_line_test.cc.
#pragma once

#include <string>
#include <string_view>

namespace lowtide::io {

// "" for text that has no such line. Survives any bytes.
std::string source_line(std::string_view stack_trace);

}  // namespace lowtide::io

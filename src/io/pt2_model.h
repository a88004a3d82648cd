// An exported program of PyTorch (.pt2) as plain data: what the archive and its JSON say (schema
// major 8, torch/_export/serde/schema.py), without what the door does not use. Everything behind
// the archive works on these structs.
//
// Pickles are never opened: a weight that is there only as a pickle has no contents here, and is
// refused where it is needed. Sample inputs are not read at all.
//
// Tests: pt2_reader_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "sym/expr.h"

namespace lowtide::io {

struct Pt2Meta {
  int64_t type_code = 0;       // of the schema's ScalarType
  std::optional<DType> dtype;  // none: a type that is not computed with
  std::vector<sym::Expr> dims, strides;
  sym::Expr storage_offset;  // in elements
  bool requires_grad = false;
};

// An argument of an op. `word` of kSymbol names the size that it is; one of kOther, the schema's
// own name for what it is ("as_custom_obj").
struct Pt2Argument {
  enum class Kind : uint8_t {
    kNone,
    kTensor,   // tensors[0]
    kTensors,  // "" where an optional one is absent
    kInteger,  // sizes[0], which may have symbols
    kIntegers,
    kReal,  // reals[0]
    kReals,
    kFlag,    // sizes[0]: 0 or 1
    kWord,    // word
    kDType,   // sizes[0]: the schema's ScalarType
    kFormat,  // sizes[0]: the schema's MemoryFormat
    kGraph,   // subgraph
    kOther
  };
  Kind kind = Kind::kNone;
  std::vector<std::string> tensors;
  std::vector<sym::Expr> sizes;
  std::vector<double> reals;
  std::string word;
  size_t subgraph = 0;  // a place in Pt2Program::graphs
};

struct Pt2Node {
  std::string target;  // "aten.linear.default": behind "torch.ops."
  std::string name;
  std::string module;  // path of the module it comes from; may be empty
  std::string source;  // line of the model's code (source_line.h); may be empty
  std::vector<std::pair<std::string, Pt2Argument>> inputs;  // by the schema's names
  std::vector<std::string> outputs;  // tensors, lists of them written out; "" for anything else
};

struct Pt2Graph {
  std::vector<std::string> inputs;  // tensors; "" for anything else
  std::vector<std::string> outputs;
  std::vector<Pt2Node> nodes;
  std::map<std::string, Pt2Meta, std::less<>> tensors;
};

// A weight, buffer or constant.
struct Pt2Weight {
  Pt2Meta meta;
  bool pickled = false;
  std::string member;  // of the archive: "data/weights/weight_0"
  // Where its elements lie in the file, row-major, if they do and the archive stores them as they
  // are; else their bytes, or neither where the program was saved without weights.
  bool mapped = false;
  int64_t offset = 0;
  int64_t length = 0;
  std::string bytes;
};

struct Pt2Input {
  enum class Kind : uint8_t { kUser, kParameter, kBuffer, kConstant, kOther };
  Kind kind = Kind::kUser;
  std::string tensor;  // its name in the graph; "" where it is none
  std::string path;    // of a parameter, buffer or constant: its name in the model
};

struct Pt2Output {
  bool mutation = false;  // of a buffer, parameter or input: `path` says of which
  std::string tensor;
  std::string path;
};

// Of a symbol: the sizes that it may have, and that of the batch the program was exported with.
struct Pt2Range {
  std::optional<int64_t> least, most, example;
};

struct Pt2Program {
  std::string origin;         // how messages name the file
  std::string folder;         // that the file lies in; "" where there is none
  std::string file;           // its name there
  std::string_view contents;  // of the whole file, which mapped weights lie in
  std::string torch_version;
  std::vector<Pt2Graph> graphs;  // the program's, then those that its nodes call
  std::vector<Pt2Input> inputs;
  std::vector<Pt2Output> outputs;
  std::map<std::string, Pt2Range, std::less<>> ranges;    // of symbols
  std::map<std::string, Pt2Weight, std::less<>> weights;  // by path
};

inline constexpr int64_t kPt2Schema = 8;  // the major version that is read

// The type of the schema's number; its name for messages ("COMPLEXFLOAT", or the number).
std::optional<DType> pt2_dtype(int64_t code);
std::string pt2_type_name(int64_t code);

// `folder` and `file`: where the bytes come from, for weights that stay in the file; "" if nowhere.
// The program points into `bytes`. Error: kInput, one line with `origin`, the member and the path:
// no archive, no exported program or several, another schema, malformed, a weight that the archive
// does not have or has in another size. Survives any bytes.
Result<Pt2Program> decode_pt2(std::string_view bytes, const std::string& origin,
                              const std::string& folder, const std::string& file);

}  // namespace lowtide::io

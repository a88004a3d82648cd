// One node of an exported program while it is lowered, and the table of ATen ops.
//
// The doors share one language of nodes: ONNX's ops, as plain data (onnx_model.h). What shapes
// compute is folded there, constants become formulas, parameters get their roles, and each op is
// converted in one place (convert_*.cc). A row of this table says an ATen overload in that
// language, so a network gives the same graph through either door:
//
//   {"aten.silu.default", silu}        void silu(AtenCall& call) {
//                                        const std::string x = call.tensor("self");
//                                        const std::string gate = call.emit("Sigmoid", {x});
//                                        call.result("Mul", {x, gate});
//                                      }
//
// Rows are functional: of an op that writes in place ("aten.relu_.default") the row without the
// underscore is taken, and pt2_lower.h says who reads the new value. A row reads arguments by the
// names of the schema; the first mistake is kept (fail), what is read after it has no meaning, and
// the node is refused when the row has returned.
//
// Tests: pt2_reader_test.cc, tests/python/test_pt2.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "io/onnx_model.h"
#include "io/pt2_model.h"

namespace lowtide::io {

// What the lowering keeps for all nodes.
class AtenSink {
 public:
  virtual ~AtenSink() = default;
  // The name under which the program's tensor is read now. Empty: there is none, or it must not be
  // read, and `why` says why.
  virtual std::string read(const std::string& tensor, std::string& why) = 0;
  virtual const Pt2Meta* meta(const std::string& tensor) const = 0;  // null: there is none
  // The name that the node's tensor is written under.
  virtual std::string write(const std::string& tensor) = 0;
  virtual void add(OnnxNode node) = 0;
  virtual std::string add_constant(OnnxTensor tensor) = 0;
  virtual bool training() const = 0;
  // Whether something computed from a trained parameter is in it.
  virtual bool is_trained(const std::string& tensor) const = 0;
  // The contents of a parameter, as far as they are known: whether this row of it is zeros.
  virtual bool is_zero_row(const std::string& tensor, int64_t row) const = 0;
};

using AtenAttr = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using AtenAttrs = std::vector<std::pair<std::string_view, AtenAttr>>;

struct AtenRow;

class AtenCall {
 public:
  AtenCall(AtenSink& sink, const Pt2Node& node, const AtenRow& row)
      : sink_(sink), node_(node), row_(row) {}

  const Pt2Node& node() const { return node_; }
  const AtenRow& row() const { return row_; }
  bool training() const { return sink_.training(); }
  const std::string& mistake() const { return mistake_; }  // empty: none
  void fail(std::string why) {
    if (mistake_.empty()) mistake_ = std::move(why);
  }

  // ---- arguments, by the schema's names

  bool has(std::string_view name) const;  // given, and not None
  bool is_tensor(std::string_view name) const;
  std::string tensor(std::string_view name);
  std::vector<std::string> tensors(std::string_view name);  // "" for an absent one
  // The tensor or number as a value of this type: cast, or a constant.
  std::string operand(std::string_view name, DType type);
  const Pt2Meta& meta(std::string_view name);
  std::vector<Pt2Meta> metas(std::string_view name);  // of a list
  DType type(std::string_view name);  // of a tensor, or of the number that stands in its place
  size_t rank(std::string_view name) { return meta(name).dims.size(); }

  int64_t integer(std::string_view name, int64_t otherwise);
  double real(std::string_view name, double otherwise);
  bool flag(std::string_view name, bool otherwise);
  std::string word(std::string_view name, std::string_view otherwise) const;
  std::optional<DType> dtype(std::string_view name);  // none: not given
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> otherwise = {});
  std::vector<double> reals(std::string_view name);
  std::vector<sym::Expr> sizes(std::string_view name);  // also of a single one
  // A dimension of a tensor of this rank, counted from the end where it is negative.
  int64_t axis(std::string_view name, int64_t otherwise, size_t rank);

  // ---- results

  size_t outputs() const { return node_.outputs.size(); }
  const Pt2Meta& out(size_t i = 0);
  DType out_type(size_t i = 0);

  std::string emit(std::string_view op, std::vector<std::string> inputs, AtenAttrs attrs = {});
  // The op whose outputs are the node's first `outputs`; those that nobody reads are left out.
  void result(std::string_view op, std::vector<std::string> inputs, AtenAttrs attrs = {},
              size_t outputs = 1);
  void result_at(size_t output, std::string_view op, std::vector<std::string> inputs,
                 AtenAttrs attrs = {});
  // Output 0 is x, cast to the type of output 0 where it has another.
  void result_as(const std::string& x, DType type);

  std::string cast(const std::string& x, DType from, DType to);
  std::string number(double value, DType type);
  std::string integer_list(const std::vector<int64_t>& values);
  std::string size_list(const std::vector<sym::Expr>& values);
  std::string size_number(const sym::Expr& value);
  // `count` times the number.
  std::string filled(double value, DType type, const std::vector<sym::Expr>& dims);
  // The same bits, through which no gradient flows.
  std::string without_gradient(const std::string& x, DType type);
  bool is_trained(std::string_view name);
  bool is_zero_row(std::string_view name, int64_t row);

 private:
  const Pt2Argument* find(std::string_view name) const;
  const Pt2Argument* need(std::string_view name);
  OnnxNode make(std::string_view op, std::vector<std::string> inputs, AtenAttrs attrs) const;

  AtenSink& sink_;
  const Pt2Node& node_;
  const AtenRow& row_;
  std::string mistake_;
  int inner_ = 0;  // values between that have been named
};

using LowerAten = void (*)(AtenCall&);

struct AtenRow {
  std::string_view target;  // "aten.relu.default"
  LowerAten lower;
  std::string_view onnx = {};  // for functions that many rows share: the op they write
};

std::span<const AtenRow> aten_elementwise_rows();
std::span<const AtenRow> aten_movement_rows();
std::span<const AtenRow> aten_indexing_rows();
std::span<const AtenRow> aten_creation_rows();
std::span<const AtenRow> aten_reduction_rows();
std::span<const AtenRow> aten_network_rows();
std::span<const AtenRow> aten_window_rows();

// All rows, in the order of the families.
std::vector<std::span<const AtenRow>> aten_families();
// null: none has this target.
const AtenRow* find_aten(std::string_view target);

// Of ONNX's TensorProto.DataType.
int32_t onnx_code(DType type);

// The type that PyTorch computes in with operands of these types: the higher category (truth
// values, integers, floats), of the operands with dims if one has it, and in it the wider.
DType promoted(DType a, bool a_has_dims, DType b, bool b_has_dims);

}  // namespace lowtide::io

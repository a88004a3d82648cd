// ATen ops that read or write at places given by data, and those that search or sum along a dim.
#include <algorithm>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

using sym::Expr;

// A row that is padding gets no gradient. Where it is zeros, as PyTorch makes it, an index behind
// the table reads the same zeros and writes nothing; else its gradient is cut off.
void embedding(AtenCall& call) {
  if (call.training() && call.is_trained("weight")) {
    if (call.flag("scale_grad_by_freq", false)) return call.fail("scale_grad_by_freq");
    if (call.flag("sparse", false)) return call.fail("sparse gradients");
  }
  const std::string table = call.tensor("weight");
  std::string places = call.tensor("indices");
  const int64_t padding = call.integer("padding_idx", -1);
  const auto rows =
      call.rank("weight") == 2 ? call.meta("weight").dims[0].constant() : std::optional<int64_t>();
  if (padding < 0 || !call.training() || !call.is_trained("weight"))
    return call.result("Gather", {table, places});
  if (!rows) return call.fail("padding_idx of a table whose rows are not a number");
  const DType type = call.type("indices");
  const std::string is_padding =
      call.emit("Equal", {places, call.number(static_cast<double>(padding), type)});
  if (call.is_zero_row("weight", padding)) {
    places =
        call.emit("Where", {is_padding, call.number(static_cast<double>(*rows), type), places});
    return call.result("Gather", {table, places});
  }
  const std::string read = call.emit("Gather", {table, places});
  const std::string apart = call.emit("Unsqueeze", {is_padding, call.integer_list({-1})});
  call.result("Where", {apart, call.without_gradient(read, call.type("weight")), read});
}

// Places along one dim, of which the result has as many as the index has dims.
void index_select(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  call.result("Gather", {call.tensor("self"), call.tensor("index")}, {{"axis", axis}});
}

void gather(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  call.result("GatherElements", {call.tensor("self"), call.tensor("index")}, {{"axis", axis}});
}

void scatter(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  const DType type = call.out_type();
  const bool value = call.has("value");
  std::string updates = call.operand(value ? "value" : "src", type);
  if (value) updates = call.emit("Expand", {updates, call.size_list(call.meta("index").dims)});
  const std::string reduction(call.row().onnx);
  call.result("ScatterElements", {call.tensor("self"), call.tensor("index"), updates},
              {{"axis", axis}, {"reduction", reduction}});
}

// Dims of `a` and `b` as numpy broadcasts them.
std::vector<Expr> broadcast_dims(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const std::vector<Expr>&longer = a.size() < b.size() ? b : a,
        &shorter = a.size() < b.size() ? a : b;
  std::vector<Expr> dims = longer;
  for (size_t d = 0; d < shorter.size(); ++d) {
    Expr& dim = dims[longer.size() - shorter.size() + d];
    if (dim == Expr(1)) dim = shorter[d];
  }
  return dims;
}

// self[indices]: one index reads along its dim; several, of leading dims, name elements or blocks
// together. An index of truth values has as many results as it has true ones.
class Index {
 public:
  explicit Index(AtenCall& call) : call_(call), indices_(call.tensors("indices")) {}

  void run(const std::vector<Pt2Meta>& metas) {
    std::vector<size_t> given;
    for (size_t i = 0; i < indices_.size(); ++i)
      if (!indices_[i].empty()) given.push_back(i);
    if (given.empty()) return call_.result("Identity", {call_.tensor("self")});
    for (const size_t i : given)
      if (!metas[i].dtype || metas[i].dtype == DType::kBool || metas[i].dtype == DType::kU8)
        return call_.fail("an index that is no integer: the size of its result is data");
    if (given.size() == 1)
      return call_.result("Gather", {call_.tensor("self"), indices_[given[0]]},
                          {{"axis", static_cast<int64_t>(given[0])}});
    if (given.back() + 1 != given.size())
      return call_.fail("several indices that are not those of the leading dims");
    std::vector<Expr> dims;
    for (const size_t i : given) dims = broadcast_dims(dims, metas[i].dims);
    std::vector<std::string> columns;
    const std::string shape = call_.size_list(dims), last = call_.integer_list({-1});
    for (const size_t i : given) {
      const std::string whole =
          call_.emit("Expand", {call_.cast(indices_[i], *metas[i].dtype, DType::kI64), shape});
      columns.push_back(call_.emit("Unsqueeze", {whole, last}));
    }
    const std::string places = call_.emit("Concat", std::move(columns), {{"axis", int64_t{-1}}});
    call_.result("GatherND", {call_.tensor("self"), places});
  }

 private:
  AtenCall& call_;
  std::vector<std::string> indices_;
};

void index(AtenCall& call) {
  Index reading(call);
  if (call.mistake().empty()) reading.run(call.metas("indices"));
}

void arg_extreme(AtenCall& call) {
  const bool keep = call.flag("keepdim", false);
  const std::string x = call.tensor("self");
  if (!call.has("dim")) {
    const std::string flat = call.emit("Reshape", {x, call.integer_list({-1})});
    return call.result(call.row().onnx, {flat}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}});
  }
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  call.result(call.row().onnx, {x}, {{"axis", axis}, {"keepdims", int64_t{keep ? 1 : 0}}});
}

void top(AtenCall& call) {
  const int64_t axis = call.axis("dim", -1, call.rank("self"));
  call.result("TopK", {call.tensor("self"), call.integer_list({call.integer("k", 1)})},
              {{"axis", axis},
               {"largest", int64_t{call.flag("largest", true) ? 1 : 0}},
               {"sorted", int64_t{1}}},
              2);
}

void sort(AtenCall& call) {
  const size_t rank = call.rank("self");
  const int64_t axis = call.axis("dim", -1, rank);
  if (rank == 0 || !call.mistake().empty()) return call.fail("a tensor without dims");
  const Expr count = call.meta("self").dims[static_cast<size_t>(axis)];
  call.result("TopK", {call.tensor("self"), call.size_list({count})},
              {{"axis", axis},
               {"largest", int64_t{call.flag("descending", false) ? 1 : 0}},
               {"sorted", int64_t{1}}},
              2);
}

void cumulate(AtenCall& call) {
  const int64_t axis = call.axis("dim", 0, call.rank("self"));
  call.result(call.row().onnx, {call.operand("self", call.out_type()), call.size_number(axis)});
}

void one_hot(AtenCall& call) {
  const int64_t classes = call.integer("num_classes", -1);
  if (classes < 1) return call.fail("num_classes is data");
  const std::string off_on = call.emit("Cast", {call.integer_list({0, 1})}, {{"to", int64_t{7}}});
  call.result("OneHot", {call.tensor("self"), call.size_number(classes), off_on});
}

constexpr AtenRow kIndexingAtenRows[] = {
    {"aten.embedding.default", embedding},
    {"aten.index_select.default", index_select},
    {"aten.gather.default", gather},
    {"aten.scatter.src", scatter, "none"},
    {"aten.scatter.value", scatter, "none"},
    {"aten.scatter_add.default", scatter, "add"},
    {"aten.index.Tensor", index},
    {"aten.argmax.default", arg_extreme, "ArgMax"},
    {"aten.argmin.default", arg_extreme, "ArgMin"},
    {"aten.topk.default", top},
    {"aten.sort.default", sort},
    {"aten.cumsum.default", cumulate, "CumSum"},
    {"aten.cumprod.default", cumulate, "CumProd"},
    {"aten.one_hot.default", one_hot},
};

}  // namespace

std::span<const AtenRow> aten_indexing_rows() {
  return kIndexingAtenRows;
}

}  // namespace lowtide::io

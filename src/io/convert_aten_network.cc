// Layers of networks: products, normalizations, softmax, attention, dropout, losses.
#include <cmath>
#include <limits>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

using sym::Expr;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// ---- products ----

// x W^T + b. Of rank 2 one op, otherwise a product and a sum, which the graph joins.
void linear(AtenCall& call) {
  const std::string x = call.tensor("input"), weight = call.tensor("weight");
  if (call.rank("weight") != 2) return call.fail("a weight that is no matrix");
  if (call.rank("input") == 2 && call.has("bias"))
    return call.result("Gemm", {x, weight, call.tensor("bias")}, {{"transB", int64_t{1}}});
  const std::string turned =
      call.emit("Transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
  if (!call.has("bias")) return call.result("MatMul", {x, turned});
  call.result("Add", {call.emit("MatMul", {x, turned}), call.tensor("bias")});
}

void matrix_product(AtenCall& call) {
  const std::string_view second = call.has("mat2") ? "mat2" : call.has("vec") ? "vec" : "other";
  const std::string_view by = call.has("tensor") ? "tensor" : second;
  call.result("MatMul", {call.tensor("self"), call.tensor(by)});
}

// beta * self + alpha * mat1 mat2.
void add_matrix_product(AtenCall& call) {
  call.result("Gemm", {call.tensor("mat1"), call.tensor("mat2"), call.tensor("self")},
              {{"alpha", call.real("alpha", 1)}, {"beta", call.real("beta", 1)}});
}

void add_batch_product(AtenCall& call) {
  const DType type = call.out_type();
  const auto scaled = [&](const std::string& x, double by) {
    return by == 1 ? x : call.emit("Mul", {x, call.number(by, type)});
  };
  const std::string product = scaled(
      call.emit("MatMul", {call.tensor("batch1"), call.tensor("batch2")}), call.real("alpha", 1));
  const double beta = call.real("beta", 1);
  if (beta == 0) return call.result("Identity", {product});
  call.result("Add", {scaled(call.tensor("self"), beta), product});
}

void einsum(AtenCall& call) {
  std::string equation = call.word("equation", "");
  if (equation.empty()) return call.fail("no equation is given");
  // Products alone promote in PyTorch ("i,j->ij" of a range and frequencies); Einsum has one type.
  const std::vector<Pt2Meta> metas = call.metas("tensors");
  std::vector<std::string> operands = call.tensors("tensors");
  for (size_t i = 0; i < operands.size() && i < metas.size(); ++i)
    if (const DType from = metas[i].dtype.value_or(call.out_type()); from != call.out_type())
      operands[i] = call.cast(operands[i], from, call.out_type());
  call.result("Einsum", std::move(operands), {{"equation", std::move(equation)}});
}

// ---- normalizations ----

std::string weight_or(AtenCall& call, std::string_view name, double otherwise,
                      const std::vector<Expr>& dims) {
  if (call.has(name)) return call.tensor(name);
  return call.filled(otherwise, call.type(call.has("input") ? "input" : "self"), dims);
}

// In a graph for training the statistics are those of the batch where the program was exported so
// (model.train()), else the running ones, as in eager mode; without running ones they always are
// those of the batch.
void batch_norm(AtenCall& call) {
  const auto& dims = call.meta("input").dims;
  if (dims.size() < 2) return call.fail("an input without channels");
  const std::vector<Expr> channels = {dims[1]};
  const bool running = call.has("running_mean") && call.has("running_var");
  AtenAttrs attrs = {{"epsilon", call.real("eps", 1e-5)},
                     {"momentum", 1 - call.real("momentum", 0.1)}};
  if (!running) {
    attrs.emplace_back("training_mode", int64_t{1});
  } else if (!call.flag("training", false)) {
    attrs.emplace_back("training_mode", kGivenStatistics);
  }
  call.result("BatchNormalization",
              {call.tensor("input"), weight_or(call, "weight", 1, channels),
               weight_or(call, "bias", 0, channels), weight_or(call, "running_mean", 0, channels),
               weight_or(call, "running_var", 1, channels)},
              std::move(attrs));
}

void layer_norm(AtenCall& call) {
  const std::vector<Expr> shape = call.sizes("normalized_shape");
  const std::vector<std::string> inputs = {call.tensor("input"),
                                           weight_or(call, "weight", 1, shape)};
  const AtenAttrs attrs = {{"axis", -static_cast<int64_t>(shape.size())},
                           {"epsilon", call.real("eps", 1e-5)}};
  if (!call.has("bias")) return call.result("LayerNormalization", inputs, attrs);
  call.result("LayerNormalization", {inputs[0], inputs[1], call.tensor("bias")}, attrs);
}

void rms_norm(AtenCall& call) {
  const std::vector<Expr> shape = call.sizes("normalized_shape");
  const double least = call.type("input") == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                                         : std::numeric_limits<float>::epsilon();
  call.result(
      "RMSNormalization", {call.tensor("input"), weight_or(call, "weight", 1, shape)},
      {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", call.real("eps", least)}});
}

void group_norm(AtenCall& call) {
  const auto& dims = call.meta("input").dims;
  if (dims.size() < 3) return call.fail("an input without places");
  call.result("GroupNormalization",
              {call.tensor("input"), weight_or(call, "weight", 1, {dims[1]}),
               weight_or(call, "bias", 0, {dims[1]})},
              {{"num_groups", call.integer("num_groups", 1)}, {"epsilon", call.real("eps", 1e-5)}});
}

void instance_norm(AtenCall& call) {
  const auto& dims = call.meta("input").dims;
  if (dims.size() < 3) return call.fail("an input without places");
  if (!call.flag("use_input_stats", true)) return call.fail("running statistics are not taken");
  call.result("InstanceNormalization",
              {call.tensor("input"), weight_or(call, "weight", 1, {dims[1]}),
               weight_or(call, "bias", 0, {dims[1]})},
              {{"epsilon", call.real("eps", 1e-5)}});
}

// ---- softmax, dropout, attention ----

void softmax(AtenCall& call) {
  const DType type = call.out_type();
  const int64_t axis = call.axis("dim", -1, call.rank("self"));
  call.result(call.row().onnx, {call.operand("self", type)}, {{"axis", axis}});
}

std::string dropped(AtenCall& call, const std::string& x, double ratio) {
  return call.emit("Dropout", {x, call.number(ratio, DType::kF32), call.number(1, DType::kBool)});
}

// The program says whether it was exported to train.
void dropout(AtenCall& call) {
  const std::string x = call.tensor("input");
  const double ratio = call.real("p", 0.5);
  if (!call.flag("train", false) || ratio == 0) return call.result("Identity", {x});
  call.result("Dropout", {x, call.number(ratio, DType::kF32), call.number(1, DType::kBool)});
}

// k or v with a head for each of q's: each repeated for its group.
std::string per_query_head(AtenCall& call, const std::string& x, const std::vector<Expr>& dims,
                           const Expr& heads) {
  const size_t at = dims.size() - 3;
  if (dims[at] == heads) return x;
  std::vector<Expr> apart = dims, whole = dims;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(at) + 1, sym::floordiv(heads, dims[at]));
  whole[at] = heads;
  const std::string grouped =
      call.emit("Unsqueeze", {x, call.integer_list({static_cast<int64_t>(at) + 1})});
  const std::string copies = call.emit("Expand", {grouped, call.size_list(apart)});
  return call.emit("Reshape", {copies, call.size_list(whole)});
}

// Ones at and below the diagonal: a formula over the index, which needs no bytes.
std::string causal_mask(AtenCall& call, const Expr& queries, const Expr& keys, DType type) {
  const std::string ones = call.filled(1, type, {queries, keys});
  const std::string lower = call.emit("Trilu", {ones}, {{"upper", int64_t{0}}});
  const std::string forbidden = call.emit("Equal", {lower, call.number(0, type)});
  return call.emit("Where", {forbidden, call.number(kMinusInfinity, type), call.number(0, type)});
}

// softmax(scale q k^T + mask) v. A mask of truth values may forbid a query every key; its softmax
// is 0 then, as PyTorch has it.
void attention(AtenCall& call) {
  const DType type = call.out_type();
  const auto& q_dims = call.meta("query").dims;
  const auto &k_dims = call.meta("key").dims, &v_dims = call.meta("value").dims;
  if (q_dims.size() < 2 || k_dims.size() != q_dims.size() || v_dims.size() != q_dims.size())
    return call.fail("operands of different rank");
  const auto size = q_dims.back().constant();
  if (!size) return call.fail("the size of a head must be known");
  const double scale = call.real("scale", 1 / std::sqrt(static_cast<double>(*size)));
  std::string k = call.tensor("key"), v = call.tensor("value");
  if (call.flag("enable_gqa", false) && q_dims.size() > 2) {
    k = per_query_head(call, k, k_dims, q_dims[q_dims.size() - 3]);
    v = per_query_head(call, v, v_dims, q_dims[q_dims.size() - 3]);
  }
  const std::string q = call.emit("Mul", {call.tensor("query"), call.number(scale, type)});
  std::vector<int64_t> perm(q_dims.size());
  for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  std::string scores = call.emit("MatMul", {q, call.emit("Transpose", {k}, {{"perm", perm}})});
  bool may_forbid_all = false;
  if (call.has("attn_mask")) {
    std::string mask = call.tensor("attn_mask");
    may_forbid_all = call.type("attn_mask") == DType::kBool;
    if (may_forbid_all)
      mask = call.emit("Where", {mask, call.number(0, type), call.number(kMinusInfinity, type)});
    scores = call.emit("Add", {scores, mask});
  } else if (call.flag("is_causal", false)) {
    scores = call.emit("Add", {scores, causal_mask(call, q_dims[q_dims.size() - 2],
                                                   k_dims[k_dims.size() - 2], type)});
  }
  std::string weights = call.emit("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (may_forbid_all)
    weights = call.emit("Where", {call.emit("IsNaN", {weights}), call.number(0, type), weights});
  if (const double ratio = call.real("dropout_p", 0); ratio > 0)
    weights = dropped(call, weights, ratio);
  call.result("MatMul", {weights, v});
}

// ---- losses ----

std::string reduction_word(AtenCall& call) {
  constexpr const char* kWords[] = {"none", "mean", "sum"};
  const int64_t which = call.integer("reduction", 1);
  if (which < 0 || which > 2) call.fail("a reduction that is not known");
  return kWords[which < 0 || which > 2 ? 1 : which];
}

void class_loss(AtenCall& call) {
  if (call.real("label_smoothing", 0) != 0) return call.fail("label_smoothing is not 0");
  if (is_float(call.type("target"))) return call.fail("targets that are probabilities");
  if (call.rank("self") < 2) return call.fail("scores of rank 1");
  std::vector<std::string> inputs = {call.tensor("self"), call.tensor("target")};
  if (call.has("weight")) inputs.push_back(call.tensor("weight"));
  call.result(
      call.row().onnx, std::move(inputs),
      {{"reduction", reduction_word(call)}, {"ignore_index", call.integer("ignore_index", -100)}});
}

// The mean, the sum or each of `x`.
void reduced_loss(AtenCall& call, const std::string& x) {
  const std::string how = reduction_word(call);
  if (how == "none") return call.result("Identity", {x});
  call.result(how == "mean" ? "ReduceMean" : "ReduceSum", {x}, {{"keepdims", int64_t{0}}});
}

void squared_loss(AtenCall& call) {
  const DType type = call.out_type();
  const std::string off =
      call.emit("Sub", {call.operand("self", type), call.operand("target", type)});
  reduced_loss(call, call.emit("Mul", {off, off}));
}

void absolute_loss(AtenCall& call) {
  const DType type = call.out_type();
  const std::string off =
      call.emit("Sub", {call.operand("self", type), call.operand("target", type)});
  reduced_loss(call, call.emit("Abs", {off}));
}

// max(x, 0) - x y + log(1 + exp(-|x|)), which overflows nowhere.
void logit_loss(AtenCall& call) {
  if (call.has("weight") || call.has("pos_weight")) return call.fail("weights are not taken");
  const DType type = call.out_type();
  const std::string x = call.operand("self", type), y = call.operand("target", type);
  const std::string plus = call.emit("Softplus", {x});
  reduced_loss(call, call.emit("Sub", {plus, call.emit("Mul", {x, y})}));
}

constexpr AtenRow kNetworkAtenRows[] = {
    {"aten.linear.default", linear},
    {"aten.matmul.default", matrix_product},
    {"aten.mm.default", matrix_product},
    {"aten.bmm.default", matrix_product},
    {"aten.mv.default", matrix_product},
    {"aten.dot.default", matrix_product},
    {"aten.addmm.default", add_matrix_product},
    {"aten.baddbmm.default", add_batch_product},
    {"aten.einsum.default", einsum},
    {"aten.batch_norm.default", batch_norm},
    {"aten.native_batch_norm.default", batch_norm},
    {"aten._native_batch_norm_legit.default", batch_norm},
    {"aten._native_batch_norm_legit_functional.default", batch_norm},
    {"aten._native_batch_norm_legit_no_training.default", batch_norm},
    {"aten.layer_norm.default", layer_norm},
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.rms_norm.default", rms_norm},
    {"aten.group_norm.default", group_norm},
    {"aten.instance_norm.default", instance_norm},
    {"aten.softmax.int", softmax, "Softmax"},
    {"aten._softmax.default", softmax, "Softmax"},
    {"aten.log_softmax.int", softmax, "LogSoftmax"},
    {"aten._log_softmax.default", softmax, "LogSoftmax"},
    {"aten.dropout.default", dropout},
    {"aten.native_dropout.default", dropout},
    {"aten.scaled_dot_product_attention.default", attention},
    {"aten.cross_entropy_loss.default", class_loss, "SoftmaxCrossEntropyLoss"},
    {"aten.nll_loss.default", class_loss, "NegativeLogLikelihoodLoss"},
    {"aten.nll_loss_nd.default", class_loss, "NegativeLogLikelihoodLoss"},
    {"aten.nll_loss2d.default", class_loss, "NegativeLogLikelihoodLoss"},
    {"aten.mse_loss.default", squared_loss},
    {"aten.l1_loss.default", absolute_loss},
    {"aten.binary_cross_entropy_with_logits.default", logit_loss},
};

}  // namespace

std::span<const AtenRow> aten_network_rows() {
  return kNetworkAtenRows;
}

}  // namespace lowtide::io

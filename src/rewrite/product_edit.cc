#include "rewrite/product_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/describe.h"
#include "ops/edit.h"
#include "rewrite/rules.h"

namespace lowtide::rewrite {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

namespace {

constexpr std::string_view kMatMulAttrs[] = {"trans_a", "trans_b"};
constexpr std::string_view kConvAttrs[] = {"strides", "pads", "dilations", "group"};

}  // namespace

std::vector<ValueId> inputs_of(const GraphEdit& edit, const std::vector<OpId>& ops, size_t input) {
  std::vector<ValueId> inputs;
  for (OpId id : ops) inputs.push_back(edit.op(id).inputs[input]);
  return inputs;
}

int64_t int_attr_or(const ir::Op& op, std::string_view name, int64_t otherwise) {
  const auto found = op.attrs.find(name);
  return found == op.attrs.end() ? otherwise : std::get<int64_t>(found->second);
}

bool ProductEdit::has(OpId op, size_t input) const {
  const std::vector<ValueId>& inputs = edit_.op(op).inputs;
  return input < inputs.size() && inputs[input].valid();
}

std::vector<OpId> ProductEdit::all_ops() const {
  std::vector<OpId> ops;
  for (OpId id = edit_.first_op(); id.valid(); id = edit_.next_op(id)) ops.push_back(id);
  return ops;
}

Result<ir::Graph> ProductEdit::graph() const {
  ir::Graph graph = edit_.compact().graph;
  LT_RETURN_IF_ERROR(ir::check(graph));
  return graph;
}

std::vector<ProductEdit::Way> ProductEdit::ways_of(OpId id) const {
  const ir::Op& op = edit_.op(id);
  const bool product = is_plain(edit_, id, "MatMul", kMatMulAttrs);
  if (!product && !(is_plain(edit_, id, "Conv", kConvAttrs) && int_attr_or(op, "group", 1) == 1))
    return {};
  for (size_t i = kBias + 1; i < op.inputs.size(); ++i)
    if (op.inputs[i].valid()) return {};  // it adds into something
  if (edit_.value(op.outputs[0]).alias != ir::Alias::kOwn) return {};
  const size_t a = dims(op.inputs[0]).size(), b = dims(op.inputs[1]).size();
  const size_t out = dims(op.outputs[0]).size();
  if (!product) return {{1, 0, 1, true}, {0, 0, 0, false}};
  std::vector<Way> ways = {{1, int_attr_or(op, "trans_b", 0) != 0 ? b - 2 : b - 1, out - 1, true}};
  if (a == out && a > 2 && b == 2) ways.push_back({0, 0, 0, false});
  if (a == out)
    ways.push_back({0, int_attr_or(op, "trans_a", 0) != 0 ? a - 1 : a - 2, out - 2, false});
  return ways;
}

std::string ProductEdit::key_of(OpId id, const Way& way) const {
  const ir::Op& op = edit_.op(id);
  std::string key = fmt::format("{} {} {}", op.kind, way.operand, way.dim);
  for (const auto& [name, attr] : op.attrs) {
    key += " " + name;
    if (const auto* number = std::get_if<int64_t>(&attr)) key += fmt::format(" {}", *number);
    if (const auto* list = std::get_if<ir::Dims>(&attr))
      for (const sym::Expr& entry : *list) key += " " + sym::print(entry);
  }
  for (size_t i = 0; i <= kBias; ++i) {
    const bool varies = i == way.operand || (i == kBias && way.bias);
    key += has(id, i) ? (varies ? " there" : fmt::format(" v{}", op.inputs[i].index())) : " -";
  }
  const ir::Dims& varying = dims(op.inputs[way.operand]);
  for (size_t d = 0; d < varying.size(); ++d)
    key += d == way.dim ? " _" : " " + sym::print(varying[d]);
  return key + fmt::format(" {} {}", static_cast<int>(edit_.value(op.inputs[way.operand]).dtype),
                           static_cast<int>(op.phase));
}

// ---- costs ----

Result<double> ProductEdit::seconds_of(OpId id) const {
  const ir::Op& op = edit_.op(id);
  if (edit_.value(op.outputs[0]).alias == ir::Alias::kView) return 0.0;
  plan::OpDesc desc;
  desc.kind = op.kind;
  LT_ASSIGN(desc.attrs, analysis::describe(op.attrs, op.name));
  for (ValueId input : op.inputs) {
    desc.inputs.emplace_back();
    if (!input.valid()) continue;
    LT_ASSIGN(desc.inputs.back(), analysis::describe(edit_.value(input)));
  }
  for (ValueId output : op.outputs) {
    LT_ASSIGN(plan::TensorDesc type, analysis::describe(edit_.value(output)));
    desc.outputs.push_back(std::move(type));
  }
  return seconds_(desc);
}

Result<double> ProductEdit::seconds_of(const std::vector<OpId>& ops) const {
  double sum = 0;
  for (OpId id : ops) {
    LT_ASSIGN(const double seconds, seconds_of(id));
    sum += seconds;
  }
  return sum;
}

// ---- changes ----

std::optional<ValueId> ProductEdit::add(std::vector<OpId>& made, OpId before, std::string_view kind,
                                        std::vector<ValueId> inputs, ir::Attrs attrs) {
  ops::AppendOptions options;
  options.name = edit_.op(before).name;
  options.module = edit_.op(before).module;
  options.source = edit_.op(before).source;
  options.phase = edit_.op(before).phase;
  options.category = edit_.value(edit_.op(before).outputs[0]).category;
  const auto op = ops::append(edit_, ir::Place::before(before), kind, std::move(inputs),
                              std::move(attrs), options);
  if (!op) return std::nullopt;
  made.push_back(*op);
  return edit_.op(*op).outputs[0];
}

std::optional<ValueId> ProductEdit::cut(std::vector<OpId>& made, OpId before, ValueId whole,
                                        size_t dim, int64_t begin, int64_t size) {
  ir::Dims starts(dims(whole).size(), 0), sizes = dims(whole);
  starts[dim] = begin;
  sizes[dim] = size;
  return add(made, before, "Slice", {whole},
             {{"starts", starts}, {"sizes", sizes}, {"steps", ir::Dims(starts.size(), 1)}});
}

bool ProductEdit::stands_for(ValueId now, OpId gone) {
  const ValueId old = edit_.op(gone).outputs[0];
  const ir::Value was = edit_.value(old);
  for (ValueId member : edit_.values_in(was.storage))
    if (edit_.value(member).alias == ir::Alias::kUpdate) return false;
  if (!edit_.replace_reads(old, now)) return false;
  if (was.is_output) edit_.set_output(old, false);
  if (!edit_.remove_op(gone)) return false;
  edit_.keep_output(now, was);
  return edit_.rename(now, was.name).has_value();
}

// Moves what the op needs before `first`; false where that is, or waits for, one of `joined`.
bool ProductEdit::hoist(OpId op, OpId first, const std::vector<OpId>& joined) {
  std::vector<OpId> open = {op}, needed;
  std::set<OpId> seen = {op};
  while (!open.empty()) {
    const ir::Op& next = edit_.op(open.back());
    open.pop_back();
    std::vector<OpId> before = next.control;
    for (ValueId input : next.inputs)
      if (input.valid() && edit_.value(input).producer.valid())
        before.push_back(edit_.value(input).producer);
    for (OpId id : before) {
      if (std::find(joined.begin(), joined.end(), id) != joined.end()) return false;
      if (edit_.before(id, first) || !seen.insert(id).second) continue;
      needed.push_back(id);
      open.push_back(id);
    }
  }
  std::sort(needed.begin(), needed.end(), [&](OpId a, OpId b) { return edit_.before(a, b); });
  return std::all_of(needed.begin(), needed.end(), [&](OpId id) {
    return edit_.move_op(id, ir::Place::before(first)).has_value();
  });
}

std::vector<OpId> ProductEdit::joinable(const std::vector<OpId>& group) {
  std::vector<OpId> joined;
  for (OpId id : group) {
    if (!edit_.alive(id)) continue;
    const GraphEdit::Mark before = edit_.mark();
    if (joined.empty() || hoist(id, joined[0], joined))
      joined.push_back(id);
    else
      edit_.rollback(before);
  }
  return joined;
}

std::vector<OpId> ProductEdit::as_they_are_read(std::vector<OpId> joined) const {
  for (OpId reader : edit_.readers(edit_.op(joined[0]).outputs[0])) {
    if (edit_.op(reader).kind != "Concat") continue;
    const std::vector<ValueId>& inputs = edit_.op(reader).inputs;
    const auto place = [&](OpId id) {
      return std::find(inputs.begin(), inputs.end(), edit_.op(id).outputs[0]);
    };
    if (std::any_of(joined.begin(), joined.end(),
                    [&](OpId id) { return place(id) == inputs.end(); }))
      continue;
    std::sort(joined.begin(), joined.end(), [&](OpId a, OpId b) { return place(a) < place(b); });
    break;
  }
  return joined;
}

std::optional<ValueId> ProductEdit::concat(std::vector<OpId>& made, OpId first,
                                           std::vector<ValueId> operands, size_t dim) {
  return add(made, first, "Concat", std::move(operands), {{"axis", static_cast<int64_t>(dim)}});
}

bool ProductEdit::join(OpId first, const std::vector<OpId>& joined,
                       const std::vector<ValueId>& operands, ir::Attrs attrs, const Way& way,
                       std::vector<OpId>& made) {
  const ir::Op op = edit_.op(first);
  std::vector<ValueId> inputs = op.inputs;
  const auto whole = concat(made, first, operands, way.dim);
  if (!whole) return false;
  inputs[way.operand] = *whole;
  if (way.bias && has(first, kBias)) {
    const auto bias = concat(made, first, inputs_of(edit_, joined, kBias), 0);
    if (!bias) return false;
    inputs[kBias] = *bias;
  }
  const auto result = add(made, first, op.kind, std::move(inputs), std::move(attrs));
  if (!result) return false;
  std::vector<ValueId> parts;
  int64_t begin = 0;
  for (OpId id : joined) {
    const auto size = dims(edit_.op(id).outputs[0])[way.out_dim].constant();
    if (!size) return false;
    const auto part = cut(made, first, *result, way.out_dim, begin, *size);
    if (!part) return false;
    parts.push_back(*part);
    begin += *size;
  }
  for (size_t i = 0; i < joined.size(); ++i)
    if (!stands_for(parts[i], joined[i])) return false;
  return true;
}

}  // namespace lowtide::rewrite

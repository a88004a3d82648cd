#include "rewrite/shared_operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/describe.h"
#include "ops/edit.h"
#include "rewrite/rules.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

constexpr std::string_view kMatMulAttrs[] = {"trans_a", "trans_b"};
constexpr std::string_view kConvAttrs[] = {"strides", "pads", "dilations", "group"};
constexpr std::string_view kCutAttrs[] = {"starts", "sizes", "steps"};
// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SharedOperandTuning {
  size_t most_rounds = 64;  // of looking at the whole graph
};
constexpr SharedOperandTuning kSharedOperand;
constexpr size_t kBias = 2;

// A dimension of an operand that the result has, too.
struct Way {
  size_t operand = 0, dim = 0, out_dim = 0;
  bool bias = false;  // which runs along it as well
};

int64_t int_of(const ir::Op& op, std::string_view name, int64_t otherwise) {
  const auto found = op.attrs.find(name);
  return found == op.attrs.end() ? otherwise : std::get<int64_t>(found->second);
}

bool has(const ir::Op& op, size_t input) {
  return input < op.inputs.size() && op.inputs[input].valid();
}

class Products {
 public:
  Products(const ir::Graph& graph, const OpSeconds& seconds) : edit_(graph), seconds_(seconds) {}

  Result<SharedOperandReport> join() {
    for (size_t round = 0, before = 1; round < kSharedOperand.most_rounds && before > 0; ++round) {
      before = 0;
      for (const auto& [key, group] : groups()) {
        LT_ASSIGN(const bool joined, try_join(group.ops, group.way));
        before += joined;
      }
    }
    return finish();
  }

  Result<SharedOperandReport> part() {
    for (size_t round = 0, before = 1; round < kSharedOperand.most_rounds && before > 0; ++round) {
      before = 0;
      for (OpId id : all_ops()) {
        if (!edit_.alive(id)) continue;
        for (const Way& way : ways_of(id)) {
          LT_ASSIGN(const bool parted, try_part(id, way));
          before += parted;
          if (parted) break;
        }
      }
    }
    return finish();
  }

 private:
  struct Group {
    Way way;
    std::vector<OpId> ops;
  };

  Result<SharedOperandReport> finish() {
    report_.graph = edit_.compact().graph;
    LT_RETURN_IF_ERROR(ir::check(report_.graph));
    return std::move(report_);
  }

  std::vector<OpId> all_ops() const {
    std::vector<OpId> ops;
    for (OpId id = edit_.first_op(); id.valid(); id = edit_.next_op(id)) ops.push_back(id);
    return ops;
  }
  const ir::Dims& dims(ValueId value) const { return edit_.value(value).dims; }

  // ---- what can be joined ----

  std::vector<Way> ways_of(OpId id) const {
    const ir::Op& op = edit_.op(id);
    const bool product = is_plain(edit_, id, "MatMul", kMatMulAttrs);
    if (!product && !(is_plain(edit_, id, "Conv", kConvAttrs) && int_of(op, "group", 1) == 1))
      return {};
    for (size_t i = kBias + 1; i < op.inputs.size(); ++i)
      if (op.inputs[i].valid()) return {};  // it adds into something
    if (edit_.value(op.outputs[0]).alias != ir::Alias::kOwn) return {};
    const size_t a = dims(op.inputs[0]).size(), b = dims(op.inputs[1]).size();
    const size_t out = dims(op.outputs[0]).size();
    if (!product) return {{1, 0, 1, true}, {0, 0, 0, false}};
    std::vector<Way> ways = {{1, int_of(op, "trans_b", 0) != 0 ? b - 2 : b - 1, out - 1, true}};
    if (a == out && a > 2 && b == 2) ways.push_back({0, 0, 0, false});
    if (a == out)
      ways.push_back({0, int_of(op, "trans_a", 0) != 0 ? a - 1 : a - 2, out - 2, false});
    return ways;
  }

  // All that is equal in products that can be joined along the way.
  std::string key_of(OpId id, const Way& way) const {
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
      key += has(op, i) ? (varies ? " there" : fmt::format(" v{}", op.inputs[i].index())) : " -";
    }
    const ir::Dims& varying = dims(op.inputs[way.operand]);
    for (size_t d = 0; d < varying.size(); ++d)
      key += d == way.dim ? " _" : " " + sym::print(varying[d]);
    return key + fmt::format(" {} {}", static_cast<int>(edit_.value(op.inputs[way.operand]).dtype),
                             static_cast<int>(op.phase));
  }

  // By the first of them; at least two each.
  std::map<std::pair<OpId, std::string>, Group> groups() const {
    std::map<std::string, Group> by_key;
    for (OpId id : all_ops())
      for (const Way& way : ways_of(id)) {
        Group& group = by_key[key_of(id, way)];
        group.way = way;
        group.ops.push_back(id);
      }
    std::map<std::pair<OpId, std::string>, Group> result;
    for (auto& [key, group] : by_key)
      if (group.ops.size() > 1) result[{group.ops[0], key}] = std::move(group);
    return result;
  }

  // ---- costs ----

  // Of an op that computes something: views cost nothing.
  Result<double> seconds_of(OpId id) const {
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
  Result<double> seconds_of(const std::vector<OpId>& ops) const {
    double sum = 0;
    for (OpId id : ops) {
      LT_ASSIGN(const double seconds, seconds_of(id));
      sum += seconds;
    }
    return sum;
  }

  // ---- changes ----

  // An op before another one, called after it; noted in `made`.
  std::optional<ValueId> add(std::vector<OpId>& made, OpId before, std::string_view kind,
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

  std::optional<ValueId> cut(std::vector<OpId>& made, OpId before, ValueId whole, size_t dim,
                             int64_t begin, int64_t size) {
    ir::Dims starts(dims(whole).size(), 0), sizes = dims(whole);
    starts[dim] = begin;
    sizes[dim] = size;
    return add(made, before, "Slice", {whole},
               {{"starts", starts}, {"sizes", sizes}, {"steps", ir::Dims(starts.size(), 1)}});
  }

  // `now` takes the place of the op's result, and its name; the op goes.
  bool stands_for(ValueId now, OpId gone) {
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
  bool hoist(OpId op, OpId first, const std::vector<OpId>& joined) {
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

  std::vector<OpId> joinable(const std::vector<OpId>& group) {
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

  // In the order in which a Concat reads all of them, if one does: then their slices cancel it.
  std::vector<OpId> as_they_are_read(std::vector<OpId> joined) const {
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

  // Before `first`, the operands of these ops as one.
  std::optional<ValueId> concat(std::vector<OpId>& made, OpId first,
                                const std::vector<OpId>& joined, size_t input, size_t dim) {
    std::vector<ValueId> operands;
    for (OpId id : joined) operands.push_back(edit_.op(id).inputs[input]);
    return add(made, first, "Concat", operands, {{"axis", static_cast<int64_t>(dim)}});
  }

  // Before `first`, which is one of them.
  bool join_along(OpId first, const std::vector<OpId>& joined, const Way& way,
                  std::vector<OpId>& made) {
    const ir::Op op = edit_.op(first);
    std::vector<ValueId> inputs = op.inputs;
    const auto whole = concat(made, first, joined, way.operand, way.dim);
    if (!whole) return false;
    inputs[way.operand] = *whole;
    if (way.bias && has(op, kBias)) {
      const auto bias = concat(made, first, joined, kBias, 0);
      if (!bias) return false;
      inputs[kBias] = *bias;
    }
    const auto result = add(made, first, op.kind, inputs, op.attrs);
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

  Result<bool> try_join(const std::vector<OpId>& group, const Way& way) {
    const GraphEdit::Mark before = edit_.mark();
    const std::vector<OpId> joined = joinable(group);
    bool better = false;
    if (joined.size() > 1) {
      LT_ASSIGN(const double was, seconds_of(joined));
      std::vector<OpId> made;
      if (join_along(joined[0], as_they_are_read(joined), way, made)) {
        LT_ASSIGN(const double is, seconds_of(made));
        better = is < was;
      }
    }
    if (!better) edit_.rollback(before);
    if (!better) return false;
    edit_.commit();
    report_.products += static_cast<int64_t>(joined.size());
    return true;
  }

  // ---- the reverse ----

  // Where a slice that cuts nothing but this dimension begins, and its size.
  std::optional<std::pair<int64_t, int64_t>> range_of(OpId reader, ValueId whole,
                                                      size_t dim) const {
    if (!is_plain(edit_, reader, "Slice", kCutAttrs)) return std::nullopt;
    const ir::Attrs& attrs = edit_.op(reader).attrs;
    const auto& starts = std::get<ir::Dims>(attrs.find("starts")->second);
    const auto& sizes = std::get<ir::Dims>(attrs.find("sizes")->second);
    const auto steps = attrs.find("steps");
    for (size_t d = 0; d < starts.size(); ++d) {
      if (steps != attrs.end() && std::get<ir::Dims>(steps->second)[d] != sym::Expr(1))
        return std::nullopt;
      if (d != dim && (starts[d] != sym::Expr(0) || sizes[d] != dims(whole)[d]))
        return std::nullopt;
    }
    const auto start = starts[dim].constant(), size = sizes[dim].constant();
    if (!start || !size) return std::nullopt;
    return std::pair(*start, *size);
  }

  bool part_along(OpId id, const std::vector<OpId>& slices, const Way& way,
                  std::vector<OpId>& made) {
    const ir::Op op = edit_.op(id);
    for (OpId slice : slices) {
      const auto range = range_of(slice, op.outputs[0], way.out_dim);
      if (!range) return false;
      std::vector<ValueId> inputs = op.inputs;
      const auto part = cut(made, id, inputs[way.operand], way.dim, range->first, range->second);
      if (!part) return false;
      inputs[way.operand] = *part;
      if (way.bias && has(op, kBias)) {
        const auto bias = cut(made, id, inputs[kBias], 0, range->first, range->second);
        if (!bias) return false;
        inputs[kBias] = *bias;
      }
      const auto result = add(made, id, op.kind, inputs, op.attrs);
      if (!result || !stands_for(*result, slice)) return false;
    }
    return edit_.remove_op(id).has_value();
  }

  Result<bool> try_part(OpId id, const Way& way) {
    const ValueId whole = edit_.op(id).outputs[0];
    if (edit_.value(whole).is_output || edit_.readers(whole).empty()) return false;
    const std::vector<OpId> slices(edit_.readers(whole).begin(), edit_.readers(whole).end());
    for (OpId slice : slices)
      if (!range_of(slice, whole, way.out_dim)) return false;
    std::vector<OpId> old = slices;
    old.push_back(id);
    LT_ASSIGN(const double was, seconds_of(old));
    const GraphEdit::Mark before = edit_.mark();
    std::vector<OpId> made;
    bool better = false;
    if (part_along(id, slices, way, made)) {
      LT_ASSIGN(const double is, seconds_of(made));
      better = is < was;
    }
    if (!better) edit_.rollback(before);
    if (!better) return false;
    edit_.commit();
    ++report_.products;
    return true;
  }

  GraphEdit edit_;
  const OpSeconds& seconds_;
  SharedOperandReport report_;
};

}  // namespace

Result<SharedOperandReport> join_products(const ir::Graph& graph, const OpSeconds& seconds) {
  if (has_wholes(graph)) return SharedOperandReport{graph};
  return Products(graph, seconds).join();
}

Result<SharedOperandReport> part_products(const ir::Graph& graph, const OpSeconds& seconds) {
  if (has_wholes(graph)) return SharedOperandReport{graph};
  return Products(graph, seconds).part();
}

}  // namespace lowtide::rewrite

#include "rewrite/shared_operand.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rewrite/rules.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

constexpr std::string_view kCutAttrs[] = {"starts", "sizes", "steps"};
// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SharedOperandTuning {
  size_t most_rounds = 64;  // of looking at the whole graph
};
constexpr SharedOperandTuning kSharedOperand;

class Products : private ProductEdit {
 public:
  using ProductEdit::ProductEdit;

  Result<SharedOperandReport> join_all() {
    for (size_t round = 0, before = 1; round < kSharedOperand.most_rounds && before > 0; ++round) {
      before = 0;
      const auto key = [&](OpId id, const Way& way) { return std::optional(key_of(id, way)); };
      for (const auto& [name, group] : groups_by(key)) {
        LT_ASSIGN(const bool joined, try_join(group.ops, group.way));
        before += joined;
      }
    }
    return finish();
  }

  Result<SharedOperandReport> part_all() {
    for (size_t round = 0, before = 1; round < kSharedOperand.most_rounds && before > 0; ++round) {
      before = 0;
      for (OpId id : all_ops()) {
        if (!edit().alive(id)) continue;
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
  Result<SharedOperandReport> finish() {
    LT_ASSIGN(report_.graph, graph());
    return std::move(report_);
  }

  Result<bool> try_join(const std::vector<OpId>& group, const Way& way) {
    const GraphEdit::Mark before = edit().mark();
    const std::vector<OpId> joined = joinable(group);
    bool better = false;
    if (joined.size() > 1) {
      LT_ASSIGN(const double was, seconds_of(joined));
      std::vector<OpId> made;
      const std::vector<OpId> ordered = as_they_are_read(joined);
      if (join(joined[0], ordered, inputs_of(edit(), ordered, way.operand),
               edit().op(joined[0]).attrs, way, made)) {
        LT_ASSIGN(const double is, seconds_of(made));
        better = is < was;
      }
    }
    if (!better) edit().rollback(before);
    if (!better) return false;
    edit().commit();
    report_.products += static_cast<int64_t>(joined.size());
    return true;
  }

  // ---- the reverse ----

  // Where a slice that cuts nothing but this dimension begins, and its size.
  std::optional<std::pair<int64_t, int64_t>> range_of(OpId reader, ValueId whole,
                                                      size_t dim) const {
    if (!is_plain(edit(), reader, "Slice", kCutAttrs)) return std::nullopt;
    const ir::Attrs& attrs = edit().op(reader).attrs;
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
    const ir::Op op = edit().op(id);
    for (OpId slice : slices) {
      const auto range = range_of(slice, op.outputs[0], way.out_dim);
      if (!range) return false;
      std::vector<ValueId> inputs = op.inputs;
      const auto part = cut(made, id, inputs[way.operand], way.dim, range->first, range->second);
      if (!part) return false;
      inputs[way.operand] = *part;
      if (way.bias && has(id, kBias)) {
        const auto bias = cut(made, id, inputs[kBias], 0, range->first, range->second);
        if (!bias) return false;
        inputs[kBias] = *bias;
      }
      const auto result = add(made, id, op.kind, inputs, op.attrs);
      if (!result || !stands_for(*result, slice)) return false;
    }
    return edit().remove_op(id).has_value();
  }

  Result<bool> try_part(OpId id, const Way& way) {
    const ValueId whole = edit().op(id).outputs[0];
    if (edit().value(whole).is_output || edit().readers(whole).empty()) return false;
    const std::vector<OpId> slices(edit().readers(whole).begin(), edit().readers(whole).end());
    for (OpId slice : slices)
      if (!range_of(slice, whole, way.out_dim)) return false;
    std::vector<OpId> old = slices;
    old.push_back(id);
    LT_ASSIGN(const double was, seconds_of(old));
    const GraphEdit::Mark before = edit().mark();
    std::vector<OpId> made;
    bool better = false;
    if (part_along(id, slices, way, made)) {
      LT_ASSIGN(const double is, seconds_of(made));
      better = is < was;
    }
    if (!better) edit().rollback(before);
    if (!better) return false;
    edit().commit();
    ++report_.products;
    return true;
  }

  SharedOperandReport report_;
};

}  // namespace

Result<SharedOperandReport> join_products(const ir::Graph& graph, const OpSeconds& seconds) {
  if (has_wholes(graph)) return SharedOperandReport{graph};
  return Products(graph, seconds).join_all();
}

Result<SharedOperandReport> part_products(const ir::Graph& graph, const OpSeconds& seconds) {
  if (has_wholes(graph)) return SharedOperandReport{graph};
  return Products(graph, seconds).part_all();
}

}  // namespace lowtide::rewrite

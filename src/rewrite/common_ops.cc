#include "rewrite/common_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/edit.h"
#include "ops/edit.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::StorageId;
using ir::ValueId;

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct CommonOpsTuning {
  size_t most_kept = 8;  // of equal ops that cannot be merged, the others are tried on these
};
constexpr CommonOpsTuning kCommonOps;

std::string attr_key(const ir::AttrValue& attr) {
  if (const auto* integer = std::get_if<int64_t>(&attr)) return fmt::format("i{}", *integer);
  if (const auto* real = std::get_if<double>(&attr))
    return fmt::format("r{}", std::bit_cast<uint64_t>(*real));
  if (const auto* word = std::get_if<std::string>(&attr))
    return fmt::format("w{}:{}", word->size(), *word);
  std::string text = "l";
  for (const sym::Expr& entry : std::get<ir::Dims>(attr)) text += sym::print(entry) + ",";
  return text;
}

// Which constants and ops are equal: value numbering, on the graph as it came.
class Equals {
 public:
  explicit Equals(const ir::Graph& graph)
      : graph_(graph),
        number_(graph.value_count()),
        is_overwritten_(graph.storage_count(), 0),
        holds_back_(graph.op_count(), 0) {
    for (ValueId v : graph.values()) {
      number_[v] = v;
      if (graph.value(v).alias == ir::Alias::kUpdate) is_overwritten_[graph.value(v).storage] = 1;
    }
    for (OpId id : graph.ops())
      for (OpId before : graph.op(id).control) holds_back_[before] = 1;
    number_constants();
    number_ops();
  }

  // Pairs: one that may go, and the first that is equal.
  const std::vector<std::pair<ValueId, ValueId>>& constants() const { return constants_; }
  // Of one number, in order, by the first of them; only where there are several.
  const std::map<OpId, std::vector<OpId>>& ops() const { return classes_; }
  bool empty() const { return constants_.empty() && classes_.empty(); }

  bool may_merge(OpId id) const {
    const ir::Op& op = graph_.op(id);
    const ops::Row* row = ops::find(op.kind);
    if (row == nullptr || op.outputs.empty() || !op.control.empty() || holds_back_[id] != 0)
      return false;
    const ops::Traits& traits = ops::traits(*row);
    return traits.recomputable && !traits.random && !traits.has_effect &&
           std::all_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
             const ir::Value& value = graph_.value(output);
             return value.alias == ir::Alias::kView ||
                    (value.alias == ir::Alias::kOwn && is_overwritten_[value.storage] == 0);
           });
  }

 private:
  bool is_constant(const ir::Value& value) const {
    return !value.producer.valid() && value.category == Category::kInput && !value.is_output &&
           value.initial.kind == ir::InitialValue::Kind::kInline &&
           is_overwritten_[value.storage] == 0;
  }

  void number_constants() {
    std::map<std::string, ValueId> first;
    for (ValueId v : graph_.values()) {
      const ir::Value& value = graph_.value(v);
      if (!is_constant(value)) continue;
      std::string key = fmt::format("{} {} ", lowtide::name(value.dtype), print(value.layout));
      for (const sym::Expr& dim : value.dims) key += sym::print(dim) + ",";
      const auto [found, is_new] = first.emplace(key + ":" + value.initial.bytes, v);
      if (is_new) continue;
      number_[v] = found->second;
      constants_.emplace_back(v, found->second);
    }
  }

  void number_ops() {
    std::map<std::string, OpId> first;
    std::string key;
    for (OpId id : graph_.ops()) {
      if (!may_merge(id)) continue;
      const ir::Op& op = graph_.op(id);
      key = op.kind;
      for (ValueId input : op.inputs) {
        key += ' ';
        key += input.valid() ? std::to_string(number_[input].index()) : "-";
      }
      for (const auto& [name, attr] : op.attrs) key += fmt::format(" {}={}", name, attr_key(attr));
      const auto [found, is_new] = first.emplace(key, id);
      if (is_new) continue;
      std::vector<OpId>& members = classes_[found->second];
      if (members.empty()) members.push_back(found->second);
      members.push_back(id);
      for (size_t o = 0; o < op.outputs.size(); ++o)
        number_[op.outputs[o]] = number_[graph_.op(found->second).outputs[o]];
    }
  }

  const ir::Graph& graph_;
  IdVector<ValueId, ValueId> number_;  // the first value that is equal
  IdVector<StorageId, char> is_overwritten_;
  IdVector<OpId, char> holds_back_;  // a control edge comes from it
  std::vector<std::pair<ValueId, ValueId>> constants_;
  std::map<OpId, std::vector<OpId>> classes_;
};

class CommonOps {
 public:
  CommonOps(const ir::Graph& graph, const CommonOpsOptions& options, const Equals& equals)
      : old_(graph), options_(options), equals_(equals), edit_(graph), classes_(equals.ops()) {}

  Result<CommonOpsReport> run() {
    merge_constants();
    for (bool again = true; again;) {
      again = false;
      for (auto each = classes_.rbegin(); each != classes_.rend(); ++each)
        again |= merge_class(each->second);
    }
    report_.graph = edit_.compact().graph;
    LT_RETURN_IF_ERROR(ir::check(report_.graph));
    return std::move(report_);
  }

 private:
  void merge_constants() {
    for (const auto& [second, first] : equals_.constants()) {
      const ir::GraphEdit::Mark before = edit_.mark();
      if (edit_.replace_reads(second, first) && edit_.remove_value(second))
        ++report_.constants;
      else
        edit_.rollback(before);
    }
  }

  bool merge_class(std::vector<OpId>& members) {
    std::vector<OpId> kept;
    const int64_t before = report_.merged;
    for (OpId id : members) {
      if (!edit_.alive(id)) continue;
      bool merged = false;
      for (size_t k = 0; k < std::min<size_t>(kept.size(), kCommonOps.most_kept) && !merged; ++k)
        merged = may_stand_for(kept[k], id) && merge(kept[k], id);
      if (!merged) kept.push_back(id);
    }
    members = std::move(kept);
    return report_.merged > before;
  }

  // Whether no schedule can need more memory where `first` stands for `second`.
  bool may_stand_for(OpId first, OpId second) {
    const ir::Op& a = edit_.op(first);
    const ir::Op& b = edit_.op(second);
    for (ValueId output : b.outputs)
      if (edit_.value(output).is_output) return false;
    if (options_.even_if_longer) return true;
    const auto is_view = [&](ValueId v) { return edit_.value(v).alias == ir::Alias::kView; };
    if (std::all_of(a.outputs.begin(), a.outputs.end(), is_view)) return a.inputs == b.inputs;
    return (a.inputs == b.inputs && frees_enough(first, second)) || always_together(first, second);
  }

  int64_t aligned_bytes(StorageId s) const {
    const auto bytes = ir::size_bytes(edit_.value(edit_.storage(s).root)).constant();
    return align_up(bytes.value_or(0), options_.alignment_bytes);
  }

  // Those who read a storage, also through views.
  template <class Use>
  bool any_reader(StorageId s, Use use) const {
    for (ValueId member : edit_.values_in(s)) {
      if (edit_.value(member).is_output && use(OpId::none())) return true;
      for (OpId reader : edit_.readers(member))
        if (!makes_view_of(reader, s) && use(reader)) return true;
    }
    return false;
  }
  bool makes_view_of(OpId id, StorageId s) const {
    const auto& outputs = edit_.op(id).outputs;
    return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) {
      return edit_.value(v).alias == ir::Alias::kView && edit_.value(v).storage == s;
    });
  }

  bool frees_enough(OpId first, OpId second) const {
    int64_t freed = 0, made = 0;
    std::vector<StorageId> seen;
    for (ValueId input : edit_.op(first).inputs) {
      if (!input.valid()) continue;
      const StorageId s = edit_.value(input).storage;
      const ir::Value& root = edit_.value(edit_.storage(s).root);
      if (!root.producer.valid() || std::find(seen.begin(), seen.end(), s) != seen.end()) continue;
      seen.push_back(s);
      if (!any_reader(s, [&](OpId reader) { return reader != first && reader != second; }))
        freed += aligned_bytes(s);
    }
    for (ValueId output : edit_.op(first).outputs)
      made += aligned_bytes(edit_.value(output).storage);
    return freed >= made;
  }

  bool always_together(OpId first, OpId second) {
    const ir::Op& a = edit_.op(first);
    const ir::Op& b = edit_.op(second);
    for (size_t o = 0; o < a.outputs.size(); ++o) {
      const StorageId one = edit_.value(a.outputs[o]).storage;
      const StorageId other = edit_.value(b.outputs[o]).storage;
      const auto anybody = [](OpId) { return true; };
      if (!any_reader(one, anybody) && !any_reader(other, anybody)) continue;
      if (!outlives(one, second) || !outlives(other, first)) return false;
    }
    return true;
  }

  // Whether, in every schedule, the storage is still needed when the op runs, if it is made before.
  bool outlives(StorageId s, OpId op) {
    std::set<OpId> readers;
    const bool to_the_end = any_reader(s, [&](OpId reader) {
      if (reader.valid()) readers.insert(reader);
      return !reader.valid();
    });
    return to_the_end || any_behind(op, readers);
  }

  // Whether one of `wanted` runs behind the op in every order: a walk to the last of them at most.
  // False behind the work limit.
  bool any_behind(OpId op, const std::set<OpId>& wanted) {
    if (wanted.empty()) return false;
    const OpId last = *std::max_element(wanted.begin(), wanted.end(),
                                        [&](OpId a, OpId b) { return edit_.before(a, b); });
    ++walk_;
    seen_.resize(edit_.op_slots(), 0);
    std::vector<OpId> open = {op};
    bool is_found = false;
    const auto enter = [&](OpId next) {
      if (std::exchange(seen_[next.index()], walk_) == walk_ || edit_.before(last, next)) return;
      is_found |= wanted.contains(next);
      open.push_back(next);
    };
    while (!open.empty() && !is_found) {
      const OpId next = open.back();
      open.pop_back();
      if (++visits_ > options_.max_visits) return false;
      for (ValueId output : edit_.op(next).outputs)
        for (OpId reader : edit_.readers(output)) enter(reader);
      for (OpId waiting : edit_.waiting(next)) enter(waiting);
    }
    return is_found;
  }

  bool merge(OpId first, OpId second) {
    const ir::GraphEdit::Mark before = edit_.mark();
    const std::vector<ValueId> now = edit_.op(first).outputs, was = edit_.op(second).outputs;
    const auto replaced = [&] {
      for (size_t o = 0; o < was.size(); ++o)
        if (!edit_.replace_reads(was[o], now[o])) return false;
      return true;
    };
    const int64_t removed = report_.removed;
    if (!replaced() || !remove_unread(second)) {
      edit_.rollback(before);
      report_.removed = removed;
      return false;
    }
    edit_.commit();
    ++report_.merged;
    return true;
  }

  bool is_unread(OpId id) const {
    const ir::Op& op = edit_.op(id);
    return std::all_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
      return edit_.readers(output).empty() && !edit_.value(output).is_output &&
             edit_.value(output).alias != ir::Alias::kUpdate;
    });
  }

  // The op, and those before it that nobody else has read.
  bool remove_unread(OpId id) {
    std::vector<OpId> open = {id};
    while (!open.empty()) {
      const OpId gone = open.back();
      open.pop_back();
      const std::vector<ValueId> inputs = edit_.op(gone).inputs;
      if (!edit_.remove_op(gone)) return false;
      ++report_.removed;
      for (ValueId input : inputs) {
        if (!input.valid() || !edit_.alive(input)) continue;
        const OpId maker = edit_.value(input).producer;
        if (maker.valid() && std::find(open.begin(), open.end(), maker) == open.end() &&
            equals_.may_merge(maker) && is_unread(maker))
          open.push_back(maker);
      }
    }
    return true;
  }

  const ir::Graph& old_;
  const CommonOpsOptions options_;
  const Equals& equals_;
  ir::GraphEdit edit_;
  std::map<OpId, std::vector<OpId>> classes_;  // of equal ops, those that are left
  int64_t visits_ = 0;
  std::vector<int64_t> seen_;  // by op slot: the last walk that came by
  int64_t walk_ = 0;
  CommonOpsReport report_;
};

}  // namespace

Result<CommonOpsReport> merge_common_ops(const ir::Graph& graph, const CommonOpsOptions& options) {
  for (StorageId s : graph.storages())
    if (!graph.storage(s).pieces.empty()) return CommonOpsReport{graph};
  const Equals equals(graph);
  if (equals.empty()) return CommonOpsReport{graph};
  return CommonOps(graph, options, equals).run();
}

}  // namespace lowtide::rewrite

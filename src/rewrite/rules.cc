#include "rewrite/rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/edit.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;

class Application {
 public:
  explicit Application(const ir::Graph& graph) : old_(graph), edit_(graph) {}

  Result<RulesReport> run(std::span<const Rule> rules) {
    for (bool again = true; again;) {
      again = false;
      for (OpId next = edit_.first_op(); next.valid();) {
        const OpId root = next;
        next = edit_.next_op(root);
        // What follows is not before the root, so it stays.
        again |= try_rules(rules, root);
      }
    }
    return made();
  }

  Result<RulesReport> run(std::span<const OpId> roots, const Replacement& replacement) {
    for (const OpId root : roots) try_one(replacement, root);
    return made();
  }

 private:
  Result<RulesReport> made() {
    if (report_.changed == 0) return RulesReport{old_};
    report_.graph = edit_.compact().graph;
    LT_RETURN_IF_ERROR(ir::check(report_.graph));
    return std::move(report_);
  }

  bool try_rules(std::span<const Rule> rules, OpId root) {
    const std::string kind = edit_.op(root).kind;
    for (const Rule& rule : rules) {
      if (rule.root != kind || !try_one(rule.replacement, root)) continue;
      ++report_.by_rule[rule.name];
      return true;
    }
    return false;
  }

  template <class Replace>
  bool try_one(const Replace& replacement, OpId root) {
    const ir::Op& op = edit_.op(root);
    if (op.outputs.size() != 1 || !op.control.empty() || !edit_.waiting(root).empty()) return false;
    const GraphEdit::Mark before = edit_.mark();
    const int64_t changed = report_.changed;
    if (apply(replacement, root)) {
      edit_.commit();
      return true;
    }
    edit_.rollback(before);
    report_.changed = changed;
    return false;
  }

  template <class Replace>
  bool apply(const Replace& replacement, OpId root) {
    const size_t values_before = edit_.value_slots();
    const std::optional<ValueId> now = replacement(edit_, root);
    if (!now) return false;
    const ValueId old = edit_.op(root).outputs[0];
    const ir::Value was = edit_.value(old);
    // An update of a copy would become one of what was copied.
    for (ValueId member : edit_.values_in(was.storage))
      if (edit_.value(member).alias == ir::Alias::kUpdate) return false;
    const bool is_new = now->index() >= values_before;
    if (was.is_output && !is_new) return false;  // the result would lose its name
    if (!edit_.replace_reads(old, *now)) return false;
    if (was.is_output) edit_.set_output(old, false);
    if (!remove_with_what_only_it_read(root)) return false;
    if (!is_new) return true;
    edit_.keep_output(*now, was);
    if (edit_.value(*now).alias == ir::Alias::kOwn) edit_.set_category(*now, was.category);
    return edit_.rename(*now, was.name).has_value();
  }

  bool is_unread(OpId id) const {
    const ir::Op& op = edit_.op(id);
    const ops::Row* row = ops::find(op.kind);
    if (row == nullptr || ops::traits(*row).has_effect || !edit_.waiting(id).empty()) return false;
    return std::all_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return edit_.readers(v).empty() && !edit_.value(v).is_output &&
             edit_.value(v).alias != ir::Alias::kUpdate;
    });
  }

  bool remove_with_what_only_it_read(OpId root) {
    std::vector<OpId> open = {root};
    while (!open.empty()) {
      const OpId gone = open.back();
      open.pop_back();
      const std::vector<ValueId> inputs = edit_.op(gone).inputs;
      if (!edit_.remove_op(gone)) return false;
      ++report_.changed;
      for (ValueId input : inputs) {
        if (!input.valid() || !edit_.alive(input)) continue;
        const OpId maker = edit_.value(input).producer;
        if (maker.valid() && std::find(open.begin(), open.end(), maker) == open.end() &&
            is_unread(maker))
          open.push_back(maker);
      }
    }
    return true;
  }

  const ir::Graph& old_;
  GraphEdit edit_;
  RulesReport report_;
};

}  // namespace

bool has_wholes(const ir::Graph& graph) {
  return std::any_of(graph.storages().begin(), graph.storages().end(),
                     [&](ir::StorageId s) { return !graph.storage(s).pieces.empty(); });
}

Result<RulesReport> apply_rules(const ir::Graph& graph, std::span<const Rule> rules) {
  if (has_wholes(graph)) return RulesReport{graph};
  return Application(graph).run(rules);
}

Result<RulesReport> replace_at(const ir::Graph& graph, std::span<const OpId> roots,
                               const Replacement& replacement) {
  if (has_wholes(graph)) return RulesReport{graph};
  return Application(graph).run(roots, replacement);
}

bool is_plain(const GraphEdit& edit, OpId id, std::string_view kind,
              std::span<const std::string_view> attrs) {
  const ir::Op& op = edit.op(id);
  return op.kind == kind && op.outputs.size() == 1 && op.control.empty() &&
         edit.waiting(id).empty() &&
         std::all_of(op.attrs.begin(), op.attrs.end(), [&](const auto& attr) {
           return std::find(attrs.begin(), attrs.end(), attr.first) != attrs.end();
         });
}

std::optional<OpId> plain_maker(const GraphEdit& edit, ValueId value, std::string_view kind,
                                std::span<const std::string_view> attrs) {
  const OpId maker = edit.value(value).producer;
  if (!maker.valid() || !is_plain(edit, maker, kind, attrs)) return std::nullopt;
  return maker;
}

bool is_read_once(const GraphEdit& edit, ValueId value) {
  if (edit.value(value).is_output || edit.readers(value).size() != 1) return false;
  const std::vector<ValueId>& inputs = edit.op(edit.readers(value)[0]).inputs;
  return std::count(inputs.begin(), inputs.end(), value) == 1;
}

bool keeps_only_itself(const GraphEdit& edit, ValueId value) {
  const ir::Value& root = edit.value(edit.storage(edit.value(value).storage).root);
  return !root.producer.valid() || ir::size_bytes(root) == ir::size_bytes(edit.value(value));
}

}  // namespace lowtide::rewrite

#include "io/graph_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/op_table.h"

namespace lowtide::io {
namespace {

using Roles = uint32_t;  // a bit per category that is right

constexpr Roles role(Category category) {
  return Roles{1} << static_cast<unsigned>(category);
}

std::string words(Roles roles) {
  std::string text;
  for (int c = 0; c < kCategories; ++c)
    if (roles & role(static_cast<Category>(c)))
      text += fmt::format("{}{}", text.empty() ? "" : " or ", name(static_cast<Category>(c)));
  return text;
}

// What a storage may be called, and why.
struct Use {
  Roles roles = 0;
  std::string why;
};

// How the step uses each storage.
class Uses {
 public:
  explicit Uses(const ir::Graph& graph)
      : graph_(graph),
        first_of_(graph.storage_count()),
        beside_(graph.storage_count()),
        taken_by_(graph.storage_count()),
        part_(graph.storage_count(), 0) {
    // Whoever reads comes later, so one pass against the order sees all that an op feeds.
    for (size_t i = graph.op_count(); i-- > 0;) {
      note_updates(ir::OpId(i));
      note_parts(ir::OpId(i));
    }
    for (const ir::OpId id : graph.ops()) {
      const ir::Op& op = graph.op(id);
      if (op.kind == "Reorder" && feeds_gradient(storage_of(op.inputs[0])))
        part_[storage_of(op.outputs[0])] = 1;
    }
  }

  Use of(ir::StorageId s) const {
    const ir::Value& root = graph_.value(graph_.storage(s).root);
    return root.producer.valid() ? of_made(s, graph_.op(root.producer)) : of_given(s, root);
  }

 private:
  ir::StorageId storage_of(ir::ValueId id) const { return graph_.value(id).storage; }
  bool feeds_gradient(ir::StorageId s) const { return taken_by_[s].valid() || part_[s]; }
  const std::string& name_of(ir::OpId id) const { return graph_.op(id).name; }

  Use of_given(ir::StorageId s, const ir::Value& root) const {
    using Kind = ir::InitialValue::Kind;
    if (first_of_[s].valid())
      return {role(Category::kParameter),
              fmt::format("is the first that op '{}' overwrites", name_of(first_of_[s]))};
    if (beside_[s].valid())
      return {role(Category::kOptimizerState),
              fmt::format("is overwritten by op '{}' beside a parameter", name_of(beside_[s]))};
    if (root.initial.kind == Kind::kFed) return {role(Category::kInput), "is fed"};
    if (root.initial.kind == Kind::kSeeded && is_float(root.dtype))
      return {role(Category::kParameter), "is seeded, and no op overwrites it"};
    return {role(Category::kParameter) | role(Category::kInput),
            "is there before the step, and no op overwrites it"};
  }

  Use of_made(ir::StorageId s, const ir::Op& maker) const {
    const std::string made = fmt::format("is made by op '{}' ({})", maker.name, name(maker.phase));
    if (maker.phase == Phase::kForward) return {role(Category::kActivation), made};
    if (maker.phase == Phase::kUpdate) return {role(Category::kTemporary), made};
    if (taken_by_[s].valid())
      return {role(Category::kGradient),
              fmt::format("{} and is the gradient of update '{}'", made, name_of(taken_by_[s]))};
    if (part_[s]) return {role(Category::kGradient) | role(Category::kTemporary), made};
    return {role(Category::kTemporary), made + " and no update takes it as a gradient"};
  }

  // The operands that the op overwrites, and the gradient by which it does.
  void note_updates(ir::OpId id) {
    const ir::Op& op = graph_.op(id);
    bool updates = false;
    for (const ir::ValueId input : op.inputs) {
      if (!input.valid()) continue;
      const bool overwritten =
          std::any_of(op.outputs.begin(), op.outputs.end(), [&](ir::ValueId output) {
            const ir::Value& made = graph_.value(output);
            return made.alias == ir::Alias::kUpdate && made.base == input;
          });
      if (!overwritten) continue;
      (updates ? beside_ : first_of_)[storage_of(input)] = id;
      updates = true;
    }
    if (updates && op.phase == Phase::kUpdate && op.inputs.size() > 1 && op.inputs[1].valid())
      taken_by_[storage_of(op.inputs[1])] = id;
  }

  // What the op hands on of a gradient, from its result to its operands.
  void note_parts(ir::OpId id) {
    const ir::Op& op = graph_.op(id);
    for (const auto& [input, output] : ops::accumulators(ops::instance_of(graph_, id)))
      if (feeds_gradient(storage_of(op.outputs[static_cast<size_t>(output)])))
        part_[storage_of(op.inputs[static_cast<size_t>(input)])] = 1;
    if (op.outputs.empty() || op.inputs.empty() || !op.inputs[0].valid()) return;
    const ir::Value& made = graph_.value(op.outputs[0]);
    const bool own = made.alias == ir::Alias::kOwn || made.alias == ir::Alias::kPieces;
    if (!own || !feeds_gradient(made.storage)) return;
    if (op.kind == "Join" || op.kind == "Add") {
      for (const ir::ValueId input : op.inputs)
        if (input.valid()) part_[storage_of(input)] = 1;
    } else if (op.kind == "Reorder" && taken_by_[made.storage].valid()) {
      taken_by_[storage_of(op.inputs[0])] = taken_by_[made.storage];
    } else if (op.kind == "Reorder" || op.kind == "Reshape" || op.kind == "Slice" ||
               op.kind == "Cast") {
      part_[storage_of(op.inputs[0])] = 1;
    }
  }

  const ir::Graph& graph_;
  // Of a storage: the op that overwrites it first of all, or as another; whose gradient it is.
  IdVector<ir::StorageId, ir::OpId> first_of_, beside_, taken_by_;
  IdVector<ir::StorageId, char> part_;  // whether it is in such a gradient
};

// What updates overwrite, in the order of the graph.
class Overwritten {
 public:
  explicit Overwritten(const ir::Graph& graph) : graph_(graph), last_(graph.storage_count()) {}

  // Why the update that makes `value` is none that a step may have; empty: it is one.
  std::string wrong(const ir::Value& value) {
    const ir::Value& root = graph_.value(graph_.storage(value.storage).root);
    std::string why = wrong_target(value, root);
    if (why.empty()) why = wrong_owner(value, root);
    if (why.empty()) return why;
    const ir::Op& op = graph_.op(value.producer);
    return fmt::format(
        "op '{}' ({}) overwrites '{}' by its output '{}', but {}; an update overwrites the whole "
        "of a parameter or optimizer_state that is there before the step",
        op.name, op.kind, root.name, value.name, why);
  }

 private:
  std::string wrong_target(const ir::Value& value, const ir::Value& root) const {
    const ir::Value& base = graph_.value(value.base);
    if (root.producer.valid())
      return fmt::format("op '{}' makes that in the step, so that nothing of the update would stay",
                         graph_.op(root.producer).name);
    if (root.initial.kind == ir::InitialValue::Kind::kFed) return "that is fed";
    const auto start = base.offset_bytes.constant();
    const auto bytes = ir::size_bytes(base).constant(), all = ir::size_bytes(root).constant();
    if ((start && *start != 0) || (bytes && all && *bytes != *all) || base.layout.strided())
      return fmt::format("'{}' is only a part of that", base.name);
    return "";
  }

  std::string wrong_owner(const ir::Value& value, const ir::Value& root) {
    const ir::OpId before = std::exchange(last_[value.storage], value.producer);
    if (before == value.producer) return "an output before does so too";
    if (before.valid() && root.category == Category::kOptimizerState)
      return fmt::format("that is a state which op '{}' keeps", graph_.op(before).name);
    return "";
  }

  const ir::Graph& graph_;
  IdVector<ir::StorageId, ir::OpId> last_;  // the op that overwrote the storage last
};

// The op that overwrites what the value shows; none: it stays to the end of the step.
ir::OpId overwrites_later(const ir::Graph& graph, ir::ValueId id) {
  ir::ValueId version = id;
  while (graph.value(version).alias == ir::Alias::kView) version = graph.value(version).base;
  for (const ir::ValueId member : graph.values_in(graph.value(id).storage))
    if (version < member && graph.value(member).alias == ir::Alias::kUpdate)
      return graph.value(member).producer;
  return ir::OpId::none();
}

// Why the contents that the text has for a value are not its own; empty: they are, or come later.
std::string wrong_contents(const ir::Value& value) {
  using Kind = ir::InitialValue::Kind;
  const ir::InitialValue& initial = value.initial;
  const bool is_inline = initial.kind == Kind::kInline;
  const bool external = initial.kind == Kind::kExternal && initial.length != 0;
  const auto elements = ir::element_count(value).constant();
  if (value.producer.valid() || !elements || (!is_inline && !external)) return "";
  const int64_t wanted = *elements * size_bytes(value.dtype);
  const auto given = is_inline ? static_cast<int64_t>(initial.bytes.size()) : initial.length;
  if (given == wanted) return "";
  return fmt::format("'{}' has {} bytes of contents ({}): {} elements of {} are {} bytes",
                     value.name, given, is_inline ? "inline" : "external", *elements,
                     name(value.dtype), wanted);
}

// What a value may be called: as its storage, a view in the backward pass also a temporary, a whole
// as its pieces.
Use use_of(const ir::Graph& graph, const Uses& uses, ir::ValueId id) {
  const ir::Value& value = graph.value(id);
  Use use = uses.of(value.storage);
  for (const ir::Piece& piece : graph.storage(value.storage).pieces)
    use.roles |= uses.of(piece.storage).roles;
  const bool view = value.producer.valid() && ir::is_view(value.alias);
  if (view && use.roles & role(Category::kGradient)) use.roles |= role(Category::kTemporary);
  if (value.alias != ir::Alias::kOwn && value.base.valid())
    use.why = fmt::format("lies in '{}', which {}",
                          graph.value(graph.storage(value.storage).root).name, use.why);
  return use;
}

}  // namespace

std::optional<WrongClaim> find_wrong_claim(const ir::Graph& graph) {
  Overwritten overwritten(graph);
  for (const ir::ValueId id : graph.values())
    if (graph.value(id).alias == ir::Alias::kUpdate)
      if (std::string why = overwritten.wrong(graph.value(id)); !why.empty())
        return WrongClaim{id, std::move(why)};
  const Uses uses(graph);
  for (const ir::ValueId id : graph.values()) {
    const ir::Value& value = graph.value(id);
    if (std::string why = wrong_contents(value); !why.empty())
      return WrongClaim{id, std::move(why)};
    const Use use = use_of(graph, uses, id);
    if (!(use.roles & role(value.category)))
      return WrongClaim{id, fmt::format("'{}' is called {} and {}: that makes it {}", value.name,
                                        name(value.category), use.why, words(use.roles))};
    if (!value.is_output) continue;
    if (const ir::OpId op = overwrites_later(graph, id); op.valid())
      return WrongClaim{id, fmt::format("'{}' is an output of the step and op '{}' overwrites it: "
                                        "an output stays to the end as it is",
                                        value.name, graph.op(op).name)};
  }
  return std::nullopt;
}

}  // namespace lowtide::io

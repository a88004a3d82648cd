// Do the values look as the ops make them? Types, aliases and offsets are rebuilt from the op
// table, sizes from the values themselves.
#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

plan::PlanAlias plan_alias(ir::Alias alias) {
  switch (alias) {
    case ir::Alias::kOwn:
      return plan::PlanAlias::kOwn;
    case ir::Alias::kView:
      return plan::PlanAlias::kView;
    case ir::Alias::kUpdate:
      return plan::PlanAlias::kUpdate;
    case ir::Alias::kPieces:
      return plan::PlanAlias::kPieces;
  }
  return plan::PlanAlias::kOwn;
}

class Semantics {
 public:
  Semantics(const Facts& facts, Findings& findings)
      : facts_(facts),
        plan_(facts.plan),
        findings_(findings),
        state_of_(facts.plan.storages.size()) {}

  void run() {
    for (PlanOpId o : plan_.ops.ids()) check_op(o);
    for (const plan::PlanValue& value : plan_.values) check_value(value);
    for (PlanStorageId s : plan_.storages.ids()) check_storage(s);
    check_given_order();
  }

 private:
  void check_op(PlanOpId id) {
    const plan::PlanOp& op = plan_.ops[id];
    if (ops::find(op.kind) == nullptr) {
      findings_.add(
          Violation::kUnknownOp,
          fmt::format("op '{}' is of kind '{}', which the op table lacks", op.name, op.kind));
      return;
    }
    const auto expected = ops::infer(facts_.instance(id));
    if (!expected) {
      findings_.add(Violation::kOperands,
                    fmt::format("op '{}': {}", op.name, expected.error().message));
      return;
    }
    if (expected->size() != op.outputs.size()) {
      findings_.add(Violation::kOutputType,
                    fmt::format("op '{}' ({}) makes {} values, the plan lists {}", op.name, op.kind,
                                expected->size(), op.outputs.size()));
      return;
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      check_output(op, plan_.values[op.outputs[i]], (*expected)[i]);
    check_updates(op);
    if (op.workspace_bytes % plan_.alignment_bytes != 0)
      findings_.add(Violation::kMisaligned,
                    fmt::format("op '{}' has a workspace of {} bytes, alignment is {}", op.name,
                                op.workspace_bytes, plan_.alignment_bytes));
  }

  void check_output(const plan::PlanOp& op, const plan::PlanValue& value,
                    const ops::OutputType& expected) {
    const ops::Type type{value.type.dtype, ir::Dims(value.type.dims.begin(), value.type.dims.end()),
                         value.type.layout};
    if (type != expected.type)
      findings_.add(Violation::kOutputType,
                    fmt::format("op '{}' ({}) does not make '{}' as {} with {} dimensions, {}",
                                op.name, op.kind, value.name, lowtide::name(value.type.dtype),
                                value.type.dims.size(), print(value.type.layout)));
    if (value.alias != plan_alias(expected.alias)) {
      findings_.add(Violation::kOutputAlias,
                    fmt::format("op '{}' ({}) makes '{}' in another kind of storage than listed",
                                op.name, op.kind, value.name));
      return;
    }
    if (expected.alias == ir::Alias::kOwn) return;
    if (expected.alias == ir::Alias::kPieces) {
      check_pieces(op, value);
      return;
    }
    const auto base = static_cast<size_t>(expected.base_input);
    if (base >= op.inputs.size() || op.inputs[base] != value.base) {
      findings_.add(
          Violation::kOutputAlias,
          fmt::format("'{}' lies in input {} of op '{}' ({}), the plan names another base",
                      value.name, base, op.name, op.kind));
      return;
    }
    const auto start = sym::Expr(plan_.values[value.base].offset_bytes) + expected.offset_bytes;
    if (start.constant() != value.offset_bytes)
      findings_.add(
          Violation::kViewOffset,
          fmt::format("'{}' starts at byte {} of its storage, op '{}' makes it start at {}",
                      value.name, value.offset_bytes, op.name, sym::print(start)));
  }

  // Pieces are made by the step, fill their storages, lie in a whole once and at addresses that
  // buffers may have, and nobody overwrites them.
  void check_pieces(const plan::PlanOp& op, const plan::PlanValue& whole) {
    const auto wrong = [&](std::string_view piece, std::string_view why) {
      findings_.add(Violation::kPieces,
                    fmt::format("op '{}' joins '{}' to '{}': {}", op.name, piece, whole.name, why));
    };
    for (PlanValueId input : op.inputs) {
      const plan::PlanValue& value = plan_.values[input];
      const plan::PlanValue& root = plan_.values[plan_.storages[value.storage].root];
      if (value.offset_bytes != 0 || size_bytes(value.type) != size_bytes(root.type) ||
          value.type.layout.strided())
        wrong(value.name, "it does not fill its storage");
      if (!root.producer.valid()) wrong(value.name, "it is there before the step");
      if (facts_.version[input] != plan_.storages[value.storage].root)
        wrong(value.name, "it was overwritten");
    }
    for (const auto& [piece, offset] : facts_.memory[whole.storage])
      if (offset % plan_.alignment_bytes != 0)
        wrong(facts_.storage_name(piece),
              fmt::format("it begins at byte {}, alignment is {}", offset, plan_.alignment_bytes));
  }

  // What an update overwrites is what the step leaves behind: the whole of a parameter, an
  // optimizer state or a running statistic. Of a copy that the step made nothing would stay, and
  // what is fed or constant belongs to others. A state belongs to one parameter.
  void check_updates(const plan::PlanOp& op) {
    std::vector<PlanStorageId> seen;
    for (PlanValueId output : op.outputs) {
      const plan::PlanValue& value = plan_.values[output];
      if (value.alias != plan::PlanAlias::kUpdate) continue;
      const plan::PlanStorage& storage = plan_.storages[value.storage];
      const plan::PlanValue &root = plan_.values[storage.root], &base = plan_.values[value.base];
      std::string_view wrong;
      if (root.producer.valid())
        wrong = "the step makes it itself, so that nothing of the update would stay";
      else if (root.initial.kind == plan::PlanInitial::Kind::kFed)
        wrong = "it is fed";
      else if (storage.category != Category::kParameter &&
               storage.category != Category::kOptimizerState)
        wrong = "it is neither a parameter nor a state";
      else if (facts_.is_piece[value.storage] || facts_.is_whole[value.storage])
        wrong = "it is a piece or made of pieces";
      else if (base.offset_bytes != 0 || size_bytes(base.type) != size_bytes(root.type) ||
               base.type.layout.strided())
        wrong = "only a part of it";
      else if (std::find(seen.begin(), seen.end(), value.storage) != seen.end())
        wrong = "twice";
      else if (storage.category == Category::kOptimizerState && state_of_[value.storage].valid())
        wrong = "a state that another op keeps for itself";
      seen.push_back(value.storage);
      state_of_[value.storage] = value.producer;
      if (!wrong.empty())
        findings_.add(Violation::kUpdateTarget, fmt::format("op '{}' ({}) overwrites '{}': {}",
                                                            op.name, op.kind, root.name, wrong));
    }
  }

  void check_value(const plan::PlanValue& value) {
    const int64_t bytes = span_bytes(value.type);
    if (value.alias == plan::PlanAlias::kPieces) {
      if (value.offset_bytes != 0)
        findings_.add(Violation::kViewOffset, fmt::format("'{}' is a whole and starts at byte {}",
                                                          value.name, value.offset_bytes));
    } else if (value.alias != plan::PlanAlias::kOwn) {
      const int64_t room = size_bytes(plan_.values[plan_.storages[value.storage].root].type);
      if (value.offset_bytes > room || bytes > room - value.offset_bytes)
        findings_.add(Violation::kViewOutside,
                      fmt::format("'{}' spans {} bytes at {} of a storage of {}", value.name, bytes,
                                  value.offset_bytes, room));
    } else if (value.offset_bytes != 0) {
      findings_.add(Violation::kViewOffset,
                    fmt::format("'{}' owns its storage and starts at byte {} of it", value.name,
                                value.offset_bytes));
    }
    const plan::PlanInitial& initial = value.initial;
    const int64_t contents = element_count(value.type) * lowtide::size_bytes(value.type.dtype);
    const bool is_inline = initial.kind == plan::PlanInitial::Kind::kInline;
    const auto given = is_inline ? static_cast<int64_t>(initial.bytes.size()) : initial.length;
    const bool checked =
        is_inline || (initial.kind == plan::PlanInitial::Kind::kExternal && initial.length != 0);
    if (!value.producer.valid() && checked && given != contents)
      findings_.add(Violation::kContents,
                    fmt::format("'{}' needs {} bytes of contents, the plan gives {}", value.name,
                                contents, given));
  }

  void check_storage(PlanStorageId s) {
    const plan::PlanStorage& storage = plan_.storages[s];
    const int64_t bytes = facts_.is_whole[s] ? 0 : size_bytes(plan_.values[storage.root].type);
    if (bytes > kMaxBytes - plan_.alignment_bytes ||
        storage.bytes != align_up(bytes, plan_.alignment_bytes))
      findings_.add(
          Violation::kStorageBytes,
          fmt::format("the storage of '{}' has {} bytes; its contents have {}, alignment is {}",
                      facts_.storage_name(s), storage.bytes, bytes, plan_.alignment_bytes));
    const bool resident = !facts_.maker[s].valid();
    if (storage.resident != resident)
      findings_.add(Violation::kResidency,
                    fmt::format("the storage of '{}' is {}there before the step",
                                facts_.storage_name(s), resident ? "" : "not "));
  }

  // Later checks compare versions; they need to know that the graph itself is right.
  void check_given_order() {
    IdVector<PlanStorageId, PlanValueId> current(plan_.storages.size());
    for (PlanStorageId s : plan_.storages.ids()) current[s] = plan_.storages[s].root;
    for (const plan::PlanOp& op : plan_.ops) {
      for (PlanValueId input : op.inputs)
        if (input.valid() && current[plan_.values[input].storage] != facts_.version[input])
          findings_.add(
              Violation::kGivenOrder,
              fmt::format("in the given order, op '{}' reads '{}' after it was overwritten",
                          op.name, plan_.values[input].name));
      for (PlanValueId output : op.outputs)
        if (plan_.values[output].alias == plan::PlanAlias::kUpdate)
          current[plan_.values[output].storage] = output;
    }
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  Findings& findings_;
  IdVector<PlanStorageId, PlanOpId> state_of_;  // the op that overwrote the storage last
};

}  // namespace

void check_semantics(const Facts& facts, Findings& findings) {
  Semantics(facts, findings).run();
}

}  // namespace lowtide::verify

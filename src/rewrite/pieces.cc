#include "rewrite/pieces.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::StorageId;
using ir::ValueId;

struct Place {
  StorageId storage;
  int64_t at = 0;  // bytes
};

// Storages at fixed distances, in groups. A group's places are relative to each other.
class Distances {
 public:
  Distances(size_t storages, IdVector<StorageId, int64_t> bytes)
      : group_(storages), members_(storages), bytes_(std::move(bytes)) {
    for (StorageId s : group_.ids()) {
      group_[s] = s;
      members_[s] = {{s, 0}};
    }
    at_ = IdVector<StorageId, int64_t>(storages, 0);
  }

  // Puts all places at these distances; false, and nothing changed, where that contradicts what was
  // put before or makes two storages overlap.
  bool tie(const std::vector<Place>& places) {
    std::map<StorageId, int64_t> shift;  // by group: where its zero lies in the whole
    for (const Place& place : places) {
      const int64_t zero = place.at - at_[place.storage];
      const auto [known, is_new] = shift.emplace(group_[place.storage], zero);
      if (!is_new && known->second != zero) return false;
    }
    std::vector<Place> merged;
    for (const auto& [group, zero] : shift)
      for (const Place& member : members_[group])
        merged.push_back({member.storage, member.at + zero});
    std::sort(merged.begin(), merged.end(),
              [](const Place& a, const Place& b) { return a.at < b.at; });
    for (size_t i = 1; i < merged.size(); ++i)
      if (merged[i - 1].at + bytes_[merged[i - 1].storage] > merged[i].at) return false;
    const StorageId group = shift.begin()->first;
    for (const Place& member : merged) {
      group_[member.storage] = group;
      at_[member.storage] = member.at;
    }
    for (const auto& [old, zero] : shift) members_[old].clear();
    members_[group] = std::move(merged);
    return true;
  }

 private:
  IdVector<StorageId, StorageId> group_;
  IdVector<StorageId, int64_t> at_;                  // in its group
  IdVector<StorageId, std::vector<Place>> members_;  // of the group that bears this name
  IdVector<StorageId, int64_t> bytes_;               // rounded up
};

class PiecesPass {
 public:
  PiecesPass(const ir::Graph& graph, int64_t alignment, const PiecesOptions& options)
      : old_(graph),
        alignment_(alignment),
        options_(options),
        joins_(graph.op_count(), 0),
        memory_(graph.storage_count()),
        distances_(graph.storage_count(), rounded_sizes(graph, alignment)) {
    for (StorageId s : graph.storages()) memory_[s] = {{s, 0}};
  }

  Result<PiecesReport> run() {
    LT_RETURN_IF_ERROR(take_wholes());
    for (OpId id : old_.ops())
      if (old_.op(id).kind == "Concat") choose(id);
    if (joined_ == 0) return PiecesReport{old_, 0};
    ir::Rewritten made(old_);
    for (const ir::GraphItem item : ir::in_id_order(old_)) {
      if (item.given.valid())
        made.give(item.given, old_.value(item.given));
      else if (joins_[item.op])
        LT_RETURN_IF_ERROR(join(item.op, made));
      else
        LT_RETURN_IF_ERROR(ops::append_again(made, old_, item.op, made.now(old_.op(item.op).inputs),
                                             old_.op(item.op).attrs));
    }
    LT_RETURN_IF_ERROR(ir::check(made.graph));
    return PiecesReport{std::move(made.graph), joined_};
  }

 private:
  static IdVector<StorageId, int64_t> rounded_sizes(const ir::Graph& graph, int64_t alignment) {
    IdVector<StorageId, int64_t> bytes(graph.storage_count(), 0);
    for (StorageId s : graph.storages())
      if (const auto size = ir::size_bytes(graph.value(graph.storage(s).root)).constant())
        bytes[s] = align_up(*size, alignment);
    return bytes;
  }

  // Those that came in.
  Status take_wholes() {
    for (StorageId s : old_.storages()) {
      if (old_.storage(s).pieces.empty()) continue;
      const std::string& name = old_.value(old_.storage(s).root).name;
      memory_[s].clear();
      for (const ir::Piece& piece : old_.storage(s).pieces) {
        const auto offset = piece.offset_bytes.constant();
        if (!offset)
          return error(ErrorCode::kInput, "a piece of '" + name + "' has no constant place");
        memory_[s].push_back({piece.storage, *offset});
      }
      if (!distances_.tie(memory_[s]))
        return error(ErrorCode::kInput, "the pieces of '" + name +
                                            "' lie at other distances in another whole, or where "
                                            "pieces of that lie; join them by a Concat");
    }
    return {};
  }

  // In place of a Concat.
  Status join(OpId id, ir::Rewritten& made) const {
    const ir::Op& op = old_.op(id);
    const ir::Value& was = old_.value(op.outputs[0]);
    ops::AppendOptions options;
    options.name = op.name;
    options.module = op.module;
    options.source = op.source;
    options.phase = op.phase;
    options.control = made.now(op.control);
    options.output_names = {was.name};
    LT_ASSIGN(const OpId joined,
              ops::append(made.graph, "Join", made.now(op.inputs), op.attrs, options));
    made.note(id, op.outputs, joined);
    made.graph.keep_output(made.value[op.outputs[0]], was);
    return {};
  }

  void choose(OpId id) {
    const std::optional<std::vector<Place>> places = places_of(id);
    if (!places || !distances_.tie(*places)) return;
    memory_[old_.value(old_.op(id).outputs[0]).storage] = *places;
    joins_[id] = 1;
    ++joined_;
  }

  // Where the operands would lie in the result; nothing where it cannot be a view on them.
  std::optional<std::vector<Place>> places_of(OpId id) const {
    const ir::Op& op = old_.op(id);
    ops::Instance join = ops::instance_of(old_, id);
    join.kind = "Join";
    if (!ops::infer(join) || !is_read(old_.value(op.outputs[0]).storage)) return std::nullopt;
    if (overwritten(old_.value(op.outputs[0]).storage)) return std::nullopt;
    if (!options_.instead_of_in_place && may_be_taken_over(old_.value(op.outputs[0]).storage))
      return std::nullopt;
    std::vector<Place> places;
    int64_t offset = 0;
    for (ValueId input : op.inputs) {
      const ir::Value& value = old_.value(input);
      const auto bytes = ir::size_bytes(value).constant();
      if (!bytes || *bytes == 0 || offset % alignment_ != 0 || !value.layout.blocked.empty() ||
          !fills_made_storage(value))
        return std::nullopt;
      for (const Place& place : memory_[value.storage]) {
        if (overwritten(place.storage)) return std::nullopt;
        if (!options_.instead_of_in_place && may_be_taken_over(place.storage)) return std::nullopt;
        for (const Place& other : places)
          if (other.storage == place.storage) return std::nullopt;
        places.push_back({place.storage, offset + place.at});
      }
      offset += *bytes;
    }
    return places;
  }

  bool fills_made_storage(const ir::Value& value) const {
    const ir::Value& root = old_.value(old_.storage(value.storage).root);
    return root.producer.valid() && value.offset_bytes == sym::Expr(0) &&
           ir::size_bytes(value) == ir::size_bytes(root) && !value.layout.strided();
  }

  bool overwritten(StorageId s) const {
    const auto members = old_.values_in(s);
    return std::any_of(members.begin(), members.end(), [&](ValueId member) {
      return old_.value(member).alias == ir::Alias::kUpdate;
    });
  }

  // Some reader has an in-place pair on it.
  bool may_be_taken_over(StorageId s) const {
    for (ValueId member : old_.values_in(s))
      for (OpId reader : old_.readers(member))
        for (const auto& [in, out] : ops::in_place_pairs(ops::instance_of(old_, reader))) {
          const ValueId input = old_.op(reader).inputs[static_cast<size_t>(in)];
          if (input.valid() && old_.value(input).storage == s) return true;
        }
    return false;
  }

  bool is_read(StorageId s) const {
    const auto members = old_.values_in(s);
    return std::all_of(members.begin(), members.end(), [&](ValueId member) {
      return !old_.readers(member).empty() || old_.value(member).is_output;
    });
  }

  const ir::Graph& old_;
  const int64_t alignment_;
  const PiecesOptions options_;
  IdVector<OpId, char> joins_;
  IdVector<StorageId, std::vector<Place>> memory_;  // what a storage consists of now
  Distances distances_;
  int joined_ = 0;
};

}  // namespace

Result<PiecesReport> join_pieces(const ir::Graph& graph, int64_t alignment_bytes,
                                 const PiecesOptions& options) {
  return PiecesPass(graph, alignment_bytes, options).run();
}

}  // namespace lowtide::rewrite

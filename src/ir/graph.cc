#include "ir/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "sym/product.h"

namespace lowtide::ir {

Value::Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Op::Op() = default;
Op::Op(const Op&) = default;
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(const Op&) = default;
Op& Op::operator=(Op&&) noexcept = default;
Op::~Op() = default;

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

ValueId Graph::add_value(Value value) {
  LT_CHECK(value.alias == Alias::kOwn && !value.producer.valid(),
           "only ops make views and updates");
  LT_CHECK(!value_by_name_.contains(value.name), value.name);
  const ValueId id(values_.size());
  value.storage = storages_.push_back(Storage{id, {}});
  members_.push_back({id});
  value_by_name_.emplace(value.name, id);
  values_.push_back(std::move(value));
  readers_.push_back({});
  return id;
}

OpId Graph::add_op(Op op, std::vector<Value> outputs) {
  const OpId id(ops_.size());
  LT_CHECK(op_by_name_.emplace(op.name, id).second, op.name);
  for (ValueId input : op.inputs) {
    if (!input.valid()) continue;
    auto& readers = readers_[input];
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
  op.outputs.clear();
  for (Value& value : outputs) {
    const ValueId made(values_.size());
    value.producer = id;
    if (value.alias == Alias::kOwn || value.alias == Alias::kPieces) {
      const bool whole = value.alias == Alias::kPieces;
      value.storage =
          storages_.push_back(Storage{made, whole ? join(op.inputs) : std::vector<Piece>()});
      members_.push_back({made});
    } else {
      LT_CHECK(std::find(op.inputs.begin(), op.inputs.end(), value.base) != op.inputs.end(),
               value.name);
      value.storage = values_[value.base].storage;
      members_[value.storage].push_back(made);
    }
    LT_CHECK(value_by_name_.emplace(value.name, made).second, value.name);
    values_.push_back(std::move(value));
    readers_.push_back({});
    op.outputs.push_back(made);
  }
  ops_.push_back(std::move(op));
  return id;
}

std::vector<Piece> Graph::memory_of(ValueId id) const {
  const Storage& storage = storages_[values_[id].storage];
  if (!storage.pieces.empty()) return storage.pieces;
  return {Piece{values_[id].storage, sym::Expr(0)}};
}

bool Graph::may_join(std::span<const ValueId> inputs) const {
  std::set<StorageId> seen;
  for (const ValueId input : inputs) {
    if (!input.valid()) return false;
    for (const Piece& piece : memory_of(input))
      if (!seen.insert(piece.storage).second) return false;
  }
  constexpr size_t kMostPieces = size_t{1} << 24;
  return !seen.empty() && seen.size() <= kMostPieces - pieces_;
}

// One behind the other; a piece that is a whole hands on its own.
std::vector<Piece> Graph::join(std::span<const ValueId> inputs) {
  LT_CHECK(may_join(inputs), "pieces are distinct");
  std::vector<Piece> joined;
  sym::Expr offset(0);
  for (const ValueId input : inputs) {
    for (const Piece& piece : memory_of(input))
      joined.push_back({piece.storage, offset + piece.offset_bytes});
    offset = offset + size_bytes(values_[input]);
  }
  pieces_ += joined.size();
  return joined;
}

std::optional<ValueId> Graph::find_value(std::string_view wanted) const {
  const auto found = value_by_name_.find(wanted);
  if (found == value_by_name_.end()) return std::nullopt;
  return found->second;
}

std::vector<ValueId> Graph::outputs() const {
  std::vector<ValueId> found;
  for (const ValueId id : values())
    if (values_[id].is_output) found.push_back(id);
  std::stable_sort(found.begin(), found.end(), [&](ValueId a, ValueId b) {
    return values_[a].output_rank < values_[b].output_rank;
  });
  return found;
}

void Graph::set_output(ValueId id, bool is_output) {
  Value& value = values_[id];
  if (value.is_output == is_output) return;
  int64_t rank = 0;
  if (is_output)
    for (const ValueId other : values())
      if (values_[other].is_output) rank = std::max(rank, values_[other].output_rank + 1);
  value.is_output = is_output;
  value.output_rank = rank;
}

void Graph::keep_output(ValueId id, const Value& was) {
  values_[id].is_output = was.is_output;
  values_[id].output_rank = was.output_rank;
}

void Graph::rename(ValueId id, std::string wanted) {
  LT_CHECK(value_by_name_.emplace(wanted, id).second, wanted);
  value_by_name_.erase(values_[id].name);
  values_[id].name = std::move(wanted);
}

void Graph::add_control(OpId before, OpId after) {
  LT_CHECK(before < after, "control edges follow the order");
  auto& control = ops_[after].control;
  if (std::find(control.begin(), control.end(), before) == control.end()) control.push_back(before);
}

std::string Graph::fresh_name(std::string_view wanted) const {
  const auto taken = [&](const std::string& n) {
    return value_by_name_.contains(n) || op_by_name_.contains(n);
  };
  std::string candidate(wanted);
  for (int i = 1; taken(candidate); ++i) candidate = fmt::format("{}.{}", wanted, i);
  return candidate;
}

bool Graph::operator==(const Graph& other) const {
  return ops_ == other.ops_ && values_ == other.values_ && storages_ == other.storages_ &&
         name == other.name && producer == other.producer && bindings == other.bindings;
}

sym::Expr element_count(const Value& value) {
  return sym::product(value.dims);
}

sym::Expr size_bytes(const Value& value) {
  if (!value.layout.blocked.empty()) return value.layout.blocked_bytes;
  return element_count(value) * sym::Expr(lowtide::size_bytes(value.dtype));
}

sym::Expr span_bytes(const Value& value) {
  if (!value.layout.strided()) return size_bytes(value);
  sym::Expr elements(1);
  for (size_t d = 0; d < value.dims.size(); ++d) {
    if (value.dims[d] == sym::Expr(0)) return 0;
    elements = elements + (value.dims[d] - 1) * sym::Expr(value.layout.strides[d]);
  }
  return elements * sym::Expr(lowtide::size_bytes(value.dtype));
}

namespace {

tl::unexpected<Error> bad(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

// Nobody may read a value of a storage once a later op has overwritten that storage, unless through
// the new version.
Status check_updates(const Graph& graph) {
  IdVector<StorageId, ValueId> version(graph.storage_count());
  const auto version_of = [&](ValueId v) {
    while (graph.value(v).alias == Alias::kView) v = graph.value(v).base;
    return v;
  };
  for (StorageId s : graph.storages()) version[s] = graph.storage(s).root;
  for (OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    for (ValueId input : op.inputs) {
      if (!input.valid()) continue;
      if (version[graph.value(input).storage] != version_of(input))
        return bad(fmt::format("op '{}' reads '{}' after it was overwritten", op.name,
                               graph.value(input).name));
    }
    for (ValueId output : op.outputs)
      if (graph.value(output).alias == Alias::kUpdate)
        version[graph.value(output).storage] = output;
  }
  return {};
}

// What an op joins must be pieces.
Status check_pieces(const Graph& graph, const Op& op, const Value& whole) {
  const auto wrong = [&](ValueId input, const char* why) {
    return bad(fmt::format("op '{}' joins '{}' to '{}': {}", op.name, graph.value(input).name,
                           whole.name, why));
  };
  for (ValueId input : op.inputs) {
    const Value& value = graph.value(input);
    const Value& root = graph.value(graph.storage(value.storage).root);
    if (!(value.offset_bytes == sym::Expr(0)) || !(size_bytes(value) == size_bytes(root)) ||
        value.layout.strided())
      return wrong(input, "it does not fill its storage");
    if (!root.producer.valid()) return wrong(input, "no op makes it");
  }
  for (const Piece& piece : graph.storage(whole.storage).pieces)
    for (ValueId member : graph.values_in(piece.storage))
      if (graph.value(member).alias == Alias::kUpdate)
        return wrong(member, "it overwrites a piece");
  for (ValueId member : graph.values_in(whole.storage))
    if (graph.value(member).alias == Alias::kUpdate)
      return wrong(member, "it overwrites the whole");
  return {};
}

}  // namespace

namespace {

// Strides are of views with constant sizes, one for each dimension, and the only thing that their
// layout says.
Status check_strides(const Value& value) {
  const Layout& layout = value.layout;
  if (!layout.strided()) return {};
  if (value.alias != Alias::kView)
    return bad(fmt::format("value '{}' has layout {} and is no view", value.name, print(layout)));
  if (layout.strides.size() != value.dims.size() || !layout.order.empty() ||
      !layout.blocked.empty())
    return bad(fmt::format("value '{}' has {} dimensions and layout {}", value.name,
                           value.dims.size(), print(layout)));
  for (size_t d = 0; d < value.dims.size(); ++d)
    if (!value.dims[d].constant() || layout.strides[d] < 0)
      return bad(fmt::format("value '{}' has a symbolic size or a negative stride with layout {}",
                             value.name, print(layout)));
  return {};
}

}  // namespace

Status check_value(const Value& value, const Value& root) {
  for (const sym::Expr& dim : value.dims)
    if (dim.constant() && *dim.constant() < 0)
      return bad(fmt::format("value '{}' has a dimension of {}; sizes are not negative", value.name,
                             *dim.constant()));
  const auto bytes = size_bytes(value).constant();
  if (size_bytes(value).poisoned() || (bytes && *bytes > kMaxBytes))
    return bad(fmt::format("value '{}' is larger than 2^62 bytes", value.name));
  if (!value.layout.order.empty() && value.layout.order.size() != value.dims.size())
    return bad(fmt::format("value '{}' has {} dimensions and a layout of {}", value.name,
                           value.dims.size(), value.layout.order.size()));
  LT_RETURN_IF_ERROR(check_strides(value));
  if (value.alias == Alias::kOwn || value.alias == Alias::kPieces) return {};
  const auto room = size_bytes(root).constant();
  const auto end = (value.offset_bytes + span_bytes(value)).constant();
  const auto begin = value.offset_bytes.constant();
  if ((value.offset_bytes + span_bytes(value)).poisoned())
    return bad(fmt::format("value '{}' ends beyond 2^63 bytes", value.name));
  if (begin && *begin < 0)
    return bad(fmt::format("value '{}' starts {} bytes before its storage", value.name, -*begin));
  if (room && end && *end > *room)
    return bad(fmt::format("value '{}' ends at byte {} of the storage of '{}', which has {}",
                           value.name, *end, root.name, *room));
  return {};
}

Status check(const Graph& graph) {
  for (ValueId id : graph.values()) {
    const Value& value = graph.value(id);
    LT_RETURN_IF_ERROR(check_value(value, graph.value(graph.storage(value.storage).root)));
  }
  for (OpId id : graph.ops())
    for (ValueId output : graph.op(id).outputs)
      if (graph.value(output).alias == Alias::kPieces)
        LT_RETURN_IF_ERROR(check_pieces(graph, graph.op(id), graph.value(output)));
  for (OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    for (ValueId input : op.inputs) {
      if (!input.valid()) continue;
      const OpId producer = graph.value(input).producer;
      if (producer.valid() && !(producer < id))
        return bad(fmt::format("op '{}' reads '{}', which is made later", op.name,
                               graph.value(input).name));
    }
    for (OpId before : op.control)
      if (!(before < id))
        return bad(fmt::format("op '{}' waits for an op that comes later", op.name));
  }
  return check_updates(graph);
}

std::vector<std::string> free_symbols(const Graph& graph) {
  std::set<std::string> names;
  for (ValueId id : graph.values())
    for (const sym::Expr& dim : graph.value(id).dims)
      for (std::string& symbol : dim.symbols()) names.insert(std::move(symbol));
  return {names.begin(), names.end()};
}

}  // namespace lowtide::ir

template class std::vector<lowtide::ir::Op>;
template class std::vector<lowtide::ir::Value>;
template class std::vector<lowtide::ir::Storage>;

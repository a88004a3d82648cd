// What may be changed in an edit. Each change is tried, the ops that it concerns are checked where
// they stand, and what does not pass is taken back.
//
// An op is right where it stands when its operands are made before it, no op between has
// overwritten them, what waits for it comes later, and whoever still reads what it overwrites comes
// earlier. These are local: a change of one op can break them only for that op, for the ops that
// read or make the values that it moves to another storage, and for nobody else.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "ir/edit.h"

namespace lowtide::ir {
namespace {

tl::unexpected<Error> refused(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

}  // namespace

// ---- checks ----

// The value that holds the contents which this one shows: views are looked through.
ValueId GraphEdit::version_of(ValueId id) const {
  while (value(id).alias == Alias::kView) id = value(id).base;
  return id;
}

// ---- wholes ----

bool GraphEdit::joins(OpId id) const {
  const std::vector<ValueId>& outputs = op(id).outputs;
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](ValueId output) { return value(output).alias == Alias::kPieces; });
}

bool GraphEdit::is_piece(StorageId id) const {
  const auto is_joined = [&](ValueId member) {
    return std::any_of(readers(member).begin(), readers(member).end(),
                       [&](OpId reader) { return joins(reader); });
  };
  return std::any_of(values_in(id).begin(), values_in(id).end(), is_joined);
}

// As check_pieces of a graph, which says why.
Status GraphEdit::check_joined(OpId id, ValueId whole) const {
  const auto wrong = [&](ValueId input, const char* why) {
    return refused(fmt::format("op '{}' joins '{}' to '{}': {}", op(id).name,
                               input.valid() ? value(input).name : "", value(whole).name, why));
  };
  if (op(id).inputs.empty()) return wrong(ValueId::none(), "a whole has pieces");
  std::set<StorageId> seen;
  for (const ValueId input : op(id).inputs) {
    if (!input.valid()) return wrong(input, "it is absent");
    const Value& piece = value(input);
    const Value& root = value(ValueId(piece.storage.index()));
    if (!(piece.offset_bytes == sym::Expr(0)) || !(size_bytes(piece) == size_bytes(root)) ||
        piece.layout.strided())
      return wrong(input, "it does not fill its storage");
    if (!root.producer.valid()) return wrong(input, "no op makes it");
    std::vector<Piece> joined;
    join(input, sym::Expr(0), joined);
    for (const Piece& each : joined) {
      if (!seen.insert(each.storage).second) return wrong(input, "it is there twice");
      for (const ValueId member : values_in(each.storage))
        if (value(member).alias == Alias::kUpdate) return wrong(input, "it is overwritten");
    }
  }
  for (const ValueId member : values_in(value(whole).storage))
    if (value(member).alias == Alias::kUpdate) return wrong(member, "it overwrites the whole");
  return {};
}

// The wholes that this storage is a piece of, and those that they are pieces of.
// NOLINTNEXTLINE(misc-no-recursion): as deep as wholes lie in each other
Status GraphEdit::check_joins_of(StorageId id) const {
  for (const ValueId member : values_in(id))
    for (const OpId reader : readers(member))
      for (const ValueId output : op(reader).outputs) {
        if (value(output).alias != Alias::kPieces) continue;
        LT_RETURN_IF_ERROR(check_joined(reader, output));
        LT_RETURN_IF_ERROR(check_joins_of(value(output).storage));
      }
  return {};
}

// The updates that overwrite a version; in a valid graph one at most.
std::vector<ValueId> GraphEdit::overwriters(ValueId version) const {
  std::vector<ValueId> found;
  for (const ValueId member : values_in(value(version).storage))
    if (value(member).alias == Alias::kUpdate && version_of(value(member).base) == version)
      found.push_back(member);
  return found;
}

Status GraphEdit::check_operand(OpId id, ValueId input) const {
  const OpId producer = value(input).producer;
  if (producer.valid() && !before(producer, id))
    return refused(
        fmt::format("op '{}' reads '{}', which is made later", op(id).name, value(input).name));
  for (const ValueId updated : overwriters(version_of(input)))
    if (const OpId updater = value(updated).producer; updater != id && before(updater, id))
      return refused(fmt::format("op '{}' reads '{}' after op '{}' has overwritten it", op(id).name,
                                 value(input).name, op(updater).name));
  return {};
}

Status GraphEdit::check_update(OpId id, ValueId updated) const {
  const StorageId home = value(updated).storage;
  if (value(ValueId(home.index())).alias == Alias::kPieces || is_piece(home))
    return refused(fmt::format("op '{}' overwrites '{}', which is a piece or made of pieces",
                               op(id).name, value(ValueId(home.index())).name));
  const ValueId old_version = version_of(value(updated).base);
  for (const ValueId other : overwriters(old_version))
    if (other != updated)
      return refused(fmt::format("ops '{}' and '{}' both overwrite '{}'", op(id).name,
                                 op(value(other).producer).name, value(old_version).name));
  for (const ValueId member : values_in(value(updated).storage)) {
    if (version_of(member) != old_version) continue;
    for (const OpId reader : readers(member))
      if (reader != id && !before(reader, id))
        return refused(fmt::format("op '{}' overwrites '{}', which op '{}' reads later",
                                   op(id).name, value(member).name, op(reader).name));
  }
  return {};
}

Status GraphEdit::check_op(OpId id) const {
  const Op& checked = op(id);
  for (const ValueId input : checked.inputs)
    if (input.valid()) LT_RETURN_IF_ERROR(check_operand(id, input));
  for (const ValueId output : checked.outputs) {
    for (const OpId reader : readers(output))
      if (!before(id, reader))
        return refused(fmt::format("op '{}' makes '{}', which op '{}' reads earlier", checked.name,
                                   value(output).name, op(reader).name));
    if (value(output).alias == Alias::kUpdate) LT_RETURN_IF_ERROR(check_update(id, output));
    if (value(output).alias == Alias::kPieces) {
      LT_RETURN_IF_ERROR(check_joined(id, output));
      LT_RETURN_IF_ERROR(check_joins_of(value(output).storage));
    }
  }
  for (const OpId first : checked.control)
    if (!before(first, id))
      return refused(fmt::format("op '{}' waits for op '{}', which comes later", checked.name,
                                 op(first).name));
  for (const OpId second : waiting(id))
    if (!before(id, second))
      return refused(fmt::format("op '{}' waits for op '{}', which comes later", op(second).name,
                                 checked.name));
  return {};
}

// Values that came to lie elsewhere, and whoever makes or reads them.
Status GraphEdit::check_moved(const std::vector<ValueId>& moved) const {
  for (const ValueId id : moved) {
    const ValueId root(value(id).storage.index());
    LT_RETURN_IF_ERROR(check_value(value(id), value(root)));
    if (root == id) {
      for (const ValueId member : values_in(value(id).storage))
        LT_RETURN_IF_ERROR(check_value(value(member), value(id)));
      LT_RETURN_IF_ERROR(check_joins_of(value(id).storage));
    }
    if (value(id).producer.valid()) LT_RETURN_IF_ERROR(check_op(value(id).producer));
    for (const OpId reader : readers(id)) LT_RETURN_IF_ERROR(check_op(reader));
  }
  return {};
}

Status GraphEdit::check_names(const Op& op, const std::vector<Value>& outputs) const {
  if (op_by_name_.contains(op.name))
    return refused(fmt::format("there is an op '{}' already", op.name));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto same = [&](const Value& other) { return other.name == outputs[i].name; };
    const auto end = outputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (find_value(outputs[i].name) || std::any_of(outputs.begin(), end, same))
      return refused(fmt::format("there is a value '{}' already", outputs[i].name));
  }
  return {};
}

// ---- ops and values ----

uint32_t GraphEdit::neighbour(Place place) const {
  if (place.kind == Place::Kind::kEnd) return order_.last();
  return place.kind == Place::Kind::kAfter ? item(place.op) : order_.previous(item(place.op));
}

Result<ValueId> GraphEdit::add_value(Value value) {
  LT_CHECK(value.alias == Alias::kOwn && !value.producer.valid(),
           "only ops make views and updates");
  if (find_value(value.name))
    return refused(fmt::format("there is a value '{}' already", value.name));
  LT_RETURN_IF_ERROR(check_value(value, value));
  const ValueId id(values_.size());
  const OpId first = first_op();
  values_.push_back({});
  value.storage = StorageId(id.index());
  write(id, std::move(value));
  link(item(id), first.valid() ? order_.previous(item(first)) : order_.last());
  return id;
}

Status GraphEdit::remove_value(ValueId id) {
  const Value& gone = value(id);
  LT_CHECK(!gone.producer.valid(), "what an op makes goes with the op");
  if (!readers(id).empty())
    return refused(
        fmt::format("value '{}' is read by op '{}'", gone.name, op(readers(id).front()).name));
  if (gone.is_output) return refused(fmt::format("value '{}' is an output of the step", gone.name));
  unlink(item(id));
  write(id, std::nullopt);
  return {};
}

Result<OpId> GraphEdit::add_op(Op op, std::vector<Value> outputs, Place place) {
  LT_RETURN_IF_ERROR(check_names(op, outputs));
  const Mark start = mark();
  const OpId id(ops_.size());
  LT_RETURN_IF_ERROR(keep_or_roll_back(
      start, try_add_op(id, std::move(op), std::move(outputs), neighbour(place))));
  return id;
}

Status GraphEdit::try_add_op(OpId id, Op op, std::vector<Value> outputs, uint32_t after) {
  for (const ValueId input : op.inputs) LT_CHECK(!input.valid() || alive(input), op.name);
  for (const OpId first : op.control) LT_CHECK(alive(first), op.name);
  op.outputs.clear();
  for (Value& output : outputs) {
    const ValueId made(values_.size());
    output.producer = id;
    output.storage = StorageId(made.index());
    if (output.alias == Alias::kView || output.alias == Alias::kUpdate) {
      LT_CHECK(std::find(op.inputs.begin(), op.inputs.end(), output.base) != op.inputs.end(),
               output.name);
      output.storage = value(output.base).storage;
    }
    values_.push_back({});
    write(made, std::move(output));
    op.outputs.push_back(made);
  }
  ops_.push_back({});
  write(id, std::move(op));
  link(item(id), after);
  for (const ValueId output : this->op(id).outputs)
    LT_RETURN_IF_ERROR(check_value(value(output), value(ValueId(value(output).storage.index()))));
  return check_op(id);
}

Status GraphEdit::remove_op(OpId id) {
  for (const ValueId output : op(id).outputs) {
    if (!readers(output).empty())
      return refused(fmt::format("op '{}' makes '{}', which op '{}' reads", op(id).name,
                                 value(output).name, op(readers(output).front()).name));
    if (value(output).is_output)
      return refused(fmt::format("op '{}' makes '{}', an output of the step", op(id).name,
                                 value(output).name));
  }
  const std::vector<OpId> later = ops_[id].waiting;
  for (const OpId second : later) remove_control(id, second);
  const std::vector<ValueId> outputs = op(id).outputs;
  unlink(item(id));
  write(id, std::nullopt);
  for (const ValueId output : outputs) write(output, std::nullopt);
  return {};
}

Status GraphEdit::move_op(OpId id, Place place) {
  LT_CHECK(place.kind == Place::Kind::kEnd || place.op != id, "an op has no place beside itself");
  const Mark start = mark();
  unlink(item(id));
  link(item(id), neighbour(place));
  return keep_or_roll_back(start, check_op(id));
}

// ---- operands ----

// Gives a value another form, and what lies on it the same storage and shift.
void GraphEdit::rehome(ValueId id, Value now, std::vector<ValueId>& moved) {
  const sym::Expr shift = now.offset_bytes - value(id).offset_bytes;
  const StorageId home = now.storage;
  const bool stays = home == value(id).storage && shift == sym::Expr(0);
  size_t next = moved.size();
  write(id, std::move(now));
  moved.push_back(id);
  if (stays) return;
  for (; next < moved.size(); ++next) {
    const ValueId base = moved[next];
    for (const OpId reader : readers(base))
      for (const ValueId output : op(reader).outputs) {
        if (value(output).base != base) continue;
        Value derived = value(output);
        derived.storage = home;
        derived.offset_bytes = derived.offset_bytes + shift;
        write(output, std::move(derived));
        moved.push_back(output);
      }
  }
}

// All of the operands anew; bases that were `from` become `to`.
Status GraphEdit::try_inputs(OpId id, std::vector<ValueId> inputs, ValueId from, ValueId to) {
  if (to.valid() && value(to).producer.valid() && !before(value(to).producer, id))
    return refused(
        fmt::format("op '{}' cannot read '{}', which is made later", op(id).name, value(to).name));
  Op now = op(id);
  now.inputs = std::move(inputs);
  const std::vector<ValueId> outputs = now.outputs;
  write(id, std::move(now));
  std::vector<ValueId> moved;
  for (const ValueId output : outputs) {
    if (!from.valid() || value(output).base != from) continue;
    if (!to.valid())
      return refused(fmt::format("op '{}' cannot do without '{}', which '{}' lies on", op(id).name,
                                 value(from).name, value(output).name));
    Value rebased = value(output);
    rebased.base = to;
    rebased.storage = value(to).storage;
    rebased.offset_bytes = rebased.offset_bytes - value(from).offset_bytes + value(to).offset_bytes;
    rehome(output, std::move(rebased), moved);
  }
  LT_RETURN_IF_ERROR(check_op(id));
  return check_moved(moved);
}

Status GraphEdit::set_input(OpId id, size_t index, ValueId now) {
  LT_CHECK(index < op(id).inputs.size(), op(id).name);
  LT_CHECK(!now.valid() || alive(now), op(id).name);
  std::vector<ValueId> inputs = op(id).inputs;
  const ValueId from = inputs[index];
  if (from == now) return {};
  const bool is_base =
      std::any_of(op(id).outputs.begin(), op(id).outputs.end(),
                  [&](ValueId output) { return from.valid() && value(output).base == from; });
  if (is_base && std::count(inputs.begin(), inputs.end(), from) > 1)
    return refused(fmt::format("op '{}' reads '{}' twice and lies on it; replace both", op(id).name,
                               value(from).name));
  inputs[index] = now;
  const Mark start = mark();
  return keep_or_roll_back(start, try_inputs(id, std::move(inputs), from, now));
}

Status GraphEdit::try_replace_reads(ValueId from, ValueId to, std::span<const OpId> readers) {
  for (const OpId reader : readers) {
    std::vector<ValueId> inputs = op(reader).inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    if (inputs != op(reader).inputs)
      LT_RETURN_IF_ERROR(try_inputs(reader, std::move(inputs), from, to));
  }
  return {};
}

Status GraphEdit::replace_reads(ValueId from, ValueId to, std::span<const OpId> readers) {
  LT_CHECK(alive(from) && alive(to), "both values are there");
  const Mark start = mark();
  return keep_or_roll_back(start, try_replace_reads(from, to, readers));
}

Status GraphEdit::replace_reads(ValueId from, ValueId to) {
  const std::vector<OpId> all = values_[from].readers;
  return replace_reads(from, to, all);
}

// ---- contents ----

void GraphEdit::set_attrs(OpId id, Attrs attrs) {
  Op now = op(id);
  now.attrs = std::move(attrs);
  write(id, std::move(now));
}

void GraphEdit::set_attr(OpId id, std::string_view name, std::optional<AttrValue> now) {
  Attrs attrs = op(id).attrs;
  if (now)
    attrs.insert_or_assign(std::string(name), *std::move(now));
  else if (const auto found = attrs.find(name); found != attrs.end())
    attrs.erase(found);
  set_attrs(id, std::move(attrs));
}

void GraphEdit::write_form(ValueId id, const ValueForm& form, std::vector<ValueId>& moved) {
  Value now = value(id);
  now.dtype = form.dtype;
  now.dims = form.dims;
  now.layout = form.layout;
  now.alias = form.alias;
  now.base = form.base;
  now.offset_bytes = 0;
  now.storage = StorageId(id.index());
  LT_CHECK(form.alias == Alias::kOwn || now.producer.valid(), "only ops make views, and wholes");
  if (form.alias == Alias::kView || form.alias == Alias::kUpdate) {
    const std::vector<ValueId>& inputs = op(now.producer).inputs;
    LT_CHECK(std::find(inputs.begin(), inputs.end(), form.base) != inputs.end(), now.name);
    now.offset_bytes = value(form.base).offset_bytes + form.offset_bytes;
    now.storage = value(form.base).storage;
  }
  rehome(id, std::move(now), moved);
}

Status GraphEdit::set_forms(std::span<const std::pair<ValueId, ValueForm>> forms) {
  const Mark start = mark();
  std::vector<ValueId> moved;
  for (const auto& [id, form] : forms) write_form(id, form, moved);
  return keep_or_roll_back(start, check_moved(moved));
}

Status GraphEdit::set_form(ValueId id, ValueForm form) {
  const std::pair<ValueId, ValueForm> one[] = {{id, std::move(form)}};
  return set_forms(one);
}

Status GraphEdit::add_control(OpId first, OpId second) {
  if (!before(first, second))
    return refused(fmt::format("op '{}' cannot wait for op '{}', which comes later",
                               op(second).name, op(first).name));
  Op now = op(second);
  if (std::find(now.control.begin(), now.control.end(), first) != now.control.end()) return {};
  now.control.push_back(first);
  write(second, std::move(now));
  return {};
}

void GraphEdit::remove_control(OpId first, OpId second) {
  Op now = op(second);
  if (std::erase(now.control, first) > 0) write(second, std::move(now));
}

Status GraphEdit::rename(ValueId id, std::string wanted) {
  if (find_value(wanted)) return refused(fmt::format("there is a value '{}' already", wanted));
  Value now = value(id);
  now.name = std::move(wanted);
  write(id, std::move(now));
  return {};
}

void GraphEdit::set_output(ValueId id, bool is_output) {
  Value now = value(id);
  if (now.is_output == is_output) return;
  now.is_output = is_output;
  now.output_rank = 0;
  if (is_output && !outputs_.empty()) now.output_rank = outputs_.rbegin()->first + 1;
  write(id, std::move(now));
}

void GraphEdit::keep_output(ValueId id, const Value& was) {
  Value now = value(id);
  now.is_output = was.is_output;
  now.output_rank = was.output_rank;
  write(id, std::move(now));
}

void GraphEdit::set_category(ValueId id, Category category) {
  Value now = value(id);
  now.category = category;
  write(id, std::move(now));
}

}  // namespace lowtide::ir

#include "ops/destinations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/interval.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

// What of a destination is there, along its axis: intervals that do not touch each other.
struct Written {
  size_t axis = 0;
  std::vector<Interval> parts;

  bool add(Interval part) {
    const auto overlaps = [&](const Interval& other) { return other.overlaps(part); };
    if (std::any_of(parts.begin(), parts.end(), overlaps)) return false;
    parts.push_back(part);
    return true;
  }
  int64_t size() const {
    int64_t sum = 0;
    for (const Interval& part : parts) sum += part.length();
    return sum;
  }
};

class DestinationCheck {
 public:
  explicit DestinationCheck(const ir::Graph& graph)
      : graph_(graph), written_(graph.value_count()) {}

  Status run() {
    for (const ir::OpId id : graph_.ops()) {
      const Instance instance = instance_of(graph_, id);
      const std::optional<Destination> to = destination_of(instance);
      LT_RETURN_IF_ERROR(check_readers(id, to));
      if (to) LT_RETURN_IF_ERROR(write(id, *to));
    }
    for (const ir::ValueId output : graph_.outputs())
      if (written_[shown(output)])
        return incomplete("the step returns", graph_.value(output).name, shown(output));
    return {};
  }

 private:
  // The value whose elements a view shows.
  ir::ValueId shown(ir::ValueId id) const {
    while (graph_.value(id).alias == ir::Alias::kView) id = graph_.value(id).base;
    return id;
  }

  Status check_readers(ir::OpId id, const std::optional<Destination>& to) const {
    const ir::Op& op = graph_.op(id);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!op.inputs[i].valid() || !written_[shown(op.inputs[i])]) continue;
      const bool is_rest =
          to && to->has_rest && to->rest == i && op.inputs[i] == shown(op.inputs[i]);
      if (!is_rest)
        return incomplete(fmt::format("op '{}' reads", op.name), graph_.value(op.inputs[i]).name,
                          shown(op.inputs[i]));
    }
    return {};
  }

  Status write(ir::OpId id, const Destination& to) {
    const ir::Op& op = graph_.op(id);
    Written made{.axis = to.axis, .parts = {}};
    if (to.has_rest) {
      const auto& rest = written_[op.inputs[to.rest]];
      if (!rest || rest->axis != to.axis)
        return refused(op.name, "adds to no destination along the same axis that lacks a part");
      made = *rest;
    }
    if (!made.add({to.begin, to.end}))
      return refused(op.name, fmt::format("writes [{}, {}) of axis {}, and part of it is there",
                                          to.begin, to.end, to.axis));
    if (made.size() < to.extent) written_[op.outputs[0]] = std::move(made);
    return {};
  }

  static tl::unexpected<Error> refused(const std::string& op, const std::string& why) {
    return error(ErrorCode::kInput, fmt::format("op '{}' {}", op, why));
  }
  tl::unexpected<Error> incomplete(const std::string& who, const std::string& value,
                                   ir::ValueId whole) const {
    const Written& made = *written_[whole];
    return error(
        ErrorCode::kInput,
        fmt::format("{} '{}', of which only {} of {} along axis {} are written", who, value,
                    made.size(), sym::print(graph_.value(whole).dims[made.axis]), made.axis));
  }

  const ir::Graph& graph_;
  IdVector<ir::ValueId, std::optional<Written>> written_;  // none: all of it is there
};

}  // namespace

size_t rest_operand(const Row& row) {
  const RowWords& words = words_of_row(row);
  return words.types.inputs.size() + words.adds_into.size();
}

SliceOp slice_op(const Row& row, const Instance& instance) {
  SliceOp own{.attrs = {}, .inputs = instance.inputs};
  if (instance.attrs != nullptr) own.attrs = *instance.attrs;
  own.attrs.erase("into");
  const size_t rest = rest_operand(row);
  if (own.inputs.size() > rest) {
    own.inputs.resize(rest);
    while (!own.inputs.empty() && !own.inputs.back()) own.inputs.pop_back();
  }
  return own;
}

Status take_destination(Bound& bound, const Instance& instance) {
  if (!bound.outputs) return {};
  const Row& row = *bound.row;
  LT_ASSIGN(const ir::Dims list, list_attr(instance, "into", 4));
  if (bound.outputs->size() != 1 || bound.outputs->front().alias != ir::Alias::kOwn ||
      !bound.outputs->front().type.layout.blocked.empty() || row.traits.opaque)
    return refuse(instance, "only one plain result with a storage of its own goes into a slice");
  Type& type = bound.outputs->front().type;
  const auto axis = list[0].constant(), begin = list[1].constant(), end = list[2].constant(),
             extent = list[3].constant();
  if (!axis || !begin || !end || !extent || *axis < 0 ||
      *axis >= static_cast<int64_t>(type.dims.size()))
    return refuse(instance,
                  fmt::format("into {} is no slice of {}", print(list), print(type.dims)));
  Expr& dim = type.dims[static_cast<size_t>(*axis)];
  if (*begin < 0 || *begin >= *end || *end > *extent || !(dim == Expr(*end - *begin)) ||
      *end - *begin == *extent)
    return refuse(instance, fmt::format("into {}: a slice of {} is none of the range", print(list),
                                        sym::print(dim)));
  Destination to{.axis = static_cast<size_t>(*axis),
                 .begin = *begin,
                 .end = *end,
                 .extent = *extent,
                 .rest = rest_operand(row)};
  dim = *extent;
  if (instance.inputs.size() > to.rest + 1)
    return refuse(instance, fmt::format("has {} operands and a destination", to.rest));
  if (!accumulators(instance).empty()) return refuse(instance, "a sum goes into no slice");
  to.has_rest = instance.inputs.size() > to.rest && instance.inputs[to.rest];
  if (to.has_rest) {
    const Type& rest = *instance.inputs[to.rest];
    if (rest.dtype != type.dtype || rest.dims != type.dims ||
        !same_order(rest.layout, type.layout, type.dims))
      return refuse(instance,
                    fmt::format("input {}, the rest, is {} {} {}, the result {} {} {}", to.rest,
                                name(rest.dtype), print(rest.dims), print(rest.layout),
                                name(type.dtype), print(type.dims), print(type.layout)));
  }
  bound.destination = to;
  return {};
}

std::optional<Destination> destination_of(const Instance& instance) {
  if (!has_attr(instance, "into")) return std::nullopt;
  const auto bound = bind_instance(instance);
  return bound ? (*bound)->destination : std::nullopt;
}

Status check_destinations(const ir::Graph& graph) {
  return DestinationCheck(graph).run();
}

}  // namespace lowtide::ops

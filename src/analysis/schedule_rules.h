// What each op, storage and dependence of a graph is in a ScheduleProblem (rules: schedule_view.h),
// one at a time. A Graph and a GraphEdit are asked alike, so that the view of a whole graph and the
// view that follows edits cannot differ in what they derive, only in when.
//
// Tests: schedule_view_test.cc, view_edit_test.cc.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ops/edit.h"
#include "ops/op_table.h"
#include "plan/schedule_problem.h"

namespace lowtide::analysis {

// All outputs are views: nothing is computed.
template <class AnyGraph>
bool only_makes_views(const AnyGraph& graph, ir::OpId id) {
  const ir::Op& op = graph.op(id);
  return !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ir::ValueId output) { return ir::is_view(graph.value(output).alias); });
}

// The op that makes this version of the value's storage: views are looked through.
template <class AnyGraph>
ir::OpId producer_of_version(const AnyGraph& graph, ir::ValueId value) {
  while (graph.value(value).alias == ir::Alias::kView) value = graph.value(value).base;
  return graph.value(value).producer;
}

template <class AnyGraph>
const ir::Value& root_of(const AnyGraph& graph, ir::StorageId id) {
  return graph.value(graph.storage(id).root);
}

// A member of the storage is an output of the step.
template <class AnyGraph>
bool is_returned(const AnyGraph& graph, ir::StorageId id) {
  const auto members = graph.values_in(id);
  return std::any_of(members.begin(), members.end(),
                     [&](ir::ValueId member) { return graph.value(member).is_output; });
}

// An output of the step, other than the new contents of what it updates.
template <class AnyGraph>
bool is_returned_as_it_is(const AnyGraph& graph, ir::StorageId id) {
  const auto members = graph.values_in(id);
  return std::any_of(members.begin(), members.end(), [&](ir::ValueId member) {
    const ir::Value& value = graph.value(member);
    return value.is_output && value.alias != ir::Alias::kUpdate;
  });
}

// The ops that read a storage or overwrite it, but for its producer. Order and repetitions are the
// caller's to mend.
struct StorageUses {
  std::vector<ir::OpId> readers, writers;
};
template <class AnyGraph>
StorageUses uses_of(const AnyGraph& graph, ir::StorageId id) {
  StorageUses uses;
  const ir::OpId producer = root_of(graph, id).producer;
  for (const ir::ValueId member : graph.values_in(id)) {
    for (const ir::OpId reader : graph.readers(member))
      if (reader != producer && !only_makes_views(graph, reader)) uses.readers.push_back(reader);
    if (graph.value(member).alias == ir::Alias::kUpdate)
      uses.writers.push_back(graph.value(member).producer);
  }
  return uses;
}

// Pure or random, overwrites nothing, and makes nothing that others overwrite.
template <class AnyGraph>
bool may_run_again(const AnyGraph& graph, ir::OpId id) {
  const ir::Op& op = graph.op(id);
  const ops::Row* row = ops::find(op.kind);
  if (row == nullptr || !ops::traits(*row).recomputable || ops::traits(*row).has_effect)
    return false;
  return std::none_of(op.outputs.begin(), op.outputs.end(), [&](ir::ValueId output) {
    const ir::Value& value = graph.value(output);
    if (value.alias == ir::Alias::kUpdate) return true;
    if (value.alias == ir::Alias::kView) return false;
    const auto members = graph.values_in(value.storage);
    return std::any_of(members.begin(), members.end(), [&](ir::ValueId member) {
      return graph.value(member).alias == ir::Alias::kUpdate;
    });
  });
}

// The ops that must run before this one though no data says so: who makes the version that it
// reads, if that is not the storage's first; who else reads the version that it destroys; and its
// own control edges. Each once.
template <class AnyGraph>
std::set<ir::OpId> waits_for(const AnyGraph& graph, ir::OpId id) {
  const ir::Op& op = graph.op(id);
  std::set<ir::OpId> before(op.control.begin(), op.control.end());
  for (const ir::ValueId input : op.inputs) {
    if (!input.valid()) continue;
    const ir::OpId version = producer_of_version(graph, input);
    if (version != root_of(graph, graph.value(input).storage).producer) before.insert(version);
  }
  for (const ir::ValueId output : op.outputs) {
    const ir::Value& updated = graph.value(output);
    if (updated.alias != ir::Alias::kUpdate) continue;
    const ir::OpId old_version = producer_of_version(graph, updated.base);
    for (const ir::ValueId member : graph.values_in(updated.storage)) {
      if (member == output || producer_of_version(graph, member) != old_version) continue;
      for (const ir::OpId reader : graph.readers(member)) before.insert(reader);
    }
  }
  std::erase_if(before, [&](ir::OpId each) {
    return !each.valid() || each == id || only_makes_views(graph, each);
  });
  return before;
}

// The operand is all of a storage in memory that an op makes, each element once, is read through no
// other operand, and is no result of the step.
template <class AnyGraph>
bool may_die_in(const AnyGraph& graph, ir::OpId id, ir::ValueId input) {
  const ir::Value& value = graph.value(input);
  const ir::Value& root = root_of(graph, value.storage);
  if (!root.producer.valid() || root.alias == ir::Alias::kPieces || value.layout.strided() ||
      !(ir::size_bytes(value) == ir::size_bytes(root)) || !(value.offset_bytes == sym::Expr(0)) ||
      is_returned(graph, value.storage))
    return false;
  const std::vector<ir::ValueId>& inputs = graph.op(id).inputs;
  return std::count_if(inputs.begin(), inputs.end(), [&](ir::ValueId other) {
           return other.valid() && graph.value(other).storage == value.storage;
         }) == 1;
}

// Storages (dying, made) of the op's in-place pairs, by preference. `bytes` gives the size of a
// storage.
template <class AnyGraph, class Bytes>
std::vector<std::pair<ir::StorageId, ir::StorageId>> in_place_storages(const AnyGraph& graph,
                                                                       ir::OpId id,
                                                                       const Bytes& bytes) {
  std::vector<std::pair<ir::StorageId, ir::StorageId>> pairs;
  const ir::Op& op = graph.op(id);
  for (const auto& [in, out] : ops::in_place_pairs(ops::instance_of(graph, id))) {
    const ir::ValueId input = op.inputs[static_cast<size_t>(in)];
    const ir::ValueId output = op.outputs[static_cast<size_t>(out)];
    if (!input.valid() || !may_die_in(graph, id, input)) continue;
    if (graph.value(output).alias != ir::Alias::kOwn) continue;
    const ir::StorageId from = graph.value(input).storage, to = graph.value(output).storage;
    if (bytes(from) == bytes(to)) pairs.emplace_back(from, to);
  }
  return pairs;
}

// Error: kInput, naming the value whose size is symbolic or too large.
inline Result<int64_t> aligned_size(const ir::Value& value, int64_t alignment) {
  const sym::Expr size = ir::size_bytes(value);
  const auto bytes = size.constant();
  if (!bytes)
    return error(
        ErrorCode::kInput,
        fmt::format("the size of value '{}' is {}; bind its symbols first (--dim name=size)",
                    value.name, sym::print(size)));
  if (*bytes < 0 || *bytes > kMaxBytes - alignment)
    return error(
        ErrorCode::kInput,
        fmt::format("value '{}' has {} bytes; at most 2^62 are possible", value.name, *bytes));
  return align_up(*bytes, alignment);
}

// Pieces begin at addresses that buffers may have, and what is joined is read: a plan makes views
// on pieces where somebody needs them. Error: kInput, naming the piece or the view.
template <class AnyGraph>
Status check_whole(const AnyGraph& graph, ir::StorageId id, int64_t alignment) {
  const ir::Value& root = root_of(graph, id);
  for (const ir::Piece& piece : graph.storage(id).pieces) {
    const ir::Value& part = root_of(graph, piece.storage);
    const auto offset = piece.offset_bytes.constant();
    if (ir::size_bytes(part) == sym::Expr(0))
      return error(ErrorCode::kInput,
                   fmt::format("piece '{}' of '{}' has no bytes", part.name, root.name));
    if (offset && *offset % alignment == 0) continue;
    return error(ErrorCode::kInput,
                 fmt::format("piece '{}' begins at byte {} of '{}', which is no multiple of {}",
                             part.name, sym::print(piece.offset_bytes), root.name, alignment));
  }
  for (ir::ValueId member : graph.values_in(id))
    if (graph.readers(member).empty() && !graph.value(member).is_output)
      return error(ErrorCode::kInput, fmt::format("nobody reads '{}', a view on the pieces of '{}'",
                                                  graph.value(member).name, root.name));
  return {};
}

}  // namespace lowtide::analysis

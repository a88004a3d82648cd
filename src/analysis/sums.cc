#include "analysis/sums.h"

#include <algorithm>
#include <optional>

#include "ops/op_table.h"

namespace lowtide::analysis {
namespace {

class SumFinder {
 public:
  explicit SumFinder(const ir::Graph& graph) : graph_(graph), is_piece_(graph.storage_count(), 0) {
    for (const ir::StorageId whole : graph.storages())
      for (const ir::Piece& piece : graph.storage(whole).pieces) is_piece_[piece.storage] = 1;
  }

  std::vector<Sum> run() const {
    std::vector<Sum> sums;
    for (const ir::OpId id : graph_.ops())
      for (size_t output = 0; output < graph_.op(id).outputs.size(); ++output)
        if (!adds_to_a_version(id, output)) follow(id, output, sums);
    return sums;
  }

 private:
  // The chain that begins with this output.
  void follow(ir::OpId first, size_t output, std::vector<Sum>& sums) const {
    const ir::Op& op = graph_.op(first);
    std::optional<Contribution> next = added_to(op.outputs[output]);
    if (!next) return;
    Sum sum;
    const std::optional<size_t> place = free_operand(first, output);
    sum.first_is_fixed = !place;
    sum.contributions.push_back({first, output, place.value_or(0)});
    for (; next; next = added_to(graph_.op(next->op).outputs[next->output]))
      sum.contributions.push_back(*next);
    const Contribution& last = sum.contributions.back();
    const ir::Value& total = graph_.value(graph_.op(last.op).outputs[last.output]);
    if (is_piece_[total.storage] || total.category != Category::kGradient) return;
    if (sum.contributions.size() > (sum.first_is_fixed ? 2U : 1U)) sums.push_back(std::move(sum));
  }

  // The output is the next version of another op's.
  bool adds_to_a_version(ir::OpId id, size_t output) const {
    for (const auto& [in, out] : ops::accumulators(ops::instance_of(graph_, id)))
      if (static_cast<size_t>(out) == output)
        if (const auto found = added_to(graph_.op(id).inputs[static_cast<size_t>(in)]))
          return found->op == id && found->output == output;
    return false;
  }

  // Where the op's accumulator for this output would stand; nothing where it cannot have one, or
  // would lose the buffer of a dying operand that it can take over as the first.
  std::optional<size_t> free_operand(ir::OpId id, size_t output) const {
    const ops::Row* row = ops::find(graph_.op(id).kind);
    const auto place =
        row == nullptr ? std::nullopt : ops::accumulator_operand(*row, static_cast<int>(output));
    if (!place) return std::nullopt;
    for (const auto& [in, out] : ops::in_place_pairs(ops::instance_of(graph_, id)))
      if (static_cast<size_t>(out) == output) return std::nullopt;
    return static_cast<size_t>(*place);
  }

  // The op that adds to this version, if nobody else sees it.
  std::optional<Contribution> added_to(ir::ValueId id) const {
    const ir::Value& version = graph_.value(id);
    if (version.alias != ir::Alias::kOwn || version.is_output || !version.producer.valid() ||
        is_piece_[version.storage] || graph_.values_in(version.storage).size() != 1 ||
        graph_.readers(id).size() != 1)
      return std::nullopt;
    const ir::OpId reader = graph_.readers(id).front();
    const ir::Op& op = graph_.op(reader);
    if (std::count(op.inputs.begin(), op.inputs.end(), id) != 1) return std::nullopt;
    for (const auto& [in, out] : ops::in_place_pairs(ops::instance_of(graph_, reader))) {
      const auto input = static_cast<size_t>(in), output = static_cast<size_t>(out);
      if (op.inputs[input] != id || !is_accumulator(reader, in, out)) continue;
      if (graph_.value(op.outputs[output]).alias == ir::Alias::kOwn)
        return Contribution{reader, output, input};
    }
    return std::nullopt;
  }

  bool is_accumulator(ir::OpId id, int input, int output) const {
    const ops::Row* row = ops::find(graph_.op(id).kind);
    return ops::accumulator_operand(*row, output) == input;
  }

  const ir::Graph& graph_;
  IdVector<ir::StorageId, char> is_piece_;
};

}  // namespace

std::vector<Sum> find_sums(const ir::Graph& graph) {
  return SumFinder(graph).run();
}

}  // namespace lowtide::analysis

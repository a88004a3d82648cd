// The step in one part, as verify_parts (parts.h) holds a plan against it: what each of its values
// consists of, in the same terms as those of the plan (composition.h), and the ops that move
// elements and compute none, which both steps have.
//
// Tests: tests/verify_parts_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "ir/graph.h"
#include "ops/op_table.h"
#include "verify/composition.h"

namespace lowtide::verify {

using Numbers = std::vector<int64_t>;

// Constant dims as numbers.
Numbers numbers(const ir::Dims& dims);
// An attribute that is a list; empty where there is none.
Numbers list(const ir::Attrs& attrs, std::string_view key);

// An op of either step with what its operands consist of; null: absent.
struct Seen {
  std::string_view kind;
  const ir::Attrs& attrs;
  std::vector<const Composition*> inputs;
  ops::Instance instance;
  Numbers dims;  // of the first result
};

Numbers dims_of(const Seen& op, size_t input);

// The result of an op that moves elements and computes none; nothing of others.
std::optional<Composition> moved(ContentsTable& table, const Seen& op);

// The step in one part: what each value consists of. An accumulating op's result is the sum of all
// that was added so far, in whatever order.
class WholeStep {
 public:
  WholeStep(const ir::Graph& graph, ContentsTable& table);

  const ir::Graph& graph() const { return graph_; }
  const Composition& of(ir::ValueId id) const { return of_[id]; }
  Numbers dims(ir::ValueId id) const { return numbers(graph_.value(id).dims); }
  // The contents that the op itself adds to whatever it adds into.
  ContentsId own(ir::ValueId id) {
    if (!own_[id].valid()) own_[id] = table_.id_of({.terms = {{id, {}}}, .dims = dims(id)});
    return own_[id];
  }
  // Whether the op's result is said by what its operands consist of, without its name.
  bool only_moves(ir::OpId op) const { return only_moves_[op] != 0; }
  // Whether this operand is what the op adds into, so that any share of the sum may stand there.
  bool adds_into(ir::OpId op, size_t input) const { return sums_[op].contains(input); }
  std::optional<ir::OpId> find(std::string_view name, std::string_view kind) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end() || graph_.op(found->second).kind != kind) return std::nullopt;
    return found->second;
  }

 private:
  void add(ir::OpId id);
  void add_up(ir::OpId id, size_t input, ir::ValueId output);

  const ir::Graph& graph_;
  ContentsTable& table_;
  IdVector<ir::ValueId, Composition> of_;
  IdVector<ir::ValueId, ContentsId> own_;
  IdVector<ir::OpId, char> only_moves_;
  IdVector<ir::OpId, std::set<size_t>> sums_;
  std::map<std::string_view, ir::OpId> by_name_;
};

}  // namespace lowtide::verify

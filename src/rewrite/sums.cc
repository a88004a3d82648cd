// A topological sort, the earliest ready op of the old order first, over data, control edges, the
// sums' new chains, and the reads that an overwriting op has to wait for.
#include "rewrite/sums.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/schedule_view.h"
#include "base/topological_order.h"
#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using analysis::Contribution;
using analysis::Sum;
using ir::OpId;
using ir::ValueId;

class SumOrder {
 public:
  SumOrder(const ir::Graph& graph, const std::vector<Sum>& sums)
      : old_(graph), sums_(sums), made_(graph) {
    for (size_t s = 0; s < sums.size(); ++s)
      for (size_t k = 0; k < sums[s].contributions.size(); ++k)
        places_[sums[s].contributions[k].op].push_back({s, k});
  }

  Result<ir::Rewritten> run() {
    for (ValueId id : old_.values())
      if (!old_.value(id).producer.valid()) made_.give(id, old_.value(id));
    LT_ASSIGN(const std::vector<OpId> order, sorted());
    for (OpId id : order) LT_RETURN_IF_ERROR(copy(id));
    for (const Sum& sum : sums_) name_versions(sum);
    LT_RETURN_IF_ERROR(ir::check(made_.graph));
    return std::move(made_);
  }

 private:
  struct Place {
    size_t sum, k;
  };

  ValueId output(const Contribution& c) const { return old_.op(c.op).outputs[c.output]; }

  // The accumulator of this operand is one of a sum's.
  const Place* place_of_input(OpId id, size_t input) const {
    const auto found = places_.find(id);
    if (found == places_.end()) return nullptr;
    for (const Place& place : found->second)
      if (!(sums_[place.sum].first_is_fixed && place.k == 0) && contribution(place).input == input)
        return &place;
    return nullptr;
  }
  const Contribution& contribution(const Place& place) const {
    return sums_[place.sum].contributions[place.k];
  }

  using Before = IdVector<OpId, std::set<OpId>>;
  Before dependences() const {
    Before before(old_.op_count());
    for (OpId id : old_.ops()) {
      const ir::Op& op = old_.op(id);
      before[id].insert(op.control.begin(), op.control.end());
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i].valid() && place_of_input(id, i) == nullptr)
          add_makers(op.inputs[i], before[id]);
      for (ValueId made : op.outputs)
        if (old_.value(made).alias == ir::Alias::kUpdate) add_readers_of_old(made, id, before);
    }
    for (const Sum& sum : sums_)
      for (size_t k = 1; k < sum.contributions.size(); ++k)
        before[sum.contributions[k].op].insert(sum.contributions[k - 1].op);
    return before;
  }

  // The ops that make a value: of a sum, all that contribute.
  void add_makers(ValueId id, std::set<OpId>& before) const {
    const OpId maker = old_.value(id).producer;
    if (!maker.valid()) return;
    before.insert(maker);
    const auto found = places_.find(maker);
    if (found == places_.end()) return;
    for (const Place& place : found->second)
      for (const Contribution& c : sums_[place.sum].contributions)
        if (output(contribution(place)) == id) before.insert(c.op);
  }

  void add_readers_of_old(ValueId made, OpId id, Before& before) const {
    const OpId old_version = analysis::version_producer(old_, old_.value(made).base);
    for (ValueId member : old_.values_in(old_.value(made).storage)) {
      if (member == made || analysis::version_producer(old_, member) != old_version) continue;
      for (OpId reader : old_.readers(member))
        if (reader != id) before[id].insert(reader);
    }
  }

  Result<std::vector<OpId>> sorted() const {
    std::vector<OpId> order = topological_order(dependences());
    if (order.size() == old_.op_count()) return order;
    const std::set<OpId> placed(order.begin(), order.end());
    OpId first(0);
    while (placed.contains(first)) first = OpId(first.index() + 1);
    return error(
        ErrorCode::kInput,
        fmt::format("op '{}' cannot contribute to its sum in that order", old_.op(first).name));
  }

  Status copy(OpId id) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      inputs.push_back(op.inputs[i].valid() && place_of_input(id, i) == nullptr
                           ? made_.value[op.inputs[i]]
                           : ValueId::none());
    const auto found = places_.find(id);
    if (found != places_.end())
      for (const Place& place : found->second) add_accumulator(place, inputs);
    while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
    LT_ASSIGN(const OpId made, ops::append_again(made_.graph, old_, id, std::move(inputs), op.attrs,
                                                 made_.now(op.control)));
    made_.op[id] = made;
    for (size_t o = 0; o < op.outputs.size(); ++o)
      made_.value[version_made(id, o)] = made_.graph.op(made).outputs[o];
    return {};
  }

  void add_accumulator(const Place& place, std::vector<ValueId>& inputs) const {
    if (place.k == 0) return;
    const size_t slot = contribution(place).input;
    if (inputs.size() <= slot) inputs.resize(slot + 1, ValueId::none());
    inputs[slot] = made_.value[version(place.sum, place.k - 1)];
  }

  // The k-th version of a sum in the old graph.
  ValueId version(size_t s, size_t k) const { return versions(s)[k]; }
  std::vector<ValueId> versions(size_t s) const {
    std::vector<Contribution> as_it_was = sums_[s].contributions;
    std::sort(as_it_was.begin(), as_it_was.end(),
              [](const Contribution& a, const Contribution& b) { return a.op < b.op; });
    std::vector<ValueId> values;
    for (const Contribution& c : as_it_was) values.push_back(output(c));
    return values;
  }

  // What the output stands for: of a contribution, the version at its new place.
  ValueId version_made(OpId id, size_t o) const {
    const auto found = places_.find(id);
    if (found != places_.end())
      for (const Place& place : found->second)
        if (contribution(place).output == o) return version(place.sum, place.k);
    return old_.op(id).outputs[o];
  }

  // Versions get the names, the category and the place among the outputs of those they stand for.
  void name_versions(const Sum& sum) {
    const auto s = static_cast<size_t>(&sum - sums_.data());
    const std::vector<ValueId> old = versions(s);
    for (ValueId id : old) made_.graph.rename(made_.value[id], made_.graph.fresh_name("version"));
    for (ValueId id : old) {
      const ir::Value& was = old_.value(id);
      made_.graph.rename(made_.value[id], was.name);
      made_.graph.set_category(made_.value[id], was.category);
      made_.graph.keep_output(made_.value[id], was);
    }
  }

  const ir::Graph& old_;
  const std::vector<Sum>& sums_;
  std::map<OpId, std::vector<Place>> places_;
  ir::Rewritten made_;
};

}  // namespace

Result<ir::Rewritten> order_sums(const ir::Graph& graph, const std::vector<Sum>& sums) {
  return SumOrder(graph, sums).run();
}

}  // namespace lowtide::rewrite

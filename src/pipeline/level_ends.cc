#include "pipeline/level_ends.h"

#include <algorithm>
#include <optional>
#include <set>

#include "analysis/describe.h"
#include "fission/passes.h"
#include "ops/op_table.h"

namespace lowtide::pipeline {

using ir::OpId;
using ir::ValueId;

namespace {

// The dimension of an operand or result that an axis walks; none, where its parts have no share.
std::optional<int> walked_dim(const ops::AxisMap& map, int axis, int operand, bool is_output) {
  if (!fission::has_share_of(map, axis, operand, is_output)) return std::nullopt;
  for (const ops::AxisUse& use : map.uses)
    if (use.axis == axis && use.operand == operand && use.is_output == is_output &&
        fission::walks_along(use))
      return use.dim;
  return std::nullopt;
}

int64_t parts_of(const fission::Cuts& cuts, OpId op) {
  return cuts[op] ? static_cast<int64_t>(cuts[op]->bounds.size()) - 1 : 1;
}

fission::Bounds bounds_of(const fission::Cuts& cuts, OpId op) {
  return cuts[op] ? cuts[op]->bounds : fission::Bounds{0, 1};
}

}  // namespace

Result<LevelEnds> LevelEnds::make(const ir::Graph& graph, const fission::AxisClass& axis_class,
                                  fission::Price price, const Options& options) {
  LevelEnds made(graph, std::move(price), options);
  made.find_takers();
  LT_RETURN_IF_ERROR(made.find(axis_class));
  return made;
}

Status LevelEnds::find(const fission::AxisClass& axis_class) {
  IdVector<OpId, int> axis_of(graph_.op_count(), -1);
  IdVector<OpId, ops::AxisMap> maps(graph_.op_count());
  for (const fission::ClassAxis& axis : axis_class.axes) {
    axis_of[axis.op] = axis.axis;
    LT_ASSIGN(maps[axis.op], ops::axis_map(ops::instance_of(graph_, axis.op)));
  }
  for (const fission::ClassAxis& axis : axis_class.axes) {
    const std::vector<ValueId>& inputs = graph_.op(axis.op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const OpId maker = inputs[i].valid() ? graph_.value(inputs[i]).producer : OpId::none();
      if (!maker.valid() || axis_of[maker] < 0) continue;
      const auto& outputs = graph_.op(maker).outputs;
      const auto output = std::find(outputs.begin(), outputs.end(), inputs[i]) - outputs.begin();
      const auto dim = walked_dim(maps[maker], axis_of[maker], static_cast<int>(output), true);
      if (!dim || walked_dim(maps[axis.op], axis.axis, static_cast<int>(i), false) != dim) continue;
      if (options_.kernels && options_.pieces && !is_outermost(inputs[i], *dim)) continue;
      const ir::StorageId storage = graph_.value(inputs[i]).storage;
      End end{maker, axis.op, inputs[i], *dim};
      end.root = graph_.value(graph_.storage(storage).root).producer;
      end.may_be_view = options_.pieces && lies_in_its_storage(inputs[i], *dim);
      end.takes_over = takes_over(axis.op, storage);
      for (const ValueId member : graph_.values_in(storage))
        for (const OpId reader : graph_.readers(member))
          if (takes_over(reader, storage)) end.others.push_back(reader);
      ends_.push_back(std::move(end));
    }
  }
  return {};
}

// Its pieces along the dimension are stretches of a storage that it fills and that the step makes.
bool LevelEnds::lies_in_its_storage(ValueId id, int dim) const {
  const ir::Value& value = graph_.value(id);
  const ir::Value& root = graph_.value(graph_.storage(value.storage).root);
  return root.producer.valid() && ir::size_bytes(value) == ir::size_bytes(root) &&
         is_outermost(id, dim);
}

bool LevelEnds::is_outermost(ValueId value, int dim) const {
  const ir::Dims& dims = graph_.value(value).dims;
  return std::all_of(dims.begin(), dims.begin() + dim,
                     [](const sym::Expr& outer) { return outer.constant() == 1; });
}

void LevelEnds::find_takers() {
  may_take_ = IdVector<OpId, std::vector<ir::StorageId>>(graph_.op_count());
  for (const OpId id : graph_.ops()) {
    const std::vector<ValueId>& inputs = graph_.op(id).inputs;
    for (const auto& [input, output] : ops::in_place_pairs(ops::instance_of(graph_, id)))
      if (const ValueId value = inputs[static_cast<size_t>(input)]; value.valid())
        may_take_[id].push_back(graph_.value(value).storage);
  }
}

bool LevelEnds::takes_over(OpId reader, ir::StorageId storage) const {
  const std::vector<ir::StorageId>& all = may_take_[reader];
  return std::find(all.begin(), all.end(), storage) != all.end();
}

// Of labels: the reader's parts are made of whole parts of the maker. All who read the value whole
// read one join, and others the pieces.
bool LevelEnds::is_copy(const End& end, const fission::Cuts& cuts) const {
  const int64_t pieces = parts_of(cuts, end.maker), joins = parts_of(cuts, end.reader);
  if (!end.may_be_view || parts_of(cuts, end.root) != pieces) return true;
  const bool is_taken_over =
      end.takes_over || std::any_of(end.others.begin(), end.others.end(), [&](OpId other) {
        return parts_of(cuts, other) >= pieces || (joins == 1 && !cuts[other]);
      });
  return is_taken_over || !is_aligned(end, cuts);
}

// All pieces but the last of each join.
bool LevelEnds::is_aligned(const End& end, const fission::Cuts& cuts) const {
  const fission::Bounds& fine = cuts[end.maker]->bounds;
  const fission::Bounds coarse = bounds_of(cuts, end.reader);
  const int64_t bytes = *ir::size_bytes(graph_.value(end.value)).constant();
  for (size_t k = 1; k < fine.size(); ++k) {
    const auto is_same = [&](int64_t at) { return at * fine.back() == fine[k] * coarse.back(); };
    const bool is_last = std::any_of(coarse.begin(), coarse.end(), is_same);
    const int64_t piece = bytes / fine.back() * (fine[k] - fine[k - 1]);
    if (!is_last && piece % options_.alignment_bytes != 0) return false;
  }
  return true;
}

// A join of so many elements of the dimension, as if of two pieces.
Result<double> LevelEnds::copy(size_t at, int64_t size) const {
  const std::lock_guard lock(*mutex_);
  const auto known = known_.find({at, size});
  if (known != known_.end()) return known->second;
  const End& end = ends_[at];
  LT_ASSIGN(plan::TensorDesc whole, analysis::describe(graph_.value(end.value)));
  const auto dim = static_cast<size_t>(end.dim);
  plan::TensorDesc first = whole, second = whole;
  whole.dims[dim] = size;
  first.dims[dim] = size / 2;
  second.dims[dim] = size - size / 2;
  const plan::OpDesc join{"Concat", {{"axis", int64_t{end.dim}}}, {first, second}, {whole}};
  LT_ASSIGN(const double seconds, price_(join));
  return known_[{at, size}] = seconds;
}

Status LevelEnds::add_copies(const fission::Cuts& cuts, IdVector<OpId, double>& seconds) const {
  std::set<ValueId> wholes;
  for (size_t at = 0; at < ends_.size(); ++at) {
    const End& end = ends_[at];
    const int64_t joins = parts_of(cuts, end.reader);
    if (joins >= parts_of(cuts, end.maker) || !is_copy(end, cuts)) continue;
    if (joins == 1 && !wholes.insert(end.value).second) continue;
    const fission::Bounds bounds = bounds_of(cuts, end.reader);
    const ir::Dims& dims = graph_.value(end.value).dims;
    const int64_t extent = *dims[static_cast<size_t>(end.dim)].constant();
    for (size_t k = 1; k < bounds.size(); ++k) {
      LT_ASSIGN(const double more, copy(at, extent / bounds.back() * (bounds[k] - bounds[k - 1])));
      seconds[end.reader] += more;
    }
  }
  return {};
}

}  // namespace lowtide::pipeline

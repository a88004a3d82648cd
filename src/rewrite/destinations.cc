#include "rewrite/destinations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analysis/describe.h"
#include "base/bytes.h"
#include "ir/id_order.h"
#include "ops/destinations.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::StorageId;
using ir::ValueId;

// One op of a chain, which writes one operand where it belongs.
struct Writer {
  OpId producer;               // none: a copy of the operand
  ValueId operand;             // of the Concat
  ValueId made;                // by the producer: the operand, or what it shows
  int64_t begin = 0, end = 0;  // along the axis
  int64_t workspace_bytes = 0;
};

struct Chain {
  int64_t axis = 0;
  // Dimensions into which the axis is split behind its outermost part, along which the operands are
  // joined then: as the producers' results have them, which are seen through a Reshape.
  std::vector<int64_t> inner;
  plan::TensorDesc whole;  // that the chain makes
  std::vector<Writer>
      writers;  // those that are written first, as their producers follow each other

  int64_t extent() const { return whole.dims[static_cast<size_t>(axis)]; }
};

int64_t product_of(const std::vector<int64_t>& parts) {
  int64_t product = 1;
  for (const int64_t part : parts) product *= part;
  return product;
}

// The dims with one of them split, which the product of its inner parts must divide.
std::vector<int64_t> split(std::vector<int64_t> dims, size_t axis,
                           const std::vector<int64_t>& inner) {
  dims[axis] /= product_of(inner);
  dims.insert(dims.begin() + static_cast<int64_t>(axis) + 1, inner.begin(), inner.end());
  return dims;
}

class DestinationsPass {
 public:
  DestinationsPass(const ir::Graph& graph, const plan::KernelCatalog& catalog,
                   const DestinationsOptions& options)
      : old_(graph),
        catalog_(catalog),
        options_(options),
        chains_(graph.op_count()),
        moved_(graph.op_count(), 0),
        ordered_(graph.op_count(), 0) {
    for (OpId id : graph.ops())
      for (OpId before : graph.op(id).control) ordered_[id] = ordered_[before] = 1;
  }

  Result<DestinationsReport> run() {
    DestinationsReport report;
    for (OpId id : old_.ops()) {
      if (old_.op(id).kind != "Concat" || ordered_[id] || old_.op(id).attrs.contains("into"))
        continue;
      LT_ASSIGN(std::optional<Chain> chain, chain_of(id));
      if (!chain) continue;
      for (const Writer& writer : chain->writers) {
        ++(writer.producer.valid() ? report.written : report.copied);
        if (!writer.producer.valid()) continue;
        moved_[writer.producer] = 1;
        if (!chain->inner.empty()) moved_[old_.value(writer.operand).producer] = 1;  // the Reshape
      }
      chains_[id] = std::move(chain);
      ++report.chains;
    }
    if (report.chains == 0) return report;
    LT_ASSIGN(report.graph, rebuild());
    return report;
  }

 private:
  // ---- what a Concat becomes

  // Nothing where it stays one.
  Result<std::optional<Chain>> chain_of(OpId id) const {
    const std::optional<Chain> none;
    LT_ASSIGN(const plan::OpDesc concat, analysis::describe(old_, id));
    std::optional<Chain> chain = links_of(id, concat, {});
    if (!chain) chain = links_of(id, concat, inner_of(id, concat));
    while (chain) {
      LT_ASSIGN(const std::optional<double> saved, saved_by(*chain));
      if (!saved) return none;
      const std::optional<size_t> heaviest = needs_more_by(*chain);
      if (!heaviest) {
        LT_ASSIGN(const double copy, options_.seconds(concat));
        return *saved + copy > 0 ? chain : none;
      }
      chain->writers[*heaviest].producer = OpId::none();  // is copied
      in_order(chain->writers);
      if (!chain->writers.front().producer.valid()) return none;
    }
    return none;
  }

  // What the producers take less as writers of the chain, and the copies; nothing where no kernel
  // takes one of these.
  Result<std::optional<double>> saved_by(Chain& chain) const {
    double saved = 0;
    for (size_t k = 0; k < chain.writers.size(); ++k) {
      Writer& writer = chain.writers[k];
      LT_ASSIGN(const std::optional<plan::OpDesc> desc, describe(chain, writer, k > 0));
      if (!desc) return std::optional<double>();
      const auto workspace = catalog_.workspace_bytes(*desc);
      if (!workspace) return std::optional<double>();
      writer.workspace_bytes = align_up(*workspace, options_.alignment_bytes);
      LT_ASSIGN(const double seconds, options_.seconds(*desc));
      saved -= seconds;
      if (!writer.producer.valid()) continue;
      LT_ASSIGN(const plan::OpDesc alone, analysis::describe(old_, writer.producer));
      LT_ASSIGN(const double was, options_.seconds(alone));
      saved += was;
    }
    return saved;
  }

  // Written ones first.
  static void in_order(std::vector<Writer>& writers) {
    std::stable_sort(writers.begin(), writers.end(), [](const Writer& x, const Writer& y) {
      if (x.producer.valid() != y.producer.valid()) return x.producer.valid();
      return x.producer.valid() && x.producer < y.producer;
    });
  }

  // Nothing where no operand can be written, or where there is nothing to write.
  std::optional<Chain> links_of(OpId id, const plan::OpDesc& concat,
                                const std::vector<int64_t>& inner) const {
    const auto* axis = std::get_if<int64_t>(&concat.attrs.find("axis")->second);
    const int64_t rest = product_of(inner);
    if (axis == nullptr || *axis < 0 || !concat.outputs[0].layout.blocked.empty() || rest == 0 ||
        plan::element_count(concat.outputs[0]) == 0)
      return std::nullopt;
    const auto a = static_cast<size_t>(*axis);
    Chain chain{.axis = *axis, .inner = inner, .whole = concat.outputs[0], .writers = {}};
    chain.whole.dims = split(chain.whole.dims, a, inner);
    int64_t begin = 0;
    for (size_t i = 0; i < concat.inputs.size(); ++i) {
      const int64_t places = concat.inputs[i]->dims[a], size = places / rest;
      if (places % rest != 0) return std::nullopt;
      if (size == 0 || size == chain.extent()) return std::nullopt;
      Writer writer{{}, old_.op(id).inputs[i], {}, begin, begin + size, 0};
      if (std::count(old_.op(id).inputs.begin(), old_.op(id).inputs.end(), writer.operand) == 1)
        take_producer(chain, writer);
      chain.writers.push_back(writer);
      begin += size;
    }
    in_order(chain.writers);
    if (!chain.writers.front().producer.valid()) return std::nullopt;
    return chain;
  }

  // What a Reshape shows of one value that nobody else sees; none where the operand is none such.
  ValueId seen_through(ValueId operand) const {
    const ir::Value& value = old_.value(operand);
    if (value.alias != ir::Alias::kView || !value.layout.row_major() || value.is_output ||
        old_.op(value.producer).kind != "Reshape" || ordered_[value.producer])
      return {};
    const ir::Value& base = old_.value(value.base);
    const bool alone = base.alias == ir::Alias::kOwn && base.layout.row_major() &&
                       old_.readers(value.base).size() == 1 &&
                       old_.values_in(base.storage).size() == 2;
    return alone ? value.base : ValueId();
  }

  // How the axis is split in what the first such operand shows; empty where it is not.
  std::vector<int64_t> inner_of(OpId id, const plan::OpDesc& concat) const {
    const auto* axis = std::get_if<int64_t>(&concat.attrs.find("axis")->second);
    if (axis == nullptr || *axis < 0 || !concat.outputs[0].layout.row_major()) return {};
    for (size_t i = 0; i < concat.inputs.size(); ++i) {
      const ValueId base = seen_through(old_.op(id).inputs[i]);
      if (!base.valid()) continue;
      const auto made = analysis::describe(old_.value(base));
      const std::vector<int64_t>& dims = concat.inputs[i]->dims;
      if (!made || made->dims.size() <= dims.size()) continue;
      const auto first = made->dims.begin() + *axis + 1;
      const auto count = static_cast<int64_t>(made->dims.size() - dims.size());
      const std::vector<int64_t> inner(first, first + count);
      const bool positive = std::all_of(inner.begin(), inner.end(), [](auto n) { return n > 0; });
      if (positive && split(dims, static_cast<size_t>(*axis), inner) == made->dims) return inner;
    }
    return {};
  }

  // Has the operand written by its producer, if that may run where the Concat runs and a kernel
  // takes the strides: nobody else sees what it makes.
  void take_producer(const Chain& chain, Writer& writer) const {
    const ValueId made = chain.inner.empty() ? writer.operand : seen_through(writer.operand);
    if (!made.valid() || old_.readers(writer.operand).size() != 1) return;
    const ir::Value& value = old_.value(made);
    if (!value.producer.valid() || value.alias != ir::Alias::kOwn || value.is_output ||
        ordered_[value.producer] || chains_[value.producer] ||
        old_.values_in(value.storage).size() != (chain.inner.empty() ? 1U : 2U))
      return;
    const ir::Op& op = old_.op(value.producer);
    if (op.outputs.size() != 1 || op.attrs.contains("into")) return;
    Writer written = writer;
    written.producer = value.producer;
    written.made = made;
    const auto desc = describe(chain, written, true);
    if (desc && *desc && catalog_.workspace_bytes(**desc)) writer = written;
  }

  ir::Attrs attrs_of(const Chain& chain, const Writer& writer) const {
    ir::Attrs attrs;
    if (writer.producer.valid()) attrs = old_.op(writer.producer).attrs;
    attrs["into"] = ir::Dims{chain.axis, writer.begin, writer.end, chain.extent()};
    return attrs;
  }

  std::string_view kind_of(const Writer& writer) const {
    return writer.producer.valid() ? std::string_view(old_.op(writer.producer).kind) : "Copy";
  }

  // Nothing where the op table refuses the op, or it makes the whole otherwise.
  Result<std::optional<plan::OpDesc>> describe(const Chain& chain, const Writer& writer,
                                               bool has_rest) const {
    plan::OpDesc desc;
    if (writer.producer.valid()) {
      LT_ASSIGN(desc, analysis::describe(old_, writer.producer));
    } else {
      LT_ASSIGN(plan::TensorDesc operand, analysis::describe(old_.value(writer.operand)));
      if (!chain.inner.empty() && !operand.layout.row_major()) return std::nullopt;
      operand.dims = split(operand.dims, static_cast<size_t>(chain.axis), chain.inner);
      desc = {.kind = "Copy", .attrs = {}, .inputs = {std::move(operand)}, .outputs = {}};
    }
    desc.attrs["into"] = std::vector<int64_t>{chain.axis, writer.begin, writer.end, chain.extent()};
    desc.outputs = {chain.whole};
    const ir::Attrs attrs = attrs_of(chain, writer);
    const ops::Row* row = ops::find(desc.kind);
    if (row == nullptr || desc.inputs.size() > ops::rest_operand(*row)) return std::nullopt;
    if (has_rest) {
      desc.inputs.resize(ops::rest_operand(*row) + 1);
      desc.inputs.back() = chain.whole;
    }
    ops::Instance instance{.kind = desc.kind, .attrs = &attrs, .inputs = {}};
    for (const auto& input : desc.inputs) {
      instance.inputs.emplace_back();
      if (input)
        instance.inputs.back() = ops::Type{
            input->dtype, ir::Dims(input->dims.begin(), input->dims.end()), input->layout};
    }
    const auto made = ops::infer(instance);
    const ops::Type wanted{chain.whole.dtype,
                           ir::Dims(chain.whole.dims.begin(), chain.whole.dims.end()),
                           chain.whole.layout};
    if (!made || made->front().type != wanted) return std::nullopt;
    return desc;
  }

  // ---- memory

  int64_t bytes_of(StorageId s) const {
    const auto bytes = ir::size_bytes(old_.value(old_.storage(s).root)).constant();
    return bytes ? align_up(*bytes, options_.alignment_bytes) : kMaxBytes;
  }

  // The rule of the header: what the producers read is charged to what they make. Where that does
  // not do, the written writer with the heaviest charge for its size.
  std::optional<size_t> needs_more_by(const Chain& chain) const {
    const std::map<StorageId, std::vector<size_t>> readers = kept_for(chain);
    int64_t made = 0;
    std::vector<int64_t> left(chain.writers.size(),
                              0);  // of its own bytes, less what it is charged
    for (size_t k = 0; k < chain.writers.size(); ++k) {
      if (!chain.writers[k].producer.valid()) continue;
      left[k] = made_bytes(chain.writers[k]);
      made += left[k];
    }
    for (const auto& [storage, writers] : readers) {
      int64_t together = 0;
      for (const size_t k : writers) together += made_bytes(chain.writers[k]);
      for (const size_t k : writers) {
        const auto product = checked_mul(bytes_of(storage), made_bytes(chain.writers[k]));
        if (!product) return k;
        left[k] -= *product / together + (*product % together != 0 ? 1 : 0);
      }
    }
    size_t heaviest = 0;
    for (size_t k = 1; k < chain.writers.size() && chain.writers[k].producer.valid(); ++k)
      if (left[k] < left[heaviest]) heaviest = k;
    if (left[heaviest] < 0) return heaviest;
    for (size_t k = 0; k < chain.writers.size(); ++k) {
      int64_t present = chain.writers[k].workspace_bytes;
      for (const auto& [storage, writers] : readers)
        if (writers.back() >= k) present += bytes_of(storage);
      if (present > made) return heaviest;
    }
    return std::nullopt;
  }

  int64_t made_bytes(const Writer& writer) const {
    return bytes_of(old_.value(writer.made).storage);
  }

  // The storages that are there until the chain runs because of it, and the writers that read them.
  // What it copies was there for the Concat, too.
  std::map<StorageId, std::vector<size_t>> kept_for(const Chain& chain) const {
    std::set<StorageId> copied;
    for (const Writer& writer : chain.writers)
      if (!writer.producer.valid())
        for (const ir::Piece& piece : old_.memory_of(writer.operand)) copied.insert(piece.storage);
    std::map<StorageId, std::vector<size_t>> readers;
    for (size_t k = 0; k < chain.writers.size(); ++k)
      for (StorageId s : read_by(chain.writers[k]))
        if (!copied.contains(s)) readers[s].push_back(k);
    return readers;
  }

  // Storages that are kept for the op until it runs, each once.
  std::vector<StorageId> read_by(const Writer& writer) const {
    std::vector<StorageId> found;
    if (!writer.producer.valid()) return found;
    for (ValueId input : old_.op(writer.producer).inputs) {
      if (!input.valid()) continue;
      for (const ir::Piece& piece : old_.memory_of(input)) {
        const bool resident = !old_.value(old_.storage(piece.storage).root).producer.valid();
        if (resident && !options_.residents_move) continue;
        if (std::find(found.begin(), found.end(), piece.storage) == found.end())
          found.push_back(piece.storage);
      }
    }
    return found;
  }

  // ---- the new graph

  Result<ir::Graph> rebuild() const {
    ir::Rewritten made(old_);
    for (const ir::GraphItem item : ir::in_id_order(old_)) {
      if (item.given.valid()) {
        made.give(item.given, old_.value(item.given));
        continue;
      }
      if (moved_[item.op]) continue;
      const ir::Op& op = old_.op(item.op);
      if (chains_[item.op]) {
        LT_ASSIGN(made.value[op.outputs[0]], add_chain(made, item.op, *chains_[item.op]));
        continue;
      }
      LT_RETURN_IF_ERROR(ops::append_again(made, old_, item.op, made.now(op.inputs), op.attrs));
    }
    LT_RETURN_IF_ERROR(ir::check(made.graph));
    LT_RETURN_IF_ERROR(ops::check_destinations(made.graph));
    return std::move(made.graph);
  }

  // The value that the Concat made.
  Result<ValueId> add_chain(ir::Rewritten& made, OpId concat, const Chain& chain) const {
    ir::Graph& graph = made.graph;
    const ir::Op& joined = old_.op(concat);
    const ir::Value& was = old_.value(joined.outputs[0]);
    ValueId rest;
    for (size_t k = 0; k < chain.writers.size(); ++k) {
      const Writer& writer = chain.writers[k];
      const ir::Op& op = writer.producer.valid() ? old_.op(writer.producer) : joined;
      std::vector<ValueId> inputs;
      if (writer.producer.valid()) {
        inputs = made.now(op.inputs);
      } else {
        LT_ASSIGN(const ValueId operand,
                  operand_of(graph, joined, chain, made.value[writer.operand]));
        inputs = {operand};
      }
      if (rest.valid()) {
        inputs.resize(ops::rest_operand(*ops::find(kind_of(writer))) + 1, ValueId::none());
        inputs.back() = rest;
      }
      ops::AppendOptions options;
      options.name = writer.producer.valid() ? op.name : fmt::format("{}/copy{}", op.name, k);
      options.module = op.module;
      options.source = op.source;
      options.phase = op.phase;
      const bool last = k + 1 == chain.writers.size();
      options.category = was.category;
      // Until then a gradient is as temporary as its parts.
      if (!last && was.category == Category::kGradient) options.category = Category::kTemporary;
      options.output_names = {
          last && chain.inner.empty() ? was.name : old_.value(writer.operand).name + "/into"};
      LT_ASSIGN(const OpId added, ops::append(graph, kind_of(writer), std::move(inputs),
                                              attrs_of(chain, writer), options));
      rest = graph.op(added).outputs[0];
    }
    if (!chain.inner.empty()) {
      LT_ASSIGN(rest, reshaped(graph, joined, rest, was.dims, was.name));
    }
    graph.keep_output(rest, was);
    return rest;
  }

  // What the chain copies, with its dimensions.
  static Result<ValueId> operand_of(ir::Graph& graph, const ir::Op& joined, const Chain& chain,
                                    ValueId operand) {
    if (chain.inner.empty()) return operand;
    std::vector<int64_t> dims;
    for (const sym::Expr& dim : graph.value(operand).dims) dims.push_back(*dim.constant());
    dims = split(std::move(dims), static_cast<size_t>(chain.axis), chain.inner);
    return reshaped(graph, joined, operand, ir::Dims(dims.begin(), dims.end()),
                    graph.value(operand).name + "/split");
  }

  static Result<ValueId> reshaped(ir::Graph& graph, const ir::Op& joined, ValueId value,
                                  const ir::Dims& dims, const std::string& name) {
    ops::AppendOptions options;
    options.name = joined.name;
    options.module = joined.module;
    options.source = joined.source;
    options.phase = joined.phase;
    options.output_names = {name};
    LT_ASSIGN(const OpId made, ops::append(graph, "Reshape", {value}, {{"shape", dims}}, options));
    return graph.op(made).outputs[0];
  }

  const ir::Graph& old_;
  const plan::KernelCatalog& catalog_;
  const DestinationsOptions& options_;
  IdVector<OpId, std::optional<Chain>> chains_;  // of Concats
  IdVector<OpId, char> moved_;                   // runs where the Concat did
  IdVector<OpId, char> ordered_;                 // stands at an end of a control edge
};

}  // namespace

Result<DestinationsReport> write_into_wholes(const ir::Graph& graph,
                                             const plan::KernelCatalog& catalog,
                                             const DestinationsOptions& options) {
  return DestinationsPass(graph, catalog, options).run();
}

}  // namespace lowtide::rewrite

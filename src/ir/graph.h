// The Graph: ops and values of one step, in a valid order, as a structure of arrays.
//
// An op reads values and makes values. A value without producer is there before the step (input,
// parameter, optimizer state, constant) and stays to its end. Every value lies in a storage; a
// storage is what occupies memory. Four ways for a value to get one (`Alias`):
//
//   kOwn     a storage of its own, made by the value's producer (or there from the start)
//   kView    other dimensions of the storage of `base`, an input of its producer: no copy;
//            alone they may be strided (Layout::strides): cut, permuted, expanded
//   kUpdate  the storage of `base`, an input of its producer, overwritten: base is dead from then
//            on. Who reads base (or a view of it) must run before; the graph's order does so, and
//            analysis makes it explicit (control edges)
//   kPieces  the storages of all inputs of its producer, one behind the other: no bytes, no copy.
//            Each *piece* is a value with a producer and a life of its own; the *whole* is a view
//            on them. The packer puts the pieces at fixed distances for whoever reads the whole.
//            Pieces are made by ops, fill their storages and are never overwritten
//
// Whether an op may *reuse* the storage of a dying input for an own output is not said here: it is
// a trait of the op (src/ops) and a choice of the planner. Dimensions are symbolic (sym::Expr).
// Kinds of ops are names; what they mean is in src/ops. A graph only grows, by add_value and
// add_op; passes make new graphs. Invariants: see check().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/id.h"
#include "base/layout.h"
#include "base/result.h"
#include "sym/expr.h"

namespace lowtide::ir {

struct OpTag;
struct ValueTag;
struct StorageTag;
using OpId = Id<OpTag>;
using ValueId = Id<ValueTag>;
using StorageId = Id<StorageTag>;

using Dims = std::vector<sym::Expr>;

// An attribute: an integer (also used for booleans), a real, a word, or a list of sizes (axes,
// strides, target shapes).
using AttrValue = std::variant<int64_t, double, std::string, Dims>;
using Attrs = std::map<std::string, AttrValue, std::less<>>;

enum class Alias : uint8_t { kOwn, kView, kUpdate, kPieces };
// Whether a value of this alias is made without computing anything.
constexpr bool is_view(Alias alias) {
  return alias == Alias::kView || alias == Alias::kPieces;
}

// Where the contents of a value without producer come from.
struct InitialValue {
  enum class Kind : uint8_t {
    kFed,       // given by the caller for every step (data, labels)
    kSeeded,    // drawn from (seed, name): parameters of files without weights
    kZero,      // optimizer state
    kInline,    // `bytes`: constants and small weights
    kExternal,  // `length` bytes at `offset` of `file` (relative to the model's folder)
  };
  Kind kind = Kind::kFed;
  std::string bytes;  // row-major, little endian
  std::string file;
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const InitialValue&) const = default;
};

struct Value {
  // These six are in the .cc: else each file that copies one has their code again.
  Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  std::string name;  // unique in the graph
  DType dtype = DType::kF32;
  Dims dims;
  Layout layout;
  Alias alias = Alias::kOwn;
  ValueId base;            // for kView and kUpdate: an input of the producer
  sym::Expr offset_bytes;  // of the first element in the storage; 0 unless a view starts later
  StorageId storage;       // set by the graph
  OpId producer;           // none: there from the start
  Category category = Category::kActivation;
  bool is_output = false;   // a result of the step: stays to its end
  int64_t output_rank = 0;  // among the outputs (Graph::outputs); 0 where it is none
  InitialValue initial;     // only when producer is none
  bool operator==(const Value&) const = default;
};

struct Op {
  // These six are in the .cc: else each file that copies one has their code again.
  Op();
  Op(const Op&);
  Op(Op&&) noexcept;
  Op& operator=(const Op&);
  Op& operator=(Op&&) noexcept;
  ~Op();
  std::string kind;    // a name of the op table
  std::string name;    // unique in the graph; from the model where it has one
  std::string module;  // path of the module it comes from, for reports; may be empty
  std::string source;  // line of the model's code, "gpt2/model.py:123"; may be empty
  Phase phase = Phase::kForward;
  Attrs attrs;
  std::vector<ValueId> inputs;   // none() for an optional input that is absent
  std::vector<ValueId> outputs;  // set by the graph
  std::vector<OpId> control;     // ops that must run before, beyond what inputs say
  bool operator==(const Op&) const = default;
};

// Where a storage lies in a whole.
struct Piece {
  StorageId storage;
  sym::Expr offset_bytes;
  bool operator==(const Piece&) const = default;
};

struct Storage {
  ValueId root;  // the value that brought it (alias kOwn or kPieces)
  // Of a whole, which occupies no memory of its own: by rising offset, none of them a whole itself.
  std::vector<Piece> pieces;
  bool operator==(const Storage&) const = default;
};

class Graph {
 public:
  // These six are in the .cc: else each file that copies one has their code again.
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();
  // Adds a value that is there before the step. alias must be kOwn, producer none.
  ValueId add_value(Value value);
  // Adds an op at the end of the order, with its outputs. Inputs must exist. ids of op and outputs
  // are set here. What the outputs are is believed: passes use ops::append, which knows.
  OpId add_op(Op op, std::vector<Value> outputs);

  size_t op_count() const { return ops_.size(); }
  size_t value_count() const { return values_.size(); }
  size_t storage_count() const { return storages_.size(); }
  IdRange<OpId> ops() const { return ops_.ids(); }  // a valid order
  IdRange<ValueId> values() const { return values_.ids(); }
  IdRange<StorageId> storages() const { return storages_.ids(); }
  const Op& op(OpId id) const { return ops_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  const Storage& storage(StorageId id) const { return storages_[id]; }
  // Whether these values may be joined to a whole: none is absent, no storage is there twice, and
  // all wholes together keep within 2^24 pieces.
  bool may_join(std::span<const ValueId> inputs) const;
  // What occupies memory for a value: its storage, or the pieces of it.
  std::vector<Piece> memory_of(ValueId id) const;
  // The ops that read a value, ascending, each once.
  std::span<const OpId> readers(ValueId id) const { return readers_[id]; }
  // All values in a storage, ascending: root, views, later versions.
  std::span<const ValueId> values_in(StorageId id) const { return members_[id]; }
  std::optional<ValueId> find_value(std::string_view name) const;
  // The results of the step in the order in which they were declared: by rank, then by id.
  std::vector<ValueId> outputs() const;

  // The few facts that may change after a value or op was added; none of them changes dependencies.
  void rename(ValueId id, std::string wanted);  // nobody may have the name
  void set_output(ValueId id, bool is_output);  // a new one comes after all there are
  // An output, or none, as `was` in the graph that a pass rewrites: at the same place of the order.
  void keep_output(ValueId id, const Value& was);
  void set_category(ValueId id, Category category) { values_[id].category = category; }
  void add_control(OpId before, OpId after);

  // A name nobody has yet: `wanted`, or `wanted` with a number behind it.
  std::string fresh_name(std::string_view wanted) const;

  std::string name;      // of the model
  std::string producer;  // the exporter that wrote it
  // Symbols that were given numbers, for the record.
  std::map<std::string, int64_t, std::less<>> bindings;

  bool operator==(const Graph& other) const;

 private:
  std::vector<Piece> join(std::span<const ValueId> inputs);

  size_t pieces_ = 0;  // of all wholes
  IdVector<OpId, Op> ops_;
  IdVector<ValueId, Value> values_;
  IdVector<StorageId, Storage> storages_;
  IdVector<ValueId, std::vector<OpId>> readers_;
  IdVector<StorageId, std::vector<ValueId>> members_;
  std::map<std::string, ValueId, std::less<>> value_by_name_;
  std::map<std::string, OpId, std::less<>> op_by_name_;
};

// Elements times element size, or the blocked size. Unaligned. (The product of a value's dims.)
sym::Expr element_count(const Value& value);
sym::Expr size_bytes(const Value& value);
// Bytes from its first element to the end of its last: of a strided view more than its elements
// have (holes), or less (one stands for many); of other values size_bytes.
sym::Expr span_bytes(const Value& value);

// The structural check: inputs are made before they are read; views and updates lie inside their
// storage (where sizes are constant); only views have strides; nobody reads a value after it was
// overwritten; pieces are what Alias says; names are unique; dims are not negative. Error: kInput.
Status check(const Graph& graph);

// The part of it that looks at one value and the value that brought its storage.
Status check_value(const Value& value, const Value& root);

// The symbols that occur in any dim, sorted.
std::vector<std::string> free_symbols(const Graph& graph);

}  // namespace lowtide::ir

// Compiled once, in the .cc of this header.
extern template class std::vector<lowtide::ir::Op>;
extern template class std::vector<lowtide::ir::Value>;
extern template class std::vector<lowtide::ir::Storage>;

// Products (MatMul, Conv) in an edit of a graph, and what it costs to have one in the place of
// several: what passes that join products or take them apart share. shared_operand.h says which
// products, and why no cycle arises.
//
// Tests: shared_operand_test.cc, enlarged_kernels_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/edit.h"
#include "ir/graph.h"
#include "plan/op_desc.h"

namespace lowtide::rewrite {

// Of one run of an op that computes something.
using OpSeconds = std::function<Result<double>(const plan::OpDesc&)>;

struct SharedOperandReport {
  ir::Graph graph;
  int64_t products = 0;  // that gave way
};

class ProductEdit {
 public:
  static constexpr size_t kBias = 2;  // the operand

  // A dimension of an operand that the result has, too.
  struct Way {
    size_t operand = 0, dim = 0, out_dim = 0;
    bool bias = false;  // which runs along it as well
  };
  // Products that can be joined along the way.
  struct Group {
    Way way = {};
    std::vector<ir::OpId> ops = {};
  };
  using Groups = std::map<std::pair<ir::OpId, std::string>, Group>;  // by the first of them

  // `graph` and `seconds` must stay.
  ProductEdit(const ir::Graph& graph, const OpSeconds& seconds) : edit_(graph), seconds_(seconds) {}

  ir::GraphEdit& edit() { return edit_; }
  const ir::GraphEdit& edit() const { return edit_; }
  const ir::Dims& dims(ir::ValueId value) const { return edit_.value(value).dims; }
  bool has(ir::OpId op, size_t input) const;
  std::vector<ir::OpId> all_ops() const;  // in the order of the graph
  Result<ir::Graph> graph() const;        // as it is now

  // None of what is no product, or adds into something.
  std::vector<Way> ways_of(ir::OpId id) const;
  // All that is equal in products that can be joined along the way.
  std::string key_of(ir::OpId id, const Way& way) const;
  // The products with equal keys, at least two each.
  template <typename Key>
  Groups groups_by(Key key) const {
    std::map<std::string, Group> by_key;
    for (ir::OpId id : all_ops())
      for (const Way& way : ways_of(id)) {
        const std::optional<std::string> name = key(id, way);
        if (!name) continue;
        Group& group = by_key[*name];
        group.way = way;
        group.ops.push_back(id);
      }
    Groups result;
    for (auto& [name, group] : by_key)
      if (group.ops.size() > 1) result[{group.ops[0], name}] = std::move(group);
    return result;
  }

  // Of an op that computes something: views cost nothing.
  Result<double> seconds_of(ir::OpId id) const;
  Result<double> seconds_of(const std::vector<ir::OpId>& ops) const;

  // An op before another one, called after it; noted in `made`.
  std::optional<ir::ValueId> add(std::vector<ir::OpId>& made, ir::OpId before,
                                 std::string_view kind, std::vector<ir::ValueId> inputs,
                                 ir::Attrs attrs);
  // Part of a dimension.
  std::optional<ir::ValueId> cut(std::vector<ir::OpId>& made, ir::OpId before, ir::ValueId whole,
                                 size_t dim, int64_t begin, int64_t size);
  // `now` takes the place of the op's result, and its name; the op goes.
  bool stands_for(ir::ValueId now, ir::OpId gone);

  // Those that can run where the first of them stands: what they need is moved before it. Who waits
  // for one of the others is left out.
  std::vector<ir::OpId> joinable(const std::vector<ir::OpId>& group);
  // One product before `first`, which is one of `joined`, in their place: of these operands along
  // the way, one for each of them, and with these attributes. All that it made is noted.
  bool join(ir::OpId first, const std::vector<ir::OpId>& joined,
            const std::vector<ir::ValueId>& operands, ir::Attrs attrs, const Way& way,
            std::vector<ir::OpId>& made);
  // In the order in which a Concat reads all of them, if one does: then their slices cancel it.
  std::vector<ir::OpId> as_they_are_read(std::vector<ir::OpId> joined) const;

 private:
  bool hoist(ir::OpId op, ir::OpId first, const std::vector<ir::OpId>& joined);
  std::optional<ir::ValueId> concat(std::vector<ir::OpId>& made, ir::OpId first,
                                    std::vector<ir::ValueId> operands, size_t dim);

  ir::GraphEdit edit_;
  const OpSeconds& seconds_;
};

// Operands of several ops.
std::vector<ir::ValueId> inputs_of(const ir::GraphEdit& edit, const std::vector<ir::OpId>& ops,
                                   size_t input);
int64_t int_attr_or(const ir::Op& op, std::string_view name, int64_t otherwise);

}  // namespace lowtide::rewrite

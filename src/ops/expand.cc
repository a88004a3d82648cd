// From a row's pattern to the signature of an instance: how many dimensions each pack has follows
// from the operands' ranks, one equation per operand (rank = fixed dimensions + packs), solved by
// taking whichever equation has one unknown left. Then every item is written out, packs with one
// axis per dimension. When packs may broadcast, a pack is as large as the largest operand wants it,
// and smaller operands use its last axes, as numpy aligns shapes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/signature.h"

namespace lowtide::ops {
namespace {

using PackSizes = std::map<std::string, int, std::less<>>;

// What window attributes mean when they are absent.
std::optional<int64_t> absent_value(std::string_view attr) {
  if (attr == "strides" || attr == "dilations" || attr == "group") return 1;
  if (attr == "pads" || attr == "ceil_mode") return 0;
  return {};
}

class Expander {
 public:
  Expander(const Pattern& pattern, const Instance& instance, bool broadcast)
      : pattern_(pattern), instance_(instance), broadcast_(broadcast) {}

  Result<Signature> run() {
    LT_RETURN_IF_ERROR(check_count());
    LT_RETURN_IF_ERROR(sizes_from_attributes());
    LT_RETURN_IF_ERROR(sizes_from_ranks());
    for (size_t i = 0; i < pattern_.inputs.size(); ++i) {
      if (!present(i)) {
        signature_.inputs.push_back(std::nullopt);
        continue;
      }
      LT_ASSIGN(OperandIndex operand,
                write(pattern_.inputs[i], static_cast<int>(instance_.inputs[i]->dims.size())));
      signature_.inputs.push_back(std::move(operand));
    }
    for (const PatternOperand& output : pattern_.outputs) {
      LT_ASSIGN(OperandIndex operand, write(output, -1));
      signature_.outputs.push_back(std::move(operand));
    }
    return std::move(signature_);
  }

 private:
  bool present(size_t i) const { return i < instance_.inputs.size() && instance_.inputs[i]; }

  Status check_count() const {
    const Arity count = arity(pattern_);
    if (instance_.inputs.size() > count.allowed || instance_.inputs.size() < count.required)
      return error(ErrorCode::kInput,
                   fmt::format("{}: {} inputs given, wanted {} to {}", instance_.kind,
                               instance_.inputs.size(), count.required, count.allowed));
    for (size_t i = 0; i < pattern_.inputs.size(); ++i)
      if (!present(i) && !pattern_.inputs[i].optional)
        return error(ErrorCode::kInput,
                     fmt::format("{}: input {} is not optional", instance_.kind, i));
    return {};
  }

  Status sizes_from_attributes() {
    for (const PatternOperand& operand : pattern_.inputs)
      for (const PatternItem& item : operand.items) {
        if (item.pack_size_attr.empty()) continue;
        LT_ASSIGN(const int64_t size, int_attr(instance_, item.pack_size_attr));
        const int64_t rank = instance_.inputs[0] ? int64_t(instance_.inputs[0]->dims.size()) : 0;
        if (size < 0 || size > rank)
          return error(ErrorCode::kInput,
                       fmt::format("{}: {} = {} is outside of rank {}", instance_.kind,
                                   item.pack_size_attr, size, rank));
        sizes_[item.axes[0].name] = static_cast<int>(size);
      }
    return {};
  }

  // Solves rank = fixed + packs over the operands until nothing is new; then every operand's
  // equation is checked.
  Status sizes_from_ranks() {
    for (size_t round = 0; round <= pattern_.inputs.size(); ++round)
      for (size_t i = 0; i < pattern_.inputs.size(); ++i)
        if (present(i)) LT_RETURN_IF_ERROR(solve_rank(i));
    for (size_t i = 0; i < pattern_.inputs.size(); ++i) {
      if (!present(i)) continue;
      int total = 0;
      for (const PatternItem& item : pattern_.inputs[i].items)
        total += item.pack ? sizes_[item.axes[0].name] : 1;
      const int rank = static_cast<int>(instance_.inputs[i]->dims.size());
      if (rank != total && !(broadcast_ && rank < total && rank >= fixed(pattern_.inputs[i])))
        return error(ErrorCode::kInput,
                     fmt::format("{}: input {} has rank {}, wanted {}: {}", instance_.kind, i, rank,
                                 total, print(instance_.inputs[i]->dims)));
    }
    return {};
  }

  static int fixed(const PatternOperand& operand) {
    return static_cast<int>(std::count_if(operand.items.begin(), operand.items.end(),
                                          [](const PatternItem& item) { return !item.pack; }));
  }

  Status solve_rank(size_t i) {
    const int rank = static_cast<int>(instance_.inputs[i]->dims.size());
    int known = 0, unknown = 0;
    const PatternItem* open = nullptr;
    for (const PatternItem& item : pattern_.inputs[i].items) {
      if (!item.pack) {
        ++known;
      } else if (const auto size = sizes_.find(item.axes[0].name);
                 size != sizes_.end() && !broadcast_) {
        known += size->second;
      } else {
        ++unknown;
        open = &item;
      }
    }
    if (unknown != 1) return {};
    if (rank < known)
      return error(ErrorCode::kInput,
                   fmt::format("{}: input {} has rank {}, wanted at least {}: {}", instance_.kind,
                               i, rank, known, print(instance_.inputs[i]->dims)));
    for (const PatternAxis& axis : open->axes) {
      int& size = sizes_[axis.name];
      size = std::max(size, rank - known);
    }
    return {};
  }

  // Writes an operand out. rank -1: as large as its packs are (outputs).
  Result<OperandIndex> write(const PatternOperand& operand, int rank) {
    OperandIndex dims;
    for (const PatternItem& item : operand.items) {
      if (!item.pack) {
        LT_ASSIGN(DimIndex dim, write(item, -1, 0));
        dims.push_back(std::move(dim));
        continue;
      }
      const int size = sizes_[item.axes[0].name];
      const int here = broadcast_ && rank >= 0 ? std::min(size, rank - fixed(operand)) : size;
      for (int d = size - here; d < size; ++d) {
        LT_ASSIGN(DimIndex dim, write(item, d, size));
        dims.push_back(std::move(dim));
      }
    }
    return dims;
  }

  // One dimension; `entry` of `count` when the item is a pack, else entry is -1.
  Result<DimIndex> write(const PatternItem& item, int entry, int count) {
    DimIndex dim;
    dim.form = item.form;
    dim.may_broadcast = broadcast_ && item.pack;
    for (const PatternAxis& axis : item.axes) {
      LT_ASSIGN(const int index, axis_of(axis, item, entry, count));
      dim.axes.push_back(index);
    }
    if (!item.extent_attr.empty()) {
      LT_ASSIGN(dim.extent, number(item.extent_attr, entry, count));
      dim.extent_source = AttrRef{item.extent_attr, entry};
    }
    if (item.form != LinkKind::kWindow) return dim;
    LT_ASSIGN(dim.stride, number(item.stride, entry, count));
    if (!item.dilation.empty()) {
      LT_ASSIGN(dim.dilation, number(item.dilation, entry, count));
    }
    LT_ASSIGN(const ir::Dims pads,
              list_attr(instance_, item.padding, static_cast<size_t>(2 * count), 0));
    dim.pad_low = pads[static_cast<size_t>(entry)];
    dim.pad_high = pads[static_cast<size_t>(count + entry)];
    dim.low_source = AttrRef{item.padding, entry};
    dim.high_source = AttrRef{item.padding, count + entry};
    LT_ASSIGN(const int64_t ceil_mode, int_attr(instance_, "ceil_mode", 0));
    dim.ceil_mode = ceil_mode != 0;
    return positive(dim.stride, item.stride) && positive(dim.dilation, item.dilation)
               ? Result<DimIndex>(dim)
               : error(ErrorCode::kInput, fmt::format("{}: {} and {} must be at least 1",
                                                      instance_.kind, item.stride, item.dilation));
  }

  static bool positive(const sym::Expr& value, std::string_view) {
    const std::optional<int64_t> constant = value.constant();
    return constant && *constant >= 1;
  }

  Result<int> axis_of(const PatternAxis& axis, const PatternItem& item, int entry, int count) {
    const std::string name = entry < 0 ? axis.name : fmt::format("{}{}", axis.name, entry);
    int index = signature_.find_axis(name);
    if (index < 0) index = signature_.add_axis({.name = name});
    SignatureAxis& made = signature_.axes[static_cast<size_t>(index)];
    made.coupled |= item.coupled || axis.coupled;
    made.chosen |= item.form == LinkKind::kChosen;
    if (!axis.extent_attr.empty() && !made.source) {
      LT_ASSIGN(made.extent, number(axis.extent_attr, entry, count));
      made.source = AttrRef{axis.extent_attr, entry};
    }
    return index;
  }

  Result<sym::Expr> number(const std::string& attr, int entry, int count) const {
    if (entry < 0) {
      LT_ASSIGN(const int64_t value, int_attr(instance_, attr, absent_value(attr)));
      return sym::Expr(value);
    }
    LT_ASSIGN(ir::Dims list,
              list_attr(instance_, attr, static_cast<size_t>(count), absent_value(attr)));
    return list[static_cast<size_t>(entry)];
  }

  const Pattern& pattern_;
  const Instance& instance_;
  bool broadcast_;
  PackSizes sizes_;
  Signature signature_;
};

}  // namespace

int Signature::add_axis(SignatureAxis axis) {
  axes.push_back(std::move(axis));
  return static_cast<int>(axes.size()) - 1;
}

int Signature::find_axis(std::string_view wanted) const {
  for (size_t a = 0; a < axes.size(); ++a)
    if (axes[a].name == wanted) return static_cast<int>(a);
  return -1;
}

Result<Signature> expand(const Pattern& pattern, const Instance& instance, bool broadcast) {
  return Expander(pattern, instance, broadcast).run();
}

}  // namespace lowtide::ops

#include "fission/rules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "fission/classes.h"
#include "fission/labels.h"
#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

// What an op can be cut along, for people: "m (8), n (4)".
std::string axes_of(const ops::AxisMap& map) {
  std::string text;
  for (size_t a = 0; a < map.axes.size(); ++a)
    if (ops::can_split(map, static_cast<int>(a)))
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", map.axes[a].name,
                          sym::print(map.axes[a].extent));
  return text.empty() ? "nothing" : text;
}

Result<Cut> cut_by(const ir::Graph& graph, ir::OpId id, const CutRule& rule) {
  const std::string& name = graph.op(id).name;
  const ops::Instance instance = ops::instance_of(graph, id);
  LT_ASSIGN(const ops::AxisMap map, ops::axis_map(instance));
  for (size_t a = 0; a < map.axes.size(); ++a) {
    if (map.axes[a].name != rule.axis || !ops::can_split(map, static_cast<int>(a))) continue;
    const auto extent = map.axes[a].extent.constant();
    if (!extent || *extent < rule.parts)
      return error(
          ErrorCode::kInput,
          fmt::format("cut {}: axis {} of op '{}' has extent {}, too few for {} parts", print(rule),
                      rule.axis, name, sym::print(map.axes[a].extent), rule.parts));
    return Cut{static_cast<int>(a), even_bounds(*extent, rule.parts, *extent)};
  }
  return error(ErrorCode::kInput,
               fmt::format("cut {}: op '{}' ({}) cannot be cut along {}; it can be along {}",
                           print(rule), name, graph.op(id).kind, rule.axis, axes_of(map)));
}

bool is_number(std::string_view text, int64_t& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size() && number >= 0;
}

}  // namespace

bool names(const CutRule& rule, const ir::Op& op) {
  return fnmatch(rule.ops.c_str(), op.name.c_str(), 0) == 0;
}

std::string print(const CutRule& rule) {
  const std::string size = rule.least_bytes > 0 ? fmt::format(">{}", rule.least_bytes) : "";
  return fmt::format("{}:{}{}:{}{}{}", rule.ops, rule.axis, rule.whole_class ? "*" : "", rule.parts,
                     size, rule.instead ? "!" : "");
}

Result<CutRule> parse_rule(std::string_view text) {
  const size_t second = text.rfind(':');
  const size_t first = second == std::string_view::npos || second == 0
                           ? std::string_view::npos
                           : text.rfind(':', second - 1);
  CutRule rule;
  if (first != std::string_view::npos) {
    rule.ops = text.substr(0, first);
    rule.axis = text.substr(first + 1, second - first - 1);
    rule.whole_class = rule.axis.ends_with('*');
    if (rule.whole_class) rule.axis.pop_back();
    std::string_view size = text.substr(second + 1);
    rule.instead = size.ends_with('!');
    if (rule.instead) size.remove_suffix(1);
    const size_t above = rule.whole_class ? size.find('>') : std::string_view::npos;
    const bool is_right =
        is_number(size.substr(0, above), rule.parts) &&
        (above == std::string_view::npos || is_number(size.substr(above + 1), rule.least_bytes));
    if (!is_right) rule.parts = 0;
  }
  if (rule.ops.empty() || rule.axis.empty() || rule.parts < 2)
    return error(ErrorCode::kUsage,
                 fmt::format("--cut: '{}' is no OPS:AXIS:PARTS with at least 2 parts, as in "
                             "'layer*:m:4', or 'conv1:n*:4' for all of the axis's class, or "
                             "'conv1:n*:4>1048576' for those that make so many bytes along it; "
                             "with '!' at the end instead of what else cuts these ops",
                             text));
  return rule;
}

namespace {

// Rules one after another, over the cuts of labels.
class Rules {
 public:
  Rules(const ir::Graph& graph, Cuts labels)
      : graph_(graph), labels_(std::move(labels)), cuts_(kMostAxes, Cuts(graph.op_count())) {
    cuts_[0] = labels_;
  }

  Status take(const CutRule& rule) {
    std::vector<ClassAxis> cut;
    for (const ir::OpId id : graph_.ops()) {
      if (!names(rule, graph_.op(id))) continue;
      LT_ASSIGN(Cut wanted, cut_by(graph_, id, rule));
      cut.push_back({id, wanted.axis, wanted.bounds.back()});
      if (auto taken = take(id, std::move(wanted), rule.instead); !taken)
        return error(taken.error().code, fmt::format("cut {}: op '{}': {}", print(rule),
                                                     graph_.op(id).name, taken.error().message));
    }
    if (cut.empty())
      return error(ErrorCode::kInput,
                   fmt::format("cut {}: no op has a name like '{}'", print(rule), rule.ops));
    return rule.whole_class ? take_classes(rule, cut) : Status();
  }

  NestedCuts cuts() && {
    while (cuts_.size() > 1 && std::none_of(cuts_.back().begin(), cuts_.back().end(),
                                            [](const auto& cut) { return cut.has_value(); }))
      cuts_.pop_back();
    return std::move(cuts_);
  }

 private:
  // The classes of the axes that the rule's ops are cut along, all of their ops.
  Status take_classes(const CutRule& rule, const std::vector<ClassAxis>& seeds) {
    LT_ASSIGN(const std::vector<AxisClass> classes, axis_classes(graph_));
    for (const AxisClass& axis_class : classes) {
      const bool is_meant = std::any_of(seeds.begin(), seeds.end(), [&](const ClassAxis& seed) {
        return std::any_of(axis_class.axes.begin(), axis_class.axes.end(), [&](const ClassAxis& a) {
          return a.op == seed.op && a.axis == seed.axis;
        });
      });
      if (!is_meant) continue;
      const Cuts more = cut_class(graph_, axis_class, rule.parts);
      for (const ClassAxis& axis : axis_class.axes)
        if (more[axis.op] && axis.bytes >= rule.least_bytes)
          (void)take(axis.op, *more[axis.op], rule.instead);
    }
    return {};
  }

  // Error: the op cannot run so together with what cuts it already; it stays as it was.
  Status take(ir::OpId id, Cut cut, bool instead) {
    if (instead) {
      labels_[id].reset();
      for (Cuts& layer : cuts_) layer[id].reset();
    }
    std::optional<Cut>&first = cuts_[0][id], &second = cuts_[1][id];
    if (!first || first->axis == cut.axis) {
      const std::optional<Cut>& label = labels_[id];
      const bool is_finer_label =
          label && label->axis == cut.axis && label->bounds.size() >= cut.bounds.size();
      if (is_finer_label) cut = *label;
      if (second) LT_RETURN_IF_ERROR(check_within(id, cut, *second));
      first = std::move(cut);
      return {};
    }
    if (second && second->axis != cut.axis)
      return error(ErrorCode::kInput,
                   fmt::format("is cut along {} axes already, which is the most", kMostAxes));
    LT_RETURN_IF_ERROR(check_within(id, *first, cut));
    second = std::move(cut);
    return {};
  }

  // Whether parts of the outer cut can run in those of the inner one. Those in the middle that are
  // as large as the one before are like it.
  Status check_within(ir::OpId id, const Cut& outer, const Cut& inner) const {
    const ops::Instance whole = ops::instance_of(graph_, id);
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(whole));
    const Bounds& bounds = outer.bounds;
    for (size_t k = 0; k + 1 < bounds.size(); ++k) {
      const bool is_in_the_middle = k > 1 && k + 2 < bounds.size();
      if (is_in_the_middle && bounds[k + 1] - bounds[k] == bounds[k] - bounds[k - 1]) continue;
      LT_ASSIGN(const ops::Part part, ops::part(whole, outer.axis, bounds[k], bounds[k + 1]));
      LT_RETURN_IF_ERROR(cut_within(map, inner, ops::instance_of(whole, part)));
    }
    return {};
  }

  const ir::Graph& graph_;
  Cuts labels_;  // that still count: a rule may stand in their place
  NestedCuts cuts_;
};
static_assert(kMostAxes == 2, "Rules::take knows an outer cut and an inner one");

}  // namespace

Result<NestedCuts> cuts_of(const ir::Graph& graph, std::span<const CutRule> rules,
                           const Cuts& labels) {
  Rules made(graph, labels);
  for (const CutRule& rule : rules) LT_RETURN_IF_ERROR(made.take(rule));
  return std::move(made).cuts();
}

Result<NestedCuts> cuts_of(const ir::Graph& graph, std::span<const CutRule> rules) {
  return cuts_of(graph, rules, Cuts(graph.op_count()));
}

}  // namespace lowtide::fission

#include "fission/rules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
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

// The classes of the axes that the rule's ops are cut along, all of their ops.
Status cut_classes(const ir::Graph& graph, const CutRule& rule, const std::vector<ClassAxis>& seeds,
                   Cuts& cuts) {
  LT_ASSIGN(const std::vector<AxisClass> classes, axis_classes(graph));
  for (const AxisClass& axis_class : classes) {
    const bool is_meant = std::any_of(seeds.begin(), seeds.end(), [&](const ClassAxis& seed) {
      return std::any_of(axis_class.axes.begin(), axis_class.axes.end(), [&](const ClassAxis& a) {
        return a.op == seed.op && a.axis == seed.axis;
      });
    });
    if (!is_meant) continue;
    const Cuts more = cut_class(graph, axis_class, rule.parts);
    for (const ClassAxis& axis : axis_class.axes)
      if (more[axis.op] && axis.bytes >= rule.least_bytes) cuts[axis.op] = more[axis.op];
  }
  return {};
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

std::string print(const CutRule& rule) {
  const std::string size = rule.least_bytes > 0 ? fmt::format(">{}", rule.least_bytes) : "";
  return fmt::format("{}:{}{}:{}{}", rule.ops, rule.axis, rule.whole_class ? "*" : "", rule.parts,
                     size);
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
    const std::string_view size = text.substr(second + 1);
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
                             "'conv1:n*:4>1048576' for those that make so many bytes along it",
                             text));
  return rule;
}

Result<Cuts> cuts_of(const ir::Graph& graph, std::span<const CutRule> rules) {
  Cuts cuts(graph.op_count());
  for (const CutRule& rule : rules) {
    std::vector<ClassAxis> cut;
    for (ir::OpId id : graph.ops()) {
      if (fnmatch(rule.ops.c_str(), graph.op(id).name.c_str(), 0) != 0) continue;
      LT_ASSIGN(cuts[id], cut_by(graph, id, rule));
      cut.push_back({id, cuts[id]->axis, cuts[id]->bounds.back()});
    }
    if (rule.whole_class) LT_RETURN_IF_ERROR(cut_classes(graph, rule, cut, cuts));
    if (cut.empty())
      return error(ErrorCode::kInput,
                   fmt::format("cut {}: no op has a name like '{}'", print(rule), rule.ops));
  }
  return cuts;
}

}  // namespace lowtide::fission

// The modules of a plan as a tree, with what they hold and cost; equal layers folded into one.
//
// A module's path is its name cut at the dots. Every node sums what is below it. Siblings whose
// names are numbers (layers of a stack) and that follow each other are folded where they hold the
// same: the same shapes, treated alike, in modules of the same names, all the way down. A folded
// node stands for all of its layers: its sums, and those of the nodes below, are theirs together,
// its rows those of the first. At which moment each layer is full does not count, as the peak is
// one moment and layers run one after another.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/data/plan_parts.h"
#include "report/parts.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;
using plan::PlanOpId;
using plan::PlanStorageId;

struct Node {
  std::string name = {};
  std::vector<std::string> paths = {};  // of the layers that it stands for
  size_t parent = SIZE_MAX;
  std::vector<size_t> children = {};
  std::vector<PlanStorageId> rows = {};
  unsigned policies = 0;  // a bit for each policy of what the step makes
  bool split = false;     // ops run in parts
  int64_t bytes = 0, bytes_at_peak = 0;
  double paid_seconds = 0, seconds = 0;
  int64_t likeness = 0;  // equal for equal modules
};

bool is_number(const std::string& name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class ModuleTree {
 public:
  explicit ModuleTree(const PlanView& view) : view_(view) {
    nodes_.push_back({.name = "", .paths = {""}});
    for (const std::string& module : view.modules.words()) node_of_.push_back(node_for(module));
  }

  OrderedJson run() {
    take_storages();
    take_times();
    // Children come after their parents.
    for (size_t i = nodes_.size(); i-- > 0;) {
      liken(i);
      if (i > 0) add_sums(nodes_[i], nodes_[nodes_[i].parent]);
    }
    return told();
  }

 private:
  size_t node_for(const std::string& module) {
    size_t at = 0;
    for (size_t begin = 0; begin < module.size();) {
      const size_t end = std::min(module.find('.', begin), module.size());
      at = child(at, module.substr(begin, end - begin), module.substr(0, end));
      begin = end + 1;
    }
    return at;
  }

  size_t child(size_t parent, const std::string& name, const std::string& path) {
    const auto [found, is_new] = by_path_.emplace(path, nodes_.size());
    if (!is_new) return found->second;
    nodes_[parent].children.push_back(nodes_.size());
    nodes_.push_back({.name = name, .paths = {path}, .parent = parent});
    return nodes_.size() - 1;
  }

  void take_storages() {
    const size_t at = view_.planned.plan_steps.empty()
                          ? SIZE_MAX
                          : view_.planned.plan_steps[view_.planned.peak_step];
    for (const Stay& stay : view_.stays)
      if (stay.begin <= at && at < stay.end)
        node_of(view_.module_of_storage[stay.storage]).bytes_at_peak +=
            view_.plan.storages[stay.storage].bytes;
    for (PlanStorageId s : view_.plan.storages.ids()) {
      const plan::PlanStorage& storage = view_.plan.storages[s];
      if (storage.bytes == 0) continue;  // a whole
      Node& node = node_of(view_.module_of_storage[s]);
      node.rows.push_back(s);
      node.bytes += storage.bytes;
      if (!storage.resident || view_.uses[s].policy != Policy::kKept)
        node.policies |= 1u << static_cast<unsigned>(view_.uses[s].policy);
    }
  }

  void take_times() {
    for (PlanOpId op : view_.plan.ops.ids())
      node_of(view_.module_of_op[op]).seconds += view_.plan.ops[op].predicted_seconds;
    WordList modules = view_.modules;
    for (const ModuleActions& actions : view_.actions.modules)
      node_of(modules.number_of(actions.module)).paid_seconds += actions.paid_seconds();
    for (const ModuleParts& parts : parts_of(view_.plan, view_.stays).modules) {
      Node& node = node_of(modules.number_of(parts.module));
      node.split = true;
      node.paid_seconds += parts.seconds;  // nothing where the plan does not say
    }
  }

  Node& node_of(int64_t module) { return nodes_[node_of_[static_cast<size_t>(module)]]; }

  // Modules that hold the same get the same number.
  void liken(size_t at) {
    std::vector<std::string> rows;
    for (PlanStorageId s : nodes_[at].rows) {
      const plan::PlanStorage& storage = view_.plan.storages[s];
      rows.push_back(fmt::format("{} {} {} {}", shape_of(view_.plan.values[storage.root].type),
                                 storage.bytes, static_cast<int>(storage.category),
                                 static_cast<int>(view_.uses[s].policy)));
    }
    std::sort(rows.begin(), rows.end());
    std::string text;
    for (const std::string& row : rows) text += row + "\n";
    for (size_t i : nodes_[at].children)
      text += fmt::format("{}: {}\n", nodes_[i].name, nodes_[i].likeness);
    nodes_[at].likeness = likenesses_.number_of(text);
  }

  static void add_sums(const Node& part, Node& sum) {
    sum.policies |= part.policies;
    sum.split |= part.split;
    sum.bytes += part.bytes;
    sum.bytes_at_peak += part.bytes_at_peak;
    sum.paid_seconds += part.paid_seconds;
    sum.seconds += part.seconds;
  }

  // Children of this node that are the same layer again go into the first of them.
  void fold_children(size_t at) {
    std::vector<size_t> kept;
    for (size_t i : nodes_[at].children) {
      const bool again = !kept.empty() && is_number(nodes_[i].name) &&
                         is_number(nodes_[kept.back()].name) &&
                         nodes_[i].likeness == nodes_[kept.back()].likeness;
      if (again)
        fold(kept.back(), i);
      else
        kept.push_back(i);
    }
    nodes_[at].children = std::move(kept);
  }

  // The second tree into the first, which has nodes of the same names.
  void fold(size_t into, size_t from) {
    std::vector<std::pair<size_t, size_t>> open = {{into, from}};
    while (!open.empty()) {
      const auto [a, b] = open.back();
      open.pop_back();
      add_sums(nodes_[b], nodes_[a]);
      nodes_[a].paths.insert(nodes_[a].paths.end(), nodes_[b].paths.begin(), nodes_[b].paths.end());
      for (size_t i = 0; i < nodes_[a].children.size(); ++i)
        open.emplace_back(nodes_[a].children[i], nodes_[b].children[i]);
    }
  }

  // In preorder; a node is folded before its children are looked at.
  OrderedJson told() {
    OrderedJson json = OrderedJson::array();
    std::vector<std::pair<size_t, int64_t>> open = {{0, -1}};  // node, row of its parent
    while (!open.empty()) {
      const auto [at, parent] = open.back();
      open.pop_back();
      const auto row = static_cast<int64_t>(json.size());
      fold_children(at);
      json.push_back(told_of(nodes_[at], parent));
      const std::vector<size_t>& children = nodes_[at].children;
      for (size_t i = children.size(); i-- > 0;) open.emplace_back(children[i], row);
    }
    return json;
  }

  static OrderedJson told_of(const Node& node, int64_t parent) {
    OrderedJson json;
    json["path"] = node.paths.front();
    json["parent"] = parent;
    json["times"] = node.paths.size();
    json["paths"] = node.paths;
    json["bytes"] = node.bytes;
    json["bytes_at_peak"] = node.bytes_at_peak;
    json["paid_seconds"] = node.paid_seconds;
    json["seconds"] = node.seconds;
    json["policy"] = policy_word(node.policies, node.split);
    json["rows"] = OrderedJson::array();
    for (PlanStorageId s : node.rows) json["rows"].push_back(s.index());
    return json;
  }

  static std::string_view policy_word(unsigned policies, bool split) {
    constexpr unsigned kKeptBit = 1u << static_cast<unsigned>(Policy::kKept);
    if (split) return (policies & ~kKeptBit) == 0 ? "split" : "mixed";
    if (policies == 0) return name(Policy::kKept);
    for (int p = 0; p < kPolicies; ++p)
      if (policies == 1u << static_cast<unsigned>(p)) return name(static_cast<Policy>(p));
    return "mixed";
  }

  const PlanView& view_;
  std::vector<Node> nodes_;  // parents first
  std::map<std::string, size_t, std::less<>> by_path_;
  std::vector<size_t> node_of_;  // by number of the module
  WordList likenesses_;
};

}  // namespace

OrderedJson module_tree_data(const PlanView& view) {
  return ModuleTree(view).run();
}

}  // namespace lowtide::report

#include "baselines/xla.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "baselines/run_list.h"

namespace lowtide::baselines {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct XlaTuning {
  int64_t most_block = 8;  // runs
};
constexpr XlaTuning kXla;
constexpr int64_t kUnitsPerItem = 20;  // of a block that is looked at

enum class Cost : uint8_t { kBytes, kSecondsPerByte };

// A change that was found: a block of runs, or one instance that moves.
struct Change {
  std::vector<NodeId> block;  // to recompute
  InstanceId instance;        // else: to offload
  NodeId store_after, load_before;
  double cost = std::numeric_limits<double>::infinity();

  bool found() const { return cost < std::numeric_limits<double>::infinity(); }
};

class XlaWalk {
 public:
  XlaWalk(const plan::ScheduleProblem& problem, Cost cost, bool offloads, Judge& judge)
      : problem_(problem),
        cost_(cost),
        offloads_(offloads),
        judge_(judge),
        list_(problem),
        ran_(problem.ops.size(), 0),
        was_moved_(problem.values.size(), 0),
        used_(problem.resident_bytes),
        room_(problem.link ? problem.link->bytes : 0) {}

  std::vector<SchedAction> walk() {
    for (at_ = list_.first(); at_.valid() && !judge_.work().exhausted(); at_ = list_[at_].next) {
      const int64_t passing = begin();
      int64_t least = 1, most = 1;
      while (used_ > judge_.budget() && most <= kXla.most_block && !judge_.work().exhausted()) {
        const Change change = best_change(least, most);
        if (change.found()) {
          apply(change);
          least = most = 1;
        } else {
          least = most + 1;
          most *= 2;
        }
      }
      end(passing);
    }
    return list_.sequence();
  }

 private:
  SchedOpId op_of(NodeId node) { return list_[node].action.op; }
  bool is_run(NodeId node) { return list_[node].action.kind == SchedAction::Kind::kRun; }
  int64_t bytes(InstanceId instance) { return problem_.values[list_[instance].value].bytes; }
  bool is_output(InstanceId instance) { return problem_.values[list_[instance].value].is_output; }
  bool is_behind(NodeId node) { return list_[node].number > list_[at_].number; }
  bool has_later_use(InstanceId instance) {
    const auto& uses = list_[instance].uses;
    return std::any_of(uses.begin(), uses.end(), [&](NodeId use) { return is_behind(use); });
  }
  void set_live(InstanceId instance, bool live) {
    if (std::exchange(list_[instance].live, live) != live)
      used_ += live ? bytes(instance) : -bytes(instance);
  }

  // What the action brings; what of it passes with it.
  int64_t begin() {
    const Node& node = list_[at_];
    if (node.action.kind == SchedAction::Kind::kStore) return 0;
    if (!is_run(at_)) {
      const bool comes = node.action.kind == SchedAction::Kind::kLoad;
      list_[moving_[node.action.value]].away = !comes;
      set_live(moving_[node.action.value], comes);
      return 0;
    }
    ran_[node.action.op] = 1;
    for (const InstanceId made : node.makes) set_live(made, true);
    const int64_t passing = problem_.ops[node.action.op].workspace_bytes - taken_over(node);
    used_ += passing;
    return passing;
  }

  void end(int64_t passing) {
    used_ -= passing;
    const std::vector<InstanceId> reads = list_[at_].reads, makes = list_[at_].makes;
    for (const auto& instances : {reads, makes})
      for (const InstanceId instance : instances)
        if (!is_output(instance) && !has_later_use(instance)) set_live(instance, false);
  }

  int64_t taken_over(const Node& node) {
    int64_t sum = 0;
    std::vector<SchedValueId> taken;
    for (const size_t i : list_.index().pairs[node.action.op]) {
      const plan::InPlacePair& pair = problem_.in_place[i];
      const auto input = std::find_if(node.reads.begin(), node.reads.end(),
                                      [&](InstanceId s) { return list_[s].value == pair.input; });
      const bool is_taken = std::any_of(taken.begin(), taken.end(), [&](SchedValueId v) {
        return v == pair.input || v == pair.output;
      });
      if (is_taken || is_output(*input) || has_later_use(*input) ||
          problem_.values[pair.input].bytes != problem_.values[pair.output].bytes)
        continue;
      taken.insert(taken.end(), {pair.input, pair.output});
      sum += problem_.values[pair.input].bytes;
    }
    return sum;
  }

  bool in_use(InstanceId instance) {
    const auto has = [&](const std::vector<InstanceId>& instances) {
      return std::find(instances.begin(), instances.end(), instance) != instances.end();
    };
    return has(list_[at_].reads) || has(list_[at_].makes) ||
           (!is_run(at_) && moving_[list_[at_].action.value] == instance);
  }

  bool may_change(NodeId node) {
    if (!is_run(node) || list_[node].denied || !problem_.ops[op_of(node)].may_rerun) return false;
    const auto after = list_.index().waits_after[op_of(node)];
    if (std::any_of(after.begin(), after.end(), [&](SchedOpId op) { return ran_[op] != 0; }))
      return false;
    const auto& makes = list_[node].makes;
    return std::none_of(makes.begin(), makes.end(), [&](InstanceId instance) {
      return is_output(instance) || in_use(instance);
    });
  }

  Change best_change(int64_t least, int64_t most) {
    Change best;
    for (NodeId start = list_.first(); start != at_; start = list_[start].next) {
      if (!may_change(start)) continue;
      if (least == 1) try_offload(start, best);
      try_blocks(start, least, most, best);
    }
    return best;
  }

  // Bytes that leave when this run is done again, given that all from `start` on are, too. Nothing:
  // it cannot be.
  std::optional<int64_t> leaving(NodeId node, NodeId start) {
    int64_t sum = 0;
    for (const InstanceId made : list_[node].makes)
      if (list_[made].live) sum += bytes(made);
    for (const InstanceId read : list_[node].reads) {
      if (list_[read].away) return std::nullopt;
      const InstanceId now = list_.instance_before(list_[read].value, at_);
      if (list_[now].away) return std::nullopt;
      if (!list_[now].live && list_[list_[now].maker].number < list_[start].number)
        sum -= bytes(now);
    }
    return sum;
  }

  void try_blocks(NodeId start, int64_t least, int64_t most, Change& best) {
    std::vector<NodeId> block;
    int64_t sum = 0;
    double seconds = 0;
    bool any_needed = false, is_move = true;
    for (NodeId node = start; node != at_; node = list_[node].next) {
      judge_.work().spend(kUnitsPerItem);
      if (static_cast<int64_t>(block.size()) == most || !may_change(node)) return;
      const std::optional<int64_t> more = leaving(node, start);
      if (!more) return;
      block.push_back(node);
      sum += *more;
      bool is_needed = false;
      for (const InstanceId made : list_[node].makes) {
        is_needed |= has_later_use(made);
        for (const NodeId use : list_[made].uses) is_move &= is_behind(use);
      }
      any_needed |= is_needed;
      if (is_needed) seconds += problem_.ops[op_of(node)].seconds;
      if (static_cast<int64_t>(block.size()) < least || sum <= 0 || !any_needed) continue;
      const double by = cost_ == Cost::kBytes ? 1 : seconds;
      const double cost = is_move ? 0 : by / static_cast<double>(sum);
      if (cost < best.cost) best = {block, InstanceId::none(), {}, {}, cost};
    }
  }

  double transfer(int64_t size, double bytes_per_second) const {
    return problem_.link->latency_seconds + static_cast<double>(size) / bytes_per_second;
  }

  void try_offload(NodeId node, Change& best) {
    if (!offloads_) return;
    for (const InstanceId instance : list_[node].makes) {
      const plan::SchedValue& value = problem_.values[list_[instance].value];
      if (!list_[instance].live || value.bytes == 0 || was_moved_[list_[instance].value] != 0 ||
          !value.writers.empty() || value.bytes > room_ || !has_later_use(instance))
        continue;
      const double cost = cost_ == Cost::kBytes ? 1 / static_cast<double>(value.bytes) : 0;
      if (cost >= best.cost) continue;
      NodeId last = node, next;
      for (const NodeId use : list_[instance].uses) {
        if (!is_behind(use) && list_[use].number > list_[last].number) last = use;
        if (is_behind(use) && (!next.valid() || list_[use].number < list_[next].number)) next = use;
      }
      Change change{{}, instance, last, next, cost};
      if (hide(change, false)) best = change;
    }
  }

  // Whether both copies are hidden, and from where the load begins; `book`: the time is taken.
  bool hide(Change& change, bool book) {
    const int64_t size = bytes(change.instance);
    double left = transfer(size, problem_.link->bytes_per_second_out);
    const auto take = [&](double& free) {
      const double taken = std::min(free, left);
      left -= taken;
      if (book) free -= taken;
    };
    for (NodeId n = list_[change.store_after].next; n != at_ && left > 0; n = list_[n].next)
      take(list_[n].free_out);
    if (left > 0) return false;
    left = transfer(size, problem_.link->bytes_per_second_in);
    NodeId from = change.load_before;
    while (left > 0 && list_[from].previous != at_) {
      from = list_[from].previous;
      take(list_[from].free_in);
    }
    if (book) change.load_before = from;
    return left <= 0;
  }

  void apply(Change change) {
    if (!change.instance.valid()) return recompute(change.block);
    hide(change, true);
    const SchedValueId value = list_[change.instance].value;
    list_[list_[change.instance].maker].denied = true;
    was_moved_[value] = 1;
    moving_[value] = change.instance;
    room_ -= bytes(change.instance);
    list_.insert_before(list_[change.store_after].next, SchedAction::store(value));
    list_.insert_before(at_, SchedAction::drop(value));
    list_.insert_before(change.load_before, SchedAction::load(value));
    list_[change.instance].away = true;
    set_live(change.instance, false);
  }

  // Last first, so that what a block makes for itself is made in time.
  void recompute(const std::vector<NodeId>& block) {
    for (size_t i = block.size(); i-- > 0;) {
      const NodeId old = block[i];
      const std::vector<InstanceId> makes = list_[old].makes;
      if (std::none_of(makes.begin(), makes.end(), [&](InstanceId s) { return has_later_use(s); }))
        continue;
      const NodeId made = list_.insert_before(place_for(old), SchedAction::run(op_of(old)));
      bool was_used = false;
      for (const InstanceId instance : makes) {
        const InstanceId again = list_.make(made, list_[instance].value);
        list_.hand_over(instance, again, at_);
        was_used |= !list_[instance].uses.empty();
        set_live(instance, false);
      }
      for (const SchedValueId v : list_.index().reads[op_of(old)]) {
        const InstanceId instance = list_.instance_before(v, made);
        list_.read(made, instance);
        if (!is_behind(list_[instance].maker)) set_live(instance, true);
      }
      if (!was_used) {
        list_[made].denied = list_[old].is_moved;
        list_[made].is_moved = true;
        list_[old].denied = true;
      }
    }
  }

  // Right before the first later use of what it makes or reads, or of what must come after it.
  NodeId place_for(NodeId old) {
    NodeId place;
    const auto before = [&](NodeId node) {
      if (is_behind(node) && (!place.valid() || list_[node].number < list_[place].number))
        place = node;
    };
    for (const InstanceId made : list_[old].makes)
      for (const NodeId use : list_[made].uses) before(use);
    for (const SchedValueId v : list_.index().reads[op_of(old)])
      for (const NodeId use : list_[list_.instance_before(v, at_)].uses) before(use);
    const auto after = list_.index().waits_after[op_of(old)];
    if (!after.empty())
      for (NodeId n = list_[at_].next; n.valid() && n != place; n = list_[n].next)
        if (is_run(n) && std::find(after.begin(), after.end(), op_of(n)) != after.end()) before(n);
    return place;
  }

  const plan::ScheduleProblem& problem_;
  const Cost cost_;
  const bool offloads_;
  Judge& judge_;
  RunList list_;
  IdVector<SchedOpId, char> ran_;
  IdVector<SchedValueId, char> was_moved_;
  IdVector<SchedValueId, InstanceId> moving_{was_moved_.size()};
  NodeId at_;
  int64_t used_ = 0;
  int64_t room_ = 0;  // of the slow tier
};

}  // namespace

void add_xla(const plan::ScheduleProblem& problem, Judge& judge) {
  for (const bool offloads : {false, true}) {
    if (offloads && !problem.link) continue;
    for (const Cost cost : {Cost::kBytes, Cost::kSecondsPerByte})
      if (judge.work().look()) judge.score(XlaWalk(problem, cost, offloads, judge).walk());
  }
}

}  // namespace lowtide::baselines

#include "remat/starts/chain.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// What the start is worth: row "chain-start" of "What each idea is worth".
struct ChainTuning {
  size_t middles = 64;             // ops that may be the middle: where most is present
  size_t fewest_stages = 3;        // fewer are no chain
  size_t most_stages = 40;         // of more, several are taken together
  double small = 1.0 / 256;        // of the capacity: what passes beside a stage's output
  double tiny = 1.0 / 4096;        // of the capacity: a value whose place says nothing
  double free = 1.0 / 4096;        // of all runs' time: what is made from nothing for so little
  size_t most_options = 12;        // of a stage
  double most_option_work = 16e6;  // runs looked at to find the options of all stages
};
constexpr ChainTuning kChain;

// What is present during a list of runs: a value from its birth to its last use before the next.
class Presence {
 public:
  struct Stay {
    SchedValueId value;
    size_t from, to;
  };

  Presence(const ActionTable& table, size_t runs)
      : table_(table), bytes_(runs + 1, 0), current_(table.value_count(), kNone) {}

  bool has(SchedValueId value) const { return current_[value] != kNone; }
  void begin(SchedValueId value, size_t from) {
    current_[value] = stays_.size();
    stays_.push_back({value, from, from});
  }
  void use(SchedValueId value, size_t when) { stays_[current_[value]].to = when; }
  void add_workspace(size_t when, double bytes) {
    bytes_[when] += bytes;
    bytes_[when + 1] -= bytes;
  }
  std::vector<Stay>& stays() { return stays_; }
  // When all stays are known.
  void sum() {
    for (const Stay& stay : stays_) {
      bytes_[stay.from] += table_.bytes(stay.value);
      bytes_[stay.to + 1] -= table_.bytes(stay.value);
    }
    std::partial_sum(bytes_.begin(), bytes_.end(), bytes_.begin());
  }
  double peak(size_t from, size_t to) const {
    double peak = 0;
    for (size_t i = from; i < to; ++i) peak = std::max(peak, bytes_[i]);
    return peak;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  const ActionTable& table_;
  std::vector<double> bytes_;
  IdVector<SchedValueId, size_t> current_;  // the last of its stays
  std::vector<Stay> stays_;
};

class Finder {
 public:
  Finder(const ActionTable& table, std::span<const SchedOpId> order)
      : table_(table),
        order_(order),
        position_(table.op_count(), 0),
        is_forward_(table.op_count(), 0),
        forward_stage_(table.op_count(), 0),
        backward_stage_(table.op_count(), 0),
        needed_(table.value_count(), 0),
        waits_(table.op_count(), 0) {
    for (size_t i = 0; i < order.size(); ++i) position_[order[i]] = i;
  }

  Chain find() {
    const SchedOpId middle = find_middle();
    if (middle.valid()) {
      is_forward_ = reached(middle, true);
      cut_forward();
    }
    if (chain_.stages.size() < kChain.fewest_stages) {
      chain_.stages.clear();
      return std::move(chain_);
    }
    deal_out_backward();
    const bool is_long = option_work(true) > kChain.most_option_work;
    const bool is_very_long = option_work(false) > kChain.most_option_work;
    for (size_t k = 0; k < chain_.stages.size(); ++k) {
      if (is_long)
        add_some_options(k, is_very_long);
      else
        add_options(k);
      chain_.stages[k].pass_peak = chain_.stages[k].options.back().forward_peak;
    }
    return std::move(chain_);
  }

 private:
  // The op itself and what it depends on, or what depends on it.
  IdVector<SchedOpId, char> reached(SchedOpId from, bool up) {
    IdVector<SchedOpId, char> seen(table_.op_count(), 0);
    std::vector<SchedOpId> found{from};
    seen[from] = 1;
    const auto visit = [&](SchedOpId op) {
      if (!table_.is_op(op) || seen[op] != 0) return;
      seen[op] = 1;
      found.push_back(op);
    };
    for (size_t i = 0; i < found.size(); ++i) {
      const SchedOpId op = found[i];
      if (up) {
        for (const SchedValueId v : table_.reads(op)) visit(table_.producer(v));
        for (const SchedOpId before : table_.before(op)) visit(before);
      } else {
        for (const SchedValueId v : table_.makes(op))
          for (const SchedOpId reader : table_.readers(v)) visit(reader);
      }
    }
    chain_.units += static_cast<int64_t>(found.size());
    return seen;
  }

  // Bytes of what `op` depends on that are read by what depends on it.
  double crossing(SchedOpId op) {
    const IdVector<SchedOpId, char> above = reached(op, true), below = reached(op, false);
    double bytes = 0;
    for (const SchedValueId v : table_.values()) {
      if (above[table_.producer(v)] == 0 || !table_.may_rerun(table_.producer(v))) continue;
      const auto readers = table_.readers(v);
      if (std::any_of(readers.begin(), readers.end(), [&](SchedOpId reader) {
            return reader != op && table_.is_op(reader) && below[reader] != 0;
          }))
        bytes += table_.bytes(v);
    }
    chain_.units += static_cast<int64_t>(table_.value_count());
    return bytes;
  }

  SchedOpId find_middle() {
    std::vector<double> present(order_.size() + 1, 0);
    for (const SchedValueId v : table_.values()) {
      const size_t birth = position_[table_.producer(v)];
      size_t last = birth;
      for (const SchedOpId reader : table_.readers(v))
        last = std::max(last, table_.is_op(reader) ? position_[reader] : order_.size() - 1);
      present[birth] += table_.bytes(v);
      present[last + 1] -= table_.bytes(v);
    }
    std::partial_sum(present.begin(), present.end(), present.begin());
    std::vector<size_t> by_bytes(order_.size());
    std::iota(by_bytes.begin(), by_bytes.end(), size_t{0});
    std::stable_sort(by_bytes.begin(), by_bytes.end(),
                     [&](size_t a, size_t b) { return present[a] > present[b]; });
    if (by_bytes.size() > kChain.middles) by_bytes.resize(kChain.middles);
    std::sort(by_bytes.begin(), by_bytes.end());
    SchedOpId middle;
    double most = 0;
    for (const size_t i : by_bytes)
      if (const double bytes = crossing(order_[i]); bytes > most) most = bytes, middle = order_[i];
    return middle;
  }

  bool read_backward(SchedValueId value) const {
    const auto readers = table_.readers(value);
    return std::any_of(readers.begin(), readers.end(), [&](SchedOpId reader) {
      return table_.is_op(reader) && is_forward_[reader] == 0;
    });
  }

  // Of an op of the forward part: it and all that it depends on take next to no time. Counts what
  // several of them depend on several times, so it never says so of what takes longer.
  bool is_free(SchedOpId op) const { return from_nothing_[op] <= free_cost_; }

  void find_free() {
    double all = 0;
    for (const SchedOpId op : order_) all += static_cast<double>(table_.cost(op));
    free_cost_ = all * kChain.free;
    from_nothing_ = IdVector<SchedOpId, double>(table_.op_count(), 0);
    for (const SchedOpId op : forward_) {
      from_nothing_[op] = static_cast<double>(table_.cost(op));
      for (const SchedValueId v : table_.reads(op))
        from_nothing_[op] += from_nothing_[table_.producer(v)];
    }
  }

  // Ends of stages: positions in `forward_`, each with the value that is passed on.
  void cut_forward() {
    for (const SchedOpId op : order_)
      if (is_forward_[op] != 0) forward_.push_back(op);
    find_free();
    IdVector<SchedOpId, size_t> place(table_.op_count(), 0);
    for (size_t i = 0; i < forward_.size(); ++i) place[forward_[i]] = i;
    std::vector<std::vector<SchedValueId>> ends(forward_.size());
    std::set<std::pair<double, SchedValueId>> open;
    double open_bytes = 0;
    std::vector<std::pair<size_t, SchedValueId>> cuts;
    for (size_t i = 0; i + 1 < forward_.size(); ++i) {
      for (const SchedValueId v : table_.makes(forward_[i])) {
        size_t last = i;
        for (const SchedOpId reader : table_.readers(v))
          if (table_.is_op(reader) && is_forward_[reader] != 0)
            last = std::max(last, place[reader]);
        if (last == i || table_.bytes(v) == 0 || is_free(forward_[i])) continue;
        open.emplace(table_.bytes(v), v);
        open_bytes += table_.bytes(v);
        ends[last].push_back(v);
      }
      for (const SchedValueId v : ends[i]) {
        open.erase({table_.bytes(v), v});
        open_bytes -= table_.bytes(v);
      }
      if (open.empty()) continue;
      const auto [bytes, value] = *open.rbegin();
      if (open_bytes - bytes > table_.capacity() * kChain.small ||
          bytes <= table_.capacity() * kChain.tiny)
        continue;
      if (!cuts.empty() && cuts.back().second == value) continue;
      if (table_.may_rerun(table_.producer(value)) && read_backward(value))
        cuts.emplace_back(i + 1, value);
    }
    make_stages(cuts);
  }

  // Where there are many, several together.
  void make_stages(const std::vector<std::pair<size_t, SchedValueId>>& cuts) {
    if (cuts.size() + 1 < kChain.fewest_stages) return;
    const size_t stride = (cuts.size() + kChain.most_stages - 1) / kChain.most_stages;
    size_t from = 0;
    SchedValueId input;
    for (size_t c = stride - 1;; c += stride) {
      const bool is_last = c >= cuts.size();
      const size_t to = is_last ? forward_.size() : cuts[c].first;
      ChainStage stage;
      stage.input = input;
      if (input.valid()) stage.input_bytes = table_.bytes(input);
      for (size_t i = from; i < to; ++i) {
        stage.forward.push_back(forward_[i]);
        forward_stage_[forward_[i]] = chain_.stages.size();
        if (table_.may_rerun(forward_[i])) stage.forward_cost += table_.cost(forward_[i]);
      }
      chain_.stages.push_back(std::move(stage));
      if (is_last) break;
      from = to;
      input = cuts[c].second;
    }
  }

  // The stage whose backward part needs a value of the forward part first; none: -1.
  int needed_at(SchedValueId value) const {
    if (table_.bytes(value) <= table_.capacity() * kChain.tiny) return -1;
    const size_t stage = forward_stage_[table_.producer(value)];
    if (stage + 1 < chain_.stages.size() && chain_.stages[stage + 1].input == value)
      return static_cast<int>(stage) + 1;
    for (const SchedOpId reader : table_.readers(value))
      if (table_.is_op(reader) && is_forward_[reader] != 0 && forward_stage_[reader] > stage)
        return -1;
    return static_cast<int>(stage);
  }

  // Makes nothing and nobody waits for it, as an update of weights: an order with the least peak may
  // have it anywhere behind that peak.
  bool is_sink(SchedOpId op) const { return table_.makes(op).empty() && table_.after(op).empty(); }

  // The first of the stages, which come back from the last one on, at whose end all has run that the
  // op waits for, reruns too: what reads a weight runs again until its own stage's backward part.
  size_t first_stage(SchedOpId op) const {
    const auto done = [&](SchedOpId before) {
      return is_forward_[before] != 0 ? forward_stage_[before] : backward_stage_[before];
    };
    size_t stage = chain_.stages.size() - 1;
    for (const SchedOpId before : table_.before(op)) stage = std::min(stage, done(before));
    for (const SchedValueId v : table_.reads(op)) stage = std::min(stage, done(table_.producer(v)));
    return stage;
  }

  void deal_out_backward() {
    auto stage = chain_.stages.size() - 1;
    for (const SchedOpId op : order_) {
      if (is_forward_[op] != 0) continue;
      for (const SchedValueId v : table_.reads(op)) {
        const SchedOpId producer = table_.producer(v);
        const int need = is_forward_[producer] != 0 ? needed_at(v) : -1;
        if (need >= 0) stage = std::min(stage, static_cast<size_t>(need));
      }
      backward_stage_[op] = is_sink(op) ? std::max(stage, first_stage(op)) : stage;
      chain_.stages[backward_stage_[op]].backward.push_back(op);
    }
    for (const SchedValueId v : table_.values()) {
      if (is_forward_[table_.producer(v)] != 0) continue;
      const size_t from = backward_stage_[table_.producer(v)];
      for (size_t k = last_stage(v); k < from; ++k)
        chain_.stages[k].gradient_bytes += table_.bytes(v);
    }
  }

  // The stage in which a value of the backward part is read last: stages count down.
  size_t last_stage(SchedValueId value) const {
    size_t stage = backward_stage_[table_.producer(value)];
    for (const SchedOpId reader : table_.readers(value))
      stage = std::min(stage, table_.is_op(reader) ? backward_stage_[reader] : size_t{0});
    return stage;
  }

  // Ops that make the dropped values again, from the stage's input and what stays.
  std::vector<SchedOpId> reruns_for(size_t k, const IdVector<SchedValueId, char>& drops) {
    const ChainStage& stage = chain_.stages[k];
    std::vector<char> runs(stage.forward.size(), 0);
    ++needed_round_;
    for (size_t i = stage.forward.size(); i-- > 0;) {
      const SchedOpId op = stage.forward[i];
      if (!table_.may_rerun(op)) continue;
      const auto makes = table_.makes(op);
      if (std::none_of(makes.begin(), makes.end(), [&](SchedValueId v) {
            return drops[v] != 0 || needed_[v] == needed_round_;
          }))
        continue;
      runs[i] = 1;
      for (const SchedValueId v : table_.reads(op))
        if (drops[v] != 0 || !read_backward(v)) needed_[v] = needed_round_;
    }
    std::vector<SchedOpId> reruns;
    for (size_t i = 0; i < runs.size(); ++i)
      if (runs[i] != 0) reruns.push_back(stage.forward[i]);
    return reruns;
  }

  int64_t cost_of(const std::vector<SchedOpId>& ops) const {
    int64_t cost = 0;
    for (const SchedOpId op : ops) cost += table_.cost(op);
    return cost;
  }

  // Values of the stage that its backward part reads and that can be made again.
  std::vector<SchedValueId> droppable(size_t k) const {
    std::vector<SchedValueId> values;
    for (const SchedOpId op : chain_.stages[k].forward)
      for (const SchedValueId v : table_.makes(op))
        if (v != output_of(k) && table_.may_rerun(op) && table_.bytes(v) > 0 && read_backward(v))
          values.push_back(v);
    return values;
  }

  // Greed looks at all runs of a stage for each pair of its values: too much where stages are long.
  // Without pairs: for each value.
  double option_work(bool pairs) const {
    double work = 0;
    for (size_t k = 0; k < chain_.stages.size(); ++k) {
      const auto values = static_cast<double>(droppable(k).size());
      const auto runs = static_cast<double>(chain_.stages[k].forward.size());
      work += (pairs ? values * values / 2 : values) * runs;
    }
    return work;
  }

  void add_options(size_t k) {
    ChainStage& stage = chain_.stages[k];
    std::vector<SchedValueId> left = droppable(k);  // values that may still be dropped
    IdVector<SchedValueId, char> drops(table_.value_count(), 0);
    stage.options.push_back(option_of(k, {}));
    while (!left.empty()) {
      const int64_t cost = stage.options.back().cost;
      size_t best = 0;
      double most = -1;
      for (size_t i = 0; i < left.size(); ++i) {
        drops[left[i]] = 1;
        const int64_t more = cost_of(reruns_for(k, drops)) - cost;
        drops[left[i]] = 0;
        const double promise = table_.bytes(left[i]) / std::max(1.0, static_cast<double>(more));
        if (promise > most) most = promise, best = i;
        chain_.units += static_cast<int64_t>(stage.forward.size());
      }
      drops[left[best]] = 1;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
      stage.options.push_back(option_of(k, reruns_for(k, drops)));
    }
    thin_out(stage.options);
  }

  // Cheaper: the values in the order of their bytes for the time of making each alone again, or, yet
  // cheaper, for the time of its producer.
  void add_some_options(size_t k, bool by_producers) {
    std::vector<SchedValueId> values = droppable(k);
    IdVector<SchedValueId, double> promise(table_.value_count(), 0);
    IdVector<SchedValueId, char> alone(table_.value_count(), 0);
    for (const SchedValueId v : values) {
      alone[v] = 1;
      const int64_t cost =
          by_producers ? table_.cost(table_.producer(v)) : cost_of(reruns_for(k, alone));
      alone[v] = 0;
      if (!by_producers) chain_.units += static_cast<int64_t>(chain_.stages[k].forward.size());
      promise[v] = table_.bytes(v) / std::max(1.0, static_cast<double>(cost));
    }
    std::stable_sort(values.begin(), values.end(),
                     [&](SchedValueId a, SchedValueId b) { return promise[a] > promise[b]; });
    IdVector<SchedValueId, char> drops(table_.value_count(), 0);
    size_t dropped = 0;
    for (const size_t many : numbers_to_drop(values)) {
      for (; dropped < many; ++dropped) drops[values[dropped]] = 1;
      chain_.stages[k].options.push_back(option_of(k, reruns_for(k, drops)));
    }
  }

  // How many of the values go, of each option: none and all, then those that leave half of the bytes,
  // a quarter and so on, as the last to go are the dearest; for the rest evenly many.
  std::set<size_t> numbers_to_drop(const std::vector<SchedValueId>& values) const {
    std::set<size_t> numbers{0, values.size()};
    double left = 0;
    for (const SchedValueId v : values) left += table_.bytes(v);
    double next = left / 2;
    for (size_t i = 0; i < values.size() && numbers.size() < kChain.most_options; ++i) {
      left -= table_.bytes(values[i]);
      if (left > next) continue;
      numbers.insert(i + 1);
      while (next >= left && next > 1) next /= 2;
    }
    const size_t evenly = kChain.most_options - numbers.size() + 1;
    for (size_t o = 1; o < evenly; ++o) numbers.insert(o * values.size() / evenly);
    return numbers;
  }

  // Only some of very many, the first and the last among them.
  static void thin_out(std::vector<ChainOption>& options) {
    if (options.size() <= kChain.most_options) return;
    std::vector<ChainOption> some;
    for (size_t i = 0; i < kChain.most_options; ++i)
      some.push_back(std::move(options[i * (options.size() - 1) / (kChain.most_options - 1)]));
    options = std::move(some);
  }

  // The backward part with each rerun right before the first op that reads what it makes.
  std::vector<SchedOpId> with_reruns(size_t k, const std::vector<SchedOpId>& reruns) {
    ++rerun_round_;
    for (const SchedOpId op : reruns) waits_[op] = rerun_round_;
    std::vector<SchedOpId> runs, open;
    for (const SchedOpId op : chain_.stages[k].backward) {
      open.push_back(op);
      while (!open.empty()) {
        const SchedOpId next = open.back();
        const size_t before = open.size();
        for (const SchedValueId v : table_.reads(next))
          if (waits_[table_.producer(v)] == rerun_round_) open.push_back(table_.producer(v));
        if (open.size() > before) continue;  // those first
        open.pop_back();
        if (next != op && waits_[next] != rerun_round_) continue;  // twice among the open ones
        waits_[next] = 0;
        runs.push_back(next);
      }
    }
    return runs;
  }

  // What follows from the runs of the forward part, and of the backward part with the reruns. The
  // stage's input is not counted; gradients of later stages are there from its beginning on.
  ChainOption option_of(size_t k, const std::vector<SchedOpId>& reruns) {
    const ChainStage& stage = chain_.stages[k];
    std::vector<SchedOpId> backward = with_reruns(k, reruns);
    std::vector<SchedOpId> runs = stage.forward;
    runs.insert(runs.end(), backward.begin(), backward.end());
    const size_t border = stage.forward.size(), end = runs.size();
    Presence presence(table_, end);
    for (size_t i = 0; i < end; ++i) {
      presence.add_workspace(i, table_.workspace(runs[i]));
      for (const SchedValueId v : table_.reads(runs[i])) {
        const bool is_gradient = is_forward_[table_.producer(v)] == 0;
        if (!presence.has(v) && is_gradient) presence.begin(v, border);
        if (presence.has(v)) presence.use(v, i);
      }
      for (const SchedValueId v : table_.makes(runs[i])) presence.begin(v, i);
    }
    ChainOption option;
    const SchedValueId output = output_of(k);
    for (Presence::Stay& stay : presence.stays()) {
      const bool is_gradient = is_forward_[table_.producer(stay.value)] == 0;
      if (is_gradient && last_stage(stay.value) < k) stay.to = end - 1;
      if (stay.value == output && stay.from < border) stay.to = std::max(stay.to, border - 1);
      if (stay.value != output && stay.from < border && stay.to >= border)
        option.kept_bytes += table_.bytes(stay.value);
    }
    presence.sum();
    option.forward_peak = presence.peak(0, border);
    option.backward_peak = presence.peak(border, end) + bytes_passing(k, presence);
    option.cost = cost_of(reruns);
    option.backward = std::move(backward);
    chain_.units += static_cast<int64_t>(end);
    return option;
  }

  SchedValueId output_of(size_t k) const {
    return k + 1 < chain_.stages.size() ? chain_.stages[k + 1].input : SchedValueId::none();
  }

  // Of gradients that the stage's backward part does not touch.
  double bytes_passing(size_t k, const Presence& presence) const {
    double bytes = 0;
    for (const SchedValueId v : table_.values())
      if (is_forward_[table_.producer(v)] == 0 && !presence.has(v) &&
          backward_stage_[table_.producer(v)] > k && last_stage(v) < k)
        bytes += table_.bytes(v);
    return bytes;
  }

  const ActionTable& table_;
  std::span<const SchedOpId> order_;
  IdVector<SchedOpId, size_t> position_;  // in the order
  IdVector<SchedOpId, char> is_forward_;
  std::vector<SchedOpId> forward_;              // in order
  IdVector<SchedOpId, size_t> forward_stage_;   // of ops of the forward part: a stage
  IdVector<SchedOpId, size_t> backward_stage_;  // of ops of the backward part, likewise
  // Of reruns_for: the last call in which the value was needed.
  IdVector<SchedValueId, int64_t> needed_;
  int64_t needed_round_ = 0;
  // Of with_reruns: the last call in which the op was to run again and had not yet.
  IdVector<SchedOpId, int64_t> waits_;
  int64_t rerun_round_ = 0;
  // The time of an op and of all before it, as a tree; of the forward part.
  IdVector<SchedOpId, double> from_nothing_;
  double free_cost_ = 0;
  Chain chain_;
};

}  // namespace

Chain find_chain(const ActionTable& table, std::span<const SchedOpId> order) {
  return Finder(table, order).find();
}

}  // namespace lowtide::remat

#include "order/beam.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "order/prefix.h"

namespace lowtide::order {
namespace {

class Beam {
 public:
  Beam(const OrderGraph& graph, int64_t budget_bytes, size_t width, const SafeMoveOptions& safe,
       WorkBudget& work)
      : graph_(graph), width_(width), safe_(safe, budget_bytes, work), work_(work) {}

  std::vector<OpId> run() {
    auto root = std::make_shared<Prefix>(graph_);
    safe_.close(*root);
    if (root->complete()) return {root->sequence().begin(), root->sequence().end()};
    expand(root);
    while (!groups_.empty() && !work_.exhausted()) {
      Group group = std::move(groups_.begin()->second);
      groups_.erase(groups_.begin());
      trim(group);
      for (const Candidate& candidate : group) {
        std::shared_ptr<Prefix> prefix = grow(candidate);
        if (prefix->complete()) return {prefix->sequence().begin(), prefix->sequence().end()};
        expand(prefix);
      }
    }
    return {};
  }

 private:
  // A child is only written down when it is made; its prefix is copied when it survives.
  struct Candidate {
    int64_t live_bytes;
    uint64_t hash;
    std::shared_ptr<const Prefix> parent;  // shared by its children; gone with the last of them
    std::vector<OpId> moves;
  };
  using Group = std::vector<Candidate>;

  void expand(const std::shared_ptr<Prefix>& prefix) {
    const size_t length = prefix->sequence().size();
    const std::vector<OpId> ready(prefix->ready().begin(), prefix->ready().end());
    for (OpId op : ready) {
      if (work_.exhausted()) return;
      if (!safe_.fits(*prefix, op)) continue;
      work_.spend();
      prefix->run(op);
      safe_.close(*prefix);
      const auto moves = prefix->sequence().subspan(length);
      Group& group = groups_[prefix->sequence().size()];
      group.push_back({prefix->live_bytes(), prefix->hash(), prefix, {moves.begin(), moves.end()}});
      prefix->undo_to(length);
      if (group.size() >= 4 * width_ + 64) trim(group);
    }
  }

  // Keeps the best, each set of ops once. (A hash decides here: a collision could only lose a
  // candidate.)
  void trim(Group& group) const {
    std::sort(group.begin(), group.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.live_bytes, a.hash) < std::tie(b.live_bytes, b.hash);
    });
    const auto same = [](const Candidate& a, const Candidate& b) { return a.hash == b.hash; };
    group.erase(std::unique(group.begin(), group.end(), same), group.end());
    if (group.size() > width_)
      group.erase(group.begin() + static_cast<std::ptrdiff_t>(width_), group.end());
  }

  std::shared_ptr<Prefix> grow(const Candidate& candidate) {
    auto prefix = std::make_shared<Prefix>(*candidate.parent);
    for (OpId op : candidate.moves) prefix->run(op);
    // Copying costs about as much as running one op in sixteen.
    work_.spend(static_cast<int64_t>(candidate.moves.size() + graph_.size() / 16 + 1));
    return prefix;
  }

  const OrderGraph& graph_;
  const size_t width_;
  SafeMoves safe_;
  WorkBudget& work_;
  std::map<size_t, Group> groups_;  // by number of ops run
};

}  // namespace

std::vector<OpId> beam_search(const OrderGraph& graph, int64_t budget_bytes, size_t width,
                              const SafeMoveOptions& safe, WorkBudget& work) {
  return Beam(graph, budget_bytes, width, safe, work).run();
}

}  // namespace lowtide::order

// The list of rewrites: passes that replace ops by others that compute the same for less. A rewrite
// is a row: its name (of the flags --rewrite and --no-rewrite), whether it runs unless somebody
// asks otherwise, which graphs it is for, what it does to memory, time and bits, and the pass. Each
// is checked against the reference executor by the test beside it, and gives a graph that passes
// ir::check, so none can close a cycle.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "plan/kernel_catalog.h"

namespace lowtide::rewrite {

// What passes may ask.
struct RewriteContext {
  int64_t alignment_bytes = 1;
  bool in_parts = false;     // whether the step is one in parts
  bool has_cuts = false;     // whether somebody cuts some of its ops
  int64_t query_blocks = 1;  // of each attention
  // Predicted, of one run of an op.
  std::function<Result<double>(const plan::OpDesc&)> seconds = {};
};

struct RewriteResult {
  ir::Graph graph;
  int64_t ops = 0;  // that were removed or changed; 0: the graph is as it was
};

// The graph as a door gives it, or the step that is planned: in training with the backward pass,
// otherwise the same graph.
enum class RewriteStage : uint8_t { kForward, kStep };

struct Rewrite {
  std::string_view name;
  bool by_default = false;
  bool in_parts = false;    // runs by default where the step's largest axis class is cut
  bool with_cuts = false;   // runs by default where ops are cut, along whatever axis
  bool in_blocks = false;   // runs by default where attention is wanted in blocks
  bool frees_axis = false;  // of use only where ops are cut along an axis that it frees
  bool on_forward = false;  // runs before there are gradients
  bool on_step = false;     // runs on the whole step
  std::string_view effect;  // for people
  Result<RewriteResult> (*run)(const ir::Graph& graph, const RewriteContext& context) = nullptr;
};

// In the order in which they run.
std::span<const Rewrite> rewrites();

// Runs one. On a forward graph it is as if it had nothing to do where its results would depend on
// fewer of the given values than before: a parameter whose gradient is zero trains nevertheless
// (its weights decay), one without gradient does not.
Result<RewriteResult> run(const Rewrite& rewrite, RewriteStage stage, const ir::Graph& graph,
                          const RewriteContext& context);

// What somebody asks for beyond the defaults, by name.
struct RewriteChoice {
  std::vector<std::string> with = {}, without = {};
};

// Error: kUsage, naming a name that is no rewrite's, or that is asked for and refused.
Status check(const RewriteChoice& choice);
bool is_chosen(const Rewrite& rewrite, const RewriteChoice& choice,
               const RewriteContext& context = {});

}  // namespace lowtide::rewrite

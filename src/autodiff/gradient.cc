#include "autodiff/gradient.h"

#include <fmt/core.h>

#include <set>

#include "autodiff/backward.h"

namespace lowtide::autodiff {
namespace {

// A gradient may be a view (a bias of other dims than the sum that makes it): what occupies memory
// is its base.
void mark_gradient(ir::Graph& graph, ir::ValueId gradient, size_t first_new) {
  for (ir::ValueId id = gradient; id.valid() && id.index() >= first_new;) {
    graph.set_category(id, Category::kGradient);
    const ir::Value& value = graph.value(id);
    id = value.alias == ir::Alias::kView ? value.base : ir::ValueId::none();
  }
}

Status check_loss(const ir::Graph& graph, ir::ValueId loss) {
  const ir::Value& value = graph.value(loss);
  if (!value.dims.empty() || !is_float(value.dtype))
    return error(ErrorCode::kInput,
                 fmt::format("the loss '{}' must be a float scalar; it has {} dimensions of {}",
                             value.name, value.dims.size(), name(value.dtype)));
  return {};
}

}  // namespace

Result<std::vector<ir::ValueId>> append_gradients(ir::Graph& graph, ir::ValueId loss,
                                                  std::span<const ir::ValueId> wrt,
                                                  const GradientOptions& options) {
  LT_RETURN_IF_ERROR(check_loss(graph, loss));
  const size_t first_new = graph.value_count();
  Backward pass(graph, wrt, options);
  LT_RETURN_IF_ERROR(pass.run(loss));
  std::vector<ir::ValueId> gradients;
  // Which summand of a gradient is the last one, and so the gradient itself, is only known now.
  std::set<ir::ValueId> named;
  for (const ir::ValueId value : wrt) {
    if (!pass.has_gradient(value)) {
      gradients.push_back(ir::ValueId::none());
      continue;
    }
    LT_ASSIGN(const ir::ValueId gradient, pass.gradient(value));
    gradients.push_back(gradient);
    if (graph.value(value).category != Category::kParameter || gradient.index() < first_new)
      continue;
    mark_gradient(graph, gradient, first_new);
    if (named.insert(gradient).second)
      graph.rename(gradient, graph.fresh_name("grad/" + graph.value(value).name));
  }
  return gradients;
}

}  // namespace lowtide::autodiff

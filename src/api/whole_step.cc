#include "api/whole_step.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "api/state.h"
#include "lowtide/api.h"

namespace lowtide {
namespace {

constexpr double kEffort = 1;  // without a budget there is only an order and a packing to find

std::string fact(const plan::Plan& plan, std::string_view key) {
  const auto found = plan.provenance.find(key);
  return found == plan.provenance.end() ? std::string() : found->second;
}

void take_fact(const plan::Plan& plan, std::string_view key, std::string& option) {
  if (const std::string said = fact(plan, key); !said.empty()) option = said;
}

void take_fact(const plan::Plan& plan, std::string_view key, double& option) {
  if (const std::string said = fact(plan, key); !said.empty())
    option = std::strtod(said.c_str(), nullptr);
}

ReadOptions reading_of(const plan::Plan& plan) {
  ReadOptions options{.dims = plan.bindings, .training = fact(plan, "train") == "yes"};
  options.dropout = fact(plan, "dropout") != "no";
  return options;
}

PlanOptions options_of(const plan::Plan& plan) {
  PlanOptions options;
  options.train = fact(plan, "train") == "yes";
  take_fact(plan, "loss", options.loss);
  take_fact(plan, "loss_output", options.loss_output);
  take_fact(plan, "optimizer", options.optimizer);
  take_fact(plan, "learning_rate", options.learning_rate);
  take_fact(plan, "weight_decay", options.weight_decay);
  take_fact(plan, "momentum", options.momentum);
  double threads = 0;
  take_fact(plan, "threads", threads);
  options.threads = static_cast<int>(threads);
  options.effort = kEffort;
  return options;
}

}  // namespace

bool in_parts(const plan::Plan& plan) {
  return plan.provenance.contains("split") || plan.provenance.contains("cuts");
}

Result<plan::Plan> whole_step(const plan::Plan& plan, const std::string& file) {
  if (!file.ends_with(".lt")) {
    LT_ASSIGN(const Model model, Model::read(file, reading_of(plan)));
    LT_ASSIGN(const Plan whole, Plan::make(model, options_of(plan)));
    return whole.state().plan;
  }
  LT_ASSIGN(const Plan whole, Plan::load(file));
  if (!whole.verify())
    return error(ErrorCode::kUsage,
                 fmt::format("{}: not verified; `lowtide verify` says why", file));
  if (in_parts(whole.state().plan))
    return error(ErrorCode::kUsage,
                 fmt::format("{}: is in parts itself; one planned without --split and --cut is "
                             "wanted, or the model",
                             file));
  return whole.state().plan;
}

}  // namespace lowtide

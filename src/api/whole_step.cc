#include "api/whole_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "api/planning.h"
#include "api/state.h"
#include "cost/device.h"
#include "lowtide/api.h"
#include "pipeline/prepare.h"
#include "plan/part_name.h"

namespace lowtide {
namespace {

constexpr double kEffort = 1;  // without a budget there is only an order and a packing to find

std::string fact_of(const plan::Plan& plan, std::string_view key) {
  const auto found = plan.provenance.find(key);
  return found == plan.provenance.end() ? std::string() : found->second;
}

void take_fact(const plan::Plan& plan, std::string_view key, std::string& option) {
  if (const std::string said = fact_of(plan, key); !said.empty()) option = said;
}

void take_fact(const plan::Plan& plan, std::string_view key, double& option) {
  if (const std::string said = fact_of(plan, key); !said.empty())
    option = std::strtod(said.c_str(), nullptr);
}

void take_fact(const plan::Plan& plan, std::string_view key, std::optional<int64_t>& option) {
  if (const std::string said = fact_of(plan, key); !said.empty())
    option = std::strtoll(said.c_str(), nullptr, 10);
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

ReadOptions reading_of(const plan::Plan& plan) {
  ReadOptions options{.dims = plan.bindings, .training = fact_of(plan, "train") == "yes"};
  options.dropout = fact_of(plan, "dropout") != "no";
  return options;
}

PlanOptions options_of(const plan::Plan& plan) {
  PlanOptions options;
  options.train = fact_of(plan, "train") == "yes";
  take_fact(plan, "loss", options.loss);
  take_fact(plan, "loss_output", options.loss_output);
  take_fact(plan, "ignore_index", options.ignore_index);
  options.keep_outputs = fact_of(plan, "keep_outputs") == "yes";
  take_fact(plan, "optimizer", options.optimizer);
  take_fact(plan, "learning_rate", options.learning_rate);
  take_fact(plan, "weight_decay", options.weight_decay);
  take_fact(plan, "momentum", options.momentum);
  double threads = 0;
  take_fact(plan, "threads", threads);
  options.threads = static_cast<int>(threads);
  options.effort = kEffort;
  double blocks = 1;
  take_fact(plan, "query_blocks", blocks);
  options.query_blocks = static_cast<int64_t>(blocks);
  options.rewrites = words(fact_of(plan, "rewrites"));
  options.no_rewrites = words(fact_of(plan, "no_rewrites"));
  return options;
}

// Of a device that is known here by its name; otherwise the default one. It decides which rewrites
// are worth their time.
void take_device(const plan::Plan& plan, PlanOptions& options) {
  const std::string name = fact_of(plan, "device");
  if (!name.empty() && cost::find_device(name)) options.device = name;
  if (const std::string model = fact_of(plan, "cost_model"); !model.empty())
    options.cost_model = model;
}

}  // namespace

bool in_parts(const plan::Plan& plan) {
  return plan.provenance.contains("split") || plan.provenance.contains("cuts");
}

bool runs_parts(const plan::Plan& plan) {
  return in_parts(plan) && std::any_of(plan.ops.begin(), plan.ops.end(), [](const auto& op) {
           return plan::part_name(op.name).has_value();
         });
}

// Of a name in a plan file only the last part counts: it leads to no other folder.
std::string model_file_of(const plan::Plan& plan) {
  return std::filesystem::path(fact_of(plan, "model_file")).filename().string();
}

std::string model_beside(const plan::Plan& plan, const std::string& plan_file,
                         const std::string& model_folder) {
  namespace fs = std::filesystem;
  const std::string name = model_file_of(plan);
  if (name.empty()) return {};
  for (const fs::path& folder :
       {fs::path(plan_file).parent_path(), fs::path(model_folder), fs::path()}) {
    const fs::path file = folder / name;
    std::error_code unreachable;
    if (fs::is_regular_file(file, unreachable)) return file.string();
  }
  return {};
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

namespace {

// `split` and cuts: as the plan was asked for; some rewrites serve only to cut a step.
Result<verify::PartsReport> beside_step(const plan::Plan& plan, const Model& model,
                                        const std::string& split) {
  PlanOptions options = options_of(plan);
  take_device(plan, options);
  options.split = split;
  options.cuts = words(fact_of(plan, "cuts"));
  LT_ASSIGN(const Planning planning, prepare_planning(model, options));
  std::vector<pipeline::RewriteWorth> worth;
  std::vector<pipeline::Stage> stages;
  pipeline::StageClock clock(stages);
  LT_ASSIGN(const ir::Graph whole,
            pipeline::step_in_one_part(model.state().graph, planning.options, worth, clock));
  return verify::verify_parts(plan, whole);
}

}  // namespace

Result<verify::PartsReport> verify_against(const plan::Plan& plan, const std::string& model) {
  if (model.ends_with(".lt"))
    return error(ErrorCode::kUsage,
                 fmt::format("{}: is a plan; the model that '{}' was planned from is wanted "
                             "(.onnx, .pt2, .graph or .json)",
                             model, plan.model));
  LT_ASSIGN(const Model read, Model::read(model, reading_of(plan)));
  const std::string split = fact_of(plan, "split");
  LT_ASSIGN(verify::PartsReport report, beside_step(plan, read, split));
  if (report.ok() || split.empty()) return report;
  // Where auto chose one part, it is the step without those rewrites.
  LT_ASSIGN(verify::PartsReport in_one, beside_step(plan, read, {}));
  return in_one.ok() ? std::move(in_one) : std::move(report);
}

}  // namespace lowtide

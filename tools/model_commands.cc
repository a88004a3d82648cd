// plan, verify, run, inspect: what a user does with a model.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/budgets.h"
#include "api/compare.h"
#include "api/largest.h"
#include "api/state.h"
#include "api/whole_step.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "exec/cpu/cpu.h"
#include "io/graph_file.h"
#include "io/inspect.h"
#include "io/pt2_reader.h"
#include "lowtide/api.h"
#include "report/run_report.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/output_files.h"
#include "tools/plan_flags.h"
#include "tools/report_files.h"
#include "tools/watch.h"
#include "verify/parts.h"
#include "verify/verify.h"

namespace lowtide::tools {
namespace {

constexpr size_t kMostFinding = 1000;  // bytes of a finding that are printed

// ---- plan ----

struct PlanCommand {
  PlanFlags flags;
  std::string output, budget, slowdown, max, report;
  bool json = false, quiet = false, progress = false;
};

struct MaxDim {
  std::string name;
  Sizes sizes = {};
};

// "dim=batch", "batch", or "dim=seq:64", whose sizes are multiples of 64.
Result<MaxDim> parse_max(const std::string& text) {
  constexpr std::string_view kPrefix = "dim=";
  MaxDim dim{.name = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text};
  const size_t colon = dim.name.rfind(':');
  if (colon == std::string::npos) return dim;
  const char* end = text.data() + text.size();
  const char* number = end - (dim.name.size() - colon - 1);
  const auto [at, failure] = std::from_chars(number, end, dim.sizes.step);
  if (failure != std::errc() || at != end || dim.sizes.step < 1 || dim.sizes.step > dim.sizes.most)
    return error(ErrorCode::kUsage,
                 fmt::format("--max: '{}' is no step of sizes from 1 to {}, as in dim=seq:64",
                             std::string_view(number, end), dim.sizes.most));
  dim.name.resize(colon);
  return dim;
}

// The dimension that --max names. It must be one that has no size yet.
Result<MaxDim> dim_to_maximize(const PlanCommand& given) {
  LT_ASSIGN(MaxDim named, parse_max(given.max));
  const std::string& dim = named.name;
  for (const std::string& sized : given.flags.dims)
    if (sized.starts_with(dim + "="))
      return error(ErrorCode::kUsage,
                   fmt::format("--max: '{}' has a size already: --dim {}", dim, sized));
  LT_ASSIGN(const Model model, Model::read(given.flags.model));
  const std::vector<std::string> free = model.free_dims();
  if (std::find(free.begin(), free.end(), dim) != free.end()) return named;
  return error(ErrorCode::kUsage,
               fmt::format("--max: model '{}' has no dimension '{}'; it has {}", model.name(), dim,
                           free.empty() ? "none" : fmt::format("{}", fmt::join(free, ", "))));
}

// A network or its parts may not be there at a size.
Error failure_of(const Error& failure, const MaxDim& asked) {
  if (failure.code != ErrorCode::kInput || asked.sizes.step > 1) return failure;
  return {failure.code,
          fmt::format("{} (--max looks at sizes from 1 on; --max dim={}:64 at multiples of 64)",
                      failure.message, asked.name)};
}

// The plan and its report, as far as they are asked for: both or none.
Status write_plan_files(const PlanCommand& given, const Plan& plan) {
  std::vector<FileContents> files;
  if (!given.output.empty()) {
    LT_ASSIGN(FileContents file, file_of(plan, given.output));
    files.push_back(std::move(file));
  }
  if (!given.report.empty()) {
    const std::string name = std::filesystem::path(given.output).filename().string();
    LT_ASSIGN(std::string page, plan_report(plan, name));
    files.push_back({given.report, std::move(page)});
  }
  return write_files_atomically(files);
}

Status run_max(const CLI::App& command, PlanCommand& given) {
  LT_ASSIGN(const MaxDim asked, dim_to_maximize(given));
  const std::string& dim = asked.name;
  const ReadAtSize read = [&](int64_t size) {
    given.flags.dims.push_back(fmt::format("{}={}", dim, size));
    Result<Model> model = read_model(command, given.flags);
    given.flags.dims.pop_back();
    return model;
  };
  std::optional<SearchWatch> watch(std::in_place, given.flags.options, given.progress);
  const Result<LargestSize> made = plan_largest(read, given.flags.options, asked.sizes);
  if (!made) return tl::unexpected(failure_of(made.error(), asked));
  const LargestSize& largest = *made;
  watch.reset();
  LT_RETURN_IF_ERROR(write_plan_files(given, *largest.plan));
  if (given.quiet) return {};
  put(given.json ? print_json(largest, dim)
                 : largest.plan->text() + "\n" + print(largest, printable(dim)));
  return {};
}

// Bytes, or what becomes bytes once the model is planned: "60%", "floor" (the least found).
Status take_budget(PlanCommand& given) {
  LT_ASSIGN(const Amount amount, parse_amount(given.budget, "--budget"));
  if (amount.kind == Amount::Kind::kBytes)
    given.flags.options.budget_bytes = amount.bytes;
  else if (given.max.empty())
    given.flags.options.budget = given.budget;
  else
    return error(
        ErrorCode::kUsage,
        fmt::format("--budget: '{}' is another one for each size; --max needs bytes, as in "
                    "2GiB",
                    given.budget));
  return {};
}

// "10%" or "10": per cent of each op once, as a share.
Result<double> parse_slowdown(std::string_view text) {
  const std::string_view number = text.ends_with('%') ? text.substr(0, text.size() - 1) : text;
  double percent = 0;
  const char* end = number.data() + number.size();
  const auto [at, failure] = std::from_chars(number.data(), end, percent);
  if (failure != std::errc() || at != end || !(percent >= -1e6 && percent <= 1e6))
    return error(ErrorCode::kUsage,
                 fmt::format("--slowdown: '{}' is no number of per cent, as in 10%", text));
  if (percent < 0)
    return error(ErrorCode::kUsage,
                 fmt::format("--slowdown: '{}' is below the least, 0%: each op once of the step in "
                             "one part",
                             text));
  return percent / 100;
}

// Parts are chosen, and moves found, for a budget or a time.
Status check_split(const CLI::App& command, const PlanCommand& given, bool is_limited) {
  const PlanOptions& options = given.flags.options;
  const std::string allowed = "," + options.allow + ",";
  const auto allows = [&](const char* lever) {
    return allowed.find(fmt::format(",{},", lever)) != std::string::npos;
  };
  if (!is_limited && options.split == "auto")
    return error(ErrorCode::kUsage, "--split auto needs --budget or --slowdown");
  for (const char* lever : {"split", "swap"})
    if (!is_limited && allows(lever))
      return error(ErrorCode::kUsage,
                   fmt::format("--allow {} needs --budget or --slowdown", lever));
  // Where levers are open, parts are found if others miss the budget.
  const bool is_open = is_limited && given.max.empty() && !names_levers(command);
  const bool may_choose = options.split == "auto" || (options.split.empty() && allows("split"));
  return needs(command, "--no-mutation", is_open || may_choose, "--split auto");
}

Status run_plan_command(const CLI::App& command, PlanCommand& given) {
  const bool has_budget = command.get_option("--budget")->count() > 0;
  const bool is_limited = has_budget || !given.slowdown.empty();
  LT_RETURN_IF_ERROR(needs(command, "--max", has_budget, "--budget"));
  for (const char* flag : {"--no-recompute", "--swap", "--effort", "--prove", "--without"})
    LT_RETURN_IF_ERROR(needs(command, flag, is_limited, "--budget or --slowdown"));
  LT_RETURN_IF_ERROR(check_split(command, given, is_limited));
  LT_RETURN_IF_ERROR(check_page(given.report));
  LT_RETURN_IF_ERROR(
      check_outputs({{"-o", given.output}, {"--report", given.report}}, inputs_of(given.flags)));
  PlanOptions& options = given.flags.options;
  if (has_budget) LT_RETURN_IF_ERROR(take_budget(given));
  if (!given.slowdown.empty()) {
    LT_ASSIGN(options.slowdown, parse_slowdown(given.slowdown));
  }
  if (!given.max.empty()) return run_max(command, given);
  LT_ASSIGN(const Model model, read_model(command, given.flags));
  std::optional<SearchWatch> watch(std::in_place, options, given.progress);
  LT_ASSIGN(const Plan plan, Plan::make(model, options));
  watch.reset();
  LT_RETURN_IF_ERROR(write_plan_files(given, plan));
  if (!given.quiet) put(given.json ? plan.json() : plan.text() + curve_for_terminal(plan));
  return {};
}

void add_plan(CLI::App& app, Action& action) {
  auto given = std::make_shared<PlanCommand>();
  CLI::App* command = app.add_subcommand("plan", "Plan a model: order, addresses, proof");
  add_model_flags(command, given->flags);
  command->add_option("-o,--output", given->output, "write the plan here (.lt)")
      ->check(file_name());
  command->add_option("--report", given->report, "write a report of the plan here (.html)")
      ->check(file_name());
  CLI::Option* budget =
      command
          ->add_option(
              "--budget", given->budget,
              "of the whole device, as in 1.5GiB; or 60%, of the arena that needs none; or "
              "floor, the least arena that is found. Where no flag speaks of levers: by order and "
              "recompute, and if these miss it "
              "by all levers that the device has; --allow recompute,reorder,rewrite: by those "
              "alone")
          ->type_name("BYTES|PERCENT|floor");
  command
      ->add_option("--slowdown", given->slowdown,
                   "the least memory whose step takes at most so much longer than each op once, as "
                   "in 10%; where no flag speaks of levers by all but swap")
      ->type_name("PERCENT")
      ->excludes(budget);
  command
      ->add_option(
          "--max", given->max,
          "plan the largest size of this dimension that fits the budget, as in dim=batch, or "
          "in dim=seq:64 of the multiples of 64; by order and recompute where no flag "
          "names more levers, with --split auto in blocks and parts that are found")
      ->type_name("dim=NAME[:STEP]")
      ->check(file_name());
  add_search_flags(command, given->flags);
  add_progress_flag(command, given->progress);
  command
      ->add_option("--dump-problems", given->flags.options.dump_folder,
                   "write the bare ordering and packing problems here (order.txt, pack.csv)")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--json", given->json, "print the verdict as JSON");
  command->add_flag("--quiet", given->quiet, "print nothing");
  command->callback([given, command, &action] {
    action = [given, command] { return run_plan_command(*command, *given); };
  });
}

// ---- verify ----

// What was found right. The bound on the bytes is about orders that run each op once, so a plan
// with reruns or transfers names the bounds that hold for it instead.
std::string verified_line(const std::string& path, const Plan& plan, const verify::Report& report) {
  const plan::Claims& claims = plan.state().plan.claims;
  std::string line =
      fmt::format("{}: verified: {} steps, peak {} bytes, arena {} bytes", printable(path),
                  plan.state().plan.steps.size(), report.peak_bytes, plan.arena_bytes());
  if (claims.budget_bytes)
    line += fmt::format(", budget {} bytes, floor {} bytes", *claims.budget_bytes,
                        claims.floor_bytes.value_or(report.resident_bytes));
  if (!plan::reruns_or_moves(plan.state().plan))
    return line + fmt::format(", lower bound {} bytes{}\n", claims.lower_bound_bytes,
                              claims.order_proven ? " (order proven optimal)" : "");
  if (report.reruns > 0) line += fmt::format(", {} reruns", report.reruns);
  if (report.stored_bytes + report.loaded_bytes > 0)
    line += fmt::format(", {} bytes stored, {} loaded", report.stored_bytes, report.loaded_bytes);
  return line + fmt::format(", step {:.2f} ms, at least {:.2f} ms within the budget\n",
                            report.predicted_seconds * 1e3, claims.lower_bound_seconds * 1e3);
}

struct VerifyFlags {
  std::string plan, against;
  bool json = false;
};

// All findings, those beside the model included; what both say is said once.
std::vector<std::string> all_findings(const verify::Report& report,
                                      const std::optional<verify::PartsReport>& beside) {
  std::vector<std::string> lines;
  for (const verify::Finding& finding : report.findings) lines.push_back(finding.message);
  if (!beside) return lines;
  for (const std::string& finding : beside->findings)
    if (std::find(lines.begin(), lines.end(), finding) == lines.end()) lines.push_back(finding);
  return lines;
}

// What is true and worth knowing; of a plan in parts also what only its model can say.
std::vector<std::string> all_notes(const plan::Plan& plan, const verify::Report& report,
                                   bool is_beside_model) {
  std::vector<std::string> notes = report.notes;
  if (is_beside_model) return notes;
  if (!report.open_parts_floor.empty()) notes.push_back(report.open_parts_floor);
  if (runs_parts(plan))
    notes.emplace_back(
        "ops run in parts: that these are all of the step in one part, each once, is checked "
        "beside "
        "the model only (--against MODEL)");
  return notes;
}

Status run_verify_command(const VerifyFlags& flags) {
  const std::string& path = flags.plan;
  const bool json = flags.json;
  LT_ASSIGN(const Plan plan, Plan::load(path));
  const verify::Report report = verify::verify(plan.state().plan);
  std::optional<verify::PartsReport> beside;
  if (report.ok() && !flags.against.empty()) {
    LT_ASSIGN(beside, verify_against(plan.state().plan, flags.against));
  }
  const std::vector<std::string> findings = all_findings(report, beside);
  if (json) {
    nlohmann::ordered_json out;
    out["ok"] = findings.empty();
    out["peak_bytes"] = report.peak_bytes;
    out["lower_bound_bytes"] = plan.lower_bound_bytes();
    out["arena_bytes"] = plan.arena_bytes();
    out["floor_bytes"] = report.floor_bytes;
    out["predicted_seconds"] = report.predicted_seconds;
    out["lower_bound_seconds"] = plan.state().plan.claims.lower_bound_seconds;
    out["reruns"] = report.reruns;
    out["stored_bytes"] = report.stored_bytes;
    out["loaded_bytes"] = report.loaded_bytes;
    out["findings"] = nlohmann::ordered_json::array();
    for (const std::string& finding : findings) out["findings"].push_back(finding);
    out["notes"] = all_notes(plan.state().plan, report, beside.has_value());
    if (beside) {
      out["ops_in_parts"] = beside->ops_in_parts;
      out["parts"] = beside->parts;
    }
    put(out.dump(2) + "\n");
  }
  if (!findings.empty()) return tl::unexpected(refusal(path, findings));
  if (json) return {};
  put(verified_line(path, plan, report));
  for (const std::string& note : all_notes(plan.state().plan, report, beside.has_value()))
    put(fmt::format("  note: {}\n", printable(note, kMostFinding)));
  if (beside)
    put(fmt::format("  computes what the step of {} does: {} of its ops run in {} parts\n",
                    printable(flags.against), beside->ops_in_parts, beside->parts));
  return {};
}

void add_verify(CLI::App& app, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command =
      app.add_subcommand("verify", "Recompute every claim of a plan from its file alone");
  command->add_option("plan", flags->plan, "plan file (.lt)")->required()->check(file_name());
  command
      ->add_option("--against", flags->against,
                   "the model: also prove that the plan, in parts or not, computes its step")
      ->check(file_name());
  command->add_flag("--json", flags->json, "print the findings as JSON");
  command->callback([flags, &action] { action = [flags] { return run_verify_command(*flags); }; });
}

// ---- run ----

struct RunFlags {
  std::string plan;
  std::string slow_tier = "memory", link_throttle;
  std::string against;
  CompareOptions options;
  bool json = false;
};

Status parse_slow_tier(RunFlags& flags) {
  CompareOptions& options = flags.options;
  if (flags.slow_tier != "memory") {
    std::error_code unreachable;
    const auto is_folder = [&](const std::string& path) {
      return std::filesystem::is_directory(path, unreachable);
    };
    const size_t name = flags.slow_tier.find('=') + 1;  // 0: there is no name
    if (!is_folder(flags.slow_tier) && (name == 0 || !is_folder(flags.slow_tier.substr(name))))
      return error(ErrorCode::kUsage,
                   fmt::format("--slow-tier: '{}' is neither 'memory' nor a folder that is there",
                               flags.slow_tier));
    options.slow_tier_folder = flags.slow_tier;
  }
  if (flags.link_throttle.empty()) return {};
  LT_ASSIGN(const int64_t speed, parse_bytes_per_second(flags.link_throttle, "--link-throttle"));
  options.link_bytes_per_second = static_cast<double>(speed);
  return {};
}

Status run_run_command(RunFlags& flags) {
  LT_RETURN_IF_ERROR(parse_slow_tier(flags));
  LT_ASSIGN(const Plan plan, Plan::load(flags.plan));
  if (const Status verified = plan.verify(); !verified) {
    const std::string& all = verified.error().message;
    return error(ErrorCode::kVerification,
                 fmt::format("{}: not verified: {}; `lowtide verify` lists all", flags.plan,
                             all.substr(0, all.find('\n'))));
  }
  std::optional<plan::Plan> whole;
  std::string model = flags.against;
  if (model.empty() && flags.options.compare && runs_parts(plan.state().plan))
    model = model_beside(plan.state().plan, flags.plan, flags.options.model_folder);
  if (!model.empty()) {
    LT_ASSIGN(whole, whole_step(plan.state().plan, model));
    flags.options.whole = &*whole;
    flags.options.compare = true;
  }
  if (flags.options.poison && !flags.options.compare)
    return error(ErrorCode::kUsage, "--poison needs --compare or --against: it is seen there");
  LT_ASSIGN(const RunReport report, run_plan(plan.state().plan, flags.options));
  put(flags.json ? report::print_json(report) : report::print(report));
  if (report.values_different != 0)
    return error(
        ErrorCode::kInternal,
        fmt::format("{}: {} of {} values differ from the unplanned step, first '{}'", flags.plan,
                    report.values_different, report.values_compared, report.first_different));
  if (report.whole && report.whole->beyond != 0)
    return error(
        ErrorCode::kInternal,
        fmt::format("{}: {} of {} values differ from the step in one part by more than {}, "
                    "first '{}'",
                    flags.plan, report.whole->beyond, report.whole->values, kWholeTolerance,
                    printable(report.whole->first_beyond)));
  return {};
}

void add_run(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand(
      "run", "Run a plan on this CPU, inside one arena of exactly the planned size");
  command->add_option("plan", flags->plan, "plan file (.lt)")->required()->check(file_name());
  CompareOptions& options = flags->options;
  command->add_option("--steps", options.steps, "steps to time")->check(whole_number(1, 1000000));
  command->add_flag("--compare", options.compare,
                    "also run the step unplanned and compare every result bit for bit; of a plan "
                    "in parts whose model lies beside it or in --model-folder: as --against");
  command->add_flag("--poison", options.poison,
                    "fill free memory with NaN bytes: with --compare, a plan that reads what is no "
                    "longer there is found (slower)");
  command
      ->add_option("--against", flags->against,
                   "a plan in parts: compare, within a tolerance, with the unplanned step in one "
                   "part of this model (.onnx, .pt2, .graph, .json) or of this plan of it (.lt)")
      ->check(file_name());
  command
      ->add_option("--seed", options.seed, "of parameters without weights, of inputs, of dropout")
      ->check(whole_number(0, kMostSeed));
  command->add_option("--model-folder", options.model_folder, "where external weight files lie")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--seed-weights", options.seed_missing_weights,
                    "without --model-folder: draw external weights from the seed");
  command->add_flag(
      "--profile", options.profile,
      "also print the time of each kind of op, and the kernels that are furthest from "
      "what the plan predicts");
  command
      ->add_option("--measure", options.measure_file,
                   "add the times of this plan's kernels to this cost store (for plan --costs)")
      ->check(file_name());
  command
      ->add_option("--profile-out", options.profile_file,
                   "write the measured time of each op here (for report --profile)")
      ->check(file_name());
  command
      ->add_option("--dump", options.dump_folder,
                   "write the first step's outputs, gradients and updated values here (.npy)")
      ->check(file_name());
  command->add_option("--threads", options.threads, "0: as many as the plan was made for")
      ->check(whole_number(0, kMostThreads));
  command
      ->add_option("--slow-tier", flags->slow_tier,
                   "where tensors go that the plan moves out: 'memory' (host memory outside the "
                   "arena) or a folder for a file; file=FOLDER: only those of its slow tier 'file'")
      ->check(file_name());
  command
      ->add_option("--link-throttle", flags->link_throttle,
                   "slow transfers down to this speed in each direction, as in 2GiB/s")
      ->check(file_name());
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->callback([flags, &action] { action = [flags] { return run_run_command(*flags); }; });
}

// ---- inspect ----

void make_printable(io::ModelSummary& summary) {
  const auto spell = [](std::string& name) { name = printable(name); };
  spell(summary.name);
  spell(summary.producer);
  for (auto* words : {&summary.symbols, &summary.refused, &summary.no_kernel})
    std::for_each(words->begin(), words->end(), spell);
  for (auto* ops : {&summary.ops, &summary.unsupported})
    for (io::OpCount& op : *ops) {
      spell(op.op_type);
      std::for_each(op.nodes.begin(), op.nodes.end(), spell);
    }
  for (auto* tensors : {&summary.inputs, &summary.outputs})
    for (io::TensorSummary& tensor : *tensors) {
      spell(tensor.name);
      std::for_each(tensor.dims.begin(), tensor.dims.end(), spell);
    }
}

void add_inspect(CLI::App& app, Action& action) {
  auto path = std::make_shared<std::string>();
  auto dims = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("inspect", "Say what a model file holds and what of it is not supported");
  command
      ->add_option("model", *path,
                   "ONNX file, exported program (.pt2), or a graph as data (.graph, .json)")
      ->required()
      ->check(file_name());
  add_dim_flag(command, *dims);
  command->callback([path, dims, &action] {
    action = [path, dims]() -> Status {
      const auto kernels = exec_cpu::make_cpu_kernels();
      io::InspectOptions options = {.bindings = {}, .kernels = kernels.get()};
      LT_ASSIGN(options.bindings, parse_dims(*dims));
      LT_ASSIGN(io::ModelSummary summary,
                io::is_graph_path(*path) ? io::inspect_graph(*path, options)
                : io::is_pt2_path(*path) ? io::inspect_pt2(*path, options)
                                         : io::inspect_onnx(*path, options));
      make_printable(summary);
      put(io::print(summary));
      return {};
    };
  });
}

}  // namespace

void add_model_commands(CLI::App& app, Action& action) {
  add_plan(app, action);
  add_verify(app, action);
  add_run(app, action);
  add_inspect(app, action);
}

}  // namespace lowtide::tools

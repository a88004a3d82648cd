#include "tools/plan_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/bytes.h"
#include "base/result.h"
#include "cost/device.h"
#include "tools/flags.h"

namespace lowtide::tools {
namespace {

// "batch=1" -> dims["batch"] = 1.
Status parse_dim(const std::string& text, std::map<std::string, int64_t, std::less<>>& dims) {
  const size_t equals = text.find('=');
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  int64_t size = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), size);
  if (equals == 0 || number.empty() || parsed.ec != std::errc() ||
      parsed.ptr != number.data() + number.size() || size < 1)
    return error(
        ErrorCode::kUsage,
        fmt::format("--dim: '{}' is not name=size with a size of at least 1, as in batch=8", text));
  if (!dims.emplace(text.substr(0, equals), size).second)
    return error(ErrorCode::kUsage,
                 fmt::format("--dim: '{}' is given twice", text.substr(0, equals)));
  return {};
}

Status check_flags(const CLI::App& command, const PlanFlags& flags) {
  const PlanOptions& options = flags.options;
  for (const char* flag : {"--loss", "--loss-output", "--ignore-index", "--optimizer",
                           "--learning-rate", "--weight-decay", "--momentum", "--dropout"})
    LT_RETURN_IF_ERROR(needs(command, flag, options.train, "--train"));
  LT_RETURN_IF_ERROR(needs(command, "--link", !options.swap.empty(), "--swap"));
  LT_RETURN_IF_ERROR(needs(command, "--prove", options.swap.empty(), "a plan without --swap"));
  LT_RETURN_IF_ERROR(needs(command, "--momentum", options.optimizer == "sgd", "--optimizer sgd"));
  LT_RETURN_IF_ERROR(needs(command, "--costs-any-device", !options.costs_file.empty(), "--costs"));
  LT_ASSIGN(const cost::DeviceProfile device, cost::find_device(options.device));
  return needs(command, "--threads", !device.kernels.empty(),
               "--device cpu or a calibrated profile");
}

void add_training_flags(CLI::App* command, PlanFlags& flags) {
  PlanOptions& options = flags.options;
  command->add_flag("--train", options.train, "plan a training step: loss, gradients, updates");
  command
      ->add_option("--loss", options.loss,
                   "cross-entropy, mse, or model: the output is the loss already")
      ->check(one_of({"cross-entropy", "mse", "model"}));
  command
      ->add_option("--loss-output", options.loss_output,
                   "the output that the loss is of; default: the first of floats")
      ->default_str("");
  command
      ->add_option(
          "--ignore-index", options.ignore_index,
          "the label that cross-entropy leaves out of its mean, -100 in PyTorch; any other "
          "label has to be a class")
      ->check(any_whole_number());
  command->add_option("--optimizer", options.optimizer, "adamw or sgd")
      ->check(one_of({"adamw", "sgd"}));
  command->add_option("--learning-rate", options.learning_rate, "of the optimizer")
      ->check(real_number({.above = true}));
  command->add_option("--weight-decay", options.weight_decay, "of the optimizer")
      ->check(real_number({}));
  command->add_option("--momentum", options.momentum, "of sgd")->check(real_number({.below = 1}));
  command->add_option("--dropout", flags.dropout, "off makes Dropout the identity")
      ->check(one_of({"on", "off"}));
}

void add_lever_flags(CLI::App* command, PlanOptions& options) {
  CLI::Option* allow =
      command
          ->add_option("--allow", options.allow,
                       "only these levers: split, recompute, swap, reorder, rewrite; split is auto "
                       "then, and swap to the device's first slow tier, where no flag says more")
          ->type_name("LEVER,...");
  command
      ->add_option("--forbid", options.forbid,
                   "all levers but these; the others as their flags say")
      ->type_name("LEVER,...")
      ->excludes(allow);
}

}  // namespace

std::vector<NamedPath> inputs_of(const PlanFlags& flags) {
  std::vector<NamedPath> inputs = {{"the model", flags.model},
                                   {"--costs", flags.options.costs_file}};
  std::error_code unreachable;  // a name such as "cpu" is no file
  if (std::filesystem::is_regular_file(flags.options.device, unreachable))
    inputs.push_back({"--device", flags.options.device});
  return inputs;
}

void add_dim_flag(CLI::App* command, std::vector<std::string>& dims) {
  command->add_option("--dim", dims, "size of a symbolic dimension, as in batch=8; may be repeated")
      ->type_name("NAME=SIZE")
      ->default_str("");
}

Result<std::map<std::string, int64_t, std::less<>>> parse_dims(
    const std::vector<std::string>& dims) {
  std::map<std::string, int64_t, std::less<>> sizes;
  for (const std::string& dim : dims) LT_RETURN_IF_ERROR(parse_dim(dim, sizes));
  return sizes;
}

void add_model_flags(CLI::App* command, PlanFlags& flags) {
  PlanOptions& options = flags.options;
  command
      ->add_option("model", flags.model,
                   "ONNX file, exported program (.pt2), or a graph as data (.graph, .json)")
      ->required()
      ->check(file_name());
  add_training_flags(command, flags);
  add_dim_flag(command, flags.dims);
  command->add_option("--device", options.device, "a device profile: a known name or a file")
      ->check(file_name());
  command
      ->add_option("--costs", options.costs_file,
                   "kernel times measured by run --measure, in place of predicted ones")
      ->check(file_name());
  command->add_flag("--costs-any-device", options.costs_any_device,
                    "take them also if they were measured on another device");
  command
      ->add_option(
          "--cost-model", options.cost_model,
          "of kernels that nobody measured: roofline; or tiles: products in whole waves of "
          "output tiles, for a device whose profile has them (rtx3090)")
      ->check(one_of({"roofline", "tiles"}));
  command
      ->add_option("--threads", options.threads,
                   "to plan for, as kernels' workspace depends on them; 0: as many as the machine "
                   "has")
      ->check(whole_number(0, kMostThreads));
  command->add_option("--seed", options.seed, "of the planner")->check(whole_number(0, kMostSeed));
  command
      ->add_option("--time-limit", options.time_limit_seconds,
                   "of wall time; then the best plan so far is the answer, as with Ctrl-C")
      ->type_name("SECONDS")
      ->default_str("none")
      ->check(real_number({.above = true}));
}

void add_cut_flags(CLI::App* command, PlanOptions& options) {
  command
      ->add_option(
          "--cut", options.cuts,
          "these ops run in parts along an axis, as in 'layer*:m:4', or with all ops that "
          "walk the same dimension, as in 'conv1:n*:4', or those of them that make so many "
          "bytes, as in 'conv1:n*:4>1048576'. May be repeated: a second axis of an op is "
          "cut within the parts of the first, those of --split outermost; with '!' at the "
          "end in place of them")
      ->type_name("OPS:AXIS:PARTS")
      ->default_str("");
  command
      ->add_option("--query-blocks", options.query_blocks,
                   "each attention in so many blocks of queries, one after the other, each with "
                   "the keys that a causal mask lets it see: less memory, and less time where it "
                   "is causal")
      ->type_name("N")
      ->default_str("1");
}

namespace {

void add_parts_flags(CLI::App* command, PlanOptions& options) {
  add_cut_flags(command, options);
  command
      ->add_option("--split", options.split,
                   "the step in parts along its largest dimension (samples, as a rule), one after "
                   "the other: so many, or with what lies behind an op in more, as in '2,norm:8', "
                   "or auto: as the budget or the slowdown makes best")
      ->type_name("N[,OP:M]...|auto")
      ->default_str("1");
  command
      ->add_option("--no-mutation", options.no_mutations,
                   "--split auto searches without this step from labels to labels: outer (parts "
                   "of everything), enable, disable, lift or mutate (parts behind an op); may be "
                   "repeated")
      ->type_name("NAME")
      ->default_str("");
}

void add_rewrite_flags(CLI::App* command, PlanOptions& options) {
  command
      ->add_option(
          "--rewrite", options.rewrites,
          "also run this rewrite of the graph (an unknown NAME lists all); may be repeated")
      ->type_name("NAME")
      ->default_str("");
  command
      ->add_option("--no-rewrite", options.no_rewrites,
                   "do without this one, as in common-ops; may be repeated")
      ->type_name("NAME")
      ->default_str("");
}

}  // namespace

void add_search_flags(CLI::App* command, PlanFlags& flags) {
  PlanOptions& options = flags.options;
  add_lever_flags(command, options);
  command->add_flag_callback(
      "--no-recompute", [&options] { options.recompute = false; },
      "under a budget: every op runs once");
  command->add_flag_callback(
      "--no-pieces", [&options] { options.pieces = false; },
      "every Concat copies, also where its operands can lie, or be written, where they belong");
  add_rewrite_flags(command, options);
  add_parts_flags(command, options);
  command->add_flag_callback(
      "--no-sums", [&options] { options.sums = false; },
      "what contributes to a sum of gradients comes in the order of the graph");
  command->add_flag_callback(
      "--no-strided-views", [&options] { options.strided_views = false; },
      "every Transpose and Expand copies, also where all its readers can walk its operand");
  command
      ->add_option(
          "--swap", options.swap,
          "under a budget: buffers may move to this slow tier of the device (host, file); or "
          "to several, the best first, with the room in them, as in host=2GiB,file")
      ->type_name("TIER[=BYTES],...");
  command->add_flag_callback(
      "--no-swap-residents", [&options] { options.swap_residents = false; },
      "parameters, optimizer state and batch stay; what the step makes may move");
  command
      ->add_option("--link", flags.link,
                   "speed of the way to the slow tier, as in 12GiB/s; default: the device's")
      ->type_name("BYTES/s");
  command
      ->add_option(
          "--without", options.without,
          "under a budget: search without this idea. Of --split auto: forecast (candidates are "
          "tried in the "
          "order of what prices of memory promise), waist (their orders are improved around "
          "the peak), more-cuts (other axes are cut, too). Of any parts: windows (rows "
          "beside a part's own are copied where whole values miss the budget). Of all: "
          "de-remat, de-swap (a run or a move that is no longer needed is taken back). May "
          "be repeated")
      ->type_name("NAME")
      ->delimiter(',')
      ->default_str("");
  command
      ->add_option(
          "--effort", options.effort,
          "of search and packing for each budget, about in seconds of one core; of --split "
          "auto beside its trials")
      ->check(real_number({.above = true}));
  command
      ->add_option("--prove", options.prove,
                   "for about so many seconds of one core, once there is a plan, that no schedule "
                   "without transfers is much faster")
      ->type_name("SECONDS")
      ->check(real_number({}));
}

Status needs(const CLI::App& command, const char* flag, bool there, const char* other) {
  const CLI::Option* option = command.get_option_no_throw(flag);
  if (option == nullptr || option->count() == 0 || there) return {};
  return error(ErrorCode::kUsage, fmt::format("{} needs {}", flag, other));
}

bool names_levers(const CLI::App& command) {
  for (const char* flag :
       {"--allow", "--forbid", "--split", "--swap", "--cut", "--query-blocks", "--no-recompute"})
    if (const CLI::Option* lever = command.get_option_no_throw(flag); lever && lever->count() > 0)
      return true;
  return false;
}

Result<Model> read_model(const CLI::App& command, PlanFlags& flags) {
  LT_RETURN_IF_ERROR(check_flags(command, flags));
  if (names_levers(command)) flags.options.more_levers = false;
  ReadOptions reading;
  LT_ASSIGN(reading.dims, parse_dims(flags.dims));
  reading.training = flags.options.train;
  reading.dropout = flags.dropout == "on";
  // A search spreads itself over its work: without a word on that, the time says how much.
  const CLI::Option* effort = command.get_option_no_throw("--effort");
  if (effort != nullptr && effort->count() == 0)
    flags.options.effort = std::min(flags.options.effort, flags.options.time_limit_seconds);
  if (!flags.link.empty()) {
    LT_ASSIGN(const int64_t speed, parse_bytes_per_second(flags.link, "--link"));
    flags.options.link_bytes_per_second = static_cast<double>(speed);
  }
  return Model::read(flags.model, reading);
}

}  // namespace lowtide::tools

#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/printable.h"

namespace lowtide::report {
namespace {

std::string print(const WholeComparison& whole) {
  std::string text = fmt::format(
      "compared {} outputs, gradients and updated values of the first step with the step in one "
      "part: {} beyond a relative difference of {}, largest {:.2g}{}\n",
      whole.values, whole.beyond, kWholeTolerance, whole.largest,
      whole.largest_name.empty() ? "" : ", in '" + printable(whole.largest_name) + "'");
  if (whole.rounded > 0)
    text += fmt::format(
        "{} others are, too, by rounding: at most {:.1f} times as far apart as a change of the "
        "last bit of each weight and input makes them\n",
        whole.rounded, whole.roundings);
  if (whole.parameters_apart > 0)
    text += fmt::format("parameters that Adam updated are at most {:.2g} apart\n",
                        whole.parameters_apart);
  if (whole.apart > 0)
    text += fmt::format(
        "{} results of the step in one part are not there by name in parts, or in a layout of "
        "their own, first '{}'\n",
        whole.apart, printable(whole.first_apart));
  return text;
}

std::string print_profile(const RunReport& report) {
  std::string text;
  auto out = std::back_inserter(text);
  for (const KindTime& time : report.profile)
    fmt::format_to(out, "  {:<22} {:>5} runs {:>9.2f} ms  predicted {:>9.2f} ms\n",
                   printable(time.kind), time.runs, time.seconds * 1e3,
                   time.predicted_seconds * 1e3);
  if (report.kernels.empty()) return text;
  text += "furthest from what was predicted:\n";
  for (size_t i = 0; i < std::min(kKernelsTold, report.kernels.size()); ++i) {
    const KernelTime& time = report.kernels[i];
    fmt::format_to(out, "  {:>9.2f} ms for {:>9.2f} in {:>5} runs  {}\n", time.seconds * 1e3,
                   time.predicted_seconds * 1e3, time.runs, printable(time.kernel));
  }
  return text;
}

}  // namespace

std::string print(const RunReport& report) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "arena  planned {} bytes ({}), measured {} bytes\n",
                 report.arena_planned_bytes, format_bytes(report.arena_planned_bytes),
                 report.arena_measured_bytes);
  fmt::format_to(out, "step   predicted {:.1f} ms, measured {:.1f} ms (median of {})\n",
                 report.predicted_step_seconds * 1e3, report.step_seconds * 1e3, report.steps);
  if (report.processor_seconds)
    fmt::format_to(out, "       {:.1f} ms of a processor's time\n",
                   *report.processor_seconds * 1e3);
  if (report.kernel_seconds)
    fmt::format_to(out, "       of it {:.1f} ms in kernels\n", *report.kernel_seconds * 1e3);
  if (report.loss_first && report.loss_last)
    fmt::format_to(out, "loss   {:.6f} -> {:.6f}\n", *report.loss_first, *report.loss_last);
  if (const StepTransfers& moved = report.transfers; moved.stored_bytes + moved.loaded_bytes > 0)
    fmt::format_to(
        out,
        "moved  {} out and {} in a step: {:.1f} ms of transfers, {:.1f} ms of it exposed "
        "({:.0f} % hidden)\n",
        format_bytes(moved.stored_bytes), format_bytes(moved.loaded_bytes),
        moved.transfer_seconds * 1e3, moved.exposed_seconds * 1e3, moved.hidden_share * 100);
  if (report.seeded_weights > 0)
    fmt::format_to(out, "weights of {} parameters were drawn from the seed\n",
                   report.seeded_weights);
  text += print_profile(report);
  if (!report.unplanned_step_seconds) return text;
  fmt::format_to(
      out,
      "unplanned  {} bytes ({}) at its peak, {:.1f} ms a step; planned / unplanned time {:.3f}\n",
      *report.unplanned_bytes, format_bytes(*report.unplanned_bytes),
      *report.unplanned_step_seconds * 1e3, report.step_seconds / *report.unplanned_step_seconds);
  if (report.whole) return text + print(*report.whole);
  fmt::format_to(out,
                 "compared {} outputs, gradients and updated values of the first and the last "
                 "step: {} differ, largest difference {}{}\n",
                 report.values_compared, report.values_different, *report.max_abs_difference,
                 report.values_different == 0
                     ? " (bit for bit equal)"
                     : ", first in '" + printable(report.first_different) + "'");
  if (!report.same_ops) return text;
  const std::string why =
      report.model_file.empty()
          ? "the plan does not say which file it was made of"
          : fmt::format("'{}' is not beside the plan", printable(report.model_file));
  return text + fmt::format(
                    "the same ops, in parts, as {}; --against MODEL compares with the step "
                    "in one part\n",
                    why);
}

std::string print_json(const RunReport& report) {
  nlohmann::ordered_json json;
  json["steps"] = report.steps;
  json["arena_planned_bytes"] = report.arena_planned_bytes;
  json["arena_measured_bytes"] = report.arena_measured_bytes;
  json["arena_touched_bytes"] = report.arena_touched_bytes;
  json["seeded_weights"] = report.seeded_weights;
  json["predicted_step_seconds"] = report.predicted_step_seconds;
  json["step_seconds"] = report.step_seconds;
  if (report.processor_seconds) json["processor_seconds"] = *report.processor_seconds;
  json["stored_bytes"] = report.transfers.stored_bytes;
  json["loaded_bytes"] = report.transfers.loaded_bytes;
  json["transfer_seconds"] = report.transfers.transfer_seconds;
  json["exposed_transfer_seconds"] = report.transfers.exposed_seconds;
  json["hidden_transfer_share"] = report.transfers.hidden_share;
  if (report.kernel_seconds) json["kernel_seconds"] = *report.kernel_seconds;
  if (report.loss_first) json["loss_first"] = *report.loss_first;
  if (report.loss_last) json["loss_last"] = *report.loss_last;
  if (report.max_abs_difference) {
    json["max_abs_difference"] = *report.max_abs_difference;
    json["values_compared"] = report.values_compared;
    json["values_different"] = report.values_different;
    json["first_different"] = report.first_different;
  }
  if (report.whole) {
    json["whole_values_compared"] = report.whole->values;
    json["whole_values_beyond"] = report.whole->beyond;
    json["whole_values_rounded"] = report.whole->rounded;
    json["whole_values_apart"] = report.whole->apart;
    json["first_apart"] = report.whole->first_apart;
    json["largest_relative_difference"] = report.whole->largest;
    json["largest_relative_difference_in"] = report.whole->largest_name;
    json["parameters_apart"] = report.whole->parameters_apart;
  }
  if (report.unplanned_step_seconds) {
    json["unplanned_step_seconds"] = *report.unplanned_step_seconds;
    if (report.unplanned_processor_seconds)
      json["unplanned_processor_seconds"] = *report.unplanned_processor_seconds;
    json["unplanned_bytes"] = *report.unplanned_bytes;
  }
  const auto add_times = [&](nlohmann::ordered_json& of, const auto& time) {
    of = {{"runs", time.runs},
          {"seconds", time.seconds},
          {"predicted_seconds", time.predicted_seconds}};
  };
  for (const KindTime& time : report.profile) add_times(json["profile"][time.kind], time);
  for (const KernelTime& time : report.kernels) add_times(json["kernels"][time.kernel], time);
  return json.dump(2) + "\n";
}

}  // namespace lowtide::report

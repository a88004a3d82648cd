#include "report/data/trace.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "report/profile.h"
#include "report/stays.h"
#include "report/timeline.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;
using plan::PlanOpId;
using plan::Step;

constexpr int kProcess = 1;
constexpr int kPhases = 1, kCompute = 2, kFirstLink = 3;  // threads

int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

// The unit of the format. Readers multiply by 1,000 and cut off what is behind the point, so a
// number whose product would be just below the whole one is the next larger.
double microseconds(int64_t nanoseconds) {
  double number = static_cast<double>(nanoseconds) / 1e3;
  while (static_cast<int64_t>(number * 1e3) < nanoseconds)
    number = std::nextafter(number, std::numeric_limits<double>::infinity());
  return number;
}

class TraceWriter {
 public:
  explicit TraceWriter(const plan::Plan& plan)
      : plan_(plan), timeline_(timeline_of(plan)), bytes_(bytes_of(plan, stays_of(plan))) {}

  std::string run(const std::vector<std::string>& findings) {
    name_threads();
    add_phases();
    add_steps();
    add_transfers();
    add_memory();
    OrderedJson head = {{"model", plan_.model}, {"what", "a step as planned by lowtide"}};
    head["verified"] = findings.empty();
    head["findings"] = findings;
    head["predicted_seconds"] = plan_.claims.predicted_seconds;
    head["copying_seconds"] = timeline_.copying_seconds;
    std::string text = "{\"displayTimeUnit\":\"ms\",\"otherData\":" + line(head);
    text += ",\"traceEvents\":[";
    for (size_t i = 0; i < events_.size(); ++i) text += (i == 0 ? "\n" : ",\n") + events_[i];
    return text + "\n]}\n";
  }

 private:
  static std::string line(const OrderedJson& json) {
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }

  // With `extra` members behind those that every event has.
  void add(const char* phase, int thread, const std::string& name, double seconds,
           const OrderedJson& extra) {
    OrderedJson event = {{"ph", phase}, {"pid", kProcess}, {"tid", thread}, {"name", name}};
    event["ts"] = microseconds(nanoseconds(seconds));
    event.update(extra);
    events_.push_back(line(event));
  }

  void add_slice(int thread, const std::string& name, std::string_view category, Moment when,
                 OrderedJson args) {
    const int64_t length = nanoseconds(when.end) - nanoseconds(when.begin);
    OrderedJson members = {{"cat", category}, {"dur", microseconds(length)}};
    if (!args.empty()) members["args"] = std::move(args);
    add("X", thread, name, when.begin, members);
  }

  void name_threads() {
    const auto name_it = [&](const char* what, int thread, const std::string& name, int rank) {
      add("M", thread, what, 0, {{"args", {{"name", name}}}});
      if (thread > 0) add("M", thread, "thread_sort_index", 0, {{"args", {{"sort_index", rank}}}});
    };
    name_it("process_name", 0, "lowtide: " + plan_.model, 0);
    name_it("thread_name", kPhases, "phases", 1);
    name_it("thread_name", kCompute, "compute", 2);
    for (size_t tier = 0; tier < plan_.slow_tiers.size(); ++tier)
      for (const bool out : {true, false}) {
        const int thread = thread_of(tier, out);
        name_it("thread_name", thread,
                (out ? "link out to " : "link in from ") + plan_.slow_tiers[tier].name, thread);
      }
  }

  static int thread_of(size_t tier, bool out) {
    return kFirstLink + 2 * static_cast<int>(tier) + (out ? 0 : 1);
  }

  bool computes(size_t step) const {
    return plan_.steps[step].kind == Step::Kind::kCompute &&
           !plan::only_views(plan_, plan_.steps[step].op);
  }

  // The longest stretches of ops of one phase.
  void add_phases() {
    Moment when;
    std::string_view phase;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (!computes(i)) continue;
      const std::string_view its = name(plan_.ops[plan_.steps[i].op].phase);
      if (its != phase) {
        if (!phase.empty()) add_slice(kPhases, std::string(phase), "phase", when, {});
        phase = its;
        when.begin = timeline_.steps[i].begin;
      }
      when.end = timeline_.steps[i].end;
    }
    if (!phase.empty()) add_slice(kPhases, std::string(phase), "phase", when, {});
  }

  void add_steps() {
    IdVector<PlanOpId, int> runs(plan_.ops.size(), 0);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      const Moment when = timeline_.steps[i];
      if (computes(i)) {
        const plan::PlanOp& op = plan_.ops[step.op];
        OrderedJson args = {{"kind", op.kind},        {"module", op.module},
                            {"source", op.source},    {"step", i},
                            {"run", ++runs[step.op]}, {"device bytes", bytes_[i]}};
        add_slice(kCompute, op.name, name(op.phase), when, std::move(args));
      } else if (step.kind == Step::Kind::kWait && when.end > when.begin) {
        add_slice(kCompute, "wait for " + name_of(step.storage), "wait", when, {{"step", i}});
      }
    }
  }

  const std::string& name_of(plan::PlanStorageId s) const {
    return plan_.values[plan_.storages[s].root].name;
  }

  // Each with an arrow from its beginning to where ops wait for it.
  void add_transfers() {
    for (size_t i = 0; i < timeline_.transfers.size(); ++i) {
      const Transfer& transfer = timeline_.transfers[i];
      const plan::PlanStorage& storage = plan_.storages[transfer.storage];
      const int thread = thread_of(static_cast<size_t>(storage.slow_tier), transfer.out);
      OrderedJson args = {{"bytes", storage.bytes},
                          {"begin step", transfer.begin_step},
                          {"wait step", transfer.wait_step},
                          {"waited ms", transfer.waited_seconds * 1e3}};
      add_slice(thread, (transfer.out ? "out " : "in ") + name_of(transfer.storage),
                transfer.out ? "store" : "load", transfer.when, std::move(args));
      if (transfer.wait_step >= plan_.steps.size()) continue;
      const OrderedJson arrow = {{"cat", "transfer"}, {"id", i + 1}};
      add("s", thread, "transfer", transfer.when.begin, arrow);
      OrderedJson end = arrow;
      end["bp"] = "e";
      // Where ops go on: a wait may begin before the link has come to the transfer.
      add("f", kCompute, "transfer", timeline_.steps[transfer.wait_step].end, end);
    }
  }

  // What the profile says of each compute step, from when it begins.
  void add_memory() {
    const MemoryProfile profile = profile_planned(plan_);
    for (size_t i = 0; i < profile.step_bytes.size(); ++i) {
      OrderedJson bytes;
      for (size_t c = 0; c < kCategories; ++c)
        bytes[std::string(name(static_cast<Category>(c)))] = profile.step_categories[i][c];
      add("C", 0, "memory", timeline_.steps[profile.plan_steps[i]].begin, {{"args", bytes}});
    }
  }

  const plan::Plan& plan_;
  const Timeline timeline_;
  const std::vector<int64_t> bytes_;
  std::vector<std::string> events_;
};

}  // namespace

std::string trace_of(const plan::Plan& plan, const std::vector<std::string>& findings) {
  return TraceWriter(plan).run(findings);
}

}  // namespace lowtide::report

// The printer. JSON is written by hand rather than through a document: one record per line, so that
// two plans can be compared with diff, and numbers in a form that this file decides: integers as
// such, reals always with a point or an exponent and with as many digits as bring back the same
// bits. Members that hold their default are left out.
#include "plan/plan_text.h"

#define XXH_INLINE_ALL
#include <fmt/core.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/json_text.h"
#include "plan/plan_words.h"

namespace lowtide::plan {
namespace {

class Printer {
 public:
  std::string print(const Plan& plan) {
    raw("{\n");
    top("format");
    text(kPlanFormat);
    top("version");
    number(Plan::kVersion);
    top("model");
    text(plan.model);
    top("provenance");
    map(plan.provenance, [this](const std::string& entry) { text(entry); });
    top("bindings");
    map(plan.bindings, [this](int64_t entry) { number(entry); });
    top("alignment_bytes");
    number(plan.alignment_bytes);
    top("arena_bytes");
    number(plan.arena_bytes);
    if (!plan.slow_tiers.empty()) {
      top("slow_tiers");
      records(plan.slow_tiers, [this](const SlowTier& entry) { slow_tier(entry); });
    }
    top("values");
    records(plan.values, [this](const PlanValue& entry) { value(entry); });
    top("storages");
    records(plan.storages, [this](const PlanStorage& entry) { storage(entry); });
    top("ops");
    records(plan.ops, [this](const PlanOp& entry) { op(entry); });
    top("steps");
    records(plan.steps, [this](const Step& entry) { step(entry); });
    top("claims");
    claims(plan.claims);
    raw(",\n");
    const std::string checksum = plan_checksum(out_);
    return out_.append(kTailStart).append(checksum).append(kTailEnd);
  }

 private:
  void raw(std::string_view piece) { out_ += piece; }
  void number(int64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }

  void real(double value) { append_json_real(out_, value); }
  void text(std::string_view value) { append_json_string(out_, value); }

  // Starts a member of the outermost object; of a record.
  void top(std::string_view name) {
    if (out_.size() > 2) raw(",\n");
    text(name);
    raw(": ");
  }
  void member(std::string_view name) {
    raw(out_.back() == '{' ? "\"" : ", \"");
    raw(name);
    raw("\": ");
  }

  template <class Map, class Print>
  void map(const Map& entries, Print print_entry) {
    raw("{");
    for (const auto& [key, entry] : entries) {
      if (out_.back() != '{') raw(", ");
      text(key);
      raw(": ");
      print_entry(entry);
    }
    raw("}");
  }

  template <class Items, class Print>
  void records(const Items& items, Print print_item) {
    raw("[");
    bool first = true;
    for (const auto& item : items) {
      raw(first ? "\n{" : ",\n{");
      print_item(item);
      raw("}");
      first = false;
    }
    raw(first ? "]" : "\n]");
  }

  // The same on one line.
  template <class Items, class Print>
  void row(const Items& items, Print print_item) {
    raw("[");
    for (const auto& item : items) {
      raw(out_.back() == '[' ? "{" : ", {");
      print_item(item);
      raw("}");
    }
    raw("]");
  }

  void list(const std::vector<int64_t>& numbers) {
    raw("[");
    for (int64_t entry : numbers) {
      if (out_.back() != '[') raw(", ");
      number(entry);
    }
    raw("]");
  }

  template <class IdType>
  void id(IdType value) {
    if (value.valid()) {
      number(value.index());
    } else {
      raw("null");
    }
  }
  template <class IdType>
  void ids(const std::vector<IdType>& values) {
    raw("[");
    for (IdType value : values) {
      if (out_.back() != '[') raw(", ");
      id(value);
    }
    raw("]");
  }

  void attr(const AttrValue& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      number(*integer);
    } else if (const auto* real_number = std::get_if<double>(&value)) {
      real(*real_number);
    } else if (const auto* word = std::get_if<std::string>(&value)) {
      text(*word);
    } else {
      list(std::get<std::vector<int64_t>>(value));
    }
  }

  void value(const PlanValue& v) {
    member("name"), text(v.name);
    member("dtype"), text(name(v.type.dtype));
    member("dims"), list(v.type.dims);
    if (v.type.layout != Layout{}) member("layout"), text(lowtide::print(v.type.layout));
    if (v.alias != PlanAlias::kOwn)
      member("alias"), text(kAliasWords[static_cast<size_t>(v.alias)]);
    if (v.base.valid()) member("base"), id(v.base);
    if (v.offset_bytes != 0) member("offset_bytes"), number(v.offset_bytes);
    member("storage"), id(v.storage);
    if (v.producer.valid()) member("producer"), id(v.producer);
    if (v.is_output) member("is_output"), raw("true");
    if (v.output_rank != 0) member("output_rank"), number(v.output_rank);
    if (!v.producer.valid()) member("initial"), initial(v.initial);
  }

  void initial(const PlanInitial& contents) {
    raw("{");
    member("kind"), text(kInitialWords[static_cast<size_t>(contents.kind)]);
    if (!contents.bytes.empty()) member("base64"), text(to_base64(contents.bytes));
    if (!contents.file.empty()) member("file"), text(contents.file);
    if (contents.offset != 0) member("offset"), number(contents.offset);
    if (contents.length != 0) member("length"), number(contents.length);
    if (contents.limit != 0) member("limit"), number(contents.limit);
    raw("}");
  }

  void storage(const PlanStorage& s) {
    member("root"), id(s.root);
    member("bytes"), number(s.bytes);
    member("category"), text(name(s.category));
    if (s.resident) member("resident"), raw("true");
    if (s.home_slow) member("home_slow"), raw("true");
    if (s.address != 0) member("address"), number(s.address);
    if (s.slow_tier >= 0) member("slow_tier"), number(s.slow_tier);
    if (s.slow_address != 0) member("slow_address"), number(s.slow_address);
  }

  void slow_tier(const SlowTier& t) {
    member("name"), text(t.name);
    member("bytes"), number(t.bytes);
    member("bytes_per_second_out"), real(t.bytes_per_second_out);
    member("bytes_per_second_in"), real(t.bytes_per_second_in);
    member("latency_seconds"), real(t.latency_seconds);
    member("compute_seconds_per_byte"), real(t.compute_seconds_per_byte);
  }

  void op(const PlanOp& o) {
    member("kind"), text(o.kind);
    member("name"), text(o.name);
    if (!o.module.empty()) member("module"), text(o.module);
    if (!o.source.empty()) member("source"), text(o.source);
    member("phase"), text(name(o.phase));
    if (!o.attrs.empty())
      member("attrs"), map(o.attrs, [this](const AttrValue& entry) { attr(entry); });
    member("inputs"), ids(o.inputs);
    member("outputs"), ids(o.outputs);
    if (!o.control.empty()) member("control"), ids(o.control);
    if (o.workspace_bytes != 0) member("workspace_bytes"), number(o.workspace_bytes);
    member("predicted_seconds"), real(o.predicted_seconds);
    if (o.unsplit) {
      member("unsplit"), raw("{");
      member("seconds"), real(o.unsplit->seconds);
      if (o.unsplit->workspace_bytes != 0)
        member("workspace_bytes"), number(o.unsplit->workspace_bytes);
      if (!o.unsplit->output_bytes.empty()) member("output_bytes"), list(o.unsplit->output_bytes);
      raw("}");
    }
  }

  void step(const Step& s) {
    member(kStepWords[static_cast<size_t>(s.kind)]);
    if (s.kind != Step::Kind::kCompute) {
      id(s.storage);
      if (s.kind == Step::Kind::kLoad) member("address"), number(s.address);
      return;
    }
    id(s.op);
    if (s.workspace_address != 0) member("workspace_address"), number(s.workspace_address);
    if (!s.makes.empty())
      member("makes"), row(s.makes, [this](const Placement& entry) { placement(entry); });
  }

  void placement(const Placement& p) {
    member("storage"), id(p.storage);
    member("address"), number(p.address);
    if (p.reuses.valid()) member("reuses"), id(p.reuses);
  }

  void claims(const Claims& c) {
    raw("{");
    member("peak_bytes"), number(c.peak_bytes);
    member("peak_before_bytes"), number(c.peak_before_bytes);
    member("lower_bound_bytes"), number(c.lower_bound_bytes);
    member("order_proven"), raw(c.order_proven ? "true" : "false");
    if (c.certificate.peak) {
      member("certificate"), raw("{");
      member("op"), id(c.certificate.peak->op);
      member("value_bytes"), number(c.certificate.peak->value_bytes);
      member("prefix"), ids(c.certificate.peak->prefix);
      raw("}");
    }
    if (c.budget_bytes) member("budget_bytes"), number(*c.budget_bytes);
    if (c.floor_bytes) member("floor_bytes"), number(*c.floor_bytes);
    if (c.certificate.floor) {
      member("floor_certificate"), raw("{");
      member("op"), id(c.certificate.floor->op);
      member("least_bytes"), number(c.certificate.floor->least_bytes);
      raw("}");
    }
    if (c.parts_floor) {
      member("parts_floor"), raw("{");
      member("bytes"), number(c.parts_floor->bytes);
      member("op"), text(c.parts_floor->op);
      member("parts"), number(c.parts_floor->parts);
      member("part_bytes"), number(c.parts_floor->part_bytes);
      raw("}");
    }
    member("once_seconds"), real(c.once_seconds);
    member("predicted_seconds"), real(c.predicted_seconds);
    member("exposed_seconds"), real(c.exposed_seconds);
    member("lower_bound_ticks"), number(c.lower_bound_ticks);
    member("lower_bound_seconds"), real(c.lower_bound_seconds);
    if (c.certificate.time) member("time_certificate"), time_certificate(*c.certificate.time);
    if (c.certificate.cases) member("branch_certificate"), branch_certificate(*c.certificate.cases);
    raw("}");
  }

  void branch_certificate(const Cases& c) {
    raw("{");
    member("cuts"), ids(c.cuts);
    member("unit_ticks"), number(c.unit_ticks);
    member("nodes"), row(c.nodes, [this](const ProofNode& node) { proof_node(node); });
    raw("}");
  }
  void proof_node(const ProofNode& node) {
    if (node.parent >= 0) {
      member("parent"), number(node.parent);
      member(kProofVariableWords[static_cast<size_t>(node.variable)]);
      raw(fmt::format("[{}, {}, {}]", node.cut, node.id, node.value ? 1 : 0));
    }
    for (size_t kind = 0; kind < kProofRowWords.size(); ++kind) {
      std::string numbers;
      const ProofFields fields = kProofFields[kind];
      const auto add = [&](int64_t value) {
        fmt::format_to(std::back_inserter(numbers), "{}{}", numbers.empty() ? "" : ", ", value);
      };
      for (const ProofMultiplier& m : node.multipliers) {
        if (static_cast<size_t>(m.row) != kind) continue;
        add(m.cut);
        if (fields.op) add(m.op.valid() ? int64_t{m.op.index()} : -1);
        if (fields.storage) add(m.storage.index());
        if (fields.divisor) add(m.divisor);
        add(m.value);
      }
      if (!numbers.empty()) member(kProofRowWords[kind]), raw("[" + numbers + "]");
    }
  }

  void time_certificate(const TimeCuts& c) {
    raw("{");
    member("cuts"), row(c.cuts, [this](const CutPrice& cut) {
      member("op"), id(cut.op);
      member("price"), number(cut.price);
    });
    if (!c.shares.empty())
      member("shares"), row(c.shares, [this](const LinkShare& share) {
        member("store"), number(share.store);
        member("load"), number(share.load);
      });
    if (!c.rerun_multipliers.empty())
      member("rerun_multipliers"), multipliers(c.rerun_multipliers, "op");
    if (!c.store_multipliers.empty())
      member("store_multipliers"), multipliers(c.store_multipliers, "storage");
    if (!c.copy_multipliers.empty())
      member("copy_multipliers"), multipliers(c.copy_multipliers, "storage");
    raw("}");
  }
  void multipliers(const std::vector<Multiplier>& items, std::string_view of) {
    row(items, [&](const Multiplier& m) {
      member("cut"), number(m.cut);
      member(of), number(m.id);
      member("value"), number(m.value);
    });
  }

  std::string out_;
};

}  // namespace

std::string plan_checksum(std::string_view before) {
  return fmt::format("{:016x}", static_cast<uint64_t>(XXH3_64bits(before.data(), before.size())));
}

bool ends_in_checksum(std::string_view text) {
  return text.size() >= kTailSize && text.ends_with(kTailEnd) &&
         text.substr(text.size() - kTailSize).starts_with(kTailStart);
}

std::string print_plan(const Plan& plan) {
  return Printer().print(plan);
}

}  // namespace lowtide::plan

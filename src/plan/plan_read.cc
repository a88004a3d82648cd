// The reader. The checksum is looked at first, so that a damaged file is refused before anything is
// made of it; what passes is still only text from a stranger: every member is checked for type and
// range, unknown members are refused (a member with a spelling mistake must not be taken for an
// absent one), arrays grow as elements are read, and the structural check has the last word.
// Single members: plan_fields.h.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/bytes.h"
#include "plan/plan_check.h"
#include "plan/plan_fields.h"
#include "plan/plan_text.h"
#include "plan/plan_words.h"

namespace lowtide::plan {
namespace {

class Reader : private FieldReader {
 public:
  using FieldReader::FieldReader;

  Result<Plan> plan(const Json& document);

 private:
  Status attr(const Place& place, AttrValue& out) const;
  Status value(const Place& place, PlanValue& out) const;
  Status initial(const Place& place, PlanInitial& out) const;
  Status storage(const Place& place, PlanStorage& out) const;
  Status unsplit(const Place& place, PlanUnsplit& out) const;
  Status op(const Place& place, PlanOp& out) const;
  Status slow_tier(const Place& place, SlowTier& out) const;
  Status placement(const Place& place, Placement& out) const;
  Status step(const Place& place, Step& out) const;
  Status certificate(const Place& place, PeakCut& out) const;
  Status floor_way(const Place& place, BackwardWay& out) const;
  Status parts_floor(const Place& place, PartsFloor& out) const;
  Status multipliers(const Place& place, std::string_view of, std::vector<Multiplier>& out) const;
  Status cut_price(const Place& place, CutPrice& out) const;
  Status link_share(const Place& place, LinkShare& out) const;
  Status time_certificate(const Place& place, TimeCuts& out) const;
  Status proof_rows(const Place& place, ProofRow row, ProofNode& out) const;
  Status proof_node(const Place& place, ProofNode& out) const;
  Status branch_certificate(const Place& place, Cases& out) const;
  Status claims(const Place& place, Claims& out) const;
  Status header(std::string_view key, const Place& member, Plan& out) const;

  template <class Items, class Item>
  Status records(const Place& place, Status (Reader::*read)(const Place&, Item&) const,
                 Items& out) const {
    return array(place, [&](const Place& entry) -> Status {
      Item item;
      LT_RETURN_IF_ERROR((this->*read)(entry, item));
      out.push_back(std::move(item));
      return {};
    });
  }
};

Status Reader::attr(const Place& place, AttrValue& out) const {
  const Json& json = *place.json;
  if (json.is_number_float()) {
    out = json.get<double>();
  } else if (json.is_number()) {
    LT_RETURN_IF_ERROR(integer(place, out.emplace<int64_t>()));
  } else if (json.is_string()) {
    out = json.get_ref<const std::string&>();
  } else if (json.is_array()) {
    std::vector<int64_t> numbers;
    LT_RETURN_IF_ERROR(integers(place, numbers));
    out = std::move(numbers);
  } else {
    return object(place, {"real"}, [&](std::string_view key, const Place& member) -> Status {
      if (key != "real" || !member.json->is_string())
        return fail(member, "'inf', '-inf' or 'nan' in a member 'real'");
      return real_word(member, out.emplace<double>());
    });
  }
  return {};
}

Status Reader::initial(const Place& place, PlanInitial& out) const {
  return object(place, {"kind"}, [&](std::string_view key, const Place& member) -> Status {
    if (key == "kind") return word(member, kInitialWords, out.kind);
    if (key == "base64") return bytes(member, out.bytes);
    if (key == "file") return text(member, out.file);
    if (key == "offset") return size(member, out.offset);
    if (key == "length") return size(member, out.length);
    if (key == "limit") return size(member, out.limit);
    return unknown(member);
  });
}

Status Reader::value(const Place& place, PlanValue& out) const {
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "name") return text(member, out.name);
    if (key == "dtype") return word(member, parse_dtype, out.type.dtype, "a dtype such as 'f32'");
    if (key == "dims")
      return array(member,
                   [&](const Place& entry) { return size(entry, out.type.dims.emplace_back()); });
    if (key == "layout") {
      std::string layout;
      LT_RETURN_IF_ERROR(text(member, layout));
      if (!lowtide::parse(layout, out.type.layout)) return fail(member, "a layout");
      return {};
    }
    if (key == "alias") return word(member, kAliasWords, out.alias);
    if (key == "base") return id(member, out.base);
    if (key == "offset_bytes") return size(member, out.offset_bytes);
    if (key == "storage") return id(member, out.storage);
    if (key == "producer") return id(member, out.producer);
    if (key == "is_output") return boolean(member, out.is_output);
    if (key == "output_rank") return size(member, out.output_rank);
    if (key == "initial") return initial(member, out.initial);
    return unknown(member);
  };
  LT_RETURN_IF_ERROR(object(place, {"name", "dtype", "dims", "storage"}, read));
  if (!out.producer.valid() && !place.json->contains("initial"))
    return fail(place, "a member 'initial' or 'producer'");
  return {};
}

Status Reader::storage(const Place& place, PlanStorage& out) const {
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "root") return id(member, out.root);
    if (key == "bytes") return size(member, out.bytes);
    if (key == "category")
      return word(member, parse_category, out.category, "a category such as 'activation'");
    if (key == "resident") return boolean(member, out.resident);
    if (key == "address") return size(member, out.address);
    if (key == "home_slow") return boolean(member, out.home_slow);
    if (key == "slow_tier") return index(member, out.slow_tier);
    if (key == "slow_address") return size(member, out.slow_address);
    return unknown(member);
  };
  return object(place, {"root", "bytes", "category"}, read);
}

Status Reader::slow_tier(const Place& place, SlowTier& out) const {
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "name") return text(member, out.name);
    if (key == "bytes") return size(member, out.bytes);
    if (key == "bytes_per_second_out") return real(member, out.bytes_per_second_out);
    if (key == "bytes_per_second_in") return real(member, out.bytes_per_second_in);
    if (key == "latency_seconds") return real(member, out.latency_seconds);
    if (key == "compute_seconds_per_byte") return real(member, out.compute_seconds_per_byte);
    return unknown(member);
  };
  return object(place,
                {"name", "bytes", "bytes_per_second_out", "bytes_per_second_in", "latency_seconds",
                 "compute_seconds_per_byte"},
                read);
}

Status Reader::unsplit(const Place& place, PlanUnsplit& out) const {
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "seconds") return real(member, out.seconds);
    if (key == "workspace_bytes") return size(member, out.workspace_bytes);
    if (key == "output_bytes")
      return array(
          member, [&](const Place& entry) { return size(entry, out.output_bytes.emplace_back()); });
    return unknown(member);
  };
  return object(place, {"seconds"}, read);
}

Status Reader::op(const Place& place, PlanOp& out) const {
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "kind") return text(member, out.kind);
    if (key == "name") return text(member, out.name);
    if (key == "module") return text(member, out.module);
    if (key == "source") return text(member, out.source);
    if (key == "phase")
      return word(member, parse_phase, out.phase, "'forward', 'backward' or 'update'");
    if (key == "attrs")
      return object(member, {}, [&](std::string_view name, const Place& entry) {
        return attr(entry, out.attrs[std::string(name)]);
      });
    if (key == "inputs") return ids(member, out.inputs, true);
    if (key == "outputs") return ids(member, out.outputs);
    if (key == "control") return ids(member, out.control);
    if (key == "workspace_bytes") return size(member, out.workspace_bytes);
    if (key == "predicted_seconds") return real(member, out.predicted_seconds);
    if (key == "unsplit") return unsplit(member, out.unsplit.emplace());
    return unknown(member);
  };
  return object(place, {"kind", "name", "phase", "inputs", "outputs", "predicted_seconds"}, read);
}

Status Reader::placement(const Place& place, Placement& out) const {
  return object(place, {"storage", "address"},
                [&](std::string_view key, const Place& member) -> Status {
                  if (key == "storage") return id(member, out.storage);
                  if (key == "address") return size(member, out.address);
                  if (key == "reuses") return id(member, out.reuses);
                  return unknown(member);
                });
}

Status Reader::step(const Place& place, Step& out) const {
  size_t kind = 0;  // a record without any of the words lacks its 'compute'
  for (size_t i = 0; place.json->is_object() && i < kStepWords.size(); ++i)
    if (place.json->contains(kStepWords[i])) kind = i;
  out.kind = static_cast<Step::Kind>(kind);
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    const bool computes = out.kind == Step::Kind::kCompute;
    if (key == kStepWords[kind]) return computes ? id(member, out.op) : id(member, out.storage);
    if (computes && key == "workspace_address") return size(member, out.workspace_address);
    if (computes && key == "makes") return records(member, &Reader::placement, out.makes);
    if (out.kind == Step::Kind::kLoad && key == "address") return size(member, out.address);
    return unknown(member);
  };
  if (out.kind == Step::Kind::kLoad) return object(place, {kStepWords[kind], "address"}, read);
  return object(place, {kStepWords[kind]}, read);
}

Status Reader::certificate(const Place& place, PeakCut& out) const {
  return object(place, {"op", "value_bytes", "prefix"},
                [&](std::string_view key, const Place& member) -> Status {
                  if (key == "op") return id(member, out.op);
                  if (key == "value_bytes") return size(member, out.value_bytes);
                  if (key == "prefix") return ids(member, out.prefix);
                  return unknown(member);
                });
}

Status Reader::floor_way(const Place& place, BackwardWay& out) const {
  return object(place, {"op", "least_bytes"}, [&](std::string_view key, const Place& member) {
    if (key == "op") return id(member, out.op);
    return key == "least_bytes" ? size(member, out.least_bytes) : unknown(member);
  });
}

Status Reader::parts_floor(const Place& place, PartsFloor& out) const {
  return object(place, {"bytes", "op", "parts", "part_bytes"},
                [&](std::string_view key, const Place& member) -> Status {
                  if (key == "bytes") return size(member, out.bytes);
                  if (key == "op") return text(member, out.op);
                  if (key == "parts") return size(member, out.parts);
                  if (key == "part_bytes") return size(member, out.part_bytes);
                  return unknown(member);
                });
}

Status Reader::multipliers(const Place& place, std::string_view of,
                           std::vector<Multiplier>& out) const {
  return array(place, [&](const Place& entry) -> Status {
    Multiplier& m = out.emplace_back();
    return object(entry, {"cut", of, "value"},
                  [&](std::string_view key, const Place& member) -> Status {
                    if (key == "cut") return index(member, m.cut);
                    if (key == of) return index(member, m.id);
                    if (key == "value") return integer(member, m.value);
                    return unknown(member);
                  });
  });
}

Status Reader::cut_price(const Place& place, CutPrice& out) const {
  return object(place, {"op", "price"}, [&](std::string_view key, const Place& member) -> Status {
    if (key == "op") return id(member, out.op);
    if (key == "price") return integer(member, out.price);
    return unknown(member);
  });
}

Status Reader::link_share(const Place& place, LinkShare& out) const {
  return object(place, {"store", "load"}, [&](std::string_view key, const Place& member) -> Status {
    if (key == "store") return integer(member, out.store);
    if (key == "load") return integer(member, out.load);
    return unknown(member);
  });
}

Status Reader::time_certificate(const Place& place, TimeCuts& out) const {
  return object(place, {"cuts"}, [&](std::string_view key, const Place& member) -> Status {
    if (key == "cuts") return records(member, &Reader::cut_price, out.cuts);
    if (key == "shares") return records(member, &Reader::link_share, out.shares);
    if (key == "rerun_multipliers") return multipliers(member, "op", out.rerun_multipliers);
    if (key == "store_multipliers") return multipliers(member, "storage", out.store_multipliers);
    if (key == "copy_multipliers") return multipliers(member, "storage", out.copy_multipliers);
    return unknown(member);
  });
}

Status Reader::proof_rows(const Place& place, ProofRow row, ProofNode& out) const {
  std::vector<int64_t> numbers;
  LT_RETURN_IF_ERROR(integers(place, numbers));
  const ProofFields fields = kProofFields[static_cast<size_t>(row)];
  if (numbers.size() % fields.numbers() != 0)
    return fail(place, fmt::format("{} numbers for each", fields.numbers()));
  const auto is_index = [](int64_t x) { return x >= 0 && x < std::numeric_limits<int32_t>::max(); };
  for (size_t i = 0; i < numbers.size();) {
    ProofMultiplier& m = out.multipliers.emplace_back();
    m.row = row;
    if (!is_index(numbers[i])) return fail(place, "a cut's number first");
    m.cut = static_cast<int32_t>(numbers[i++]);
    if (fields.op) {
      if (numbers[i] != -1 && !is_index(numbers[i])) return fail(place, "an op's index, or -1");
      if (numbers[i] != -1) m.op = PlanOpId(static_cast<size_t>(numbers[i]));
      ++i;
    }
    if (fields.storage) {
      if (!is_index(numbers[i])) return fail(place, "a storage's index");
      m.storage = PlanStorageId(static_cast<size_t>(numbers[i++]));
    }
    if (fields.divisor) m.divisor = numbers[i++];
    m.value = numbers[i++];
  }
  return {};
}

Status Reader::proof_node(const Place& place, ProofNode& out) const {
  // By kind, in whatever order the members come.
  for (size_t i = 0; place.json->is_object() && i < kProofRowWords.size(); ++i) {
    const auto rows = place.json->find(kProofRowWords[i]);
    if (rows == place.json->end()) continue;
    const Place member{&*rows, &place, kProofRowWords[i], 0};
    LT_RETURN_IF_ERROR(proof_rows(member, static_cast<ProofRow>(i), out));
  }
  return object(place, {}, [&](std::string_view key, const Place& member) -> Status {
    if (key == "parent") return index(member, out.parent);
    if (std::find(kProofRowWords.begin(), kProofRowWords.end(), key) != kProofRowWords.end())
      return {};
    for (size_t i = 0; i < kProofVariableWords.size(); ++i) {
      if (key != kProofVariableWords[i]) continue;
      std::vector<int64_t> numbers;
      LT_RETURN_IF_ERROR(integers(member, numbers));
      constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
      if (numbers.size() != 3 || numbers[0] < 0 || numbers[0] > kMost || numbers[1] < 0 ||
          numbers[1] > kMost || numbers[2] < 0 || numbers[2] > 1)
        return fail(member, "a cut, an index, and 0 or 1");
      out.variable = static_cast<ProofVariable>(i);
      out.cut = static_cast<int32_t>(numbers[0]);
      out.id = static_cast<int32_t>(numbers[1]);
      out.value = numbers[2] == 1;
      return {};
    }
    return unknown(member);
  });
}

Status Reader::branch_certificate(const Place& place, Cases& out) const {
  return object(place, {"cuts", "unit_ticks", "nodes"},
                [&](std::string_view key, const Place& member) -> Status {
                  if (key == "cuts") return ids(member, out.cuts);
                  if (key == "unit_ticks") return integer(member, out.unit_ticks);
                  if (key == "nodes") return records(member, &Reader::proof_node, out.nodes);
                  return unknown(member);
                });
}

Status Reader::claims(const Place& place, Claims& out) const {
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "peak_bytes") return size(member, out.peak_bytes);
    if (key == "peak_before_bytes") return size(member, out.peak_before_bytes);
    if (key == "lower_bound_bytes") return size(member, out.lower_bound_bytes);
    if (key == "order_proven") return boolean(member, out.order_proven);
    if (key == "certificate") return certificate(member, out.certificate.peak.emplace());
    if (key == "budget_bytes") return size(member, out.budget_bytes.emplace());
    if (key == "floor_bytes") return size(member, out.floor_bytes.emplace());
    if (key == "floor_certificate") return floor_way(member, out.certificate.floor.emplace());
    if (key == "parts_floor") return parts_floor(member, out.parts_floor.emplace());
    if (key == "once_seconds") return real(member, out.once_seconds);
    if (key == "predicted_seconds") return real(member, out.predicted_seconds);
    if (key == "exposed_seconds") return real(member, out.exposed_seconds);
    if (key == "lower_bound_ticks") return integer(member, out.lower_bound_ticks);
    if (key == "lower_bound_seconds") return real(member, out.lower_bound_seconds);
    if (key == "time_certificate") return time_certificate(member, out.certificate.time.emplace());
    if (key == "branch_certificate")
      return branch_certificate(member, out.certificate.cases.emplace());
    return unknown(member);
  };
  return object(
      place,
      {"peak_bytes", "peak_before_bytes", "lower_bound_bytes", "order_proven", "once_seconds",
       "predicted_seconds", "exposed_seconds", "lower_bound_ticks", "lower_bound_seconds"},
      read);
}

Status Reader::header(std::string_view key, const Place& member, Plan& out) const {
  if (key == "model") return text(member, out.model);
  if (key == "provenance")
    return object(member, {}, [&](std::string_view name, const Place& entry) {
      return text(entry, out.provenance[std::string(name)]);
    });
  if (key == "bindings")
    return object(member, {}, [&](std::string_view name, const Place& entry) {
      return integer(entry, out.bindings[std::string(name)]);
    });
  if (key == "alignment_bytes") return size(member, out.alignment_bytes);
  if (key == "arena_bytes") return size(member, out.arena_bytes);
  if (key == "format" || key == "version" || key == "checksum") return {};
  return unknown(member);
}

Result<Plan> Reader::plan(const Json& document) {
  const Place root{&document, nullptr, {}, 0};
  if (!document.is_object() || document.value("format", Json()) != kPlanFormat)
    return fail(root, fmt::format("an object with the format '{}'", kPlanFormat));
  const Json version = document.value("version", Json());
  if (version != Plan::kVersion)
    return fail(Place{&version, &root, "version", 0}, fmt::format("version {}", Plan::kVersion));
  Plan out;
  const auto read = [&](std::string_view key, const Place& member) -> Status {
    if (key == "slow_tiers") return records(member, &Reader::slow_tier, out.slow_tiers);
    if (key == "values") return records(member, &Reader::value, out.values);
    if (key == "storages") return records(member, &Reader::storage, out.storages);
    if (key == "ops") return records(member, &Reader::op, out.ops);
    if (key == "steps") return records(member, &Reader::step, out.steps);
    if (key == "claims") return claims(member, out.claims);
    return header(key, member, out);
  };
  LT_RETURN_IF_ERROR(object(root,
                            {"model", "provenance", "bindings", "alignment_bytes", "arena_bytes",
                             "values", "storages", "ops", "steps", "claims"},
                            read));
  if (Status status = check(out); !status)
    return error(status.error().code, fmt::format("{}: {}", origin_, status.error().message));
  return out;
}

Result<Plan> parse(std::string_view text, std::string_view origin) {
  try {
    return Reader(origin).plan(Json::parse(text));
  } catch (const Json::exception& problem) {
    return error(ErrorCode::kInput, fmt::format("{}: no JSON: {}", origin, problem.what()));
  }
}

}  // namespace

Result<Plan> read_plan(std::string_view text, std::string_view origin) {
  if (!ends_in_checksum(text))
    return error(ErrorCode::kInput,
                 fmt::format("{}: no plan, or cut short: it does not end in a checksum", origin));
  const std::string_view before = text.substr(0, text.size() - kTailSize);
  const std::string_view digits = text.substr(before.size() + kTailStart.size(), 16);
  if (const std::string actual = plan_checksum(before); actual != digits)
    return error(ErrorCode::kInput,
                 fmt::format("{}: damaged or edited: its checksum is '{}', its contents give {}",
                             origin, digits, actual));
  Result<Plan> plan = parse(text, origin);
  if (!plan)  // names from the file may hold anything; messages are one line
    for (char& c : plan.error().message)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return plan;
}

}  // namespace lowtide::plan

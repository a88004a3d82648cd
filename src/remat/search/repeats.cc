// Two rounds of Weisfeiler-Leman refinement: an op, its neighbours and theirs. Fewer take every
// product of one size for the same; more tell the first and the last blocks of a network from the
// others. Hashes that happen to collide only make proposals that are judged like all others.
#include "remat/search/repeats.h"

#include <algorithm>
#include <map>

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct RepeatTuning {
  int refinements = 2;
};
constexpr RepeatTuning kRepeats;

uint64_t mix(uint64_t hash, uint64_t word) {
  return Rng(hash ^ (word * 0x9E3779B97F4A7C15u)).next();
}

class Hasher {
 public:
  explicit Hasher(const ActionTable& table) : table_(table), hash_(table.op_count() + 2, 1) {
    for (const SchedOpId op : table.ops()) {
      uint64_t hash = mix(static_cast<uint64_t>(table.cost(op)), table.may_rerun(op) ? 1 : 2);
      hash = mix(hash, static_cast<uint64_t>(table.workspace(op)));
      for (const SchedValueId v : table.makes(op)) hash = mix(hash, size(v));
      uint64_t reads = 0;  // whatever their order
      for (const SchedValueId v : table.reads(op)) reads += mix(3, size(v));
      hash_[op] = mix(hash, reads);
    }
    hash_[table.end()] = 2;
  }

  void refine() {
    IdVector<SchedOpId, uint64_t> refined = hash_;
    for (const SchedOpId op : table_.ops()) {
      uint64_t near = 0;
      for (const SchedValueId v : table_.reads(op))
        near += mix(5 + size(v), of(table_.producer(v)));
      uint64_t hash = mix(of(op), near);
      for (const SchedValueId v : table_.makes(op)) {
        near = 0;
        for (const SchedOpId reader : table_.readers(v)) near += mix(7, of(reader));
        hash = mix(hash, near);
      }
      refined[op] = hash;
    }
    hash_ = std::move(refined);
  }

  uint64_t of(SchedOpId op) const { return hash_[op]; }

 private:
  uint64_t size(SchedValueId value) const { return static_cast<uint64_t>(table_.bytes(value)); }

  const ActionTable& table_;
  IdVector<SchedOpId, uint64_t> hash_;  // of actions
};

}  // namespace

Repeats::Repeats(const ActionTable& table) : class_of_(table.op_count()) {
  Hasher hasher(table);
  for (int i = 0; i < kRepeats.refinements; ++i) hasher.refine();
  std::map<uint64_t, size_t> classes;
  for (const SchedOpId op : table.ops()) {
    const auto [entry, is_new] = classes.try_emplace(hasher.of(op), classes_.size());
    if (is_new) classes_.emplace_back();
    auto& members = classes_[entry->second];
    members.push_back(op);
    class_of_[op] = entry->second;
    any_ |= members.size() > 1 && table.may_rerun(op);
  }
}

}  // namespace lowtide::remat

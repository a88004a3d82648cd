#include "remat/search/repeats.h"

#include <algorithm>
#include <map>

namespace lowtide::remat {
namespace {

constexpr int kRefinements = 2;

uint64_t mix(uint64_t hash, uint64_t word) {
  return Rng(hash ^ (word * 0x9E3779B97F4A7C15u)).next();
}

class Hasher {
 public:
  explicit Hasher(const ActionTable& table)
      : table_(table), hash_(static_cast<size_t>(table.actions()), 1) {
    for (int op = 0; op < table.ops(); ++op) {
      uint64_t hash = mix(static_cast<uint64_t>(table.cost(op)), table.may_rerun(op) ? 1 : 2);
      hash = mix(hash, static_cast<uint64_t>(table.workspace(op)));
      for (const int v : table.makes(op)) hash = mix(hash, size(v));
      uint64_t reads = 0;  // whatever their order
      for (const int v : table.reads(op)) reads += mix(3, size(v));
      hash_[static_cast<size_t>(op)] = mix(hash, reads);
    }
    hash_[static_cast<size_t>(table.end())] = 2;
  }

  void refine() {
    std::vector<uint64_t> refined = hash_;
    for (int op = 0; op < table_.ops(); ++op) {
      uint64_t near = 0;
      for (const int v : table_.reads(op)) near += mix(5 + size(v), of(table_.producer(v)));
      uint64_t hash = mix(of(op), near);
      for (const int v : table_.makes(op)) {
        near = 0;
        for (const int reader : table_.readers(v)) near += mix(7, of(reader));
        hash = mix(hash, near);
      }
      refined[static_cast<size_t>(op)] = hash;
    }
    hash_ = std::move(refined);
  }

  uint64_t of(int op) const { return hash_[static_cast<size_t>(op)]; }

 private:
  uint64_t size(int value) const { return static_cast<uint64_t>(table_.bytes(value)); }

  const ActionTable& table_;
  std::vector<uint64_t> hash_;
};

}  // namespace

Repeats::Repeats(const ActionTable& table) : class_of_(static_cast<size_t>(table.ops())) {
  Hasher hasher(table);
  for (int i = 0; i < kRefinements; ++i) hasher.refine();
  std::map<uint64_t, int> classes;
  for (int op = 0; op < table.ops(); ++op) {
    const auto [entry, is_new] =
        classes.try_emplace(hasher.of(op), static_cast<int>(classes_.size()));
    if (is_new) classes_.emplace_back();
    auto& members = classes_[static_cast<size_t>(entry->second)];
    members.push_back(op);
    class_of_[static_cast<size_t>(op)] = entry->second;
    any_ |= members.size() > 1 && table.may_rerun(op);
  }
}

}  // namespace lowtide::remat

#include "remat/starts/known_starts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <vector>

namespace lowtide::remat {
namespace {

using Words = std::vector<uint64_t>;

template <class IdType>
void add_list(std::span<const IdType> list, Words& words) {
  words.push_back(list.size());
  for (const IdType id : list) words.push_back(id.index());
}

// All that a start is made of: the table and the order.
std::pair<uint64_t, uint64_t> hash_of(const ActionTable& table, std::span<const SchedOpId> order) {
  Words words = {table.op_count(), table.value_count(), std::bit_cast<uint64_t>(table.capacity())};
  words.reserve(16 * (table.op_count() + table.value_count()) + order.size());
  for (const SchedOpId action : table.actions()) {
    words.push_back(static_cast<uint64_t>(table.cost(action)));
    words.push_back(std::bit_cast<uint64_t>(table.workspace(action)));
    words.push_back(table.may_rerun(action) ? 1 : 0);
    add_list(table.reads(action), words);
    add_list(table.makes(action), words);
    add_list(table.before(action), words);
    add_list(table.after(action), words);
    words.push_back(table.pairs(action).size());
    for (const ActionTable::Pair& pair : table.pairs(action))
      words.insert(words.end(), {pair.input.index(), pair.output.index()});
  }
  for (const SchedValueId value : table.values())
    words.push_back(std::bit_cast<uint64_t>(table.bytes(value)));
  add_list(order, words);
  const XXH128_hash_t hash = XXH3_128bits(words.data(), words.size() * sizeof(uint64_t));
  return {hash.low64, hash.high64};
}

}  // namespace

GreedyStart KnownStarts::greedy(const ActionTable& table, std::span<const SchedOpId> order) {
  const auto hash = hash_of(table, order);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = greedy_.find(hash); known != greedy_.end()) return known->second;
  }
  GreedyStart made = greedy_start(table, order);
  const std::scoped_lock lock(mutex_);
  return greedy_.try_emplace(hash, std::move(made)).first->second;
}

}  // namespace lowtide::remat

// Bound instances that this thread has asked for, by kind, attributes and operand types: a search
// asks for the same few hundred instances thousands of times, and a network repeats its blocks.
//
// An answer depends on nothing else, so remembering it changes no result, only the time. Refused
// instances are not remembered. When the memory is full it is emptied: a search that draws ever new
// sizes pays what it would pay without. Asking costs a hash and a comparison of the instance.
#include <string>
#include <unordered_map>

#include "ops/row.h"

namespace lowtide::ops {
namespace {

constexpr size_t kMostInstances = 4096;

struct InstanceKey {
  std::string kind;
  ir::Attrs attrs;
  std::vector<std::optional<Type>> inputs;
};

const ir::Attrs& attrs_of(const Instance& instance) {
  static const ir::Attrs none;
  return instance.attrs == nullptr ? none : *instance.attrs;
}
const ir::Attrs& attrs_of(const InstanceKey& key) {
  return key.attrs;
}

// FNV-like mixing; symbols hash alike and are told apart by comparison.
class Mixer {
 public:
  void add(size_t number) { state_ = (state_ ^ number) * 0x9E3779B97F4A7C15u + (state_ >> 29); }
  void add(std::string_view text) { add(std::hash<std::string_view>()(text)); }
  void add(const ir::Dims& dims) {
    add(dims.size());
    for (const sym::Expr& dim : dims) add(static_cast<size_t>(dim.constant().value_or(-1)));
  }
  void add(const ir::AttrValue& value) {
    add(value.index());
    if (const auto* integer = std::get_if<int64_t>(&value)) add(static_cast<size_t>(*integer));
    if (const auto* real = std::get_if<double>(&value)) add(std::hash<double>()(*real));
    if (const auto* word = std::get_if<std::string>(&value)) add(std::string_view(*word));
    if (const auto* list = std::get_if<ir::Dims>(&value)) add(*list);
  }
  size_t state() const { return state_; }

 private:
  size_t state_ = 0;
};

struct KeyHash {
  using is_transparent = void;
  template <class Key>
  size_t operator()(const Key& key) const {
    Mixer mixer;
    mixer.add(std::string_view(key.kind));
    for (const auto& [name, value] : attrs_of(key)) {
      mixer.add(std::string_view(name));
      mixer.add(value);
    }
    for (const std::optional<Type>& input : key.inputs) {
      mixer.add(input ? static_cast<size_t>(input->dtype) + 1 : size_t{0});
      if (!input) continue;
      mixer.add(input->dims);
      for (const uint8_t dim : input->layout.order) mixer.add(size_t{dim});
      mixer.add(std::string_view(input->layout.blocked));
      for (const int64_t stride : input->layout.strides) mixer.add(static_cast<size_t>(stride));
    }
    return mixer.state();
  }
};

struct KeyEqual {
  using is_transparent = void;
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return a.kind == b.kind && a.inputs == b.inputs && attrs_of(a) == attrs_of(b);
  }
};

}  // namespace

Result<std::shared_ptr<const Bound>> bind_instance(const Instance& instance) {
  thread_local std::unordered_map<InstanceKey, std::shared_ptr<const Bound>, KeyHash, KeyEqual>
      known;
  if (const auto found = known.find(instance); found != known.end()) return found->second;
  LT_ASSIGN(Bound bound, bind_anew(instance));
  auto made = std::make_shared<const Bound>(std::move(bound));
  if (known.size() >= kMostInstances) known.clear();
  known.emplace(InstanceKey{std::string(instance.kind), attrs_of(instance), instance.inputs}, made);
  return made;
}

}  // namespace lowtide::ops

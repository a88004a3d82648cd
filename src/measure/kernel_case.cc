#include "measure/kernel_case.h"

#include <chrono>
#include <cstdlib>
#include <memory>

#include "base/bytes.h"
#include "base/element.h"
#include "cost/store.h"
#include "ops/op_table.h"

namespace lowtide::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAlignment = 64;
constexpr size_t kMostRuns = 100000;
constexpr int64_t kIndexLimit = 64;  // below every extent that a case indexes

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<void, Free>;

Block allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(align_up(std::max<int64_t>(bytes, 1), kAlignment));
  return Block(std::aligned_alloc(kAlignment, size));
}

// Small values around zero; indices in range; masks of both kinds.
void fill(const plan::TensorDesc& type, void* memory) {
  const int64_t count = plan::span_bytes(type) / size_bytes(type.dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t mixed = (i * 40503) & 0xFFFF;
    void* element = static_cast<char*>(memory) + i * size_bytes(type.dtype);
    if (is_float(type.dtype))
      write_real(type.dtype, static_cast<double>(mixed) / 65536 - 0.5, element);
    else if (is_integer(type.dtype) && type.dtype != DType::kU8)
      write_integer(type.dtype, mixed % kIndexLimit, element);
    else
      write_integer(type.dtype, 0, element);
  }
}

struct Bound {
  plan::OpDesc op;
  std::vector<int> updates;  // per output: the input that it overwrites, or -1
};

plan::Attrs concrete(const ir::Attrs& attrs) {
  plan::Attrs result;
  for (const auto& [name, value] : attrs) {
    if (const auto* dims = std::get_if<ir::Dims>(&value)) {
      std::vector<int64_t> numbers;
      for (const sym::Expr& dim : *dims) numbers.push_back(*dim.constant());
      result[name] = std::move(numbers);
    } else if (const auto* whole = std::get_if<int64_t>(&value)) {
      result[name] = *whole;
    } else if (const auto* real = std::get_if<double>(&value)) {
      result[name] = *real;
    } else {
      result[name] = std::get<std::string>(value);
    }
  }
  return result;
}

Result<Bound> bind(const CaseSpec& spec) {
  Bound bound;
  bound.op.kind = spec.kind;
  bound.op.attrs = concrete(spec.attrs);
  ops::Instance instance{.kind = spec.kind, .attrs = &spec.attrs, .inputs = {}};
  for (const Operand& operand : spec.inputs) {
    bound.op.inputs.emplace_back();
    instance.inputs.emplace_back();
    if (operand.dims.empty() && operand.dtype == DType::kBool) continue;
    bound.op.inputs.back() =
        plan::TensorDesc{.dtype = operand.dtype, .dims = operand.dims, .layout = {}};
    instance.inputs.back() = ops::Type{
        .dtype = operand.dtype, .dims = {operand.dims.begin(), operand.dims.end()}, .layout = {}};
  }
  LT_ASSIGN(const std::vector<ops::OutputType> outputs, ops::infer(instance));
  for (const ops::OutputType& output : outputs) {
    plan::TensorDesc type{.dtype = output.type.dtype, .dims = {}, .layout = {}};
    for (const sym::Expr& dim : output.type.dims) type.dims.push_back(*dim.constant());
    bound.op.outputs.push_back(std::move(type));
    bound.updates.push_back(output.alias == ir::Alias::kUpdate ? output.base_input : -1);
  }
  return bound;
}

// The layouts that a plan would give it.
void choose_layouts(const runtime::KernelFactory& kernels, const CaseSpec& spec, plan::OpDesc& op) {
  if (spec.channels_last) {
    for (auto& input : op.inputs)
      if (input && input->dims.size() == 4) input->layout = Layout::channels_last(4);
    for (plan::TensorDesc& output : op.outputs)
      if (output.dims.size() == 4) output.layout = Layout::channels_last(4);
    return;
  }
  const plan::LayoutWish wish = kernels.wish(op);
  for (size_t i = 0; i < wish.inputs.size() && i < op.inputs.size(); ++i)
    if (op.inputs[i]) op.inputs[i]->layout = wish.inputs[i];
  for (size_t i = 0; i < wish.outputs.size() && i < op.outputs.size(); ++i)
    op.outputs[i].layout = wish.outputs[i];
}

// The operands' memory and the kernel on it.
class Runner {
 public:
  Status open(const runtime::KernelFactory& kernels, const Bound& bound) {
    LT_ASSIGN(kernel_, kernels.make(bound.op));
    LT_ASSIGN(const int64_t workspace, kernels.workspace_bytes(bound.op));
    for (const auto& input : bound.op.inputs) inputs_.push_back(input ? take(*input) : nullptr);
    for (size_t i = 0; i < bound.op.outputs.size(); ++i)
      outputs_.push_back(bound.updates[i] >= 0 ? inputs_[static_cast<size_t>(bound.updates[i])]
                                               : take(bound.op.outputs[i]));
    blocks_.push_back(allocate(workspace));
    workspace_ = blocks_.back().get();
    for (const Block& block : blocks_)
      if (block == nullptr) return error(ErrorCode::kInternal, "calibrate: no memory");
    return {};
  }

  double run() {
    const auto start = Clock::now();
    kernel_->run({.inputs = inputs_, .outputs = outputs_, .workspace = workspace_, .context = {}});
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  void* take(const plan::TensorDesc& type) {
    blocks_.push_back(allocate(plan::span_bytes(type)));
    if (blocks_.back() != nullptr) fill(type, blocks_.back().get());
    return blocks_.back().get();
  }

  std::unique_ptr<runtime::Kernel> kernel_;
  std::vector<Block> blocks_;
  std::vector<void*> inputs_, outputs_;
  void* workspace_ = nullptr;
};

}  // namespace

Result<CaseTime> time_case(const runtime::KernelFactory& kernels, const CaseSpec& spec,
                           const Repetition& repetition) {
  LT_ASSIGN(Bound bound, bind(spec));
  CaseTime time;
  LT_ASSIGN(time.work, cost::op_work(bound.op));
  choose_layouts(kernels, spec, bound.op);
  Runner runner;
  LT_RETURN_IF_ERROR(runner.open(kernels, bound));
  runner.run();
  std::vector<double> seconds;
  double sum = 0;
  while (seconds.size() < kMostRuns &&
         (static_cast<int>(seconds.size()) < repetition.least || sum < repetition.seconds)) {
    seconds.push_back(runner.run());
    sum += seconds.back();
  }
  time.op = std::move(bound.op);
  time.seconds = cost::median(std::move(seconds));
  return time;
}

}  // namespace lowtide::measure

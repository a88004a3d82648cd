#include "measure/kernel_case.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/element.h"
#include "cost/store.h"
#include "ops/op_table.h"

namespace lowtide::measure {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMostRuns = 100000;
constexpr int64_t kPeriod = 65536;  // elements after which contents repeat

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<void, Free>;

Block allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(align_up(std::max<int64_t>(bytes, 1), kAlignment));
  return Block(std::aligned_alloc(kAlignment, size));
}

// Small values around zero; positions below `limit`; masks of both kinds. The first period, then
// copies of it.
void fill(const plan::TensorDesc& type, int64_t limit, void* memory) {
  const int64_t bytes = plan::span_bytes(type), each = size_bytes(type.dtype);
  auto* base = static_cast<std::byte*>(memory);
  for (int64_t i = 0; i < std::min(bytes / each, kPeriod); ++i) {
    const int64_t mixed = (i * 40503) % kPeriod;
    void* element = base + i * each;
    if (is_float(type.dtype))
      write_real(type.dtype, static_cast<double>(mixed) / kPeriod - 0.5, element);
    else if (is_integer(type.dtype) && type.dtype != DType::kU8)
      write_integer(type.dtype, mixed % limit, element);
    else
      write_integer(type.dtype, 0, element);
  }
  for (int64_t at = kPeriod * each; at < bytes; at += kPeriod * each)
    std::memcpy(base + at, base, static_cast<size_t>(std::min(kPeriod * each, bytes - at)));
}

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

Result<plan::OpDesc> bind(const CaseSpec& spec) {
  plan::OpDesc op;
  op.kind = spec.kind;
  op.attrs = concrete(spec.attrs);
  ops::Instance instance{.kind = spec.kind, .attrs = &spec.attrs, .inputs = {}};
  for (const Operand& operand : spec.inputs) {
    op.inputs.emplace_back();
    instance.inputs.emplace_back();
    if (operand.dims.empty() && operand.dtype == DType::kBool) continue;
    op.inputs.back() = plan::TensorDesc{.dtype = operand.dtype, .dims = operand.dims, .layout = {}};
    instance.inputs.back() = ops::Type{
        .dtype = operand.dtype, .dims = {operand.dims.begin(), operand.dims.end()}, .layout = {}};
  }
  LT_ASSIGN(const std::vector<ops::OutputType> outputs, ops::infer(instance));
  for (const ops::OutputType& output : outputs) {
    plan::TensorDesc type{.dtype = output.type.dtype, .dims = {}, .layout = {}};
    for (const sym::Expr& dim : output.type.dims) type.dims.push_back(*dim.constant());
    op.outputs.push_back(std::move(type));
  }
  return op;
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

// The input whose memory the output is in a step, as an update's and a sum's, or -1.
int shared_input(const ops::Instance& instance, const ops::OutputType& output, int index) {
  if (output.alias == ir::Alias::kUpdate) return output.base_input;
  for (const auto& [input, added_to] : ops::accumulators(instance))
    if (added_to == index) return input;
  return -1;
}

// The operands' memory and the kernel on it.
class Runner {
 public:
  Status open(const runtime::KernelFactory& kernels, const plan::OpDesc& op) {
    LT_ASSIGN(kernel_, kernels.make(op));
    LT_ASSIGN(const int64_t workspace, kernels.workspace_bytes(op));
    const cost::TableInstance table(op);
    LT_ASSIGN(const std::vector<ops::OutputType> outputs, ops::infer(table.instance()));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto limit = ops::position_limit(table.instance(), i);
      const int64_t below = std::max<int64_t>(limit ? limit->constant().value_or(1) : 1, 1);
      inputs_.push_back(op.inputs[i] ? take(*op.inputs[i], below) : nullptr);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const int place = shared_input(table.instance(), outputs[i], static_cast<int>(i));
      outputs_.push_back(place >= 0 ? inputs_[static_cast<size_t>(place)] : take(op.outputs[i], 1));
    }
    blocks_.push_back(allocate(workspace));
    workspace_ = blocks_.back().get();
    for (const Block& block : blocks_)
      if (block == nullptr)
        return error(ErrorCode::kInternal,
                     fmt::format("{}: no memory to time it in", cost::op_key(op)));
    return {};
  }

  double run(bool processor_time) {
    const double start = now_seconds(processor_time);
    kernel_->run({.inputs = inputs_, .outputs = outputs_, .workspace = workspace_, .context = {}});
    return now_seconds(processor_time) - start;
  }

 private:
  void* take(const plan::TensorDesc& type, int64_t limit) {
    blocks_.push_back(allocate(plan::span_bytes(type)));
    if (blocks_.back() != nullptr) fill(type, limit, blocks_.back().get());
    return blocks_.back().get();
  }

  std::unique_ptr<runtime::Kernel> kernel_;
  std::vector<Block> blocks_;
  std::vector<void*> inputs_, outputs_;
  void* workspace_ = nullptr;
};

}  // namespace

Result<std::vector<double>> time_op(const runtime::KernelFactory& kernels, const plan::OpDesc& op,
                                    const Repetition& repetition) {
  Runner runner;
  LT_RETURN_IF_ERROR(runner.open(kernels, op));
  runner.run(repetition.processor_time);
  std::vector<char> others(static_cast<size_t>(repetition.evicted_bytes));
  std::vector<double> seconds;
  const double start = now_seconds(repetition.processor_time);
  while (seconds.size() < kMostRuns &&
         (static_cast<int>(seconds.size()) < repetition.least ||
          now_seconds(repetition.processor_time) - start < repetition.seconds)) {
    std::fill(others.begin(), others.end(), static_cast<char>(seconds.size()));
    seconds.push_back(runner.run(repetition.processor_time));
  }
  return seconds;
}

Result<CaseTime> time_case(const runtime::KernelFactory& kernels, const CaseSpec& spec,
                           const Repetition& repetition) {
  CaseTime time;
  LT_ASSIGN(time.op, bind(spec));
  LT_ASSIGN(time.work, cost::op_work(time.op));
  choose_layouts(kernels, spec, time.op);
  LT_ASSIGN(std::vector<double> seconds, time_op(kernels, time.op, repetition));
  time.seconds = cost::median(std::move(seconds));
  return time;
}

}  // namespace lowtide::measure

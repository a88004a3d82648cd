// Measured kernel times: a file that grows with every measured run and outlives the plans that were
// measured (docs/formats.md, "Cost stores"). All times in a store were taken on one device.
//
// A run of a plan adds to each kernel one number, the mean over the plan's ops of that kernel of
// each op's median over the steps: ops that find their operands in a cache and ops that do not both
// count, interruptions do not. The store keeps the last kMostRuns such numbers and answers with
// their median.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost/identity.h"
#include "cost/kernel_class.h"

namespace lowtide::cost {

inline constexpr size_t kMostRuns = 15;

struct MeasuredKernel {
  KernelClass kernel_class = KernelClass::kElementwise;
  double flops = 0;  // by the op table, so that other shapes can be judged by this one
  double bytes = 0;
  int64_t count = 0;            // times that it ran, in all measured runs
  std::vector<double> seconds;  // one per measured run, oldest first
  bool operator==(const MeasuredKernel&) const = default;
};

class CostStore {
 public:
  CostStore() = default;
  explicit CostStore(DeviceIdentity device) : device_(std::move(device)) {}

  const DeviceIdentity& device() const { return device_; }
  const std::map<std::string, MeasuredKernel, std::less<>>& kernels() const { return kernels_; }
  // What a step takes beyond its kernels, for each kernel that it runs; one per measured run.
  const std::vector<double>& overheads() const { return overheads_; }

  // Adds the runs of `kernel` behind those that are there for `key`, and forgets the oldest beyond
  // kMostRuns.
  void add(const std::string& key, const MeasuredKernel& kernel);
  void add_overhead(double seconds);
  // Adds everything of a later store. Error: kInput, when it is of another device.
  Status merge(const CostStore& later);

  const MeasuredKernel* find(std::string_view key) const;
  double overhead_seconds() const;  // 0 if never measured

  bool operator==(const CostStore&) const = default;

 private:
  DeviceIdentity device_;
  std::map<std::string, MeasuredKernel, std::less<>> kernels_;  // by op_key
  std::vector<double> overheads_;
};

// Of an even number of values the mean of the middle two; of none 0.
double median(std::vector<double> values);

// Error: kInput, naming origin and both devices, unless they are the same.
Status check_same_device(const CostStore& store, const DeviceIdentity& here,
                         std::string_view origin);

// JSON, in the order of keys: the same store gives the same bytes. Error of parse: kInput, naming
// origin and what is wrong.
Result<CostStore> parse_costs(std::string_view text, std::string_view origin);
std::string print_costs(const CostStore& store);

}  // namespace lowtide::cost

// The store: round trips, merging, refusals; and what it makes of kernels that it has and of those
// that it has not.
#include "cost/store.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "cost/estimate.h"
#include "cost/key_family.h"
#include "cost/roofline.h"

namespace lowtide::cost {
namespace {

const DeviceIdentity kHere{
    .processor = "Some CPU", .cores = 4, .threads = 2, .kernels = "kernels 1.0"};

DeviceProfile profile() {
  DeviceProfile device;
  device.name = "toy";
  device.memory_bytes = 1 << 30;
  device.bytes_per_second = 1e9;
  device.launch_seconds = 1e-6;
  device.matmul_flops_per_second = 1e12;
  device.vector_flops_per_second = 1e10;
  return device;
}

plan::OpDesc unary(std::string kind, int64_t n) {
  const plan::TensorDesc type{.dtype = DType::kF32, .dims = {n}, .layout = {}};
  return {.kind = std::move(kind), .attrs = {}, .inputs = {type}, .outputs = {type}};
}

plan::OpDesc product(int64_t m, int64_t n, int64_t k) {
  const auto type = [](int64_t rows, int64_t columns) {
    return plan::TensorDesc{.dtype = DType::kF32, .dims = {rows, columns}, .layout = {}};
  };
  return {.kind = "MatMul",
          .attrs = {{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}},
          .inputs = {type(m, k), type(k, n), std::nullopt, std::nullopt},
          .outputs = {type(m, n)}};
}

MeasuredKernel measured(const plan::OpDesc& op, std::vector<double> seconds) {
  const OpWork work = op_work(op).value();
  return {.kernel_class = kernel_class(op),
          .flops = work.flops,
          .bytes = work.bytes,
          .count = static_cast<int64_t>(seconds.size()),
          .seconds = std::move(seconds)};
}

CostStore small_store() {
  CostStore store(kHere);
  store.add(op_key(unary("Exp", 1000)), measured(unary("Exp", 1000), {3e-4, 1e-4, 2e-4}));
  store.add(op_key(product(64, 64, 128)), measured(product(64, 64, 128), {1.0 / 3}));
  store.add_overhead(1e-7);
  return store;
}

double roofline(const plan::OpDesc& op) {
  return roofline_seconds(op.kind, kernel_class(op), op_work(op).value(), profile());
}

TEST(OpKey, NamesWhatMattersAndNothingElse) {
  plan::OpDesc dropout = unary("Dropout", 8);
  dropout.attrs = {{"ratio", 0.1}, {"stream", int64_t{3}}};
  EXPECT_EQ(op_key(dropout), "Dropout(f32[8]) -> (f32[8])");
  EXPECT_EQ(op_key(product(2, 3, 4)),
            "MatMul(f32[2,4], f32[4,3], -, -) -> (f32[2,3]) trans_a=0 "
            "trans_b=0");
  plan::OpDesc image = unary("Relu", 1);
  image.inputs[0]->dims = image.outputs[0].dims = {1, 2, 3, 4};
  const std::string plain = op_key(image);
  image.inputs[0]->layout = Layout::channels_last(4);
  EXPECT_NE(op_key(image), plain);
  EXPECT_EQ(kind_of(plain), "Relu");
  plan::OpDesc square = unary("PowScalar", 8);
  square.attrs = {{"exponent", 2.0}};
  plan::OpDesc root = square;
  root.attrs = {{"exponent", 0.5}};
  EXPECT_NE(op_key(square), op_key(root));
}

TEST(KernelClass, ProductsGoByTheirSmallestExtent) {
  EXPECT_EQ(kernel_class(product(128, 128, 128)), KernelClass::kProduct);
  EXPECT_EQ(kernel_class(product(128, 64, 128)), KernelClass::kSmallProduct);
  EXPECT_EQ(kernel_class(product(1, 128, 128)), KernelClass::kThinProduct);
  EXPECT_EQ(kernel_class(unary("NoSuchKind", 1)), KernelClass::kElementwise);
  for (int c = 0; c < kKernelClasses; ++c)
    EXPECT_EQ(parse_kernel_class(name(static_cast<KernelClass>(c))), static_cast<KernelClass>(c));
}

TEST(CostStore, ReadsBackWhatItWrites) {
  const CostStore store = small_store();
  const std::string text = print_costs(store);
  const auto again = parse_costs(text, "store.json");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, store);
  EXPECT_EQ(print_costs(*again), text);
  EXPECT_EQ(*parse_costs(print_costs(CostStore(kHere)), "empty"), CostStore(kHere));
}

TEST(CostStore, MergingKeepsTheLastRunsAndAddsCounts) {
  CostStore store = small_store(), later(kHere);
  const plan::OpDesc op = unary("Exp", 1000);
  for (size_t i = 0; i < kMostRuns - 1; ++i) later.add(op_key(op), measured(op, {5e-4}));
  later.add(op_key(unary("Log", 10)), measured(unary("Log", 10), {1e-6}));
  ASSERT_TRUE(store.merge(later).has_value());
  const MeasuredKernel* kernel = store.find(op_key(op));
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->seconds.size(), kMostRuns);
  EXPECT_EQ(kernel->seconds.front(), 2e-4);  // the two before it are gone
  EXPECT_EQ(kernel->count, static_cast<int64_t>(kMostRuns) - 1 + 3);
  EXPECT_NE(store.find(op_key(unary("Log", 10))), nullptr);
  EXPECT_EQ(store.overheads().size(), 1u);
}

TEST(CostStore, AnotherDeviceIsRefusedNamingBoth) {
  CostStore store = small_store();
  DeviceIdentity other = kHere;
  other.threads = 7;
  const auto refused = check_same_device(store, other, "store.json");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInput);
  for (const std::string& word : {print(kHere), print(other), std::string("store.json")})
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  EXPECT_TRUE(check_same_device(store, kHere, "store.json").has_value());
  EXPECT_FALSE(store.merge(CostStore(other)).has_value());
}

TEST(CostStore, DamagedFilesAreRefused) {
  const std::string good = print_costs(small_store());
  const auto expect_refused = [](const std::string& text, const char* word) {
    const auto store = parse_costs(text, "bad.json");
    ASSERT_FALSE(store.has_value()) << text;
    EXPECT_EQ(store.error().code, ErrorCode::kInput);
    EXPECT_NE(store.error().message.find(word), std::string::npos) << store.error().message;
    EXPECT_EQ(store.error().message.find("bad.json"), 0u);
  };
  const auto with = [&](const char* from, const char* to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, std::string(from).size(), to);
  };
  for (size_t cut = 0; cut + 2 < good.size(); cut += 7)
    EXPECT_FALSE(parse_costs(good.substr(0, cut), "cut").has_value()) << cut;
  expect_refused("{}", "not a cost store");
  expect_refused(with("\"version\": 1", "\"version\": 99"), "99");
  expect_refused(with("\"cores\":4", "\"cores\":0"), "cores");
  expect_refused(with("elementwise", "elementless"), "elementless");
  expect_refused(with("[0.0003", "[-1"), "seconds");
  expect_refused(with("\"count\":3", "\"count\":\"3\""), "count");
  expect_refused(with("0.3333333333333333", "1e99"), "seconds");
  expect_refused(with("MatMul(f32[64,128], f32[128,64], -, -) -> (f32[64,64]) trans_a=0 trans_b=0",
                      "Exp(f32[1000]) -> (f32[1000])"),
                 "twice");
}

TEST(Estimator, TakesMeasuredTimesAndScalesTheRest) {
  const DeviceProfile device = profile();
  const CostStore store = small_store();
  const Estimator estimator(device, &store);
  const Estimate exact = estimator.estimate(unary("Exp", 1000)).value();
  EXPECT_TRUE(exact.measured);
  EXPECT_DOUBLE_EQ(exact.seconds, 2e-4 + 1e-7);

  // A single kernel of the kind: its ratio to the roofline, whatever the size.
  const double ratio = 2e-4 / roofline(unary("Exp", 1000));
  const Estimate larger = estimator.estimate(unary("Exp", 4000)).value();
  EXPECT_FALSE(larger.measured);
  EXPECT_NEAR(larger.seconds, ratio * roofline(unary("Exp", 4000)) + 1e-7, 1e-9);
  // Another kind of the same class: likewise.
  EXPECT_NEAR(estimator.estimate(unary("Log", 4000)).value().seconds,
              ratio * roofline(unary("Log", 4000)) + 1e-7, 1e-9);
  // Nobody of its class: the mean of all, by weight.
  const double other = (1.0 / 3) / roofline(product(64, 64, 128));
  plan::OpDesc softmax = unary("Softmax", 1000);
  softmax.attrs = {{"axis", int64_t{0}}};
  const double mixed = (estimator.estimate(softmax).value().seconds - 1e-7) / roofline(softmax);
  EXPECT_GT(mixed, std::min(ratio, other));
  EXPECT_LT(mixed, std::max(ratio, other));
  // A kind that is there in another class answers for itself.
  EXPECT_NEAR(
      estimator.estimate(product(512, 512, 512)).value().seconds / roofline(product(512, 512, 512)),
      other, other / 100);
}

TEST(Estimator, NearKernelsWeighMost) {
  const DeviceProfile device = profile();
  CostStore store(kHere);
  const auto add = [&](int64_t n, double ratio) {
    const plan::OpDesc op = unary("Exp", n);
    store.add(op_key(op), measured(op, {ratio * roofline(op)}));
  };
  add(1000, 2.0);
  add(1000000, 8.0);
  const Estimator estimator(device, &store);
  const auto ratio = [&](int64_t n) {
    return estimator.estimate(unary("Exp", n)).value().seconds / roofline(unary("Exp", n));
  };
  EXPECT_LT(ratio(1100), 2.1);
  EXPECT_GT(ratio(900000), 7.6);
  EXPECT_GT(ratio(30000), ratio(2000));
}

TEST(KeyFamily, TakesSizesOutOfAKey) {
  const KeyFamily with = family_of(
      "Conv(f32[8,3,4]@strided:12,4,1, f32[2,3]@blocked:Ab4a:96, -) -> (f32[8,2]@perm:10) "
      "group=2 pads=[1,-1]",
      true);
  EXPECT_EQ(with.family,
            "Conv(f32[###]@strided:###, f32[##]@blocked:Ab4a:#, -) -> (f32[##]@perm:10) group=2 "
            "pads=[##]");
  EXPECT_EQ(with.sizes, (std::vector<int64_t>{8, 3, 4, 12, 4, 1, 2, 3, 96, 8, 2, 1, -1}));
  const KeyFamily without =
      family_of("Conv(f32[8,3]@strided:3,1, f32[2]) -> (f32[8]@perm:0)", false);
  EXPECT_EQ(without.family, "Conv(f32[##], f32[#]) -> (f32[#])");
  EXPECT_EQ(without.sizes, (std::vector<int64_t>{8, 3, 2, 8}));
  EXPECT_EQ(family_of(op_key(product(8, 3, 5)), true).family,
            family_of(op_key(product(4, 9, 7)), true).family);
}

TEST(KeyFamily, APartIsOnOneLineWithTheWhole) {
  EXPECT_TRUE(on_one_line({8, 3, 64}, {8, 3, 64}));
  EXPECT_TRUE(on_one_line({8, 3, 64}, {2, 3, 16}));
  EXPECT_TRUE(on_one_line({2, 3, 16}, {3, 3, 24}));
  EXPECT_FALSE(on_one_line({8, 3, 64}, {2, 3, 32}));
  EXPECT_FALSE(on_one_line({8, 3}, {8, 3, 1}));
  EXPECT_FALSE(on_one_line({8, 0}, {8, 1}));
}

TEST(KeyFamily, TimesBetweenSizesNeverFallWithWork) {
  EXPECT_DOUBLE_EQ(time_between({{1, 2}, {4, 8}}, 2), 4);
  EXPECT_DOUBLE_EQ(time_between({{4, 8}, {1, 2}}, 4), 8);
  EXPECT_LT(time_between({{1, 2}, {4, 8}}, 0.5), 0);
  EXPECT_LT(time_between({{1, 2}, {4, 8}}, 5), 0);
  EXPECT_LT(time_between({}, 5), 0);
  // The middle one was disturbed: it and its neighbour become their mean.
  EXPECT_NEAR(time_between({{1, 1}, {2, 9}, {4, 4}, {8, 16}}, 2), 6, 1e-12);
  EXPECT_NEAR(time_between({{1, 1}, {2, 9}, {4, 4}, {8, 16}}, 3), 6, 1e-12);
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<SizedTime> measured = {{1, 0.1 + rng.uniform()}, {64, 0.1 + rng.uniform()}};
    for (int k = 0; k < 5; ++k) measured.push_back({1 + 63 * rng.uniform(), 0.1 + rng.uniform()});
    double before = 0;
    for (double work = 1; work <= 64; work += 0.5) {
      const double seconds = time_between(measured, work);
      ASSERT_GE(seconds, before) << "seed 3, draw " << i << ", work " << work;
      before = seconds - 1e-12;
    }
  }
}

TEST(Estimator, PartsLieBetweenMeasuredParts) {
  const DeviceProfile device = profile();
  CostStore store(kHere);
  // Far from the roofline, and not by one factor: small parts are slow.
  const auto add = [&](const plan::OpDesc& op, double seconds) {
    store.add(op_key(op), measured(op, {seconds}));
  };
  add(product(2048, 512, 256), 8e-3);
  add(product(512, 512, 256), 4e-3);
  add(product(512, 128, 256), 1.0);  // another width: no part of it
  const Estimator estimator(device, &store);
  const auto of = [&](int64_t rows) { return estimator.estimate(product(rows, 512, 256)).value(); };
  EXPECT_TRUE(of(2048).measured);
  EXPECT_FALSE(of(2048).interpolated);
  double before = of(512).seconds;
  for (const int64_t rows : {513, 683, 1024, 2047}) {
    EXPECT_TRUE(of(rows).interpolated) << rows;
    EXPECT_FALSE(of(rows).measured);
    EXPECT_GE(of(rows).seconds, before) << rows;
    before = of(rows).seconds;
  }
  EXPECT_LE(before, 8e-3);
  // In the middle of the line between the logarithms.
  EXPECT_NEAR(of(1024).seconds, std::sqrt(4e-3 * 8e-3), 2e-4);
  // Smaller than all that were measured: the corrected roofline, as ever.
  EXPECT_FALSE(of(100).interpolated);
  Coverage coverage;
  for (const int64_t rows : {2048, 1024, 100}) coverage.add(of(rows));
  EXPECT_EQ(coverage.measured_ops, 1);
  EXPECT_EQ(coverage.interpolated_ops, 1);
  EXPECT_NE(print(coverage).find("1 of 3 ops, "), std::string::npos) << print(coverage);
  EXPECT_NE(print(coverage).find("1 more ("), std::string::npos) << print(coverage);
}

TEST(Estimator, LayoutsAreLookedPastButForMovements) {
  const DeviceProfile device = profile();
  const auto image = [](std::string kind, int64_t n, bool is_last) {
    plan::OpDesc op = unary(std::move(kind), n);
    for (plan::TensorDesc* type : {&*op.inputs[0], &op.outputs[0]}) {
      type->dims = {n, 8, 6, 6};
      if (is_last) type->layout = Layout::channels_last(4);
    }
    return op;
  };
  CostStore store(kHere);
  for (const char* kind : {"Relu", "Copy"})
    for (const auto& [n, seconds] : {std::pair(2, 1e-3), std::pair(8, 2e-3)})
      store.add(op_key(image(kind, n, true)), measured(image(kind, n, true), {seconds}));
  const Estimator estimator(device, &store);
  EXPECT_TRUE(estimator.estimate(image("Relu", 4, true)).value().interpolated);
  EXPECT_TRUE(estimator.estimate(image("Relu", 4, false)).value().interpolated);
  const Estimate same = estimator.estimate(image("Relu", 8, false)).value();
  EXPECT_TRUE(same.interpolated);
  EXPECT_DOUBLE_EQ(same.seconds, 2e-3);
  EXPECT_TRUE(estimator.estimate(image("Copy", 4, true)).value().interpolated);
  EXPECT_FALSE(estimator.estimate(image("Copy", 4, false)).value().interpolated);
}

TEST(Estimator, WithoutAStoreItIsTheRoofline) {
  const DeviceProfile device = profile();
  const Estimator estimator(device);
  EXPECT_EQ(estimator.estimate(product(64, 64, 64)).value().seconds, roofline(product(64, 64, 64)));
  plan::OpDesc view = unary("Reshape", 6);
  view.attrs = {{"shape", std::vector<int64_t>{2, 3}}};
  view.outputs[0].dims = {2, 3};
  EXPECT_EQ(estimator.estimate(view).value().seconds, 0);
}

TEST(Device, ClassRatesAndTheRestReadBack) {
  DeviceProfile device = profile();
  device.kernels = "cpu";
  device.cache_bytes = 1 << 20;
  device.efficiency["Exp"] = 0.5;
  device.classes[KernelClass::kElementwise] = {
      .flops_per_second = 0, .bytes_per_second = 2e9, .cached_bytes_per_second = 8e9};
  device.memory = {{.operation = "copy", .bytes = 4096, .bytes_per_second = 1e10}};
  device.slow_tiers = {{.name = "host",
                        .out_bytes_per_second = 1e9,
                        .in_bytes_per_second = 2e9,
                        .latency_seconds = 1e-5,
                        .compute_seconds_per_byte = 1e-10}};
  device.identity = kHere;
  const std::string text = print_device(device);
  const auto again = parse_device(text, "device.json");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(print_device(*again), text);
  EXPECT_EQ(again->identity, device.identity);
  EXPECT_EQ(again->classes, device.classes);
  EXPECT_EQ(again->slow_tiers, device.slow_tiers);
  const auto seconds = [&](int64_t n) {
    const OpWork work = op_work(unary("Exp", n)).value();
    return roofline_seconds("Exp", KernelClass::kElementwise, work, *again);
  };
  EXPECT_NEAR(seconds(1000), 1e-6 + 8000 / 8e9 / 0.5, 1e-12);       // in the cache
  EXPECT_NEAR(seconds(1000000), 1e-6 + 8000000 / 2e9 / 0.5, 1e-9);  // outside
  for (const char* word : {"\"classes\": 1", "\"version\": 9", "\"kernels\": \"gpu\"",
                           "\"slow_tiers\": [{\"name\": \"host\"}]"}) {
    std::string bad = text;
    bad.insert(bad.rfind('}'), std::string(", ") + word);
    EXPECT_FALSE(parse_device(bad, "device.json").has_value()) << word;
  }
}

}  // namespace
}  // namespace lowtide::cost

// The vector loops of every instruction set that this machine has: elementary functions against
// double precision over floats of every size, special values, and all sets against the plainest.
#include "exec/cpu/simd.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "base/rng.h"

namespace lowtide::exec_cpu {
namespace {

using Floats = std::vector<float>;

class Simd : public testing::TestWithParam<const Loops*> {
 protected:
  static Floats map(const char* kind, const Floats& x) {
    const MapLoop loop = find_map(*GetParam(), kind, 'f', 'f', 1);
    Floats y(x.size());
    if (loop == nullptr) {
      ADD_FAILURE() << "no loop for " << kind;
      return y;
    }
    MapCall call{};
    call.out = reinterpret_cast<char*>(y.data());
    call.in[0] = reinterpret_cast<const char*>(x.data());
    call.step1[0] = call.step1[1] = sizeof(float);
    call.n0 = 1;
    call.n1 = static_cast<int64_t>(x.size());
    loop(call);
    return y;
  }
};

// Finite floats with evenly spread bit patterns: as many of each binary order of magnitude, both
// signs, subnormals included.
const Floats& samples() {
  static const Floats all = [] {
    Floats made;
    constexpr uint64_t kSpacing = 2039;  // prime
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kSpacing) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      if (std::isfinite(x)) made.push_back(x);
    }
    for (int i = -200000; i <= 200000; ++i) made.push_back(static_cast<float>(i) * 1e-3f);
    return made;
  }();
  return all;
}

// Distance in units of the last place of the float nearest to `exact`.
double ulps(float y, double exact) {
  if (std::isnan(exact) && std::isnan(y)) return 0;
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(y)) {
    if (y == nearest) return 0;
    // One rounding step below infinity counts as one unit.
    return y == std::nextafter(nearest, 0.0f) || std::nextafter(y, 0.0f) == nearest
               ? 1
               : std::numeric_limits<double>::infinity();
  }
  const double magnitude = std::max(std::abs(exact), 0x1p-126);
  return std::abs(static_cast<double>(y) - exact) / std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

struct Promise {
  const char* kind;
  double (*exact)(double);
  double ulps;  // as simd_math.h says; logarithms are the C library's
};

const Promise kPromises[] = {
    {"Exp", std::exp, 2}, {"Tanh", std::tanh, 3}, {"Erf", std::erf, 3}, {"Log", std::log, 1}};

TEST_P(Simd, ElementaryFunctionsKeepTheirPromise) {
  for (const Promise& promise : kPromises) {
    const Floats& x = samples();
    const Floats y = map(promise.kind, x);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], promise.exact(static_cast<double>(x[i])));
      if (!(error <= worst)) {
        worst = error;
        where = x[i];
      }
    }
    EXPECT_LE(worst, promise.ulps) << promise.kind << " at " << where;
    std::printf("%s %s: %.2f units in the last place at %g\n", GetParam()->name, promise.kind,
                worst, static_cast<double>(where));
  }
}

TEST_P(Simd, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  // Long enough for whole vectors, with a rest.
  auto all = [&](const char* kind, float x) {
    const Floats y = map(kind, Floats(37, x));
    for (float other : y)
      EXPECT_TRUE(other == y[0] || (std::isnan(other) && std::isnan(y[0]))) << kind << " of " << x;
    return y[0];
  };
  EXPECT_EQ(all("Exp", inf), inf);
  EXPECT_EQ(all("Exp", -inf), 0.0f);
  EXPECT_EQ(all("Exp", 0.0f), 1.0f);
  EXPECT_EQ(all("Exp", -0.0f), 1.0f);
  EXPECT_GT(all("Exp", -103.0f), 0.0f) << "results may be subnormal";
  EXPECT_EQ(all("Exp", 1e30f), inf);
  EXPECT_EQ(all("Log", 0.0f), -inf);
  EXPECT_EQ(all("Log", inf), inf);
  EXPECT_TRUE(std::isnan(all("Log", -1.0f)));
  for (const char* odd : {"Tanh", "Erf"}) {
    EXPECT_EQ(all(odd, inf), 1.0f) << odd;
    EXPECT_EQ(all(odd, -inf), -1.0f) << odd;
    EXPECT_EQ(all(odd, 0.0f), 0.0f) << odd;
    EXPECT_TRUE(std::signbit(all(odd, -0.0f))) << odd;
  }
  EXPECT_EQ(all("Sigmoid", inf), 1.0f);
  EXPECT_EQ(all("Sigmoid", -inf), 0.0f);
  for (const char* kind : {"Exp", "Tanh", "Erf", "Log", "Sigmoid", "Gelu", "Silu", "Relu", "Sqrt"})
    EXPECT_TRUE(std::isnan(all(kind, nan))) << kind;
}

Floats random_row(int64_t n, uint64_t seed) {
  Rng rng(seed);
  Floats row(static_cast<size_t>(n));
  for (float& x : row) x = static_cast<float>(rng.uniform() * 4 - 2);
  return row;
}

void expect_near(const Floats& a, const Floats& b, double tolerance, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(static_cast<double>(b[i]))))
        << what << " element " << i << " of " << a.size();
}

// Every elementwise loop on floats, and rows of sums, softmax, updates and dropout, give what the
// plainest set gives, at lengths around those of vectors and blocks.
TEST_P(Simd, AgreesWithThePlainestSet) {
  const Loops& plain = *runnable_loops().front();
  const Loops& set = *GetParam();
  for (int64_t n : {1, 7, 16, 33, 1023, 1025, 5000}) {
    const Floats x = random_row(n, 1), g = random_row(n, 2);
    EXPECT_NEAR(set.sum(x.data(), n), plain.sum(x.data(), n), 1e-3);
    EXPECT_EQ(set.max(x.data(), n), plain.max(x.data(), n));
    Floats a(x.size()), b(x.size());
    set.softmax_row(x.data(), a.data(), n);
    plain.softmax_row(x.data(), b.data(), n);
    expect_near(a, b, 1e-6, "softmax_row");
    set.softmax_grad_row(g.data(), x.data(), a.data(), n);
    plain.softmax_grad_row(g.data(), x.data(), b.data(), n);
    expect_near(a, b, 1e-3, "softmax_grad_row");
    const AdamStep step{.beta1 = 0.9f,
                        .beta2 = 0.999f,
                        .one_minus_beta1 = 0.1f,
                        .one_minus_beta2 = 0.001f,
                        .decay = 0.99f,
                        .step_size = 0.01f,
                        .inverse_root_correction = 3.0f,
                        .epsilon = 1e-8f};
    Floats pa = x, pb = x, ma = g, mb = g, va(x.size(), 0.1f), vb = va;
    set.adamw(pa.data(), g.data(), ma.data(), va.data(), n, step);
    plain.adamw(pb.data(), g.data(), mb.data(), vb.data(), n, step);
    expect_near(pa, pb, 1e-6, "adamw");
    std::vector<uint32_t> words(static_cast<size_t>(4 * n)), other = words;
    const uint32_t key[2] = {1, 2};
    set.philox(5, n, key, 3, 4, words.data());
    plain.philox(5, n, key, 3, 4, other.data());
    EXPECT_EQ(words, other);
    set.dropout(x.data(), words.data(), n, 0.3f, 2.0f, a.data());
    plain.dropout(x.data(), words.data(), n, 0.3f, 2.0f, b.data());
    EXPECT_EQ(a, b);
  }
  const Floats x = random_row(1000, 3);
  for (int i = 0; i < set.map_count; ++i) {
    const MapEntry& entry = set.maps[i];
    if (entry.in != 'f' || entry.out != 'f' || entry.inputs > 2) continue;
    const MapLoop reference = find_map(plain, entry.kind, 'f', 'f', entry.inputs);
    ASSERT_NE(reference, nullptr) << entry.kind;
    Floats a(x.size()), b(x.size());
    MapCall call{};
    call.in[0] = call.in[1] = reinterpret_cast<const char*>(x.data());
    for (int64_t& unit : call.step1) unit = sizeof(float);
    call.n0 = 1;
    call.n1 = static_cast<int64_t>(x.size());
    call.params.f[0] = call.params.f[1] = 2.0f;
    call.out = reinterpret_cast<char*>(a.data());
    entry.loop(call);
    call.out = reinterpret_cast<char*>(b.data());
    reference(call);
    for (size_t e = 0; e < a.size(); ++e)
      if (std::isnan(a[e]) && std::isnan(b[e])) a[e] = b[e] = 0;
    expect_near(a, b, 2e-6, entry.kind);
  }
}

TEST_P(Simd, FloatsOf16BitsAreThoseOfBase) {
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  Floats wide(all.size());
  const auto same = [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  };
  GetParam()->widen_f16(all.data(), 65536, wide.data());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same(wide[i], f16_value(all[i]))) << i;
  GetParam()->widen_bf16(all.data(), 65536, wide.data());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same(wide[i], bf16_value(all[i]))) << i;
  // Every float whose lower bits are near a half, in between, or none.
  for (const uint32_t low :
       {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
    for (size_t i = 0; i < wide.size(); ++i)
      wide[i] = std::bit_cast<float>((static_cast<uint32_t>(i) << 16) | low);
    GetParam()->narrow_f16(wide.data(), 65536, back.data());
    for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(back[i], f16_bits(wide[i])) << wide[i];
    GetParam()->narrow_bf16(wide.data(), 65536, back.data());
    for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(back[i], bf16_bits(wide[i])) << wide[i];
  }
}

TEST_P(Simd, TransposeTile) {
  for (int64_t rows : {1, 15, 16, 17, 64, 100})
    for (int64_t cols : {1, 8, 16, 31, 64}) {
      const int64_t x_stride = cols + 3, y_stride = rows + 5;
      std::vector<uint32_t> x(static_cast<size_t>(rows * x_stride));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint32_t>(i + 1);
      std::vector<uint32_t> y(static_cast<size_t>(cols * y_stride), 0);
      GetParam()->transpose_tile(x.data(), x_stride, y.data(), y_stride, rows, cols);
      for (int64_t c = 0; c < cols; ++c)
        for (int64_t r = 0; r < y_stride; ++r)
          ASSERT_EQ(y[static_cast<size_t>(c * y_stride + r)],
                    r < rows ? x[static_cast<size_t>(r * x_stride + c)] : 0u)
              << rows << " x " << cols << " at " << r << ", " << c;
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, Simd,
                         testing::ValuesIn(runnable_loops().begin(), runnable_loops().end()),
                         [](const auto& set) { return std::string(set.param->name); });

}  // namespace
}  // namespace lowtide::exec_cpu

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From measurements to numbers: medians, curves and links whose answer is known.

#include "passes/cost/CurveFit.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

TEST(CurveFitTest, OrderStatistics) {
  EXPECT_EQ(medianOf({}), 0);
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(medianOf({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(quantileOf({}, 0.25), 0);
  EXPECT_EQ(quantileOf({5, 1, 4, 2, 3}, 0.25), 2);
  EXPECT_EQ(quantileOf({5, 1, 4, 2, 3}, 0), 1);
}

TEST(CurveFitTest, Digits) {
  EXPECT_EQ(roundDigits(123456), 123000);
  EXPECT_EQ(roundDigits(0.0012345), 0.00123);
  EXPECT_EQ(roundDigits(9999), 10000);
  EXPECT_EQ(roundDigits(0), 0);
}

// Near sizes are one point, at their geometric mean, with the median share: the outlier does not count.
TEST(CurveFitTest, Curve) {
  EfficiencyCurve curve = fitCurve({{100, 1}, {200, 1.0}, {400, 10}, {16e3, 40}, {16e3, 32}, {16e3, 1e6}}, 1000);
  // 100 and 200 at 0.1 and 0.2; 400 begins the next point.
  ASSERT_EQ(curve.points.size(), 3u);
  EXPECT_EQ(curve.points[0].size, 141);
  EXPECT_DOUBLE_EQ(curve.points[0].share, 0.15);
  EXPECT_EQ(curve.points[1].size, 400);
  EXPECT_DOUBLE_EQ(curve.points[1].share, 0.04);
  EXPECT_EQ(curve.points[2].size, 16e3);
  EXPECT_DOUBLE_EQ(curve.points[2].share, 0.4);
}

// Measurements made from a link give that link.
TEST(CurveFitTest, Link) {
  LinkSpec link{10e9, 5e-6, 4e9};
  auto send = [&](double bytes) { return CallSample{bytes, link.latency + bytes / link.bandwidth}; };
  auto allReduce = [&](double bytes) {
    return CallSample{bytes, 2 * link.latency + bytes / link.bandwidth + bytes / 2 / link.combine};
  };
  LinkSpec fit = fitLink({send(4096), send(1 << 24)}, {allReduce(4096), allReduce(1 << 24)});
  EXPECT_DOUBLE_EQ(fit.bandwidth, link.bandwidth);
  EXPECT_DOUBLE_EQ(fit.latency, link.latency);
  EXPECT_DOUBLE_EQ(fit.combine, link.combine);
}

// Noise: few bytes took longer than many. Nothing becomes negative or infinite.
TEST(CurveFitTest, NoisyLink) {
  LinkSpec fit = fitLink({{4096, 1e-3}, {1 << 24, 0.5e-3}}, {{4096, 1e-3}, {1 << 24, 0.4e-3}});
  EXPECT_NEAR(fit.bandwidth, (1 << 24) / 0.5e-3, 0.01 * fit.bandwidth);
  EXPECT_GT(fit.latency, 0);
  EXPECT_EQ(fit.combine, 0);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops for the vectorizer against one number after the other, for counts that no vector divides as well.

#include "passes/planner/stages/ShiftedSums.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace cleave::stages;

namespace {

TEST(ShiftedSums, AreThoseOfSingleNumbers) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(0, 1);
  constexpr double none = std::numeric_limits<double>::infinity();
  for (size_t count = 0; count != 70; ++count) {
    // One number more, which must stay.
    std::vector<double> here(count + 1), after(count), crosses(count);
    for (double &number : here)
      number = draw(random) < 0.2 ? none : draw(random);
    for (double &number : after)
      number = draw(random) < 0.2 ? none : draw(random);
    for (double &number : crosses)
      number = draw(random) < 0.5;
    std::vector<double> expected = here, byHost = here, expectedByHost = here;
    for (size_t i = 0; i != count; ++i) {
      expected[i] = std::min(here[i], after[i] + 0.1);
      expectedByHost[i] = std::min(here[i], after[i] + (crosses[i] != 0 ? 0.3 : 0.1));
    }
    lower(here.data(), after.data(), 0.1, count);
    lowerByHost(byHost.data(), after.data(), 0.1, 0.3, crosses.data(), count);
    EXPECT_EQ(here, expected) << count;
    EXPECT_EQ(byHost, expectedByHost) << count;
  }
}

} // namespace

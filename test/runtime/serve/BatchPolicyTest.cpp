// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Policies against closed formulas of queueing theory, and against all others where there are few.

#include "ServiceSimulation.h"

#include "runtime/serve/BatchPolicy.h"

#include <gtest/gtest.h>

namespace cleave::runtime::serve {
namespace {

BatchPolicy policyFor(const Sizes &sizes, double rate) {
  std::vector<double> seconds;
  for (const BatchSize &size : sizes)
    seconds.push_back(size.seconds);
  return BatchPolicy(*BatchTable::create(sizes), seconds, rate);
}

// With batches of one there is nothing to choose, and the mean follows Pollaczek and Khinchine for M/D/1:
// L = rho + rho^2 / (2 (1 - rho)).
TEST(BatchPolicy, HasTheMeanOfASingleServer) {
  for (double load : {0.1, 0.3, 0.5, 0.7, 0.8}) {
    BatchPolicy policy = policyFor({{1, 0.02}, {16, 100}}, load / 0.02);
    EXPECT_NEAR(policy.meanInSystem(), load + load * load / (2 * (1 - load)), 0.01) << load;
    for (uint64_t waiting = 1; waiting != 16; ++waiting)
      EXPECT_EQ(policy.choose(waiting), std::optional<size_t>(0)) << load;
  }
}

// Where a batch takes as long as one sample, the best policy is a threshold (Deb and Serfozo): from some number of
// samples on all that wait go together.
TEST(BatchPolicy, IsAThresholdWhereSizeCostsNothing) {
  for (double rate : {90, 900, 3000}) {
    BatchPolicy policy = policyFor({{1, 0.01}, {64, 0.01}}, rate);
    uint64_t first = 2;
    while (!policy.choose(first))
      ++first;
    EXPECT_LT(first, 64u);
    for (uint64_t waiting = first; waiting <= 64; ++waiting)
      EXPECT_EQ(policy.choose(waiting), std::optional<size_t>(1)) << rate << " " << waiting;
  }
}

/// What a policy by list does: `choices[n]` for n samples that wait, the last one for more; -1 waits.
class ListedPolicy {
public:
  ListedPolicy(const Sizes &sizes, std::vector<int> choices) : sizes(sizes), choices(std::move(choices)) {}

  double meanInSystem(const std::vector<Time> &arrivals) const {
    Time now = 0, sum = 0;
    size_t first = 0;
    while (first != arrivals.size()) {
      size_t waiting = 0;
      while (waiting != choices.size() && first + waiting != arrivals.size() && arrivals[first + waiting] <= now)
        ++waiting;
      int choice = choices[std::min(waiting, choices.size() - 1)];
      bool isLast = first + waiting == arrivals.size();
      if (waiting == 0 || (choice < 0 && !isLast)) {
        now = arrivals[first + waiting];
        continue;
      }
      const BatchSize &size = sizes[static_cast<size_t>(std::max(choice, 0))];
      now += static_cast<Time>(size.seconds * 1e9);
      for (size_t i = 0; i != std::min<size_t>(waiting, size.samples); ++i)
        sum += now - arrivals[first++];
    }
    return static_cast<double>(sum) / static_cast<double>(arrivals.back());
  }

private:
  const Sizes &sizes;
  std::vector<int> choices;
};

// Where two sizes leave few policies, none is better than the one that is found, and the mean that it expects is the
// one that comes.
TEST(BatchPolicy, IsTheBestOfAll) {
  for (double second : {0.0105, 0.014, 0.018, 0.0205})
    for (double load : {0.3, 0.6, 0.85}) {
      Sizes sizes = {{1, 0.01}, {2, second}};
      double rate = load * capacityOf(sizes);
      std::vector<Time> arrivals = poissonArrivals(rate, 200'000, 11);
      double best = 1e300;
      for (int one : {-1, 0})
        for (int two : {0, 1})
          for (int three : {0, 1})
            for (int more : {0, 1})
              best = std::min(best, ListedPolicy(sizes, {-1, one, two, three, more}).meanInSystem(arrivals));
      BatchPolicy policy = policyFor(sizes, rate);
      std::vector<int> choices;
      for (uint64_t waiting = 0; waiting != 8; ++waiting) {
        auto choice = policy.choose(waiting);
        choices.push_back(choice ? static_cast<int>(*choice) : -1);
      }
      double own = ListedPolicy(sizes, choices).meanInSystem(arrivals);
      EXPECT_LT(own, best * 1.02) << second << " " << load;
      EXPECT_NEAR(policy.meanInSystem(), own, 0.04 * own) << second << " " << load;
    }
}

// Waiting for company pays where two take as long as one and the second is about to come.
TEST(BatchPolicy, WaitsWhereThatPays) {
  BatchPolicy policy = policyFor({{1, 0.01}, {2, 0.01}}, 0.95 * 200);
  EXPECT_EQ(policy.choose(1), std::nullopt);
  EXPECT_EQ(policyFor({{1, 0.01}, {2, 0.01}}, 0.1 * 200).choose(1), std::optional<size_t>(0));
}

} // namespace
} // namespace cleave::runtime::serve

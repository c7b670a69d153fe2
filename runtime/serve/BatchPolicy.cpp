// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Policy iteration: evaluate by solving linear equations, then improve state by state.

#include "runtime/serve/BatchPolicy.h"

#include <algorithm>
#include <cmath>

namespace cleave::runtime::serve {
namespace {

/// The share of the capacity that a rate is taken to be at most: above it no queue is stable.
constexpr double mostLoad = 0.97;

/// Queues are followed up to so many times the largest batch, or to so many samples; longer ones are taken for this
/// long, which makes what is decided near the end worse: of those above three quarters nothing is used.
constexpr uint64_t mostBatches = 4, mostSamples = 320, leastSamples = 64;

/// The probabilities of 0, 1, 2, ... arrivals where `mean` are expected, until they are negligible.
std::vector<double> poisson(double mean) {
  std::vector<double> probabilities;
  double last = std::ceil(mean + 8 * std::sqrt(mean) + 8);
  for (double count = 0; count <= last; ++count)
    probabilities.push_back(std::exp(count * std::log(mean) - mean - std::lgamma(count + 1)));
  return probabilities;
}

class PolicyIteration {
public:
  PolicyIteration(const BatchTable &table, const std::vector<double> &seconds, double rate, double stretch)
      : table(table), seconds(seconds), rate(rate), stretch(stretch),
        numStates(std::max<uint64_t>({leastSamples, table.largest() * uint64_t(3) / 2,
                                      std::min(mostBatches * table.largest(), mostSamples)}) +
                  1) {
    for (double time : seconds)
      arrivals.push_back(poisson(rate * time));
    choices.assign(numStates, 0);
    for (uint64_t waiting = 0; waiting != numStates; ++waiting)
      choices[waiting] = waiting == 0 ? -1 : static_cast<int>(table.fitting(waiting));
  }

  void run() {
    static constexpr int mostRounds = 50;
    for (int round = 0; round != mostRounds; ++round) {
      evaluate();
      if (!improve())
        return;
    }
  }

  const BatchTable &table;
  const std::vector<double> &seconds;
  const double rate, stretch;
  const uint64_t numStates;
  std::vector<std::vector<double>> arrivals;
  std::vector<int> choices;
  std::vector<double> bias; ///< by state, relative to the empty queue
  double average = 0;

private:
  double timeOf(int choice) const { return choice < 0 ? 1 / rate : seconds[static_cast<size_t>(choice)]; }

  /// Samples in the system over the time until the next decision; those of its batch until that is over.
  double costOf(uint64_t waiting, int choice) const {
    double time = timeOf(choice), present = static_cast<double>(waiting) * time;
    if (choice < 0)
      return present;
    uint64_t taken = std::min<uint64_t>(waiting, table.samples(static_cast<size_t>(choice)));
    return present + rate * time * time / 2 + static_cast<double>(taken) * (stretch - 1) * time;
  }

  /// Calls `add` for each state that may be next, with its probability.
  template <typename Add> void eachNext(uint64_t waiting, int choice, Add add) const {
    if (choice < 0)
      return add(std::min(waiting + 1, numStates - 1), 1.0);
    uint64_t left = waiting - std::min<uint64_t>(waiting, table.samples(static_cast<size_t>(choice)));
    for (double probability : arrivals[static_cast<size_t>(choice)])
      add(std::min(left++, numStates - 1), probability);
  }

  /// Solves bias(n) + average * time(n) = cost(n) + sum of bias(next), with bias(0) = 0, whose place the average takes.
  void evaluate() {
    size_t count = numStates;
    std::vector<double> rows(count * (count + 1));
    auto at = [&](size_t row, size_t column) -> double & { return rows[row * (count + 1) + column]; };
    for (size_t state = 0; state != count; ++state) {
      at(state, state) += 1;
      eachNext(state, choices[state], [&](uint64_t next, double probability) { at(state, next) -= probability; });
      at(state, 0) = timeOf(choices[state]);
      at(state, count) = costOf(state, choices[state]);
    }
    // Gaussian elimination with partial pivoting.
    for (size_t column = 0; column != count; ++column) {
      size_t pivot = column;
      for (size_t row = column + 1; row != count; ++row)
        if (std::abs(at(row, column)) > std::abs(at(pivot, column)))
          pivot = row;
      if (pivot != column)
        std::swap_ranges(&at(column, 0), &at(column, 0) + count + 1, &at(pivot, 0));
      for (size_t row = column + 1; row != count; ++row) {
        double factor = at(row, column) / at(column, column);
        if (factor == 0)
          continue;
        for (size_t other = column; other <= count; ++other)
          at(row, other) -= factor * at(column, other);
      }
    }
    bias.assign(count, 0);
    for (size_t row = count; row-- > 0;) {
      double value = at(row, count);
      for (size_t column = row + 1; column != count; ++column)
        value -= at(row, column) * bias[column];
      bias[row] = value / at(row, row);
    }
    average = bias[0];
    bias[0] = 0;
  }

  /// Whether some state has a better choice than so far.
  bool improve() {
    bool isBetter = false;
    for (uint64_t waiting = 1; waiting != numStates; ++waiting) {
      auto value = [&](int choice) {
        double sum = costOf(waiting, choice) - average * timeOf(choice);
        eachNext(waiting, choice, [&](uint64_t next, double probability) { sum += probability * bias[next]; });
        return sum;
      };
      double best = value(choices[waiting]), least = best - 1e-9 * std::max(1.0, std::abs(best));
      // Where the queue is as long as it gets, nobody is to wait for more.
      int first = waiting < table.largest() ? -1 : 0;
      for (int choice = first; choice != static_cast<int>(table.size()); ++choice)
        if (double other = value(choice); other < least) {
          least = other;
          choices[waiting] = choice;
          isBetter = true;
        }
    }
    return isBetter;
  }
};

} // namespace

BatchPolicy::BatchPolicy(const BatchTable &table, const std::vector<double> &seconds, double rate, double stretch) {
  double capacity = 0;
  for (size_t index = 0; index != table.size(); ++index)
    capacity = std::max(capacity, table.samples(index) / seconds[index]);
  PolicyIteration iteration(table, seconds, std::clamp(rate, 1e-3 * capacity, mostLoad * capacity), stretch);
  iteration.run();
  // Whoever has so many waiting wants them gone.
  size_t fastest = 0;
  for (size_t index = 1; index != table.size(); ++index)
    if (table.samples(index) / seconds[index] > table.samples(fastest) / seconds[fastest])
      fastest = index;
  choices = std::move(iteration.choices);
  choices.resize(std::max<size_t>(choices.size() * 3 / 4, table.largest()));
  choices.push_back(static_cast<int>(fastest));
  average = iteration.average;
}

} // namespace cleave::runtime::serve

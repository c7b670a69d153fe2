// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which batch to start, by how many samples wait: what keeps the average wait shortest while samples arrive at random
// at one rate.
//
// Choosing batches is a semi-Markov decision process. When nothing runs and n samples wait, either a batch of some size
// starts, or the next arrival is awaited. A batch of s samples takes T(s), leaves n - min(n, s) behind and finds as
// many new ones as a Poisson process of the rate brings in T(s). The cost is the number of samples in the system,
// integrated over time, which by Little's law orders policies as the mean latency does. Howard's policy iteration
// (Puterman, "Markov Decision Processes", chapter 11.4) finds the best policy; Deb and Serfozo ("Optimal control of
// batch service queues", 1973) show that with one size it is a threshold. Here sizes come from a table, so it is a
// list.

#ifndef CLEAVE_RUNTIME_SERVE_BATCHPOLICY_H
#define CLEAVE_RUNTIME_SERVE_BATCHPOLICY_H

#include "runtime/serve/BatchTable.h"

#include <algorithm>
#include <optional>

namespace cleave::runtime::serve {

class BatchPolicy {
public:
  /// The best policy for samples that arrive at `rate` a second. `seconds[i]` is how long a batch of size number i
  /// keeps others from starting; its own samples stay in it for `stretch` times as long, which is how many batches run
  /// at a time. A rate near the capacity, or above it, counts as 97 % of it.
  BatchPolicy(const BatchTable &table, const std::vector<double> &seconds, double rate, double stretch = 1);

  /// The size to start, as an index into the table, where so many samples wait; nothing: wait for another.
  std::optional<size_t> choose(uint64_t waiting) const {
    int choice = choices[std::min<uint64_t>(waiting, choices.size() - 1)];
    return choice < 0 ? std::nullopt : std::optional(static_cast<size_t>(choice));
  }
  /// The mean number of samples that wait or are in work.
  double meanInSystem() const { return average; }

private:
  std::vector<int> choices; ///< by samples that wait; -1: none starts
  double average = 0;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_BATCHPOLICY_H

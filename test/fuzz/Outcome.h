// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far inputs got, for those who ask whether a fuzzer reaches what it is for.

#ifndef CLEAVE_TEST_FUZZ_OUTCOME_H
#define CLEAVE_TEST_FUZZ_OUTCOME_H

#include <array>
#include <cstdint>

namespace cleave::fuzz {

/// Counts of outcomes by name. Lies in memory that processes share.
struct OutcomeCounts {
  struct Row {
    std::array<char, 100> name;
    uint64_t count;
  };
  std::array<Row, 32> rows;

  /// Adds one input; forgets it where there is no row left.
  void add(const char *outcome);
};

/// Where countOutcome counts; null, as on libFuzzer: nowhere.
extern OutcomeCounts *outcomeCounts;

/// One input ended like this.
void countOutcome(const char *outcome);

} // namespace cleave::fuzz

#endif // CLEAVE_TEST_FUZZ_OUTCOME_H

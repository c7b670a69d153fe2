// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs many cases in several processes, finds out which of them fail, even where a process is ended by one, and leaves
// a small module of each.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_CASERUNNER_H
#define CLEAVE_TEST_PROPERTY_SPLIT_CASERUNNER_H

#include "test/property/split/SplitCases.h"

namespace cleave::test {

struct RunOptions {
  uint64_t seed = 1;
  /// Instances of each operator, and graphs.
  uint64_t instances = 2, graphs = 150;
  /// Instances of each operator that can be differentiated, with their gradients.
  uint64_t gradients = 0;
  /// Attention cut by positions, every second one with its gradient.
  uint64_t attention = 40;
  /// Splits of an instance.
  unsigned splits = 4;
  /// Of a hundred cases, how many are compiled with fusion and libraries.
  unsigned optimizedPercent = 10;
  /// Processes at once.
  unsigned jobs = 1;
  /// Only this operator; empty: all.
  std::string only;
  /// Only the unit of this number: instances of operators are counted first, then graphs, then instances with
  /// gradients, then attention.
  std::optional<uint64_t> unit;
  /// Where the modules of failing cases are written.
  std::string folder = ".";
  /// After so many failures it gives up.
  unsigned mostFailures = 20;
};

/// Runs them and says on standard output what failed. The number of failures. The calling process must have one thread
/// only.
unsigned runCases(const RunOptions &options);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_CASERUNNER_H

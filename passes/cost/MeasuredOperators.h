// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that were measured one by one, as a CSV file says them, beside what the machine's costs predict:
//
//   operator,kind,dtype,kernels,seconds
//   qkv,v100,f16,product 2048x3072x1024 + movement 25165824 B,334e-6
//   softmax,v100,f32,elementwise 1 GB + reduction 1 GB,4.1e-3
//
// An operator is one kernel or several, one after the other. A product is ROWSxCOLUMNSxINNER, with the number of equal
// products before them where there are several (32x2048x2048x64); other kernels say the bytes that they read and write.

#ifndef CLEAVE_PASSES_COST_MEASUREDOPERATORS_H
#define CLEAVE_PASSES_COST_MEASUREDOPERATORS_H

#include "passes/cost/OperatorCost.h"

namespace cleave {

struct MeasuredOperator {
  std::string name;
  std::string kind;        ///< A key of Machine::kinds.
  std::string elementType; ///< "f16", "tf32", …
  std::vector<KernelWork> kernels;
  double seconds = 0;
};

/// Parses such a file; `file` is its name in messages. The columns may come in any order and others may stand between
/// them; errors name the line and the column.
llvm::Expected<std::vector<MeasuredOperator>> parseMeasuredOperators(llvm::StringRef text, llvm::StringRef file);

/// Seconds that the executor's host takes to call the operator's kernels.
double hostSeconds(const MeasuredOperator &measured, const Machine &machine);

/// Seconds of the operator's kernels, one after the other, on a device of its kind, and no fewer than hostSeconds().
/// Expects a machine that has the kind.
double predictedSeconds(const MeasuredOperator &measured, const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MEASUREDOPERATORS_H

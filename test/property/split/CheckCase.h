// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles and runs a placed graph, and compares it with the same graph on one device.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_CHECKCASE_H
#define CLEAVE_TEST_PROPERTY_SPLIT_CHECKCASE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace cleave::test {

struct CheckOptions {
  /// Compile the divided graph with fusion and library kernels; the one of one device has plain loops in any case.
  bool optimized = false;
};

/// Why the module does not do what it must; empty where it does. A difference begins with "output", a stage that fails
/// with its name.
///
/// Outputs of floats may differ by 1e-4 times the largest magnitude in the tensor, by 1e-9 of it in f64; where rounding
/// alone moves the graph on one device further than that (which is found by computing it in f64) by eight times what it
/// moves. Optimized code is not held to less than 0.05 of these. Where values have narrower types, each element may
/// differ by twice, and the tensor as a whole by once, what rounding them otherwise moves it (RoundingProbe.h).
/// Others must be equal.
std::string checkCase(mlir::ModuleOp module, const CheckOptions &options);

/// As checkCase, in a process of its own: also says which signal ends it, or that it does not end. The calling process
/// must have one thread only.
std::string checkInProcess(mlir::ModuleOp module, const CheckOptions &options);

/// Seconds after which a case counts as blocked for ever.
inline constexpr unsigned longestSeconds = 60;

/// "it was ended by signal 11 (Segmentation fault)".
std::string describeSignal(int signal);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_CHECKCASE_H

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How messages and reports write numbers for people.

#ifndef CLEAVE_COMPILER_FIGURES_H
#define CLEAVE_COMPILER_FIGURES_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>

namespace cleave {

/// `value` with `decimals` decimals; "-" for nothing at all, which is easier to overlook than 0.0.
std::string numberText(double value, unsigned decimals);

/// `value` with `decimals` decimals.
std::string fixedText(double value, unsigned decimals);

/// `value` with four significant digits, without zeros at its end.
std::string significantText(double value);

/// Seconds as milliseconds with three decimals.
std::string millisecondsText(double seconds);

/// "12.5 %"; "- %" for nothing.
std::string percentText(double part, double whole);

/// By how much `value` differs from `reference`: "+12.5 %", "-3.0 %", "equal".
std::string changeText(double value, double reference);

/// "1 device", "3 devices".
std::string countText(size_t count, llvm::StringRef noun);

/// "1.25 s", "18.40 ms", "3.20 us"; "-" for negative seconds, which nobody knows.
std::string secondsText(double seconds);

/// "3.4 MiB", "512 B".
std::string bytesText(double bytes);

/// Large numbers with a decimal prefix: "142.10 T", "1.46 G".
std::string decimalText(double value);

/// Floating-point operations: "1.46 Gflop"; "-" for none.
std::string workText(double flops);

/// The unit that suits work of which this is the largest, in a column with two decimals.
std::pair<double, llvm::StringRef> workUnit(double largest);

} // namespace cleave

#endif // CLEAVE_COMPILER_FIGURES_H

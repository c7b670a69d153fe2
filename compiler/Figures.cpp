// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers as text.

#include "compiler/Figures.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;

namespace cleave {

template <typename... Args> static std::string formatted(const char *pattern, Args... args) {
  std::string text;
  raw_string_ostream(text) << format(pattern, args...);
  return text;
}

std::string fixedText(double value, unsigned decimals) { return formatted("%.*f", decimals, value); }

std::string significantText(double value) { return formatted("%.4g", value); }

std::string millisecondsText(double seconds) { return fixedText(seconds * 1e3, 3); }

std::string numberText(double value, unsigned decimals) { return value == 0 ? "-" : fixedText(value, decimals); }

std::string percentText(double part, double whole) { return numberText(whole > 0 ? 100 * part / whole : 0, 1) + " %"; }

std::string changeText(double value, double reference) {
  if (value == reference)
    return "equal";
  if (reference == 0)
    return value > 0 ? "new" : "less";
  double percent = 100 * (value / reference - 1);
  return std::abs(percent) < 0.05 ? "+0.0 %" : formatted("%+.1f %%", percent);
}

std::string countText(size_t count, StringRef noun) {
  return (Twine(count) + " " + noun + (count == 1 ? "" : "s")).str();
}

std::string secondsText(double seconds) {
  if (seconds < 0)
    return "-";
  if (seconds >= 1 || seconds == 0)
    return formatted("%.2f s", seconds);
  return seconds >= 1e-3 ? formatted("%.2f ms", seconds * 1e3) : formatted("%.2f us", seconds * 1e6);
}

std::string bytesText(double bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  unsigned unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return formatted(unit == 0 ? "%.0f " : "%.1f ", bytes) + units[unit];
}

std::string decimalText(double value) {
  const char *prefixes[] = {"", "k", "M", "G", "T", "P", "E", "Z"};
  unsigned prefix = 0;
  while (std::abs(value) >= 1000 && prefix + 1 < std::size(prefixes)) {
    value /= 1000;
    ++prefix;
  }
  return formatted("%.2f ", value) + prefixes[prefix];
}

std::string workText(double flops) { return flops > 0 ? decimalText(flops) + "flop" : "-"; }

std::pair<double, llvm::StringRef> workUnit(double largest) {
  constexpr double mostDigits = 1e5;
  return largest >= 1e12 * mostDigits  ? std::pair<double, llvm::StringRef>(1e15, "Pflop")
         : largest >= 1e9 * mostDigits ? std::pair<double, llvm::StringRef>(1e12, "Tflop")
         : largest >= 1e6 * mostDigits ? std::pair<double, llvm::StringRef>(1e9, "Gflop")
                                       : std::pair<double, llvm::StringRef>(1e6, "Mflop");
}

} // namespace cleave

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From measured calls to the numbers of a machine file.

#ifndef CLEAVE_PASSES_COST_CURVEFIT_H
#define CLEAVE_PASSES_COST_CURVEFIT_H

#include "passes/cost/Machine.h"

namespace cleave {

/// Calls of `size` (operations or bytes) that took `seconds`.
struct CallSample {
  double size = 0, seconds = 0;
  double rate() const { return size / seconds; }
};

/// The middle one, of an even number the mean of the middle two; 0 of none.
double medianOf(std::vector<double> values);

/// The value that a part of the others do not exceed; 0 of none. A low one stands for times that were measured: while
/// other programs run many of the times are longer, and the median with them.
double quantileOf(std::vector<double> values, double part);

/// The shares of `rate` that calls reach: samples whose sizes differ by less than a factor of four are one point, their
/// median share at the geometric mean of their sizes. Rounded to three digits, as more are noise. Empty without
/// samples.
EfficiencyCurve fitCurve(std::vector<CallSample> samples, double rate);

/// Communications of two devices of two sizes, `few` bytes and `many`.
struct CommunicationSample {
  CallSample few, many;
};

/// The link that explains what sends (latency + S/B) and all-reduces (2 latency + S/B + S/2/C) took; the latency is the
/// mean of what both say. Noise that would make a number negative makes it that of no cost.
LinkSpec fitLink(const CommunicationSample &send, const CommunicationSample &allReduce);

/// To three digits.
double roundDigits(double value);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_CURVEFIT_H

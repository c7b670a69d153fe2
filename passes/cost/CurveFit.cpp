// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Medians by size.

#include "passes/cost/CurveFit.h"

#include <algorithm>
#include <cmath>

namespace cleave {

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double quantileOf(std::vector<double> values, double part) {
  if (values.empty())
    return 0;
  auto at = values.begin() + static_cast<ptrdiff_t>(static_cast<double>(values.size() - 1) * part);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double roundDigits(double value) {
  if (!(value > 0) || !std::isfinite(value))
    return value;
  double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  // Powers of ten below one are not exact, their inverses are.
  return unit >= 1 ? std::round(value / unit) * unit : std::round(value / unit) / std::round(1 / unit);
}

EfficiencyCurve fitCurve(std::vector<CallSample> samples, double rate) {
  constexpr double bucket = 4;
  std::sort(samples.begin(), samples.end(), [](const CallSample &a, const CallSample &b) { return a.size < b.size; });
  EfficiencyCurve curve;
  for (size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
    std::vector<double> shares;
    double logs = 0;
    for (; end < samples.size() && samples[end].size < bucket * samples[begin].size; ++end) {
      shares.push_back(samples[end].rate() / rate);
      logs += std::log(samples[end].size);
    }
    double size = roundDigits(std::exp(logs / static_cast<double>(end - begin)));
    curve.points.push_back({size, roundDigits(medianOf(std::move(shares)))});
  }
  return curve;
}

LinkSpec fitLink(const CommunicationSample &send, const CommunicationSample &allReduce) {
  auto slope = [](const CommunicationSample &sample) {
    return (sample.many.seconds - sample.few.seconds) / (sample.many.size - sample.few.size);
  };
  // Where few bytes took longer than many, the rate of the many is all that is known.
  double perByte = slope(send) > 0 ? slope(send) : send.many.seconds / send.many.size;
  double latency = std::max(0.0, send.few.seconds - send.few.size * perByte);
  double reduceLatency = std::max(0.0, allReduce.few.seconds - allReduce.few.size * slope(allReduce)) / 2;
  double combinePerByte = 2 * (slope(allReduce) - perByte);
  return {roundDigits(1 / perByte), roundDigits((latency + reduceLatency) / 2),
          combinePerByte > 0 ? roundDigits(1 / combinePerByte) : 0};
}

} // namespace cleave

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the measurements of GPUs as a machine file: rates as the best that was reached, and the shares of them that
// calls of each size reach.

#include "tools/cleave-run/GpuMachineFile.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>
#include <ostream>
#include <span>

namespace cleave {
namespace {

struct Unit {
  const char *name;
  double factor;
};
constexpr Unit speeds[] = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}, {"MFLOP/s", 1e6}};
constexpr Unit works[] = {{"TFLOP", 1e12}, {"GFLOP", 1e9}, {"MFLOP", 1e6}, {"kFLOP", 1e3}};
constexpr Unit sizes[] = {{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}, {"B", 1}};
constexpr Unit bandwidths[] = {{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}};
constexpr Unit times[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};

/// Without an exponent, which machine files lack.
std::string number(double value, int digits) {
  char text[64];
  int before = value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 1;
  std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - before), value);
  std::string result = text;
  if (result.find('.') != std::string::npos)
    result.erase(std::find_if(result.rbegin(), result.rend(), [](char c) { return c != '0'; }).base(), result.end());
  if (result.back() == '.')
    result.pop_back();
  return result;
}

/// In the largest unit of which there is one at least, to four digits: more are noise.
std::string quantity(double value, std::span<const Unit> units) {
  for (const Unit &unit : units)
    if (value >= unit.factor)
      return number(value / unit.factor, 4) + " " + unit.name;
  return number(value / units.back().factor, 4) + " " + units.back().name;
}

bool isByWork(const std::string &costClass) { return costClass == "contraction" || costClass == "convolution"; }

/// The rate that the most bytes at once reach: past all caches.
double memoryRate(const std::vector<GpuSample> &samples) {
  const GpuSample *largest = nullptr;
  for (const GpuSample &sample : samples)
    if (sample.costClass == "elementwise" && (!largest || sample.size > largest->size))
      largest = &sample;
  return largest ? largest->rate() : 0;
}

/// By element type: the best rate of products.
std::map<std::string, double> peaks(const std::vector<GpuSample> &samples) {
  std::map<std::string, double> best;
  for (const GpuSample &sample : samples)
    if (sample.costClass == "contraction")
      best[sample.elementType] = std::max(best[sample.elementType], sample.rate());
  return best;
}

/// Samples by the key that a machine file's efficiency has for them.
std::map<std::string, std::vector<GpuSample>> curves(const std::vector<GpuSample> &samples) {
  std::map<std::string, std::vector<GpuSample>> found;
  for (const GpuSample &sample : samples)
    found[isByWork(sample.costClass) ? sample.costClass + "." + sample.elementType : sample.costClass].push_back(
        sample);
  for (auto &[key, points] : found)
    std::ranges::sort(points, {}, &GpuSample::size);
  return found;
}

void writeEfficiency(const GpuMeasurement &measured, std::ostream &out) {
  std::map<std::string, double> peak = peaks(measured.samples);
  double bandwidth = memoryRate(measured.samples);
  bool first = true;
  for (auto &[key, points] : curves(measured.samples)) {
    bool byWork = isByWork(points.front().costClass);
    double rate = byWork ? peak[points.front().elementType] : bandwidth;
    if (!(rate > 0))
      continue;
    out << (first ? "    efficiency:\n" : "") << "      " << key << ":\n";
    first = false;
    for (const GpuSample &point : points)
      out << "        - { at: " << quantity(point.size, byWork ? std::span<const Unit>(works) : sizes)
          << ", share: " << number(point.rate() / rate, 4) << " }\n";
  }
}

} // namespace

std::string gpuKindName(const std::string &name) {
  // The first word with a letter and a digit, up to what stands between it and the next.
  std::string word;
  for (char c : name + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (std::ranges::any_of(word, [](unsigned char d) { return std::isdigit(d); }) &&
        std::isalpha(static_cast<unsigned char>(word.front())))
      return word;
    word.clear();
  }
  return "gpu";
}

void writeGpuMachineFile(const GpuMeasurement &measured, std::ostream &out) {
  std::string kind = gpuKindName(measured.name);
  out << "# Measured by cleave-run --probe-gpu: " << measured.gpus << " x " << measured.name
      << ". A launch by the host "
      << "takes " << quantity(measured.launchAlone, times)
      << ",\n# one of a graph that is replayed what stands below.\n"
      << "name: " << kind << "\ndevice_kinds:\n  " << kind << ":\n    driver: cuda\n    chip: " << measured.chip
      << "\n    memory: " << number(static_cast<double>(measured.memory >> 20), 9) << " MiB\n";
  if (double bandwidth = memoryRate(measured.samples); bandwidth > 0)
    out << "    bandwidth: " << quantity(bandwidth, bandwidths) << "\n";
  std::string rates;
  for (auto &[type, rate] : peaks(measured.samples))
    rates += (rates.empty() ? "" : ", ") + type + ": " + quantity(rate, speeds);
  if (!rates.empty())
    out << "    peak: { " << rates << " }\n";
  out << "    launch: " << quantity(measured.launch, times) << "\n";
  if (measured.step > 0)
    out << "    step: " << quantity(measured.step, times) << "\n";
  if (measured.hostBandwidth > 0)
    out << "    host: { bandwidth: " << quantity(measured.hostBandwidth, bandwidths)
        << ", latency: " << quantity(measured.hostLatency, times) << " }\n";
  writeEfficiency(measured, out);
  out << "hosts:\n  - devices: [ { kind: " << kind << ", count: " << measured.gpus << " } ]\n";
  if (measured.linkBandwidth > 0)
    out << "    links: [ { between: devices, bandwidth: " << quantity(measured.linkBandwidth, bandwidths)
        << ", latency: " << quantity(measured.linkLatency, times) << " } ]\n";
}

} // namespace cleave

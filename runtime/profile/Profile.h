// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What was measured on this host: kernels as plans use them, and what else a step does by its bytes. Kept in a text
// file, a line a measurement:
//
//   cleave profile 1
//   kernel HASH ALONE BUSY NAME       seconds; of the kernel use whose signature has that hash
//   curve NAME BYTES SECONDS          a point
//   number NAME VALUE

#ifndef CLEAVE_RUNTIME_PROFILE_PROFILE_H
#define CLEAVE_RUNTIME_PROFILE_PROFILE_H

#include "runtime/Error.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

namespace cleave::runtime {

/// Median seconds of a call, and of the same while every other device of the host does the same.
struct KernelTime {
  double alone = 0, busy = 0;
  std::string name; ///< for people
};

class Profile {
public:
  /// An empty profile where there is no such file. Status::Rejected, with the line, when it is none.
  static Expected<Profile> read(const std::filesystem::path &file);
  Error write(const std::filesystem::path &file) const;

  /// The key of a kernel use on `devices` devices of `cores` cores.
  static uint64_t keyOf(const std::string &signature, size_t devices, unsigned cores);
  const KernelTime *kernel(uint64_t key) const;
  void setKernel(uint64_t key, KernelTime time) { kernels[key] = std::move(time); }
  size_t numKernels() const { return kernels.size(); }

  /// Seconds at a size: between points along straight lines, before the first as long as at the first, behind the last
  /// at the last one's rate. Nothing without points.
  std::optional<double> curve(const std::string &name, double bytes) const;
  void addPoint(const std::string &name, double bytes, double seconds) { curves[name][bytes] = seconds; }

  std::optional<double> number(const std::string &name) const;
  void setNumber(const std::string &name, double value) { numbers[name] = value; }

  /// Of each time the median of those profiles that have it.
  static Profile medianOf(std::span<const Profile> profiles);

private:
  std::map<uint64_t, KernelTime> kernels;
  std::map<std::string, std::map<double, double>> curves;
  std::map<std::string, double> numbers;
};

/// "2x1": how profiles name a host's division into devices of so many cores.
std::string divisionName(size_t devices, unsigned cores);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_PROFILE_H

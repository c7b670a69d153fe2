// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine that a model is compiled for: its devices.

#ifndef CLEAVE_PASSES_COST_MACHINE_H
#define CLEAVE_PASSES_COST_MACHINE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// One device, as the runtime will open it.
struct DeviceSpec {
  std::string name;         ///< Distinct in a machine.
  std::string driver;       ///< The runtime's driver: "cpu", "null".
  unsigned cores = 1;       ///< Cores of this machine that the device computes on; at least one.
  uint64_t memoryLimit = 0; ///< Bytes that a plan may use; 0: no limit.
  std::string kind = {};    ///< A key of Machine::kinds; empty where nothing is known of the device's speed.
  unsigned host = 0;        ///< An index into Machine::hosts, where a machine file says more.
};

/// The part of a peak rate that is reached, by the size of the work: points in ascending order of size, between which
/// it is interpolated by the size's logarithm. One point: the same for all sizes.
struct EfficiencyCurve {
  struct Point {
    double size = 0; ///< Floating-point operations or bytes of one call.
    double share = 1;
  };
  std::vector<Point> points;

  /// The share at a size; 1 without points.
  double at(double size) const;
};

/// How fast devices of one kind are.
struct DeviceKind {
  uint64_t memory = 0;                ///< Bytes.
  double bandwidth = 0;               ///< Of the memory, bytes a second.
  std::map<std::string, double> peak; ///< Floating-point operations a second by element type.
  /// By cost class ("contraction", "elementwise", "reduction", "movement"): for contractions the share of the peak by
  /// operations, for the others the share of the bandwidth by bytes read and written.
  std::map<std::string, EfficiencyCurve> efficiency;
  double launch = 0; ///< Seconds of every call besides its work.
  /// While a device computes and communicates at once, both take this many times as long.
  double overlapSlowdown = 1;
  std::string driver = "null"; ///< The runtime's driver.
  unsigned cores = 1;
};

/// A connection.
struct LinkSpec {
  double bandwidth = 0; ///< Bytes a second.
  double latency = 0;   ///< Seconds.
};

/// Devices of a host on one switch.
struct SwitchSpec {
  unsigned devices = 0; ///< The next so many devices of the host.
  LinkSpec link;        ///< From each of them to the switch.
  LinkSpec up;          ///< From the switch to the host.
};

/// Devices in the order of their indices, and what a machine file says of their speed.
struct Machine {
  std::string name;
  std::vector<DeviceSpec> devices;
  std::map<std::string, DeviceKind> kinds;
  /// A host's links by what they lie between ("devices").
  std::vector<std::map<std::string, LinkSpec>> hosts;
  /// By host: its switches; none where all devices of the host are connected alike.
  std::vector<std::vector<SwitchSpec>> switches;
  /// Between hosts.
  std::optional<LinkSpec> network;
};

/// The most devices that a machine may have.
inline constexpr unsigned mostDevices = 65536;

/// Reads the text of `--machine`:
///
///   host        one CPU device with all cores that this process may use
///   host:N      N CPU devices with max(1, cores / N) cores each
///   host:NxC    N CPU devices of C cores
///   null:N      N devices that compute nothing
///   FILE.yaml   a machine file (MachineFile.h)
///
/// Errors name the text, or the file with line and column.
llvm::Expected<Machine> parseMachine(llvm::StringRef text);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINE_H

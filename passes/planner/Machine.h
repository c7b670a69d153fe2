// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine that a model is compiled for: its devices.

#ifndef CLEAVE_PASSES_PLANNER_MACHINE_H
#define CLEAVE_PASSES_PLANNER_MACHINE_H

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

/// How fast devices of one kind are.
struct DeviceKind {
  uint64_t memory = 0;                      ///< Bytes.
  double bandwidth = 0;                     ///< Of the memory, bytes a second.
  std::map<std::string, double> peak;       ///< Floating-point operations a second by element type.
  std::map<std::string, double> efficiency; ///< The part of the peak that operators of a cost class reach, 0 to 1.
  std::string driver = "null";              ///< The runtime's driver.
  unsigned cores = 1;
};

/// A connection.
struct LinkSpec {
  double bandwidth = 0; ///< Bytes a second.
  double latency = 0;   ///< Seconds.
};

/// Devices in the order of their indices, and what a machine file says of their speed.
struct Machine {
  std::string name;
  std::vector<DeviceSpec> devices;
  std::map<std::string, DeviceKind> kinds;
  /// A host's links by what they lie between ("devices").
  std::vector<std::map<std::string, LinkSpec>> hosts;
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

#endif // CLEAVE_PASSES_PLANNER_MACHINE_H

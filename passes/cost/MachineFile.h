// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machine files: kinds of devices, hosts, and the network between them.
//
//   name: two-hosts
//   device_kinds:
//     v100: { memory: 16 GiB, bandwidth: 900 GB/s, peak: { f32: 15.7 TFLOP/s }, efficiency: { contraction: 0.85 } }
//   hosts:
//     - { count: 2, devices: [ { kind: v100, count: 8 } ],
//         links: [ { between: devices, bandwidth: 130 GB/s, latency: 3 us } ] }
//   network: { bandwidth: 25 Gb/s, latency: 20 us }
//
// A device kind may also name the runtime's `driver` (default: null) and the `cores` of a device (default: 1).

#ifndef CLEAVE_PASSES_COST_MACHINEFILE_H
#define CLEAVE_PASSES_COST_MACHINEFILE_H

#include "passes/cost/Machine.h"

namespace cleave {

/// Parses a machine file; `file` is its name in messages. Every quantity has a unit: B, kB, KiB, … for sizes, the same
/// a second or Kb/s, Mb/s, … for bandwidths, FLOP/s to PFLOP/s, ns to s. Unknown keys, missing units, negative and
/// non-finite numbers are errors with line and column.
llvm::Expected<Machine> parseMachineFile(llvm::StringRef text, llvm::StringRef file);

/// Reads and parses a machine file.
llvm::Expected<Machine> readMachineFile(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINEFILE_H

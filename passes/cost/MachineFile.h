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
// A device kind may also name the runtime's `driver` (default: null), the `cores` of a device (default: 1), of a GPU
// its `chip`, the cost of a `launch` and of a `step`, the way from the `host: { bandwidth: …, latency: … }`, the
// `overlap_slowdown` and the `neighbour_slowdown`. An efficiency is one number, or a curve:
//
//       efficiency: { contraction: [ { at: 1 MFLOP, share: 0.1 }, { at: 1 GFLOP, share: 0.8 } ] }
//
// Contractions may have tiles instead, which need the extents of a product and not its operations alone:
//
//       efficiency: { contraction: { units: 108, sustained: 0.87, tiles: [ { rows: 256, columns: 128, share: 1 } ],
//                                    alignment: [ { at: 2 B, share: 0.5 }, { at: 128 B, share: 1 } ],
//                                    depth: [ { at: 128, share: 0.8 }, { at: 512, share: 1 } ] } }
//
// `depth` is by the number of terms of a sum, `width` by the smaller of rows and columns.
//
// `calibration: { step: 1.07, steps: 3 }` says that everything takes 1.07 times as long as the rest of the file says,
// which three measured steps told (`cleave calibrate`).
//
// A link may name the `start` of a collective, besides its `latency` from one device to the next.
//
// A host may also say how many `cores` its devices share. It may have switches, links between two of its devices, and a
// network connection of its own:
//
//   - { devices: [ { kind: k20, count: 8 } ],
//       switches: [ { count: 2, devices: 4, bandwidth: 6 GB/s, latency: 5 us, up: { bandwidth: 12 GB/s, latency: 5 us }
//       } ], links: [ { between: [0, 1], bandwidth: 50 GB/s, latency: 2 us } ], network: { bandwidth: 200 Gb/s,
//       latency: 5 us, ports: 8 } }
//
// Hosts may have a `zone`, and `links` of the machine say what is between zones (MachineFileLinks.h).

#ifndef CLEAVE_PASSES_COST_MACHINEFILE_H
#define CLEAVE_PASSES_COST_MACHINEFILE_H

#include "passes/cost/Machine.h"
#include "passes/cost/YamlValue.h"

namespace cleave {

/// The keys of `efficiency`; each also followed by a point and an element type.
inline constexpr llvm::StringRef efficiencyClasses[] = {
    "contraction", "convolution", "winograd", "winograd_training", "streaming",
    "elementwise", "reduction",   "movement", "attention",         "tuned_attention"};

/// Whether the points of a class's curve are operations, not bytes.
inline bool isByWork(llvm::StringRef costClass) {
  return costClass.starts_with("contraction") || costClass.starts_with("convolution") ||
         costClass.starts_with("winograd");
}
/// The most switches that a host may have.
inline constexpr unsigned mostSwitches = 64;

/// Reads what a machine file says; `name` is the machine's where it says none. Errors are as parseMachineFile's, with
/// the positions of the values.
llvm::Expected<Machine> readMachine(const YamlValue &root, llvm::StringRef name);

/// Parses a machine file; `file` is its name in messages. Every quantity has a unit: B, kB, KiB, … for sizes, the same
/// a second or Kb/s, Mb/s, … for bandwidths, FLOP/s to PFLOP/s, ns to s. Unknown keys, missing units, negative and
/// non-finite numbers are errors with line and column.
llvm::Expected<Machine> parseMachineFile(llvm::StringRef text, llvm::StringRef file);

/// Reads and parses a machine file.
llvm::Expected<Machine> readMachineFile(llvm::StringRef path);

/// Writes a machine file that reads back as an equal machine: name, kinds, hosts and network. `comment` precedes it,
/// line by line.
void writeMachineFile(const Machine &machine, llvm::raw_ostream &out, llvm::StringRef comment = "");

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINEFILE_H

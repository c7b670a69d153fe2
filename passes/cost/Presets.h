// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machines by name. Each is the text of a machine file for one host, as published by its makers, with what others have
// measured; `cleave probe --preset` prints it.

#ifndef CLEAVE_PASSES_COST_PRESETS_H
#define CLEAVE_PASSES_COST_PRESETS_H

#include "passes/cost/Machine.h"

namespace cleave {

/// NVLink of a kind of device, for reading what a machine says of its connections.
struct NvlinkGeneration {
  unsigned links = 0;       ///< Of a device.
  double linkBandwidth = 0; ///< Bytes a second that collectives reach over one, in each direction.
  double pcieBandwidth = 0; ///< The same for a slot of PCI Express.
};

struct Preset {
  llvm::StringLiteral name;
  llvm::StringLiteral text;                              ///< A machine file of one host.
  std::optional<NvlinkGeneration> nvlink = std::nullopt; ///< None for devices of others.
};

llvm::ArrayRef<Preset> allPresets();

/// Null where there is none of that name.
const Preset *findPreset(llvm::StringRef name);

/// "NAME", "NAME:DEVICES" of one host, "NAME:DEVICESxHOSTS", and several of these joined by "+". Fewer devices than a
/// host has are its first ones. Errors name the text and say which names and numbers there are.
llvm::Expected<Machine> parsePreset(llvm::StringRef text);

/// A number of devices or cores from 1 to `most`. The error names `machine`, of whose text it is a part.
llvm::Expected<unsigned> parseCount(llvm::StringRef text, llvm::StringRef what, unsigned most, llvm::StringRef machine);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_PRESETS_H

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads what `nvidia-smi topo -m` prints: how the devices of a host are connected.
//
//           GPU0    GPU1    GPU2    GPU3    CPU Affinity
//   GPU0     X      NV2     PIX     SYS     0-15
//   …
//
//   NVn         n NVLinks: where devices have more of them than their kind, they go to a switch, else to each other
//   PIX, PXB    over PCI Express switches: neighbours are on one switch
//   PHB, NODE   over the host's bridges; a switch where no PIX or PXB is
//   SYS         between processors

#ifndef CLEAVE_PASSES_COST_NVIDIATOPOLOGY_H
#define CLEAVE_PASSES_COST_NVIDIATOPOLOGY_H

#include "passes/cost/Presets.h"

namespace cleave {

/// A machine of one host with the devices of `text`, of the preset's kind. `file` is the text's name in messages, which
/// have line and column. Columns of network cards and affinities are passed over.
llvm::Expected<Machine> parseNvidiaTopology(llvm::StringRef text, llvm::StringRef file, const Preset &preset);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_NVIDIATOPOLOGY_H

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links in machine files: their numbers, and those between zones of hosts.
//
//   hosts:
//     - { count: 4, zone: east, devices: [ … ] }
//     - { count: 4, zone: west, devices: [ … ] }
//   links:
//     - { between: [east, east], bandwidth: 12 GB/s, latency: 10 us }
//     - { between: [east, west], bandwidth: 0.115 GB/s, latency: 30 ms, shared: true }
//     - { from: west, to: east, bandwidth: 0.05 GB/s, latency: 30 ms }

#ifndef CLEAVE_PASSES_COST_MACHINEFILELINKS_H
#define CLEAVE_PASSES_COST_MACHINEFILELINKS_H

#include "passes/cost/Machine.h"
#include "passes/cost/Quantity.h"

namespace cleave {

/// As readQuantity, for what is divided by.
llvm::Error readPositive(const YamlValue &map, llvm::StringRef key, llvm::ArrayRef<Unit> units, llvm::StringRef subject,
                         double &target);

/// Bandwidth and latency must be there.
llvm::Error readLink(const YamlValue &value, llvm::StringRef subject, LinkSpec &link);

/// A device kind's `host: { bandwidth: 25 GB/s, latency: 5 us }`, if it has one.
llvm::Error readWayFromHost(const YamlValue &kind, const std::string &subject, LinkSpec &host);

/// A host's `zone`, if it has one.
llvm::Error readZone(const YamlValue &value, HostSpec &host);

/// The `links` of a machine whose hosts are known.
llvm::Error readZoneLinks(const YamlValue &root, Machine &machine);

/// As an item of `links`: "{ between: [east, west], bandwidth: …, latency: … }".
std::string zoneLinkText(const ZoneLinkSpec &link);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MACHINEFILELINKS_H

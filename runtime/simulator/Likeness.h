// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which sites, links and meetings are alike, so that one stands for all of its class: thousands of devices that run one
// program in lockstep are simulated as one.
//
// Colours are refined until nothing changes (as for graph isomorphism; Weisfeiler and Leman 1968). A site's colour
// knows its program, its device's kind, what else its device and its host run, and the colours of its meetings; a
// meeting's, those of its sites and, with the bytes, of the links it loads; a link's, those of the meetings that load
// it, with the bytes. All sites of a class then meet sites of the same classes over equally loaded links, so that from
// equal beginnings they stay equal for ever.

#ifndef CLEAVE_RUNTIME_SIMULATOR_LIKENESS_H
#define CLEAVE_RUNTIME_SIMULATOR_LIKENESS_H

#include "runtime/simulator/Traffic.h"

namespace cleave::runtime {

/// Sites that behave alike.
struct SiteClass {
  uint32_t site = 0; ///< the first of them, which stands for all
  uint32_t count = 1;
  uint32_t device = 0, host = 0;  ///< classes of devices and hosts
  uint32_t onHost = 1;            ///< how many of the class a host has
  std::vector<uint32_t> meetings; ///< by list of Traffic: a class of meetings, or noMeeting
};
inline constexpr uint32_t noMeeting = UINT32_MAX;

/// A load on a link of a class, by one meeting: its bytes, and how many meetings of the same class load that link.
struct ClassLoad {
  uint32_t link = 0;
  double bytes = 0, meetings = 1;
};
struct ClassPhase {
  double latency = 0, seconds = 0;
  std::vector<ClassLoad> loads;
};
/// Meetings that are alike.
struct MeetingClass {
  std::vector<uint32_t> sites; ///< classes, each once
  std::vector<ClassPhase> phases;
};

struct Likeness {
  std::vector<SiteClass> sites;
  std::vector<uint32_t> classOfSite;
  std::vector<MeetingClass> meetings;
  std::vector<double> bandwidth;   ///< by class of links
  uint32_t devices = 0, hosts = 0; ///< numbers of classes
};

/// `each`: nothing is like anything else, so that every device is simulated (what tests compare with).
Likeness findLikeness(const PlanContents &plan, std::span<const Site> sites, const Traffic &traffic,
                      const MachineModel &model, bool each = false);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_LIKENESS_H

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The refinement, on hashes: sums of mixed colours stand for sets in which colours may repeat.

#include "runtime/simulator/Likeness.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace cleave::runtime {
namespace {

using Colour = uint64_t;

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
Colour mix(Colour value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}
Colour mix(Colour first, Colour second) { return mix(mix(first) ^ second); }
Colour bitsOf(double number) { return std::bit_cast<uint64_t>(number); }

class Refinement {
public:
  Refinement(const PlanContents &plan, std::span<const Site> sites, const Traffic &traffic, const MachineModel &model)
      : plan(plan), sites(sites), traffic(traffic), model(model) {
    for (const std::vector<Meeting> &list : traffic.all())
      meetingColours.emplace_back(list.size());
  }

  void start(bool each) {
    for (size_t site = 0; site != sites.size(); ++site)
      siteColours.push_back(each ? mix(1, site) : mix(sites[site].programIndex, model.kindOf(sites[site].device)));
    for (size_t link = 0; link != model.bandwidths().size(); ++link)
      linkColours.push_back(each ? mix(2, link) : mix(bitsOf(model.bandwidths()[link])));
  }

  void refine() {
    for (size_t before = 0, now = countColours(); now != before;) {
      refineOnce();
      before = now;
      now = countColours();
    }
  }

  Likeness result();

private:
  /// The number of different colours, which only grows.
  size_t countColours() const {
    auto count = [](std::vector<Colour> colours) {
      std::ranges::sort(colours);
      return static_cast<size_t>(std::ranges::unique(colours).begin() - colours.begin());
    };
    return count(siteColours) + count(linkColours);
  }

  void colourDevices() {
    deviceColours.assign(plan.devices.size(), 0);
    for (size_t site = 0; site != sites.size(); ++site)
      deviceColours[sites[site].device] += mix(siteColours[site]);
    hostColours.clear();
    for (uint32_t device = 0; device != deviceColours.size(); ++device)
      if (deviceColours[device] != 0)
        hostColours[model.hostOf(device)] += mix(3, deviceColours[device]);
  }

  Colour colourOf(const Meeting &meeting) const {
    Colour colour = 0;
    for (uint32_t site : meeting.sites)
      colour += mix(siteColours[site]);
    for (const TrafficPhase &phase : meeting.phases) {
      Colour loads = 0;
      for (const LinkLoad &load : phase.loads)
        loads += mix(linkColours[load.link], bitsOf(load.bytes));
      colour = mix(mix(mix(colour, loads), bitsOf(phase.latency)), bitsOf(phase.seconds));
    }
    return colour;
  }

  void refineOnce() {
    colourDevices();
    std::vector<Colour> siteSums(sites.size()), linkSums(linkColours.size());
    for (size_t list = 0; list != meetingColours.size(); ++list)
      for (size_t i = 0; i != meetingColours[list].size(); ++i) {
        const Meeting &meeting = traffic.all()[list][i];
        Colour colour = meetingColours[list][i] = mix(list, colourOf(meeting));
        for (uint32_t site : meeting.sites)
          siteSums[site] += mix(colour);
        for (size_t phase = 0; phase != meeting.phases.size(); ++phase)
          for (const LinkLoad &load : meeting.phases[phase].loads)
            linkSums[load.link] += mix(mix(colour, phase), bitsOf(load.bytes));
      }
    for (size_t site = 0; site != sites.size(); ++site) {
      uint32_t device = sites[site].device;
      Colour place = mix(deviceColours[device], hostColours[model.hostOf(device)]);
      siteColours[site] = mix(mix(siteColours[site], siteSums[site]), place);
    }
    for (size_t link = 0; link != linkColours.size(); ++link)
      linkColours[link] = mix(linkColours[link], linkSums[link]);
  }

  void addMeetings(Likeness &likeness, uint32_t list, const std::unordered_map<Colour, uint32_t> &linkClasses);

  const PlanContents &plan;
  const std::span<const Site> sites;
  const Traffic &traffic;
  const MachineModel &model;
  std::vector<Colour> siteColours, linkColours, deviceColours;
  std::unordered_map<uint32_t, Colour> hostColours;
  std::vector<std::vector<Colour>> meetingColours; ///< by list
};

/// A number for each colour, in the order in which they first appear.
uint32_t numberOf(std::unordered_map<Colour, uint32_t> &numbers, Colour colour) {
  return numbers.try_emplace(colour, static_cast<uint32_t>(numbers.size())).first->second;
}

Likeness Refinement::result() {
  colourDevices();
  Likeness likeness;
  std::unordered_map<Colour, uint32_t> siteClasses, deviceClasses, hostClasses, linkClasses;
  std::unordered_map<uint32_t, uint32_t> firstHost; // by site class
  for (uint32_t site = 0; site != sites.size(); ++site) {
    uint32_t device = sites[site].device, host = model.hostOf(device);
    uint32_t number = numberOf(siteClasses, siteColours[site]);
    likeness.classOfSite.push_back(number);
    if (number == likeness.sites.size()) {
      SiteClass made{site,
                     0,
                     numberOf(deviceClasses, mix(deviceColours[device], hostColours[host])),
                     numberOf(hostClasses, hostColours[host]),
                     0,
                     std::vector<uint32_t>(meetingColours.size(), noMeeting)};
      likeness.sites.push_back(std::move(made));
      firstHost[number] = host;
    }
    ++likeness.sites[number].count;
    likeness.sites[number].onHost += firstHost[number] == host;
  }
  likeness.devices = static_cast<uint32_t>(deviceClasses.size());
  likeness.hosts = static_cast<uint32_t>(hostClasses.size());
  for (size_t link = 0; link != linkColours.size(); ++link)
    if (numberOf(linkClasses, linkColours[link]) == likeness.bandwidth.size())
      likeness.bandwidth.push_back(model.bandwidths()[link]);
  for (uint32_t list = 0; list != meetingColours.size(); ++list)
    addMeetings(likeness, list, linkClasses);
  return likeness;
}

/// The classes of a list's meetings. Those of a class load a link equally often, whichever of its links.
void Refinement::addMeetings(Likeness &likeness, uint32_t list,
                             const std::unordered_map<Colour, uint32_t> &linkClasses) {
  const std::vector<Meeting> &meetings = traffic.all()[list];
  std::unordered_map<Colour, std::vector<uint32_t>> members;
  std::vector<Colour> order;
  for (uint32_t i = 0; i != meetings.size(); ++i) {
    std::vector<uint32_t> &same = members[meetingColours[list][i]];
    if (same.empty())
      order.push_back(meetingColours[list][i]);
    same.push_back(i);
  }
  std::unordered_map<uint32_t, double> crossings; // by link
  for (Colour colour : order) {
    const std::vector<uint32_t> &same = members[colour];
    auto number = static_cast<uint32_t>(likeness.meetings.size());
    MeetingClass &made = likeness.meetings.emplace_back();
    const Meeting &first = meetings[same.front()];
    for (uint32_t i : same)
      for (uint32_t site : meetings[i].sites)
        likeness.sites[likeness.classOfSite[site]].meetings[list] = number;
    for (uint32_t site : first.sites)
      made.sites.push_back(likeness.classOfSite[site]);
    std::ranges::sort(made.sites);
    made.sites.erase(std::ranges::unique(made.sites).begin(), made.sites.end());
    for (size_t phase = 0; phase != first.phases.size(); ++phase) {
      crossings.clear();
      for (uint32_t i : same)
        for (const LinkLoad &load : meetings[i].phases[phase].loads)
          ++crossings[load.link];
      ClassPhase &to = made.phases.emplace_back();
      to.latency = first.phases[phase].latency;
      to.seconds = first.phases[phase].seconds;
      for (const LinkLoad &load : first.phases[phase].loads)
        to.loads.push_back({linkClasses.at(linkColours[load.link]), load.bytes, crossings[load.link]});
      std::ranges::sort(to.loads, [](const ClassLoad &a, const ClassLoad &b) {
        return std::tie(a.link, b.bytes) < std::tie(b.link, a.bytes);
      });
      to.loads.erase(std::ranges::unique(to.loads, {}, &ClassLoad::link).begin(), to.loads.end());
    }
  }
}

} // namespace

Likeness findLikeness(const PlanContents &plan, std::span<const Site> sites, const Traffic &traffic,
                      const MachineModel &model, bool each) {
  Refinement refinement(plan, sites, traffic, model);
  refinement.start(each);
  refinement.refine();
  return refinement.result();
}

} // namespace cleave::runtime

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every process knows the plan, and with it what each of the others has: only the bytes travel.

#include "runtime/JoinResults.h"

#include "runtime/TileLoad.h"

#include <cstdlib>
#include <cstring>
#include <set>

namespace cleave::runtime {

/// What of the environment all processes must agree on: how they run steps.
static std::string commonEnvironment() {
  std::string text;
  for (const char *variable : {"CLEAVE_CUDA_GRAPHS", "CLEAVE_CUDA_SYNC"})
    if (const char *value = std::getenv(variable))
      text += std::string(" ") + variable + "=" + value;
  return text;
}

Error checkSame(Processes &processes, const Plan &plan, const std::string &wanted) {
  const std::string options = wanted + commonEnvironment();
  const uint64_t own[] = {checksum(plan.bytes()), checksum(std::as_bytes(std::span(options)))};
  auto all = processes.gather(std::as_bytes(std::span(own)));
  Error error;
  for (size_t rank = 1; rank < all.size() && !error; ++rank) {
    uint64_t theirs[2];
    std::memcpy(theirs, all[rank].data(), sizeof theirs);
    if (theirs[0] != own[0])
      error = makeError(Status::Rejected, "rank 0: every process expects the same plan file, got another at rank ",
                        rank, " (checksum ", std::hex, theirs[0], ", here ", own[0], ")");
    else if (theirs[1] != own[1])
      error = makeError(Status::Usage, "rank 0: every process expects the same options (", options,
                        "), got others at rank ", rank);
  }
  return processes.agree(error);
}

/// A part of a tensor that a process has; the box leads from the tensor to the tensor.
struct StoredBox {
  uint32_t rank = 0;
  StridedCopy box;
};

/// Adds the target's side of the boxes that a process stores.
static void addBoxes(std::vector<StoredBox> &list, uint32_t rank, std::vector<StridedCopy> boxes) {
  for (StridedCopy &box : boxes) {
    box.sourceOffset = box.targetOffset;
    for (StridedCopy::Dim &dim : box.dims)
      dim.sourceStride = dim.targetStride;
    list.push_back({rank, std::move(box)});
  }
}

/// Brings the boxes of other ranks into rank 0's tensor.
static void joinBoxes(Processes &processes, const std::vector<StoredBox> &boxes, const HostTensor &tensor) {
  std::vector<std::byte> own;
  for (const StoredBox &stored : boxes)
    if (stored.rank == processes.rank() && stored.rank != 0) {
      size_t end = own.size();
      own.resize(end + stored.box.bytes());
      packBox(stored.box, tensor.bytes().data(), own.data() + end);
    }
  auto all = processes.gather(own);
  std::vector<size_t> begins(all.size());
  for (const StoredBox &stored : boxes)
    if (processes.rank() == 0 && stored.rank != 0) {
      unpackBox(stored.box, all[stored.rank].data() + begins[stored.rank], tensor.bytes().data());
      begins[stored.rank] += stored.box.bytes();
    }
}

void joinOutput(Processes &processes, const Plan &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
                uint32_t output, const HostTensor &tensor) {
  std::vector<StoredBox> boxes;
  for (const Site &site : sitesOf(*plan, entry))
    for (const Instruction &instruction : site.program->body)
      if (const auto *store = std::get_if<StoreOutput>(&instruction.action); store && store->output == output)
        addBoxes(boxes, rankOfDevice[site.device],
                 tileLoadOf(entry, *site.program, plan->meshes[site.mesh], site.member, instruction.action).boxes);
  joinBoxes(processes, boxes, tensor);
}

void joinState(Processes &processes, const Plan &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
               uint32_t parameter, const HostTensor &tensor) {
  std::vector<StoredBox> boxes;
  forEachStateOf(*plan, entry, parameter, [&](const Site &site, const State &state) {
    addBoxes(boxes, rankOfDevice[site.device], stateStoreOf(*plan, entry, site, state).boxes);
  });
  joinBoxes(processes, boxes, tensor);
}

std::vector<DeviceMemory> joinMemory(Processes &processes, const Plan &plan, std::span<const Entry *const> entries,
                                     const std::vector<uint32_t> &rankOfDevice, const std::vector<DeviceMemory> &own) {
  std::set<uint32_t> devices;
  const std::vector<Site> sites = sitesOf(*plan, entries).front();
  for (const Site &site : sites)
    devices.insert(site.device);
  return joinMemory(processes, plan, devices, rankOfDevice, own);
}

std::vector<DeviceMemory> joinMemory(Processes &processes, const Plan &plan, const std::set<uint32_t> &devices,
                                     const std::vector<uint32_t> &rankOfDevice, const std::vector<DeviceMemory> &own) {
  std::vector<uint64_t> numbers;
  for (const DeviceMemory &device : own)
    numbers.insert(numbers.end(), {device.plannedBytes, device.allocatedBytes, device.liveBytes});
  auto all = processes.gather(std::as_bytes(std::span(numbers)));
  if (all.empty())
    return own;
  std::vector<size_t> begins(all.size());
  std::vector<DeviceMemory> list;
  for (uint32_t device : devices) {
    uint32_t rank = rankOfDevice[device];
    uint64_t theirs[3];
    std::memcpy(theirs, all[rank].data() + begins[rank], sizeof theirs);
    begins[rank] += sizeof theirs;
    list.push_back({plan->devices[device].name, theirs[0], theirs[1], theirs[2], {}});
  }
  return list;
}

void joinTrace(Processes &processes, const Plan &plan, std::span<const Entry *const> entries, Trace &trace) {
  std::vector<std::byte> own;
  if (processes.rank() != 0)
    own = trace.pack(entries, processes.clockOffset());
  for (const std::vector<std::byte> &theirs : processes.gather(own))
    trace.unpack(plan, entries, theirs);
}

} // namespace cleave::runtime

// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every process knows the plan, and with it what each of the others has: only the bytes travel.

#include "runtime/JoinResults.h"

#include "runtime/TileLoad.h"

#include <cstring>
#include <functional>
#include <set>

namespace cleave::runtime {

Error checkSame(Processes &processes, const Plan &plan, const std::string &options) {
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

/// Calls visit(rank, boxes) for everything that is stored into an output, in an order that is the same everywhere; the
/// boxes lead from the output to the output.
static void forEachStore(const Plan &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
                         uint32_t output,
                         const std::function<void(uint32_t rank, const std::vector<StridedCopy> &boxes)> &visit) {
  for (const Site &site : sitesOf(*plan, entry))
    for (const Instruction &instruction : site.program->body) {
      const auto *store = std::get_if<StoreOutput>(&instruction.action);
      if (!store || store->output != output)
        continue;
      std::vector<StridedCopy> boxes =
          tileLoadOf(entry, *site.program, plan->meshes[site.program->mesh], site.member, instruction.action).boxes;
      for (StridedCopy &box : boxes) {
        box.sourceOffset = box.targetOffset;
        for (StridedCopy::Dim &dim : box.dims)
          dim.sourceStride = dim.targetStride;
      }
      visit(rankOfDevice[site.device], boxes);
    }
}

void joinOutput(Processes &processes, const Plan &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
                uint32_t output, const HostTensor &tensor) {
  std::vector<std::byte> own;
  forEachStore(plan, entry, rankOfDevice, output, [&](uint32_t rank, const std::vector<StridedCopy> &boxes) {
    for (const StridedCopy &box : boxes)
      if (rank == processes.rank() && rank != 0) {
        size_t end = own.size();
        own.resize(end + box.bytes());
        packBox(box, tensor.bytes().data(), own.data() + end);
      }
  });
  auto all = processes.gather(own);
  std::vector<size_t> begins(all.size());
  forEachStore(plan, entry, rankOfDevice, output, [&](uint32_t rank, const std::vector<StridedCopy> &boxes) {
    for (const StridedCopy &box : boxes)
      if (processes.rank() == 0 && rank != 0) {
        unpackBox(box, all[rank].data() + begins[rank], tensor.bytes().data());
        begins[rank] += box.bytes();
      }
  });
}

std::vector<DeviceMemory> joinMemory(Processes &processes, const Plan &plan, const Entry &entry,
                                     const std::vector<uint32_t> &rankOfDevice, const std::vector<DeviceMemory> &own) {
  std::vector<uint64_t> numbers;
  for (const DeviceMemory &device : own)
    numbers.insert(numbers.end(), {device.plannedBytes, device.allocatedBytes, device.liveBytes});
  auto all = processes.gather(std::as_bytes(std::span(numbers)));
  if (all.empty())
    return own;
  std::set<uint32_t> devices;
  for (const Site &site : sitesOf(*plan, entry))
    devices.insert(site.device);
  std::vector<size_t> begins(all.size());
  std::vector<DeviceMemory> list;
  for (uint32_t device : devices) {
    uint32_t rank = rankOfDevice[device];
    uint64_t theirs[3];
    std::memcpy(theirs, all[rank].data() + begins[rank], sizeof theirs);
    begins[rank] += sizeof theirs;
    list.push_back({plan->devices[device].name, theirs[0], theirs[1], theirs[2]});
  }
  return list;
}

void joinTrace(Processes &processes, const Plan &plan, const Entry &entry, Trace &trace) {
  std::vector<std::byte> own;
  if (processes.rank() != 0)
    own = trace.pack(entry, processes.clockOffset());
  for (const std::vector<std::byte> &theirs : processes.gather(own))
    trace.unpack(plan, entry, theirs);
}

} // namespace cleave::runtime

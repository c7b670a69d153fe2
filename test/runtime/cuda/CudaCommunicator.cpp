// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whoever comes last to a communication does it for all: buffers go to GPUs, a link moves them, and targets come back.

#include "CudaCommunicator.h"

#include "runtime/drivers/cuda/CudaCopies.h"
#include "runtime/drivers/cuda/CudaObjects.h"

#include <condition_variable>
#include <gtest/gtest.h>
#include <map>
#include <mutex>

namespace cleave::runtime::test {
namespace {

class CudaCommunicator : public Communicator {
public:
  CudaCommunicator(const Channels &channels, const std::optional<simulated::Options> &options)
      : channels(channels), simulation(options ? std::make_unique<simulated::Cuda>(*options) : nullptr),
        cuda(**cudaRuntime()), gpus(*CudaGpus::find(cuda)), links(createCudaCopies(cuda, gpus)) {
    for (uint32_t site = 0; site != channels.sites().size(); ++site)
      streams.push_back(std::move(*createCudaStream(cuda, gpus.of(site))));
  }
  ~CudaCommunicator() override {
    streams.clear();
    links.reset();
    if (simulation) {
      EXPECT_EQ(simulation->misuse(), "");
    }
  }

  Error exchange(const Transfer &transfer, const Participant &participant) override {
    return meet(transfer, participant);
  }
  Error reduce(const Transfer &transfer, const Participant &participant) override {
    return meet(transfer, participant);
  }

private:
  struct Meeting {
    std::map<uint32_t, Participant> participants;
    uint64_t done = 0;
    Error error;
  };
  /// A buffer on a GPU; the source and the target of an operand may be one.
  struct Placed {
    CudaMemory source, target;
    CudaEnd::Operand operand;
  };

  Error meet(const Transfer &transfer, const Participant &participant) {
    const Channel &channel = channels.of(transfer.phase).at(transfer.channel);
    size_t count = std::visit([](const auto &any) { return any.parts.size(); }, channel);
    std::unique_lock lock(mutex);
    Meeting &meeting = meetings[transfer.channel];
    meeting.participants[participant.site] = participant;
    if (meeting.participants.size() == count) {
      meeting.error = move(channel, transfer.channel, meeting.participants);
      meeting.participants.clear();
      ++meeting.done;
      changed.notify_all();
    } else {
      changed.wait(lock, [&, before = meeting.done] { return meeting.done != before; });
    }
    return meeting.error;
  }

  Error move(const Channel &channel, uint32_t number, const std::map<uint32_t, Participant> &participants) {
    std::map<uint32_t, std::vector<Placed>> placed;
    std::vector<CudaEnd> ends;
    for (const auto &[site, participant] : participants) {
      CudaEnd &end = ends.emplace_back();
      end.site = site;
      end.gpu = gpus.of(site);
      end.stream = streams[site].get();
      for (uint32_t operand = 0; operand <= participant.more.size(); ++operand) {
        placed[site].push_back(place(end.gpu, participant.sourceOf(operand), participant.targetOf(operand)));
        end.operands.push_back(placed[site].back().operand);
      }
    }
    for (const CudaEnd &end : ends) {
      (void)cuda.cudaSetDevice(end.gpu);
      if (Error error = checkCuda(cuda, cuda.cudaDeviceSynchronize(), "copying"))
        return error;
    }
    auto link = links->connect({0, Phase::Body, number, &channel}, std::move(ends));
    if (!link)
      return link.error();
    if (Error error = (*link)->enqueue())
      return error;
    for (const auto &[site, participant] : participants)
      if (Error error = checkCuda(cuda, cuda.cudaStreamSynchronize(streams[site].get()), "waiting for a stream"))
        return error;
    for (const auto &[site, participant] : participants)
      for (uint32_t operand = 0; operand <= participant.more.size(); ++operand)
        if (std::span<std::byte> target = participant.targetOf(operand); !target.empty())
          if (Error error = checkCuda(cuda,
                                      cuda.cudaMemcpy(target.data(), placed[site][operand].operand.target,
                                                      target.size(), cudaMemcpyDeviceToHost),
                                      "copying"))
            return error;
    return Error::success();
  }

  Placed place(int gpu, std::span<const std::byte> source, std::span<std::byte> target) {
    Placed placed;
    auto put = [&](std::span<const std::byte> bytes, CudaMemory &memory) {
      memory = std::move(*allocateCudaMemory(cuda, gpu, bytes.size()));
      if (!bytes.empty())
        (void)cuda.cudaMemcpy(memory.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
      return static_cast<std::byte *>(memory.get());
    };
    placed.operand.source = put(source, placed.source);
    placed.operand.target = source.data() == target.data() ? placed.operand.source : put(target, placed.target);
    return placed;
  }

  const Channels &channels;
  std::unique_ptr<simulated::Cuda> simulation;
  const CudaRuntime &cuda;
  const CudaGpus gpus;
  std::unique_ptr<CudaLinks> links;
  std::vector<CudaStream> streams; ///< by site
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint32_t, Meeting> meetings; ///< by channel
};

} // namespace

std::unique_ptr<Communicator> createCudaCommunicator(const Channels &channels,
                                                     const std::optional<simulated::Options> &options) {
  return std::make_unique<CudaCommunicator>(channels, options);
}

} // namespace cleave::runtime::test
